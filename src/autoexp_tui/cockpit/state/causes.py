"""What needs a person, grouped by cause.

Jobs that ended, or stand, for the same reason form one: same class, same last error
line, same node where the node is to blame. What they share besides is named beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.forecast import NO_CUTS, Cuts, format_cut
from autoexp_tui.cockpit.state.reasons import (
    describe_end,
    find_last_words,
    find_reason,
)
from autoexp_tui.cockpit.state.status import (
    ENDED_BADLY,
    NEEDS,
    Look,
    find_missing_file,
)
from autoexp_tui.model.resubmission import unmet
from autoexp_tui.model.states import Cause
from autoexp_tui.model.wording import short
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.parameters import PlanWords
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.effect import TaskId
    from autoexp_tui.model.state import Warned

_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?")
URGENCY: Final = {look: place for place, look in enumerate(NEEDS)}
"""Place of a look that needs a person, the most urgent first."""
_TITLES: Final = {Look.STALLED: "no step for long", Look.ASKS: "asks approval"}
_T = TypeVar("_T")


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


def build_cause_key(job: JobView) -> str:
    """Equal for jobs that look alike for the same reason."""
    attempt, record = job.attempt, job.record
    node = attempt.node if attempt else ""
    if job.look in ENDED_BADLY:
        cause = record.cause or Cause.LOST
        node = node if cause is Cause.NODE_FAIL else ""
        code = f"{attempt.exit_code},{attempt.signal}" if attempt else ""
        last = _NUMBER.sub("#", find_last_words(job))[:120]
        return f"{job.look}|{cause}|{node}|{code}|{last}"
    if job.look is Look.DOOMED:
        missing = unmet(record)
        code = missing[2].why.code if missing and missing[2] else ""
        return f"{job.look}|{code}|{job.stage}"
    if job.look in (Look.ASKS, Look.STALLED):
        return f"{job.look}|{job.stage if job.look is Look.ASKS else node}"
    code = record.why.code if record.why else ""
    return f"{job.look}|{code}|{find_missing_file(record.why)}"


def group_causes(
    session: SessionView, words: PlanWords, cuts: Cuts = NO_CUTS
) -> tuple[CauseGroup, ...]:
    """Everything that needs a person, most urgent first, then largest first.

    `cuts`: the running jobs that their time limit will cut.
    """
    ill = (job for job in session.jobs if job.explains_itself)
    groups = []
    for key, jobs in _group(ill, build_cause_key):
        first = jobs[0]
        ended = first.look not in (Look.DOOMED, Look.SKIPPED)
        title = describe_end(first) if ended else find_reason(first, session)
        groups.append(
            CauseGroup(
                key=key,
                look=first.look,
                title=_TITLES.get(first.look, title),
                common=_find_common(jobs, words),
                jobs=tuple(jobs),
            )
        )
    last = len(URGENCY)
    groups.sort(key=lambda one: (URGENCY.get(one.jobs[0].look, last), -one.size))
    return (*groups, *_group_warnings(session), *_group_cuts(session, words, cuts))


def _group(
    things: Iterable[_T], key: Callable[[_T], str]
) -> Iterable[tuple[str, list[_T]]]:
    found: dict[str, list[_T]] = {}
    for one in things:
        found.setdefault(key(one), []).append(one)
    return found.items()


def _find_common(jobs: Sequence[JobView], words: PlanWords) -> str:
    first = jobs[0]
    if first.record.cause is Cause.NODE_FAIL or first.look is Look.STALLED:
        nodes = {job.attempt.node if job.attempt else "" for job in jobs}
        if len(nodes) == 1 and nodes != {""}:
            return outside(nodes.pop())
    stages = {job.stage for job in jobs}
    stage = outside(first.stage) if len(stages) == 1 else ""
    return words.find_common(jobs) or stage


def _group_warnings(session: SessionView) -> Iterator[CauseGroup]:
    """Warnings of jobs that look well, and those of no job, by code."""
    well = [
        entry
        for entry in session.snapshot.warnings
        if entry.severity != "info"
        and not ((job := session.job(entry.job)) and job.explains_itself)
    ]
    for code, entries in _group(well, lambda entry: entry.why.code):
        yield CauseGroup(
            key=f"warning|{code}",
            look=None,
            title=outside(short(entries[0].why)),
            common="" if len(entries) > 1 else outside(entries[0].job),
            jobs=session.list_jobs(dict.fromkeys(entry.job for entry in entries)),
            warnings=tuple(entries),
        )


def _group_cuts(
    session: SessionView, words: PlanWords, cuts: Cuts
) -> Iterator[CauseGroup]:
    """Of jobs that look well, and will be cut: by stage, for limits are a stage's."""
    well = (job for job in session.list_jobs(cuts) if not job.explains_itself)
    for stage, jobs in _group(well, lambda job: job.stage):
        yield CauseGroup(
            key=f"cut|{stage}",
            look=None,
            title="limit too short",
            common=_find_common(jobs, words),
            jobs=tuple(jobs),
            seen={job.name: format_cut(cuts[job.name]) for job in jobs},
            limits=tuple((job.name, job.attempt.number) for job in jobs if job.attempt),
        )


def count_needs(groups: Sequence[CauseGroup]) -> int:
    """How many things need a person."""
    return sum(group.size for group in groups)


def describe_needs(groups: Sequence[CauseGroup]) -> str:
    """`16 need you, 7 causes`; empty when nothing needs you."""
    number = count_needs(groups)
    verb = "needs" if number == 1 else "need"
    return f"{number} {verb} you, {plural(len(groups), 'cause')}" if number else ""
