"""A plan as text for people who are about to start it: tables of plain values.

What is swept, each stage with what it waits for, what was checked; folded where it
would be long. Everything from the plan is cleaned here; how it comes onto a terminal
is the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from sys import maxsize
from typing import Final, TypeAlias

from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.condition_sentences import Purpose, SentenceWriter
from autoexp_tui.planning.dag import rings
from autoexp_tui.planning.stages import UNSTAGED, Links, Stage, links_of, stages_of
from autoexp_tui.planning.swept_keys import SweepSummary
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import fit, join_some, plural

_VALUE_COLUMNS: Final = 40
_MOST_NAMES: Final = 3
"""Names in a sentence about what is unsound."""

Row: TypeAlias = tuple[str, ...]
Table: TypeAlias = tuple[Row, ...]
"""Rows of as many cells each."""


@dataclass(frozen=True, slots=True)
class Section:
    """A title, and tables below it."""

    title: str
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """All that is told of a plan."""

    title: str
    sections: tuple[Section, ...]
    """The sweep, then the stages, each after those that it follows from."""
    findings: Table
    """A mark (`✓`, `!`, `✗`) and what was found."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """The most of each kind that is told; what is beyond it is counted."""

    stages: int = 40
    jobs: int = 8
    """Of one stage."""
    keys: int = 12
    values: int = 20
    """Of one key."""
    origins: int = 3
    """Stages that a stage is said to follow."""
    conditions: int = 6
    """Of a job, and jobs of a stage that wait for different things."""
    warnings: int = 20


_NO_LIMITS: Final = _Limits(*[maxsize] * 7)


def build_chart(plan: Plan, *, whole: bool = False) -> Chart:
    """The chart of a resolved plan.

    `whole`: every stage, job, value and warning, however many.
    """
    return _ChartBuilder(plan, _NO_LIMITS if whole else _Limits()).build()


class _ChartBuilder:
    def __init__(self, plan: Plan, limits: _Limits) -> None:
        self._plan = plan
        self._limits = limits
        self._sweep = SweepSummary(plan)
        self._links = links_of(plan)
        self._stages = stages_of(plan, self._links)
        self._sentences = SentenceWriter(plan)

    def build(self) -> Chart:
        shown = self._stages[: self._limits.stages]
        sections = [self._sweep_section(), *map(self._stage_section, shown)]
        rest = self._stages[self._limits.stages :]
        if rest:
            jobs = plural(sum(len(one.jobs) for one in rest), "job")
            title = f"... and {plural(len(rest), 'stage')} more with {jobs}"
            sections.append(Section(title))
        findings = (*_check_plan(self._plan, self._links), *self._warnings())
        return Chart(self._title(), tuple(sections), findings)

    def _title(self) -> str:
        stages = plural(len(self._stages), "stage")
        staged = f" in {stages}" if any(one.name for one in self._stages) else ""
        jobs = plural(len(self._plan.jobs), "job")
        ref = clean_line(self._plan.config_ref)
        config = f", config {ref}" if ref else ""
        return f"{clean_line(self._plan.name)}: {jobs}{staged}{config}"

    def _sweep_section(self) -> Section:
        keys = self._sweep.keys
        rows = [
            (
                clean_line(one.key),
                join_some(_fit_all(one.values), self._limits.values),
            )
            for one in keys[: self._limits.keys]
        ]
        rest = len(keys) - len(rows)
        more = f"... and {plural(rest, 'key')} more" if rest > 0 else ""
        nothing = "" if keys else "Nothing is swept."
        tables = _filled(tuple(rows), _cell(more), _cell(nothing))
        return Section(f"Sweep: {self._sweep.count_jobs()}", tables)

    # --------------------------------------------------------------------- stages
    def _stage_section(self, stage: Stage) -> Section:
        parts = (
            f"{clean_line(stage.title)}: {plural(len(stage.jobs), 'job')}",
            self._origins("after", stage.waits),
            self._origins("reads", stage.reads),
        )
        shown = stage.jobs
        if len(shown) > self._limits.jobs:
            shown = shown[: self._limits.jobs - 1]
        rest = len(stage.jobs) - len(shown)
        more = _cell(f"... and {rest} more" if rest else "")
        rows = tuple(map(self._job_row, shown))
        conditions = (
            *self._condition_rows(stage, "start"),
            *self._condition_rows(stage, "cancel"),
        )
        return Section(", ".join(filter(None, parts)), _filled(rows, more, conditions))

    def _origins(self, verb: str, stages: Sequence[str]) -> str:
        names = [clean_line(name or UNSTAGED) for name in stages]
        return f"{verb} {join_some(names, self._limits.origins)}" if names else ""

    def _job_row(self, job: JobSpec) -> Row:
        waits, reads = self._links.waits[job.name], self._links.reads[job.name]
        after = [f"after {self._sentences.name_jobs(waits)}"] if waits else []
        after += [f"reads {self._sentences.name_jobs(reads)}"] if reads else []
        name, values = clean_line(job.name), self._sweep.describe_job(job)
        return name, values, ", ".join(after)

    # ----------------------------------------------------------------- conditions
    def _condition_rows(self, stage: Stage, purpose: Purpose) -> Iterator[Row]:
        """What the jobs wait for, once for all those that wait for the same."""
        groups: dict[Row, list[JobSpec]] = {}
        for job in stage.jobs:
            groups.setdefault(self._sentences_of(job, purpose), []).append(job)
        told = {key: jobs for key, jobs in groups.items() if key}
        label = "Starts" if purpose == "start" else "Cancelled"
        for texts, jobs in islice(told.items(), self._limits.conditions):
            mark = self._mark(jobs, stage)
            for text in texts:
                yield label, f"{text}{mark}"
                label = ""
        rest = len(told) - self._limits.conditions
        if rest > 0:
            yield "", f"... and {rest} more that differ from job to job"

    def _sentences_of(self, job: JobSpec, purpose: Purpose) -> Row:
        """`when A`, `and B`: each of a job's conditions."""
        start = purpose == "start"
        own = job.start_conditions if start else job.cancel_conditions
        if not own:
            return ("at once",) if start else ()
        first, further = ("when", "and") if start else ("if", "or")
        write = self._sentences.describe
        texts = list(dict.fromkeys(write(spec, job, purpose) for spec in own))
        most = self._limits.conditions
        rest = [f"... and {len(texts) - most} more"] if len(texts) > most else []
        following = (f"{further} {text}" for text in texts[1:most])
        return f"{first} {texts[0]}", *following, *rest

    def _mark(self, jobs: Sequence[JobSpec], stage: Stage) -> str:
        """` [bsz=256]`, or ` [3 of 6 jobs]`; empty when it is all of them."""
        total = len(stage.jobs)
        if len(jobs) == total:
            return ""
        for key in self._sweep.keys:
            having = Counter(
                self._sweep.settings_of(job).get(key.key) for job in stage.jobs
            )
            values = {self._sweep.settings_of(job).get(key.key) for job in jobs}
            value = values.pop()
            if not values and value is not None and having[value] == len(jobs):
                return f" [{key.label}={fit(value, _VALUE_COLUMNS)}]"
        return f" [{len(jobs)} of {total} jobs]"

    def _warnings(self) -> Iterator[Row]:
        warnings = self._plan.warnings
        if not warnings:
            yield "✓", "no warnings"
        for one in warnings[: self._limits.warnings]:
            about = " ".join(clean_line(part) for part in (one.job, one.where) if part)
            message = clean_line(one.message)
            below = f"\n  {clean_line(one.below)}" if one.below else ""
            yield "!", f"{about}: {message}{below}" if about else f"{message}{below}"
        rest = len(warnings) - self._limits.warnings
        if rest > 0:
            yield "", f"... and {plural(rest, 'warning')} more"


def _filled(*tables: Table) -> tuple[Table, ...]:
    return tuple(filter(None, tables))


def _cell(text: str) -> Table:
    return ((text,),) if text else ()


def _fit_all(values: Iterable[str]) -> list[str]:
    return [fit(value, _VALUE_COLUMNS) for value in values]


# -------------------------------------------------------------------------- checks
def _check_plan(plan: Plan, links: Links) -> Iterator[Row]:
    """Whether the plan is sound.

    Planning refuses one that is not; a manifest may be of another program.
    """
    names = {job.name: at for at, job in enumerate(plan.jobs)}
    befores = [
        (before, after)
        for side in (links.waits, links.reads)
        for after, others in side.items()
        for before in others
    ]
    twice = _repeated(job.name for job in plan.jobs)
    twice += _repeated(job.output_dir for job in plan.jobs)
    strange = [name for pair in befores for name in pair if name not in names]
    pairs = [(names[a], names[b]) for a, b in befores if a in names and b in names]
    yield _verdict(
        "every job has a name and an output directory of its own",
        f"used more than once: {_name_some(twice)}" if twice else "",
    )
    yield _verdict(
        "every job that is waited for or read from is in the plan",
        f"not in the plan: {_name_some(strange)}" if strange else "",
    )
    ring = "some jobs follow each other in a ring: none of them can start"
    yield _verdict(
        "no jobs follow each other in a ring",
        ring if rings(len(plan.jobs), pairs) else "",
    )


def _verdict(good: str, bad: str) -> Row:
    return ("✗", bad) if bad else ("✓", good)


def _repeated(texts: Iterable[str]) -> list[str]:
    return [text for text, number in Counter(texts).items() if number > 1]


def _name_some(names: Iterable[str]) -> str:
    return join_some(list(map(clean_line, dict.fromkeys(names))), _MOST_NAMES)
