"""A plan as text for people who are about to start it: tables, or a flowchart.

The tables say what is swept, each stage with what it waits for, what was checked;
folded where it would be long. The flowchart is Mermaid's: stages as boxes around their
jobs, waits as arrows. Everything from the plan is cleaned here; how it comes onto a
terminal is the caller's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from sys import maxsize
from typing import Final, TypeAlias

from autoexp_tui.conditions.kinds import Approval, Composite
from autoexp_tui.model.condition import Condition, describe, describe_subject
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.dag import (
    UNSTAGED,
    Links,
    Side,
    Stage,
    find_links,
    list_stages,
)
from autoexp_tui.planning.grid import find_axes, read_settings
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import duration, fit, join_some, plural

_VALUE_COLUMNS: Final = 40
_MOST_NAMES: Final = 3

Row: TypeAlias = tuple[str, ...]
Table: TypeAlias = tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    sections: tuple[Section, ...]
    """The sweep, then the stages, each after those that it follows from."""
    findings: Table
    """A mark (`✓`, `!`) and what was found."""


_JOBS: Final = 8
"""Of one stage."""
_VALUES: Final = 20
"""Of one key."""
_CONDITIONS: Final = 6
"""Jobs of a stage that wait for different things."""
_WARNINGS: Final = 20


def build_chart(plan: Plan, *, whole: bool = False) -> Chart:
    """The chart of a plan; `whole`: every stage, job and value, however many."""
    return _ChartBuilder(plan, whole=whole).build()


class _ChartBuilder:
    def __init__(self, plan: Plan, *, whole: bool) -> None:
        self._plan = plan
        self._whole = whole
        self._settings = {
            job.name: read_settings(job.parameters, plan.mask) for job in plan.jobs
        }
        points = [(job.stage, self._settings[job.name]) for job in plan.jobs]
        self._axes = find_axes(points)
        self._spelled = {
            one.key: dict(zip(one.values, one.shown, strict=True)) for one in self._axes
        }
        self._links = find_links(plan)
        self._stages = list_stages(plan, self._links)
        self._jobs = {job.name: job for job in plan.jobs}
        self._alike = Counter((job.family, job.stage) for job in plan.jobs)
        self._sizes = Counter(job.stage for job in plan.jobs)

    def _limit(self, most: int) -> int:
        return maxsize if self._whole else most

    def build(self) -> Chart:
        sections = (self._build_sweep(), *map(self._build_stage, self._stages))
        findings = tuple(self._list_warnings())
        title = f"{clean_line(self._plan.name)}: {plural(len(self._plan.jobs), 'job')}"
        if any(one.name for one in self._stages):
            title += f" in {plural(len(self._stages), 'stage')}"
        if ref := clean_line(self._plan.config_ref):
            title += f", config {ref}"
        return Chart(title, sections, findings)

    def _build_sweep(self) -> Section:
        rows = []
        for one in self._axes:
            values = [fit(value, _VALUE_COLUMNS) for value in one.shown]
            rows.append((clean_line(one.key), join_some(values, self._limit(_VALUES))))
        return Section("Sweep", (tuple(rows or [("Nothing is swept.",)]),))

    def _build_stage(self, stage: Stage) -> Section:
        title = f"{clean_line(stage.title)}: {plural(len(stage.jobs), 'job')}"
        for verb, others in (("after", stage.waits), ("reads", stage.reads)):
            if others:
                names = [clean_line(name or UNSTAGED) for name in others]
                title += f", {verb} {join_some(names, _MOST_NAMES)}"
        most = self._limit(_JOBS)
        shown = stage.jobs if len(stage.jobs) <= most else stage.jobs[: most - 1]
        rest = len(stage.jobs) - len(shown)
        more = f"... and {rest} more" if rest else ""
        conditions = [
            *self._list_conditions(stage, start=True),
            *self._list_conditions(stage, start=False),
        ]
        rows = tuple(map(self._build_row, shown))
        tables = (rows, ((more,),) if more else (), tuple(conditions))
        return Section(title, tuple(filter(None, tables)))

    def _build_row(self, job: JobSpec) -> Row:
        after = [
            f"{verb} {self._name_jobs(others)}"
            for verb, others in (
                ("after", self._links.waits[job.name]),
                ("reads", self._links.reads[job.name]),
            )
            if others
        ]
        own = self._settings[job.name]
        values = [
            f"{one.label}={self._spelled[one.key][own[one.key]]}"
            for one in self._axes
            if one.key in own
        ]
        return clean_line(job.name), " ".join(values), ", ".join(after)

    def _name_jobs(self, names: Iterable[str], me: JobSpec | None = None) -> str:
        """A whole stage, or the first jobs; `me` speaks of its siblings by stage."""
        grouped: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            stage = self._jobs[name].stage if name in self._jobs else ""
            grouped.setdefault(stage, []).append(name)
        found: list[str] = []
        for stage, members in grouped.items():
            if stage and len(members) == self._sizes[stage] > 1:
                found.append(f"all {len(members)} {clean_line(stage)} jobs")
            else:
                found += (self._name_job(name, me) for name in members)
        return join_some(found, _MOST_NAMES)

    def _name_job(self, name: str, me: JobSpec | None) -> str:
        """`its stable job` where that says which one to `me`; else the name."""
        other = self._jobs.get(name)
        family = me.family if me else ""
        alike = self._alike[family, other.stage] if other and other.stage else 0
        if family and other and other.family == family and alike == 1:
            return f"its {clean_line(other.stage)} job"
        return clean_line(name)

    def _list_conditions(self, stage: Stage, *, start: bool) -> Iterator[Row]:
        """What the jobs wait for, once for all those that wait for the same."""
        groups: dict[Row, list[JobSpec]] = {}
        for job in stage.jobs:
            groups.setdefault(self._describe_conditions(job, start), []).append(job)
        found = {texts: jobs for texts, jobs in groups.items() if texts}
        label = "Starts" if start else "Cancelled"
        for texts, jobs in islice(found.items(), self._limit(_CONDITIONS)):
            all_of_them = len(jobs) == len(stage.jobs)
            mark = "" if all_of_them else f" [{len(jobs)} of {len(stage.jobs)} jobs]"
            for text in texts:
                yield label, f"{text}{mark}"
                label = ""
        rest = len(found) - self._limit(_CONDITIONS)
        if rest > 0:
            yield "", f"... and {rest} more that differ from job to job"

    def _describe_conditions(self, job: JobSpec, start: bool) -> Row:  # noqa: FBT001
        """`when A`, `and B`: each of a job's conditions."""
        own = job.start_conditions if start else job.cancel_conditions
        if not own:
            return ("at once",) if start else ()
        head, further = ("when", "and") if start else ("if", "or")
        first, *texts = dict.fromkeys(self._describe(one, job, start) for one in own)
        return f"{head} {first}", *(f"{further} {text}" for text in texts)

    def _describe(self, spec: Condition, me: JobSpec, start: bool) -> str:  # noqa: FBT001
        """A condition in the words of its kind; a sibling goes by its stage."""
        text = describe_subject(spec, lambda names: self._name_jobs(names, me))
        for name in (me.name, *me.depends_on):
            other = self._jobs.get(name)
            if other and clean_line(name) != self._name_job(name, me):
                # Also where its directory is named.
                whole = rf"(?<![^/\s]){re.escape(name)}/"
                text = f"{other.stage}/".join(re.split(whole, text))
        text = clean_line(text or describe(spec))
        if not spec.blocking:
            does = "holds nothing back" if start else "cancels nothing"
            text += f" (only shown, {does})"
        limit = spec.timeout_seconds
        if limit is None or (isinstance(spec, Approval) and spec.on_timeout == "hold"):
            return text
        verb = "gives up" if start else "looks no more"
        return f"{text} ({verb} after {duration(limit)})"

    def _list_warnings(self) -> Iterator[Row]:
        warnings = self._plan.warnings
        if not warnings:
            yield "✓", "no warnings"
        for one in warnings[: self._limit(_WARNINGS)]:
            about = " ".join(clean_line(part) for part in (one.job, one.where) if part)
            text = f"{about}: {clean_line(one.message)}".removeprefix(": ")
            yield "!", f"{text}\n  {clean_line(one.below)}" if one.below else text
        rest = len(warnings) - self._limit(_WARNINGS)
        if rest > 0:
            yield "", f"... and {plural(rest, 'warning')} more"


MOST_JOBS: Final = 60
MOST_ARROWS: Final = 400
"""Arrows of one drawing; the usual viewers take 500."""
_LABEL: Final = 200
_SPECIAL: Final = re.compile(r"[^\w ./=+,@-]")


def render_mermaid(plan: Plan, *, whole: bool = False) -> str:
    """The plan as a flowchart: jobs in subgraphs, or stages alone of a large one."""
    links = find_links(plan)
    stages = list_stages(plan, links)
    ids = {job.name: f"j{at}" for at, job in enumerate(plan.jobs)}
    arrows = [
        f"  {before} {line} {after}"
        for side, line in ((links.waits, "-->"), (links.reads, "-.->"))
        for before, after in _list_arrows(side, ids)
    ]
    is_small = len(plan.jobs) <= MOST_JOBS and len(arrows) <= MOST_ARROWS
    if not is_small and not whole:
        return "\n".join(["flowchart TD", *_fold_stages(stages, links)])
    lines = ["flowchart TD"]
    for at, stage in enumerate(stages):
        lines.append(f"  subgraph s{at}[{quote_label(stage.title)}]")
        for job in stage.jobs:
            asks = any(map(_asks_a_person, job.start_conditions))
            before, after = ("{{", "}}") if asks else "[]"
            lines.append(f"    {ids[job.name]}{before}{quote_label(job.name)}{after}")
        lines.append("  end")
    return "\n".join([*lines, *arrows])


def _asks_a_person(spec: Condition) -> bool:
    if isinstance(spec, Composite):
        return any(map(_asks_a_person, spec.conditions))
    return isinstance(spec, Approval)


def _list_arrows(side: Side, ids: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for after, others in side.items():
        for before in others:
            if before in ids and after in ids:
                yield ids[before], ids[after]


def _fold_stages(stages: Sequence[Stage], links: Links) -> Iterator[str]:
    """The stages alone, each arrow with the number of links that it stands for."""
    for at, stage in enumerate(stages):
        jobs = plural(len(stage.jobs), "job")
        yield f"  s{at}[{quote_label(f'{stage.title}, {jobs}')}]"
    ids = {job.name: f"s{at}" for at, stage in enumerate(stages) for job in stage.jobs}
    for side, line in ((links.waits, "-->"), (links.reads, "-.->")):
        for (before, after), number in Counter(_list_arrows(side, ids)).items():
            yield f"  {before} {line}|{number}| {after}"


def quote_label(text: str) -> str:
    """A quoted label: what could be markup, a comment or an entity is a number."""
    plain = clean_line(text, _LABEL) or "?"
    return f'"{_SPECIAL.sub(lambda found: f"#{ord(found[0])};", plain)}"'
