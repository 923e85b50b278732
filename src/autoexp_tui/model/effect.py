"""What every effect is: an order to the outside, journaled before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from autoexp_tui.model.kinds import Kind, KindTable
from autoexp_tui.model.states import Topic

TaskId: TypeAlias = tuple[str, int]
"""(job name, attempt number from 1)."""

Recovery: TypeAlias = Literal["redo", "probe", "once"]
"""What a new engine does with one not settled: redo, ask outside, ask a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect(Kind):
    """What every effect tells of itself; most belong to one job."""

    kinds: ClassVar[KindTable[Effect]] = KindTable(
        "effect",
        {
            "effects.effects": "submit:SubmitTasks cancel:CancelTasks "
            "compose:ComposeJob evidence:CaptureEvidence "
            "look_for_checkpoint:LookForCheckpoint look_at_files:LookAtFiles "
            "move_checkpoint:MoveCheckpoint plan:PlanJobs add:AddJob "
            "join:JoinJobs add_jobs:AddJobs "
            "notify:RunNotifyCommand append:AppendText command:RunActionCommand "
            "note_done:NoteDone",
            "tree.effects": "open_tree:OpenTree write_pack:WritePack "
            "read_ideas:ReadIdeas collect_result:CollectResult "
            "work_in_git:WorkInGit write_views:WriteViews write_idea:WriteIdea",
            "research.effects": "open_research:OpenResearch write_call:WriteCall "
            "read_call:ReadCall plan_item:PlanItem keep_code:KeepCode "
            "write_research_state:WriteState",
        },
    )
    recovery: ClassVar[Recovery] = "redo"
    topic: ClassVar[Topic] = "reaction"

    def find_job(self) -> str:
        """The one job on whose account it is ordered; empty: none, or several."""
        return str(getattr(self, "job", ""))

    def job_names(self) -> Sequence[str]:
        return (self.find_job(),) if self.find_job() else ()

    def name_object(self) -> str:
        return self.find_job()

    def describe(self) -> str:
        """What it does, on one line, not cleaned."""
        return self.name_object()
