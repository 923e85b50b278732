"""What can be said of a plan as it stands: sound or not, and planning's warnings.

Planning refuses what is unsound; a manifest may have been written by another program,
so the chart looks again instead of repeating that all was well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from autoexp_tui.model.specs import Plan, PlanFinding
from autoexp_tui.model.wording import plural
from autoexp_tui.planning.chart_stages import Links, in_a_ring
from autoexp_tui.planning.chart_text import hanging, said

_MOST_NAMES: Final = 3


def verdict_lines(plan: Plan, links: Links, width: int, *, most: int) -> Iterable[str]:
    """What was looked at and how it came out, then the first `most` warnings."""
    for good, bad in (_alone(plan), _known(plan, links), _rings(links)):
        yield from hanging("✗ " if bad else "✓ ", bad or good, width)
    yield from _warnings(plan.warnings, width, most)


# -------------------------------------------------------------------------- checks
def _alone(plan: Plan) -> tuple[str, str]:
    names = Counter(job.name for job in plan.jobs)
    places = Counter(job.output_dir for job in plan.jobs)
    twice = [key for group in (names, places) for key in group if group[key] > 1]
    good = "every job has a name and an output directory of its own"
    return good, f"used more than once: {_some(twice)}" if twice else ""


def _known(plan: Plan, links: Links) -> tuple[str, str]:
    names = {job.name for job in plan.jobs}
    ends = (
        name
        for side in (links.waits, links.reads)
        for after, before in side.items()
        for name in (after, *before)
    )
    strange = list(dict.fromkeys(name for name in ends if name not in names))
    good = "every job that is waited for or read from is in the plan"
    return good, f"not in the plan: {_some(strange)}" if strange else ""


def _rings(links: Links) -> tuple[str, str]:
    reads = links.reads
    before = {name: (*own, *reads.get(name, ())) for name, own in links.waits.items()}
    bad = "some jobs follow each other in a ring: none of them can start"
    return "no jobs follow each other in a ring", bad if in_a_ring(before) else ""


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(said(name) for name in names[:_MOST_NAMES])
    rest = len(names) - _MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


# ------------------------------------------------------------------------ warnings
def _warnings(warnings: Sequence[PlanFinding], width: int, most: int) -> Iterable[str]:
    if not warnings:
        yield from hanging("✓ ", "no warnings", width)
        return
    alike: dict[tuple[str, str, str], list[PlanFinding]] = {}
    for one in warnings:
        alike.setdefault((one.where, one.message, one.hint), []).append(one)
    for same in list(alike.values())[:most]:
        yield from hanging("! ", _warning(same), width)
        if same[0].below:
            yield from hanging("    ", said(same[0].below), width)
    rest = sum(len(same) for same in list(alike.values())[most:])
    if rest:
        yield f"... and {plural(rest, 'warning')} more"


def _warning(same: Sequence[PlanFinding]) -> str:
    """`JOB, 36 more jobs WHERE: MESSAGE`."""
    jobs = list(dict.fromkeys(said(one.job) for one in same if one.job))
    about = [_some_more(jobs)] if jobs else []
    about += [said(same[0].where)] if same[0].where else []
    message = said(same[0].message)
    return f"{' '.join(about)}: {message}" if about else message


def _some_more(jobs: Sequence[str]) -> str:
    rest = len(jobs) - 1
    return f"{jobs[0]} and {plural(rest, 'other')}" if rest else jobs[0]
