"""A policy of one's own: it counts completed jobs up to a goal that a person sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from autoexp_tui.extend import (
    Command,
    DecisionContext,
    Event,
    Headline,
    Order,
    Policy,
    Recorded,
    SessionState,
    Snapshot,
)


@dataclass(frozen=True, slots=True)
class Tally:
    """Its part of the state."""

    goal: int
    counted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSet(Event):
    """A person said how many jobs are to be counted."""

    goal: int

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.parts["tally"] = Tally(self.goal)

    def format_headline(self, now: float) -> Headline:
        return Headline("goal set", str(self.goal))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTallied(Event):
    """A completed job was counted."""

    verb: ClassVar[str] = "tallied"
    about: ClassVar[tuple[str, ...]] = ("job",)
    job: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        part: Tally = state.parts["tally"]
        state.parts["tally"] = replace(part, counted=(*part.counted, self.job))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGoal(Command):
    """Count so many jobs."""

    kind: Literal["set_goal"] = "set_goal"
    goal: int

    def handle(self, context: DecisionContext, order: Order) -> None:
        context.draft.emit(GoalSet(goal=self.goal))


class TallyPolicy(Policy):
    """Counts, in plan order."""

    title: ClassVar[str] = "Tally"

    def decide(self, context: DecisionContext) -> float | None:
        part: Tally = context.state.parts["tally"]
        room = part.goal - len(part.counted)
        done = [
            name
            for name in context.state.order
            if context.job(name).state == "COMPLETED" and name not in part.counted
        ]
        for name in done[:room]:
            context.draft.emit(JobTallied(job=name))
        return None

    def is_open(self, part: Any) -> bool:
        return bool(len(part.counted) < part.goal)

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        part: Tally = snapshot.parts["tally"]
        return [f"{len(part.counted)} of {part.goal}", *part.counted]
