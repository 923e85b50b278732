"""A package of somebody else's: a condition, an action with its effect, a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from autoexp_tui.extend import (
    Action,
    Answer,
    Command,
    Condition,
    DecisionContext,
    EvalContext,
    Event,
    FactKey,
    Facts,
    FileText,
    Firing,
    Headline,
    Moment,
    Order,
    Outside,
    OutsideEffect,
    Policy,
    Recorded,
    SessionState,
    Settlement,
    Snapshot,
    TextKey,
    Verdict,
    read_fact,
    say_pass,
    say_wait,
    update,
)


# ----------------------------------------- a file says that enough of a disk is free
@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFree(Condition):
    """A report of free space names at least so many GiB."""

    kind: Literal["disk_free"] = "disk_free"
    report: str
    gib: int = 1

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield TextKey(self.report)

    def name_object(self) -> str:
        return f"{self.gib} GiB free"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        found = read_fact(facts.get(TextKey(self.report)), FileText, self.report)
        if isinstance(found, Verdict):
            return found
        free = int((found.text or "0").strip() or 0)
        say = say_pass if free >= self.gib else say_wait
        return say("own_says", text=f"{free} GiB are free")


# -------------------------------------- a run is tagged in a file, and that is told
@dataclass(frozen=True, slots=True, kw_only=True)
class RunTagged(Event):
    """A run got a tag."""

    matters: ClassVar[bool] = True

    job: str
    tag: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        known = state.jobs[self.job].metadata
        update(state, self.job, metadata={**known, "tag": self.tag})

    def format_headline(self, now: float) -> Headline:
        return Headline("tagged", self.tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTag(OutsideEffect):
    """Write the tag beside the run."""

    kind: Literal["write_tag"] = "write_tag"
    job: str
    tag: str

    def describe(self) -> str:
        return self.tag

    def send(self, outside: Outside, state: SessionState) -> Callable[[], Answer]:
        path = f"{state.jobs[self.job].spec.output_dir}/tags.txt"

        def call() -> Answer:
            outside.errands.append(path, self.tag)
            return Answer(detail=path)

        return call

    def settle(
        self, context: DecisionContext, settlement: Settlement, answer: Answer
    ) -> None:
        super(WriteTag, self).settle(context, settlement, answer)
        context.draft.emit(RunTagged(job=self.job, tag=self.tag))


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRun(Action):
    """Tag the run."""

    needs_values: ClassVar[bool] = True

    kind: Literal["tag_run"] = "tag_run"
    tag: str

    def execute(self, firing: Firing) -> bool:
        firing.order(WriteTag(job=firing.job.name, tag=self.tag))
        return True


# --------------------- a policy counts completed jobs up to a goal that a person sets
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

    job: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        part: Tally = state.parts["tally"]
        state.parts["tally"] = replace(part, counted=(*part.counted, self.job))

    def format_headline(self, now: float) -> Headline:
        return Headline("tallied", self.job)


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
