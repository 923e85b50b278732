"""An event of one's own: a run got a tag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autoexp_tui.extend import Event, Recorded, SessionState, update


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
