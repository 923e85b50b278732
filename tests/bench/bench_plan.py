"""Planning, beside hydra.compose and `snakemake -n`, in one run.

    python -m tests.bench.bench_plan [--most 10000] [--snakemake PATH]

Distinct jobs in two stages over a tree of some 330 keys, each composed, resolved,
validated and recorded: all with the same choice of groups, or each choosing all six
groups, in six ways. Every row is a process of its own: its CPU time (with that of its
children), its wall time and the memory of the largest. `hydra.compose` composes and
resolves a few jobs of either kind, and is counted for each. Snakemake composes nothing
at all: it only plans as many jobs with a rule for each stage. It is left out when it is
not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.planning.large_tree import CHOICES, two_stages, write_tree

ROOT = Path(__file__).parents[2]
REFERENCE_JOBS = 40
SIZES = (100, 1_000, 10_000)

HYDRA = """
import json, sys, time
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from autoexp_tui.config.resolvers import Environment, register_resolvers
register_resolvers(Environment({}), 0.0)
chosen = json.loads(sys.argv[3])
with initialize_config_dir(sys.argv[1], version_base="1.3"):
    compose("exp")
    begun = time.process_time()
    for n in range(int(sys.argv[2])):
        overrides = [f"{group}={of[n % len(of)]}" for group, of in chosen.items()]
        overrides += [f"optim.lr={1e-4 + n * 1e-7!r}", f"project.name=stable_{n}"]
        config = compose("exp", overrides=overrides)
        OmegaConf.to_container(config, resolve=True)
    print(time.process_time() - begun)
"""
SNAKEFILE = """
JOBS = range({count})
rule all:
    input: expand("out/cool_{{n}}", n=JOBS)
rule stable:
    output: "out/stable_{{n}}"
    shell: "touch {{output}}"
rule cool:
    input: "out/stable_{{n}}"
    output: "out/cool_{{n}}"
    shell: "touch {{output}}"
"""
OURS = "from autoexp_tui.cli.plan import entry; entry()"


@dataclass(frozen=True)
class Cost:
    """Of one process and its children."""

    cpu: float
    wall: float
    megabytes: float
    said: str


def cost(command: Sequence[str], cwd: Path) -> Cost:
    """Run a command to its end; SystemExit with its words when it fails."""
    said = cwd / "said.txt"
    begun = time.perf_counter()
    with said.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, env=_environment()
        )
        _, status, usage = os.wait4(process.pid, 0)
    text = said.read_text(errors="replace")
    if status != 0:
        raise SystemExit(f"{' '.join(command[:4])} failed:\n{text[-2000:]}")
    cpu = usage.ru_utime + usage.ru_stime
    wall = time.perf_counter() - begun
    return Cost(cpu, wall, usage.ru_maxrss / 1024, text)


def _environment() -> dict[str, str]:
    """Whatever runs imports this checkout, with the bytecode that programs have.

    Where Python is told not to keep any, ours would be compiled for every row, and
    what is installed would not.
    """
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def hydra_compose(place: Path, chosen: Mapping[str, Sequence[str]]) -> float:
    """Seconds of CPU that one job takes which chooses these groups."""
    tree = write_tree(_made(place / f"hydra{len(chosen)}"))
    given = [str(tree), str(REFERENCE_JOBS), json.dumps(chosen)]
    command = [sys.executable, "-c", HYDRA, *given]
    return float(cost(command, tree).said.split()[-1]) / REFERENCE_JOBS


def ours(place: Path, jobs: int, *, choices: bool) -> Cost:
    """`autoexp-plan --json`, from the start of the process to the end."""
    sweep = two_stages(jobs, choices=choices)
    tree = write_tree(_made(place / f"ours{jobs}{choices}"), sweep)
    found = cost([sys.executable, "-c", OURS, "-C", str(tree), "--json"], tree)
    if found.said.count('"fingerprint"') < jobs:
        raise SystemExit(f"not all of {jobs} jobs were planned")
    return found


def snakemake(place: Path, jobs: int, program: str) -> Cost:
    """A dry run of as many jobs."""
    where = _made(place / f"snakemake{jobs}")
    (where / "Snakefile").write_text(SNAKEFILE.format(count=jobs // 2))
    return cost([program, "-n", "--quiet", "all", "--cores", "1"], where)


def _made(place: Path) -> Path:
    place.mkdir()
    return place


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--most", type=int, default=SIZES[-1], help="jobs, at most")
    made.add_argument("--snakemake", default=shutil.which("snakemake") or "")
    given = made.parse_args()
    sizes = [size for size in SIZES if size <= given.most]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for choices in (False, True):
            name = "6 groups in 6 ways" if choices else "1 choice of groups"
            composed = hydra_compose(place, CHOICES if choices else {})
            print(f"hydra.compose and resolve     {composed * 1e3:8.1f}, {name}")
            for size in sizes:
                row = ours(place, size, choices=choices)
                print(
                    f"autoexp-plan {size:6,}, {name:18} {row.cpu / size * 1e3:6.2f}  "
                    f"{row.cpu:6.2f} s CPU, {row.wall:6.2f} s, {row.megabytes:4.0f} MB"
                    f"  {composed * size / row.cpu:6.0f}x hydra.compose",
                    flush=True,
                )
        if not given.snakemake:
            print("snakemake is not installed: no row")
            return
        for size in sizes[1:]:
            row = snakemake(place, size, given.snakemake)
            print(
                f"snakemake -n {size:6,}, composes nothing     "
                f"{row.cpu / size * 1e3:6.2f}  {row.cpu:6.2f} s CPU, {row.wall:6.2f} s,"
                f" {row.megabytes:4.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
