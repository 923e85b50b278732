"""An action of one's own: it orders that a run is tagged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from autoexp_tui.extend import Action, Firing
from tests.extending.write_tag import WriteTag


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRun(Action):
    """Tag the run."""

    needs_values: ClassVar[bool] = True

    kind: Literal["tag_run"] = "tag_run"
    tag: str

    def execute(self, firing: Firing) -> bool:
        firing.order(WriteTag(job=firing.job.name, tag=self.tag))
        return True
