"""Kinds of one's own: a condition, an event, the effect that writes it, and the action
that orders the effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from autoexp_tui.extend import (
    Action,
    Answer,
    Condition,
    DecisionContext,
    EvalContext,
    Event,
    FactKey,
    Facts,
    FileText,
    Firing,
    Moment,
    Outside,
    OutsideEffect,
    Recorded,
    SessionState,
    Settlement,
    TextKey,
    Verdict,
    read_fact,
    say_pass,
    say_wait,
    update,
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTagged(Event):
    """A run got a tag."""

    matters: ClassVar[bool] = True
    verb: ClassVar[str] = "tagged"
    about: ClassVar[tuple[str, ...]] = ("tag",)

    job: str
    tag: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        known = state.jobs[self.job].metadata
        update(state, self.job, metadata={**known, "tag": self.tag})


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
