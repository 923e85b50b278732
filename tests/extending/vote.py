"""A policy of one's own that asks: which of some lines does a person want?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from autoexp_tui.extend import (
    Command,
    DecisionContext,
    Event,
    Order,
    Policy,
    Recorded,
    SessionState,
    Snapshot,
    ask_person,
)


@dataclass(frozen=True, slots=True)
class Vote:
    """Its part of the state."""

    lines: tuple[str, ...]
    elected: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteCalled(Event):
    lines: tuple[str, ...]

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.parts["research"] = Vote(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteCounted(Event):
    elected: tuple[str, ...]

    def apply(self, state: SessionState, record: Recorded) -> None:
        part: Vote = state.parts["research"]
        state.parts["research"] = replace(part, elected=self.elected)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallVote(Command):
    kind: Literal["call_vote"] = "call_vote"
    lines: tuple[str, ...]

    def handle(self, context: DecisionContext, order: Order) -> None:
        context.draft.emit(VoteCalled(lines=self.lines))


class VotePolicy(Policy):
    """Asks once, and counts what the answer kept."""

    title: ClassVar[str] = "Vote"
    asks: ClassVar[tuple[str, ...]] = ("vote",)

    def decide(self, context: DecisionContext) -> float | None:
        part: Vote = context.state.parts["research"]
        ask = ask_person(context, "vote/1", "Elect these?", part.lines)
        if part.elected is None and ask.approved is not None:
            kept = ask.list_kept(ask.dropped) if ask.approved else ()
            context.draft.emit(VoteCounted(elected=kept))
        return None

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        part: Vote = snapshot.parts["research"]
        return part.lines if part.elected is None else part.elected
