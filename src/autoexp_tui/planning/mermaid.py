"""A plan as a Mermaid flowchart: stages as boxes around their jobs, waits as arrows.

Names become labels only, every character that Mermaid could read as its own written
as a number; nodes have ids of ours. What is too large to be drawn by the usual viewers
(their limit is 500 arrows) shows stages instead of jobs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from autoexp_tui.conditions.kinds import Approval, Composite, Condition
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.stages import Links, Stage, links_of, stages_of
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import plural

MOST_JOBS: Final = 60
"""Jobs that are drawn one by one."""
MOST_ARROWS: Final = 400
"""Arrows of one drawing."""
MOST_STAGES: Final = 100
"""Stages of one drawing."""
_LABEL: Final = 200
"""Characters of one label."""
_SPECIAL: Final = re.compile(r"[^\w ./=+,@-]")


_Side: TypeAlias = Mapping[str, Sequence[str]]
"""Jobs by the job that follows them."""


def render_mermaid(plan: Plan, *, whole: bool = False) -> str:
    """The plan as a flowchart; jobs in subgraphs, or only stages when it is large.

    A solid arrow is a wait, a dotted one reads without waiting; a hexagon asks a
    person first. With `whole` every job is drawn: few viewers take 500 arrows.
    """
    links = links_of(plan)
    stages = stages_of(plan, links)
    jobs = {job.name: f"j{at}" for at, job in enumerate(plan.jobs)}
    arrows = [*_arrows(links.waits, jobs, "-->"), *_arrows(links.reads, jobs, "-.->")]
    small = len(plan.jobs) <= MOST_JOBS and len(arrows) <= MOST_ARROWS
    small = small or whole
    body = [*_jobs(stages, jobs), *arrows] if small else _folded(plan, stages, links)
    return "\n".join(["flowchart TD", *body])


# ------------------------------------------------------------------------ job by job
def _jobs(stages: Sequence[Stage], ids: Mapping[str, str]) -> Iterable[str]:
    for at, stage in enumerate(stages):
        yield f"  subgraph s{at}[{quote_label(stage.title)}]"
        yield from (f"    {ids[job.name]}{_node(job)}" for job in stage.jobs)
        yield "  end"


def _node(job: JobSpec) -> str:
    text = quote_label(job.name)
    asks = any(_asks_a_person(one) for one in job.start_conditions)
    return f"{{{{{text}}}}}" if asks else f"[{text}]"


def _asks_a_person(spec: Condition) -> bool:
    if isinstance(spec, Composite):
        return any(_asks_a_person(part) for part in spec.conditions)
    return isinstance(spec, Approval)


def _arrows(side: _Side, ids: Mapping[str, str], line: str) -> Iterable[str]:
    for after, others in side.items():
        for before in others:
            if before in ids and after in ids:
                yield f"  {ids[before]} {line} {ids[after]}"


# -------------------------------------------------------------------- stage by stage
def _folded(plan: Plan, stages: Sequence[Stage], links: Links) -> Iterable[str]:
    """The stages alone, each arrow with the number of links that it stands for."""
    shown = stages[:MOST_STAGES]
    for at, stage in enumerate(shown):
        jobs = plural(len(stage.jobs), "job")
        yield f"  s{at}[{quote_label(f'{stage.title}, {jobs}')}]"
    ids = {stage.name: f"s{at}" for at, stage in enumerate(shown)}
    homes = {job.name: ids[job.stage] for job in plan.jobs if job.stage in ids}
    arrows = [
        *_counted(links.waits, homes, "-->"),
        *_counted(links.reads, homes, "-.->"),
    ]
    yield from arrows[:MOST_ARROWS]
    yield from _left_out(len(stages) - len(shown), len(arrows) - MOST_ARROWS)


def _counted(side: _Side, homes: Mapping[str, str], line: str) -> Iterable[str]:
    pairs = Counter(
        (homes[before], homes[after])
        for after, others in side.items()
        for before in others
        if before in homes and after in homes
    )
    for (before, after), number in pairs.items():
        yield f"  {before} {line}|{number}| {after}"


def _left_out(stages: int, arrows: int) -> Iterable[str]:
    parts = [plural(stages, "more stage")] if stages > 0 else []
    parts += [plural(arrows, "more arrow")] if arrows > 0 else []
    if parts:
        yield f"  more[{quote_label('and ' + ' and '.join(parts))}]"


# ---------------------------------------------------------------------------- labels
def quote_label(text: str) -> str:
    """A quoted label: what could be markup, a comment or an entity is a number."""
    plain = clean_line(text, _LABEL) or "?"
    return f'"{_SPECIAL.sub(_as_number, plain)}"'


def _as_number(match: re.Match[str]) -> str:
    return f"#{ord(match[0])};"
