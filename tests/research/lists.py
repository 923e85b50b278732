"""A research with a list of items, in a few words."""

from __future__ import annotations

from typing import Any

from autoexp_tui.model.event import Event
from autoexp_tui.model.state import SessionState
from autoexp_tui.research.options import ResearchOptions
from autoexp_tui.research.state import PART, Consultation, Item, Research, Run, RunEnd
from tests.model.builders import happen, job


def item(name: str, gpus: int | None = 0, *, jobs: int = 1, **fields: Any) -> Item:
    planned = tuple(job(f"{name}_{number}") for number in range(jobs))
    return Item(id=name, gpus=gpus, jobs=planned, **fields)


def run(name: str, *, gpus: int = 1, ended: bool = True, hours: float = 0.0) -> Run:
    """A run; `hours`: for which each of its GPUs was held."""
    end = RunEnd(outcome="completed", at=0.0, gpu_seconds=gpus * hours * 3600)
    ended_so = end if ended else None
    of = Item(id=name, gpus=gpus)
    return Run(id=name, item=of, jobs=(f"{name}_0",), gpus=gpus, ended=ended_so)


def research(
    *items: Item,
    runs: tuple[Run, ...] = (),
    open_calls: tuple[Consultation, ...] = (),
    options: ResearchOptions | None = None,
    **fields: Any,
) -> Research:
    return Research(
        options or ResearchOptions(),
        items=items,
        runs={one.id: one for one in runs},
        live=tuple(one.id for one in runs if one.ended is None),
        consultations={one.id: one for one in open_calls},
        open=tuple(one.id for one in open_calls),
        **fields,
    )


class Session:
    """A session of a research alone, changed by events."""

    def __init__(self, of: Research) -> None:
        self.state = SessionState(parts={PART: of})

    @property
    def research(self) -> Research:
        found: Research = self.state.parts[PART]
        return found

    def happen(self, *events: Event, t: float = 0.0) -> None:
        happen(self.state, *events, t=t)
