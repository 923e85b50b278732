"""What needs a person, grouped by cause.

Jobs that look alike and ended, or stand, for the same reason form one cause: same
class, same last error line, same node where the node is to blame. What the jobs of a
cause have in common besides (a parameter, a node, a stage) is named beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import Span, outside
from autoexp_tui.cockpit.state.forecast import NO_CUTS, Cuts, format_cut
from autoexp_tui.cockpit.state.parameters import (
    Parameter,
    collect_values,
    find_common,
    find_paths,
    find_telling,
    find_varying,
)
from autoexp_tui.cockpit.state.reasons import (
    describe_cause,
    find_last_words,
    find_reason,
)
from autoexp_tui.cockpit.state.status import (
    ENDED_BADLY,
    NEEDS,
    Look,
    never_came,
    tally,
)
from autoexp_tui.conditions.unmet import unmet
from autoexp_tui.model.states import Cause
from autoexp_tui.model.wording import plural, short

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.effect import TaskId
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.model.state import Warned


_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?")


_BY_NODE: Final = frozenset({Cause.NODE_FAIL})


_URGENCY: Final = {look: place for place, look in enumerate(NEEDS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGroup:
    """Jobs, or warnings, that need a person for one reason."""

    key: str
    look: Look | None
    """None: a warning about something that does not look ill."""
    title: str
    common: str
    """What they share besides the reason; may be empty."""
    jobs: tuple[JobView, ...]
    warnings: tuple[Warned, ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict)
    """What is seen now, by job, where it is not what a job or a warning recorded."""
    limits: tuple[TaskId, ...] = ()
    """Attempts that their time limit will cut."""

    @property
    def size(self) -> int:
        """How many things need a person here."""
        return len(self.jobs) or len(self.warnings)

    @property
    def acknowledgeable(self) -> int:
        """How many warnings of it go when a person says to have seen them."""
        return len(self.warnings) or len(self.limits)

    def mark(self, *, apart: bool = False) -> Span:
        """Glyph and count."""
        if self.look is None:
            return Span(f"!{' ' if apart else ''}{self.size}", "warning")
        return tally(self.look, self.size, apart=apart)


class PlanWords:
    """What a plan says about its parameters, worked out once.

    `changed`: the jobs that run with other values than the plan's.
    """

    def __init__(self, plan: Plan | None, changed: Sequence[JobSpec] = ()) -> None:
        self.plan = plan
        self.changed = changed
        seen = collect_values(plan, changed)
        self.parameters: tuple[Parameter, ...] = find_telling(plan, seen)
        """Those that tell jobs apart."""
        self.of_families: tuple[Parameter, ...] = find_varying(plan, seen)
        """Those that tell families apart."""
        self.paths = find_paths(plan, seen)
        """Parameters that are no swept values."""

    def common(self, jobs: Sequence[JobView]) -> str:
        """The parameter that all of `jobs` share, `bsz=1024`; empty without one."""
        specs = [job.record.spec for job in jobs]
        return find_common(specs, self.parameters)

    def are_of(self, session: SessionView) -> bool:
        """Whether they say what holds for the jobs of `session`."""
        if session.snapshot.plan is not self.plan:
            return False
        same = len(session.changed) == len(self.changed)
        return same and all(map(is_, session.changed, self.changed))


def build_cause_key(job: JobView) -> str:
    """Equal for jobs that look alike for the same reason."""
    if job.look in ENDED_BADLY:
        cause = job.record.cause or Cause.LOST
        node = _node(job) if cause in _BY_NODE else ""
        return f"{job.look}|{cause}|{node}|{_exit(job)}|{_last_words(job)}"
    if job.look is Look.DOOMED:
        missing = unmet(job.record)
        code = missing[2].why.code if missing and missing[2] else ""
        return f"{job.look}|{code}|{job.stage}"
    if job.look is Look.ASKS:
        return f"{job.look}|{job.stage}"
    if job.look is Look.STALLED:
        return f"{job.look}|{_node(job)}"
    why = job.record.why
    return f"{job.look}|{why.code if why else ''}|{never_came(why)}"


def _exit(job: JobView) -> str:
    attempt = job.attempt
    return f"{attempt.exit_code},{attempt.signal}" if attempt else ""


def _last_words(job: JobView) -> str:
    """The last error line without its numbers, where it tells causes apart."""
    return _NUMBER.sub("#", find_last_words(job))[:120]


def _node(job: JobView) -> str:
    return job.attempt.node if job.attempt else ""


def group_causes(
    session: SessionView, words: PlanWords, cuts: Cuts = NO_CUTS
) -> tuple[CauseGroup, ...]:
    """Everything that needs a person, most urgent first, then largest first.

    `cuts`: the running jobs that their time limit will cut.
    """
    grouped: dict[str, list[JobView]] = {}
    for job in session.jobs:
        if job.explains_itself:
            grouped.setdefault(build_cause_key(job), []).append(job)
    groups = [_of_jobs(key, jobs, session, words) for key, jobs in grouped.items()]
    groups.sort(key=lambda group: (_urgency(group.jobs[0]), -group.size))
    return (*groups, *_of_warnings(session), *_of_cuts(session, words, cuts))


def _urgency(job: JobView) -> int:
    return _URGENCY.get(job.look, len(_URGENCY))


def _of_jobs(
    key: str, jobs: Sequence[JobView], session: SessionView, words: PlanWords
) -> CauseGroup:
    first = jobs[0]
    return CauseGroup(
        key=key,
        look=first.look,
        title=_title(first, session),
        common=_common(jobs, words),
        jobs=tuple(jobs),
    )


def _title(job: JobView, session: SessionView) -> str:
    if job.look is Look.STALLED:
        return "no step for long"
    if job.look is Look.ASKS:
        return "asks approval"
    if job.look in (Look.DOOMED, Look.SKIPPED):
        return find_reason(job, session)
    words = describe_cause(job)
    telling = find_last_words(job)
    return f"{words}, {outside(telling)}" if telling else words


def _common(jobs: Sequence[JobView], words: PlanWords) -> str:
    nodes = {_node(job) for job in jobs}
    blame = jobs[0].record.cause in _BY_NODE or jobs[0].look is Look.STALLED
    if blame and len(nodes) == 1 and nodes != {""}:
        return outside(nodes.pop())
    shared = words.common(jobs)
    if shared:
        return shared
    stages = {job.stage for job in jobs}
    return outside(stages.pop()) if len(stages) == 1 else ""


def _of_warnings(session: SessionView) -> Iterable[CauseGroup]:
    """Warnings of jobs that look well, and those of no job, by code."""
    grouped: dict[str, list[Warned]] = {}
    for entry in session.snapshot.warnings:
        job = session.job(entry.job) if entry.job else None
        if entry.severity != "info" and (job is None or not job.explains_itself):
            grouped.setdefault(entry.why.code, []).append(entry)
    for code, entries in grouped.items():
        names = list(dict.fromkeys(entry.job for entry in entries if entry.job))
        yield CauseGroup(
            key=f"warning|{code}",
            look=None,
            title=outside(short(entries[0].why)),
            common="" if len(entries) > 1 else outside(entries[0].job),
            jobs=session.named(names),
            warnings=tuple(entries),
        )


def _of_cuts(
    session: SessionView, words: PlanWords, cuts: Cuts
) -> Iterable[CauseGroup]:
    """Of jobs that look well, and will be cut: by stage, for limits are a stage's."""
    grouped: dict[str, list[JobView]] = {}
    for job in session.named(tuple(cuts)):
        if not job.explains_itself:
            grouped.setdefault(job.stage, []).append(job)
    for stage, jobs in grouped.items():
        yield CauseGroup(
            key=f"cut|{stage}",
            look=None,
            title="limit too short",
            common=_common(jobs, words),
            jobs=tuple(jobs),
            seen={job.name: format_cut(cuts[job.name]) for job in jobs},
            limits=tuple((job.name, job.attempt.number) for job in jobs if job.attempt),
        )


def count_needs(groups: Sequence[CauseGroup]) -> int:
    """How many things need a person."""
    return sum(group.size for group in groups)


def describe_needs(groups: Sequence[CauseGroup]) -> str:
    """`16 need you, 7 causes`; empty when nobody is needed."""
    number = count_needs(groups)
    if not number:
        return ""
    verb = "needs" if number == 1 else "need"
    return f"{number} {verb} you, {plural(len(groups), 'cause')}"
