"""A disk, a git and a planning in memory, as the research loop uses them: what an agent
answers is told by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.research.answer import take_plans
from autoexp_tui.research.events import ResearchOpened
from autoexp_tui.research.options import ResearchOptions
from autoexp_tui.research.ports import CallResult, PlannedItems, PlanRequest, View
from autoexp_tui.research.state import Answer, Consultation, Fix, Item

Answers = Callable[[Consultation, View], CallResult]


def answer(*items: Item, **more: Any) -> CallResult:
    """An answer with a list of these items."""
    given = Answer(items=items, **more)
    return CallResult(outcome=Outcome.OK, answer=given, usage=Usage(input_tokens=10))


def leave_list() -> CallResult:
    """An answer that adds nothing, and takes nothing away."""
    return CallResult(outcome=Outcome.OK, answer=Answer(), usage=Usage(input_tokens=10))


def answer_nothing(one: Consultation, view: View) -> CallResult:
    return answer()


def _is_same(known: Item, item: Item) -> bool:
    return known == replace(item, jobs=known.jobs, consultation=known.consultation)


@dataclass
class FakeLaboratory:
    answers: Answers = answer_nothing
    gpus: int = 0
    refuses: str = ""
    calls: list[str] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    not_planned: dict[str, str] = field(default_factory=dict)
    """Item -> why it does not plan."""

    def open(self, options: ResearchOptions) -> tuple[ResearchOpened, Sequence[str]]:
        if self.refuses:
            raise EnvironmentFailed(self.refuses, "repo")
        opened = ResearchOpened(
            directory="/research",
            python="python",
            gpus=options.gpus or self.gpus,
            metric=options.objective.metric or "loss",
            mode=options.objective.mode or "min",
        )
        return opened, ()

    def write_call(self, consultation: Consultation, view: View) -> str:
        self.calls.append(f"write {consultation.id}")
        return f"sha of {consultation.id}"

    def read_call(self, consultation: Consultation, view: View) -> CallResult:
        self.calls.append(f"read {consultation.id}")
        found = self.answers(consultation, view)
        if found.fix or found.answer is None or found.answer.items is None:
            return found
        runs = view.research.runs.values()
        listed = [*view.research.items, *(one.item for one in runs)]
        items = tuple(
            replace(self._plan(one), consultation=consultation.id)
            for one in found.answer.items
            if not any(_is_same(known, one) for known in listed)
        )
        order = tuple(one.id for one in found.answer.items)
        answer = replace(found.answer, items=items, order=order)
        planned = PlannedItems(items, self.not_planned)
        return replace(found, answer=take_plans(answer, view.research, planned))

    def fix(self, view: View, run: str, *overrides: str) -> CallResult:
        """The answer of a fixer who repeats a run with further overrides."""
        fix = Fix(run=run, fix_applied="less", overrides=overrides)
        item = Item(id=f"{run}_fix1", overrides=overrides, fixes=run)
        planned = Answer(items=(self._plan(item),))
        return CallResult(outcome=Outcome.OK, fix=fix, answer=planned)

    def _plan(self, item: Item) -> Item:
        name = f"{item.id}_run"
        job = JobSpec(
            name=name,
            index=0,
            command=("train", item.id),
            output_dir=f"/out/{name}",
            log_dir=f"/logs/{name}",
            resources=Resources(gpus=item.gpus or 0),
        )
        return replace(item, jobs=(job,))

    def plan_items(self, request: PlanRequest) -> PlannedItems:
        problems = {
            one.id: self.not_planned[one.id]
            for one in request.items
            if one.id in self.not_planned
        }
        items = tuple(
            self._plan(one) for one in request.items if one.id not in problems
        )
        return PlannedItems(items, problems)

    def keep_code(self, consultation: Consultation) -> None:
        self.calls.append(f"keep {consultation.id}")

    def write_state(self, view: View) -> None:
        self.views.append(view)
