"""A policy of one's own: it counts completed jobs up to a goal that a person sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from autoexp_tui.extend import (
    Command,
    DecisionContext,
    End,
    Event,
    Headline,
    JobSpec,
    Order,
    Policy,
    Recorded,
    SessionState,
    Snapshot,
)
from tests.engine.parts import done


@dataclass(frozen=True, slots=True)
class Tally:
    """Its part of the state."""

    goal: int
    pair: str = ""
    """What the two jobs are called that it lets join; empty: none."""
    counted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSet(Event):
    """A person said how many jobs are to be counted."""

    goal: int
    pair: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.parts["tally"] = Tally(self.goal, self.pair)

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
    pair: str = ""

    def handle(self, context: DecisionContext, order: Order) -> None:
        context.draft.emit(GoalSet(goal=self.goal, pair=self.pair))


def build_job(name: str, **fields: Any) -> JobSpec:
    fields |= {"output_dir": f"/out/{name}", "log_dir": f"/logs/{name}"}
    return JobSpec(name=name, index=0, command=("true",), **fields)


class TallyPolicy(Policy):
    """Counts, in plan order, and brings two jobs to count."""

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
        self._add_pair(context, part.pair)
        return None

    def _add_pair(self, context: DecisionContext, pair: str) -> None:
        """Once: it is there, or refused."""
        state, asker = context.state, f"the pair {pair}"
        first, second = f"{pair}1", f"{pair}2"
        if not pair or second in state.jobs or asker in state.refused_joins:
            return
        jobs = (build_job(first), build_job(second, start_conditions=(done(first),)))
        context.add_jobs("tally", asker, jobs)

    def is_open(self, part: Any) -> str:
        left = part.goal - len(part.counted)
        return f"{left} more to count" if left > 0 else ""

    def find_exit(self, part: Any) -> End | None:
        return End(6, "it cannot be reached") if part.goal > 99 else None

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        part: Tally = snapshot.parts["tally"]
        return [f"{len(part.counted)} of {part.goal}", *part.counted]
