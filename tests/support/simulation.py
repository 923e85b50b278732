"""The fault simulator: whole campaigns on a manual clock, from one seed each.

The engine is killed between any two steps and amid a journal write, stopped, deposed
while it sleeps; the cluster loses answers, takes submissions late, reports stale or
nothing, loses nodes and jobs; disks fill up, clocks jump, a person meddles.
After every step the invariants of `sim_checks` hold.

    python -m tests.support.simulation --seeds 200
    python -m tests.support.simulation --seeds 200 --kind tree
    python -m tests.support.simulation --seeds 200 --kind research
    python -m tests.support.simulation --seed 17 --verbose
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.sim_bugs import BUGS, Bug
from tests.support.sim_campaign import Campaign
from tests.support.sim_checks import Violation
from tests.support.sim_research_campaign import ResearchCampaign
from tests.support.sim_slurm import KINDS
from tests.support.sim_tally import Tally, report
from tests.support.sim_tree_campaign import TreeCampaign

POLICIES: Final[Mapping[str, Callable[..., Campaign]]] = {
    "tree": TreeCampaign,
    "research": ResearchCampaign,
}
"""Kinds of campaigns that are a search, or a research."""
MIX: Final = ("slurm", "bare", "slurm")
"""The kinds of seeds in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One campaign that can be run again."""

    seed: int
    kind: str = ""
    """Empty: as the seed says."""
    bug: str = ""
    families: int = 0
    """Of the plan; 0: as the seed says."""
    without: tuple[str, ...] = ()
    """Happenings that do not come to pass."""

    @property
    def command(self) -> str:
        words = [f"python -m tests.support.simulation --seed {self.seed}"]
        words += [f"--kind {self.kind}"] if self.kind else []
        words += [f"--bug {self.bug}"] if self.bug else []
        words += [f"--families {self.families}"] if self.families else []
        words += [f"--without {','.join(self.without)}"] if self.without else []
        return " ".join([*words, "--verbose"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a campaign."""

    case: Case
    tally: Tally = field(default_factory=Tally)
    problem: str = ""
    """What was violated; empty: nothing."""
    cpu: float = 0.0
    """Seconds of processor time."""


def simulate(case: Case, *, verbose: bool = False) -> Campaign:
    """The campaign of a case, run to its end; raises Violation."""
    bug: Bug | None = BUGS[case.bug]() if case.bug else None
    kind = case.kind or (bug.kind if bug else "") or kind_of(case.seed)
    try:
        more: Any = {"without": case.without, "bug": bug, "verbose": verbose}
        campaign = (
            POLICIES[kind](case.seed, **more)
            if kind in POLICIES
            else Campaign(case.seed, KINDS[kind], families=case.families, **more)
        )
        campaign.run()
    except Exception as problem:
        raise Violation(
            f"seed {case.seed} ({kind}): {type(problem).__name__}: {problem}\n"
            f"replay: {case.command}"
        ) from problem
    return campaign


def kind_of(seed: int) -> str:
    """What runs a seed's jobs."""
    return MIX[seed % len(MIX)]


def _prepare() -> None:
    gc.collect()
    gc.freeze()  # what is there now stays: no collection need look at it


def _try(case: Case) -> Outcome:
    """Run a campaign; garbage, of which there is little, is collected behind it."""
    begun, was_on = time.process_time(), gc.isenabled()
    tally, problem = Tally(), ""
    gc.disable()
    try:
        tally = simulate(case).tally
    except Violation as violation:
        problem = str(violation)
    finally:
        if was_on:
            gc.enable()
        gc.collect()
    cpu = time.process_time() - begun
    return Outcome(case=case, tally=tally, problem=problem, cpu=cpu)


def outcomes(cases: Sequence[Case], jobs: int) -> Iterator[Outcome]:
    """Run campaigns, `jobs` at a time; outcomes come as they are had."""
    if jobs <= 1 or len(cases) <= 1:
        _prepare()
        yield from map(_try, cases)
        return
    with ExitStack() as stack:
        workers = multiprocessing.Pool(jobs, _prepare, maxtasksperchild=500)
        stack.enter_context(workers)
        yield from workers.imap_unordered(_try, cases, chunksize=1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run many seeds, or one, and say what they went through."""
    args = _parser().parse_args(argv)
    without = tuple(filter(None, args.without.split(",")))
    chosen = {"kind": args.kind, "bug": args.bug, "families": args.families}
    if args.seed is not None:
        return _one(Case(seed=args.seed, without=without, **chosen), args)
    seeds = range(args.first, args.first + args.seeds)
    cases = [Case(seed=seed, without=without, **chosen) for seed in seeds]
    return _many(cases, args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--seeds", type=int, default=200, help="how many campaigns")
    add("--first", type=int, default=0, help="the first seed")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    add("--seed", type=int, help="one campaign alone")
    add(
        "--kind",
        choices=sorted([*KINDS, *POLICIES]),
        default="",
        help="what runs the jobs",
    )
    add("--bug", choices=sorted(BUGS), default="", help="a deliberate bug")
    add("--families", type=int, default=0, help="the size of the plan")
    add("--without", default="", help="happenings to leave out, by name")
    add("--verbose", action="store_true", help="with --seed: every event")
    add("--digest", action="store_true", help="with --seed: of the journal")
    return parser


def _one(case: Case, args: argparse.Namespace) -> int:
    begun, cpu = time.monotonic(), time.process_time()
    try:
        campaign = simulate(case, verbose=args.verbose)
    except Violation as problem:
        print(problem)
        return 1
    if args.digest:
        print(f"journal {campaign.digest()}")
    wall = time.monotonic() - begun
    print(report(campaign.tally, 0, wall, time.process_time() - cpu))
    return 0


def _many(cases: Sequence[Case], args: argparse.Namespace) -> int:
    total, failed, cpu = Tally(), list[Outcome](), 0.0
    begun = time.monotonic()
    for outcome in outcomes(cases, args.jobs):
        total.add(outcome.tally)
        cpu += outcome.cpu
        if outcome.problem:
            failed.append(outcome)
            print(outcome.problem, flush=True)
    if args.bug and failed:
        case = min((outcome.case for outcome in failed), key=lambda case: case.seed)
        kind = case.kind or kind_of(case.seed)
        print(f"{args.bug} was caught first at seed {case.seed} ({kind})")
    elif args.bug:
        print(f"{args.bug} was not caught")
    wall = time.monotonic() - begun
    print(report(total, len(failed), wall, cpu))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
