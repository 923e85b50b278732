"""Events about conditions: verdicts, latches, waivers, approvals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from autoexp_tui.model.commands import Sender
from autoexp_tui.model.event import Event, Headline, append_reason, explain, update
from autoexp_tui.model.facts import ApprovalKey, FactKey
from autoexp_tui.model.state import Ask, ConditionStatus, Latched
from autoexp_tui.model.states import Result, Topic, Why

if TYPE_CHECKING:
    from autoexp_tui.model.event import Recorded
    from autoexp_tui.model.state import SessionState

_RESULTS: Final[Mapping[Result, str]] = MappingProxyType(
    {Result.PASS: "holds", Result.WAIT: "waits", Result.FAIL: "failed"}
)
_ROLES: Final = MappingProxyType({"start": "condition", "cancel": "cancel"})
"""What a person numbers, by the role; no longer than the verb's place in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionJudged(Event):
    """A condition's verdict changed its code."""

    topic: ClassVar[Topic] = "condition"

    job: str
    role: Literal["start", "cancel"]
    index: int
    result: Result
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        statuses = list(getattr(state.jobs[self.job], self.role))
        old = statuses[self.index]
        statuses[self.index] = ConditionStatus(
            result=self.result,
            why=self.why,
            since=record.t,
            waived=old.waived if old else "",
        )
        update(state, self.job, **{self.role: tuple(statuses)})

    def format_headline(self, now: float) -> Headline:
        place = f"{_ROLES[self.role]} {self.index + 1}"
        return Headline(f"{place} {_RESULTS[self.result]}", explain(self.why, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionLatched(Event):
    """A start condition's pattern was found in a log: for this wait it stays found."""

    topic: ClassVar[Topic] = "condition"
    verb: ClassVar[str] = "found for good"
    about: ClassVar[tuple[str, ...]] = ("path", "line")

    job: str
    key: str
    """Of the search: a digest."""
    line: str = ""
    path: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        latched = Latched(line=self.line, path=self.path)
        known = state.jobs[self.job].latched
        update(state, self.job, latched={**known, self.key: latched})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWaived(Event):
    """A person let a start condition count as passed."""

    topic: ClassVar[Topic] = "condition"
    rejudges: ClassVar[bool] = True

    job: str
    index: int
    reason: str
    sender: Sender | None = None

    def apply(self, state: SessionState, record: Recorded) -> None:
        statuses = list(state.jobs[self.job].start)
        old = statuses[self.index]
        statuses[self.index] = ConditionStatus(
            result=old.result if old else Result.WAIT,
            why=old.why if old else Why("not_looked"),
            since=record.t,
            waived=self.reason or "waived",
        )
        update(state, self.job, start=tuple(statuses))

    def format_headline(self, now: float) -> Headline:
        which = f"condition {self.index + 1}"
        by = f"{which}, by {self.sender}" if self.sender else which
        return Headline("waived", append_reason(by, self.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(Event):
    """Everything else passed; a person has to say yes."""

    topic: ClassVar[Topic] = "approval"
    matters: ClassVar[bool] = True
    verb: ClassVar[str] = "asked"
    about: ClassVar[tuple[str, ...]] = ("prompt",)

    job: str
    attempt: int
    digest: str
    """Binds the answer to what will be done."""
    prompt: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        ask = Ask(
            digest=self.digest,
            prompt=self.prompt,
            asked_at=record.t,
            asked_lived=state.lived,
        )
        update(state, self.job, ask=ask)

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        return (ApprovalKey(self.job),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswered(Event):
    """A person answered, or a policy that was given beforehand."""

    topic: ClassVar[Topic] = "approval"
    rejudges: ClassVar[bool] = True

    job: str
    digest: str
    approved: bool
    by: str
    reason: str = ""
    sender: Sender | None = None
    """The process that the answer came from; None: of a policy, or not recorded."""
    policy: str = ""
    """`--approve all` and the like; empty: a person answered."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        ask = state.jobs[self.job].ask
        if ask is None or ask.digest != self.digest:
            return
        answer = replace(ask, approved=self.approved, by=self.by, reason=self.reason)
        update(state, self.job, ask=answer)

    def format_headline(self, now: float) -> Headline:
        verb, who = "approved" if self.approved else "refused", ""
        if self.policy:
            who = f"by the policy {self.policy}, not by a person"
        elif self.sender is not None:
            checked = "" if self.sender.checked else "; not checked: another host"
            who = f"by {self.sender} ({self.by}{checked})"
        elif self.by:
            who = f"by {self.by}"
        return Headline(verb, append_reason(who, self.reason))

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        return (ApprovalKey(self.job),)
