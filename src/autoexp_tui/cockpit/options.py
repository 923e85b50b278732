"""What a person wants of the cockpit's screen, and how they left it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.commands import Commands

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from autoexp_tui.cockpit.render.plan_findings import PlanChanges
    from autoexp_tui.cockpit.state.filtering import Expression
    from autoexp_tui.cockpit.state.kill_cost import Looks
    from autoexp_tui.model.outputs import CheckpointPlace
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.planning.job_details import JobDetails


class LeaveWay(StrEnum):
    """How the person left."""

    LEFT = "left"
    """Asked and confirmed: the engine goes on without a screen."""
    PAUSED = "paused"
    """The same, after submission was paused."""
    NOTHING = "nothing"
    """Nothing runs, or this was only a view: there is nothing to hand over."""
    LOST = "lost"
    """The terminal went away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CockpitOptions:
    """What a person, or their terminal, wants of the screen."""

    read_only: bool = False
    ascii: bool | None = None
    """None: by the locale's encoding."""
    no_color: bool | None = None
    """None: by NO_COLOR."""
    theme: str = "dark"
    """A shipped theme's name, or a path to one's own."""
    mouse: bool = False
    slow: bool = False
    """Repaint every two seconds instead of every second."""
    notify: bool = True
    """Bell and OSC 9, and the terminal's title."""
    keymap: Commands | None = None
    come_back: str = ""
    """How to return after leaving, as a sentence; `ID` stands for the session's."""
    away_since: float | None = None
    """UTC at which the person left last; None: no digest."""
    save_directory: str = "."
    """Where saved logs and long copies go."""
    replay: bool = False
    """Whether the handle plays a journal: a time bar, its keys, and its time."""
    expression: Expression | None = None
    """The sweep's expression language, for filters."""
    replan: Callable[[], None] | None = None
    """Plans again from what was saved; at once back. None: there is no config."""
    changes: Callable[[Plan], PlanChanges | None] | None = None
    """What changed since the last plan of its config; slow. None: nobody looks."""
    papers: Callable[[Plan, JobSpec], JobDetails] | None = None
    """Reads how a job was made; slow. None: nothing but the plan is at hand."""
    checkpoints: Callable[[Sequence[CheckpointPlace]], Looks] | None = None
    """Looks for the checkpoints of jobs that run; slow. None: nobody looks."""
    ahead: tuple[Callable[[], object], ...] = ()
    """What takes its time when it is first called, to be called while nothing else is
    to do, off the screen's thread."""


def wants_no_color(options: CockpitOptions) -> bool:
    """Whether colours are unwanted: by option, else by NO_COLOR."""
    if options.no_color is not None:
        return options.no_color
    return bool(os.environ.get("NO_COLOR"))


def wants_ascii(options: CockpitOptions) -> bool:
    """Whether only ASCII is safe: by option, else by the environment's locale.

    Python's own encoding says nothing: it is UTF-8 under LC_ALL=C too.
    """
    if options.ascii is not None:
        return options.ascii
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    chosen = next((value for name in names if (value := os.environ.get(name))), "C")
    return "utf" not in chosen.lower()
