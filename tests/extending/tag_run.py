"""An action and an effect of one's own: a run is tagged in a file, and that is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from autoexp_tui.extend import (
    Action,
    Answer,
    DecisionContext,
    Event,
    Firing,
    Headline,
    Outside,
    OutsideEffect,
    Recorded,
    SessionState,
    Settlement,
    update,
)


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
