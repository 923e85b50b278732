"""An effect of one's own: a tag is written beside a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from autoexp_tui.extend import (
    Answer,
    DecisionContext,
    Outside,
    OutsideEffect,
    SessionState,
    Settlement,
)
from tests.extending.run_tagged import RunTagged


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
            try:
                outside.errands.append(path, self.tag)
            except OSError as error:
                return Answer(ok=False, detail=str(error))
            return Answer(detail=path)

        return call

    def settle(
        self, context: DecisionContext, settlement: Settlement, answer: Answer
    ) -> None:
        super(WriteTag, self).settle(context, settlement, answer)
        if answer.ok:
            context.draft.emit(RunTagged(job=self.job, tag=self.tag))
