"""autoexp-run killed by SIGKILL at random moments, over and over, on real processes.

    python -m tests.e2e.kills --kills 200

Campaigns run one after the other; each is killed and taken up again until it ends.
Nothing may be lost, and no attempt may begin twice: that is judged by a ledger that the
jobs themselves write, by the wrapper's records, and by the processes that are left.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.campaign import Campaign, result_of

KILLS_A_CAMPAIGN = 25
LAST_SECONDS = 180.0


@dataclass(slots=True)
class Score:
    """What the kills came to."""

    kills: int = 0
    campaigns: int = 0
    jobs: int = 0
    attempts: int = 0
    engines: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Count another campaign in."""
        self.kills += other.kills
        self.campaigns += other.campaigns
        self.jobs += other.jobs
        self.attempts += other.attempts
        self.engines += other.engines
        self.problems += other.problems

    def __str__(self) -> str:
        problems = "\n  ".join(["", *self.problems]) if self.problems else " none"
        return (
            f"{self.kills} kills over {self.campaigns} campaigns, {self.engines} "
            f"engines, {self.jobs} jobs, {self.attempts} attempts; problems:{problems}"
        )


def arguments_of(campaign: Campaign) -> list[str]:
    """What starts the campaign, or takes it up again."""
    session = campaign.session()
    if session:
        return ["--session", session, "--json"]
    return ["--manifest", str(campaign.manifest), "--json"]


def kill_through(
    campaign: Campaign, rng: random.Random, kills: int, longest: float = 1.2
) -> Score:
    """Kill a campaign's engine so many times, then let it end; what was seen."""
    score = Score(campaigns=1)
    for _ in range(kills):
        run = campaign.start(*arguments_of(campaign))
        time.sleep(rng.uniform(0.05, longest))
        score.kills += run.poll() is None
        run.send_signal(signal.SIGKILL)
        run.communicate()
    run = campaign.start(*arguments_of(campaign))
    out, err = run.communicate(timeout=LAST_SECONDS)
    if run.returncode != 0:
        score.problems.append(f"exit status {run.returncode}: {err[-2000:]}")
        return score
    _judge(campaign, out, score)
    return score


def _judge(campaign: Campaign, out: str, score: Score) -> None:
    jobs = result_of(out)
    score.jobs = len(jobs)
    score.attempts = sum(int(str(job["attempts"])) for job in jobs.values())
    session = campaign.state_dir / campaign.session()
    score.engines = len(list((session / "lease").glob("*.json")))
    begun = campaign.begun()
    score.problems += [
        *(f"{n} is {j['state']}" for n, j in jobs.items() if j["state"] != "COMPLETED"),
        *(f"attempt {name} began {n} times" for name, n in begun.items() if n > 1),
        *(f"left over: process {pid}" for pid in campaign.living()),
        *(
            f"duplicate start: {path}"
            for path in session.glob("attempts/*/*/duplicate*")
        ),
    ]
    if len(begun) != score.attempts:
        score.problems.append(f"{len(begun)} attempts began, not {score.attempts}")
    records = len(list(session.glob("attempts/*/*/begin.*.json")))
    if records != score.attempts:
        score.problems.append(f"{records} begin records, not {score.attempts}")


def main(argv: Sequence[str] | None = None) -> int:
    """Kill, and say what came of it."""
    parser = argparse.ArgumentParser(prog="kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    rng, total = random.Random(args.seed), Score()
    while total.kills < args.kills and not total.problems:
        with tempfile.TemporaryDirectory() as root:
            campaign = Campaign(Path(root))
            campaign.write(seconds=rng.uniform(4.0, 12.0))
            planned = min(KILLS_A_CAMPAIGN, args.kills - total.kills)
            try:
                total.add(kill_through(campaign, rng, planned))
            except subprocess.TimeoutExpired:
                total.problems.append(f"no end within {LAST_SECONDS:.0f} s")
        print(total, flush=True)
    return int(bool(total.problems))


if __name__ == "__main__":
    sys.exit(main())
