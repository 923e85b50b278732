"""The default experiment on Slurm while its controller is killed hard, over and over.

    python -m tests.slurm.controller_kills --rounds 10

Each round runs `--config-ref exp` once on a throw-away cluster; the controller is
killed by SIGKILL three times, at moments of which one falls into the launch of a job,
and is started again. All jobs must complete, of each one run ended well, the last, and
none ran beside another. A controller that forgot a launch stops that run and starts the
job anew, which is a further run of the same attempt; of what it forgot wholly, the
engine orders a further attempt. Both are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.e2e.campaign import Jobs, result_of
from tests.e2e.kills import Score
from tests.slurm.campaign import SlurmCampaign
from tests.slurm.cluster import Cluster
from tests.slurm.settings import Settings

KILLS = 3
ROUND_SECONDS = 900.0
OVERRIDES = (
    "slurm=generic",
    "slurm.client.settle_seconds=5",
    "slurm.client.lost_seconds=30",
    "slurm.client.poll_seconds=3",
    "slurm.client.slowest_poll_seconds=6",
    "++slurm.sbatch.mem=100",
)


def play(campaign: SlurmCampaign, rng: random.Random) -> Score:
    """Run the experiment once, and judge it."""
    found, root = Score(), campaign.root
    places = (
        f"project.base_output_dir={root}/out",
        f"slurm.log_dir={root}/logs",
        f"slurm.script_dir={root}/scripts",
    )
    words = ("--config-ref", "exp", "--approve", "all", "--json")
    run = campaign.start(*words, *OVERRIDES, *places)
    with ThreadPoolExecutor(1) as reader:
        ending = reader.submit(run.communicate, timeout=ROUND_SECONDS)
        # Not beside it: a daemon dies with the thread that started it.
        _kill(campaign.cluster, run, rng, found)
        try:
            out, err = ending.result()
        except subprocess.TimeoutExpired:
            run.kill()
            out, err = run.communicate()
            found.problems.append(f"no end within {ROUND_SECONDS:.0f} s")
    jobs = result_of(out) if out.strip() else {}
    found.counts["jobs"] = len(jobs)
    if run.returncode != 0:
        found.problems.append(f"exit status {run.returncode}: {err[-3000:]}")
    for name, job in jobs.items():
        if job["state"] != "COMPLETED":
            found.problems.append(f"{name} is {job['state']}: {job['why']}")
    found.problems += _ran_otherwise(found, root, jobs)
    return found


def _kill(
    cluster: Cluster, run: subprocess.Popen[str], rng: random.Random, found: Score
) -> None:
    """Kill the controller three times, soon after something changed in its queue."""
    for number in range(KILLS):
        before = _queue(cluster)
        deadline = time.monotonic() + 60.0
        while _queue(cluster) == before and time.monotonic() < deadline:
            if run.poll() is not None:
                return
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 4.0 if number else 0.3))
        found.counts["kills"] += 1
        cluster.ctld_stop(hard=True)
        time.sleep(rng.uniform(0.5, 5.0))
        cluster.ctld_start()
        found.counts["held launches seen"] += "launch failed" in _queue(cluster)


def _queue(cluster: Cluster) -> str:
    words = ("squeue", "-h", "-r", "-t", "all", "-o", "%i %T %r")
    return cluster.run(*words, check=False).stdout


def _ran_otherwise(found: Score, root: Path, jobs: Jobs) -> Iterator[str]:
    """Jobs that did not end well exactly once, or ran beside themselves."""
    for name in jobs:
        begun = root.glob(f"state/*/attempts/{name}/*/begin.*.json")
        attempts = sorted({path.parent for path in begun}, key=lambda at: int(at.name))
        runs = [run for attempt in attempts for run in _runs(attempt)]
        found.counts["further attempts"] += len(attempts) - 1
        found.counts["further runs by Slurm"] += len(runs) - len(attempts)
        well = [run for run in runs if run.get("exit_code") == 0]
        if well != runs[-1:]:
            yield f"{name} ended well {len(well)} times, in {len(runs)} runs"
        for run, after in pairwise(runs):
            if run.get("ended_at", 0.0) > after["began_at"]:
                yield f"{name} ran twice at a time"


def _runs(attempt: Path) -> Iterator[dict[str, Any]]:
    """What the wrapper recorded of each; without an exit code, it left no end."""
    for number in range(len(list(attempt.glob("begin.*.json")))):
        files = (attempt / f"{kind}.{number}.json" for kind in ("begin", "exit"))
        yield {
            name: value
            for file in files
            if file.exists()
            for name, value in json.loads(file.read_text()).items()
        }


def main() -> int:
    """Play rounds, and say what came of each."""
    parser = argparse.ArgumentParser(prog="controller_kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    failed = 0
    with Cluster(Settings(min_job_age_s=15, gpus=0)) as cluster:
        for number in range(args.rounds):
            rng = random.Random(args.seed + number)
            with tempfile.TemporaryDirectory(prefix="kills-") as root:
                os.chmod(root, 0o755)
                found = play(SlurmCampaign(Path(root), cluster), rng)
            failed += bool(found.problems)
            print(f"round {number + 1}: {found}", flush=True)
            cluster.clear()
    print(f"{args.rounds - failed} of {args.rounds} rounds without a problem")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
