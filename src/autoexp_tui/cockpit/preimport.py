"""Imports what the screens will need, ahead of the key that asks for it.

The first paint comes before the dialogs and the other modes: they are imported later.
Not when a key is pressed, though, where it would be felt: when the jobs are on the
screen, off its thread, one module after the other, so that reads of files get their
turn between two.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autoexp_tui.cockpit.background import Background

MODULES: Final = (
    "autoexp_tui.cockpit.job_details",
    "autoexp_tui.cockpit.job_actions",
    "autoexp_tui.cockpit.dialogs.question",
    "autoexp_tui.cockpit.render.job_questions",
    "autoexp_tui.cockpit.render.plot",
    "autoexp_tui.cockpit.screens.grid",
    "autoexp_tui.planning.grid",
    "autoexp_tui.cockpit.screens.waiting",
    "autoexp_tui.cockpit.screens.events",
    "autoexp_tui.cockpit.screens.timeline",
    "autoexp_tui.cockpit.folders",
)
"""What keys import, the likeliest first."""


def prepare(background: Background, more: tuple[Callable[[], object], ...]) -> None:
    """Import in the background what is not imported yet, and run `more` after it.

    It saves time and does nothing else: what fails is told by the key that needs it.
    """
    missing = [name for name in MODULES if name not in sys.modules]
    _next(
        background,
        iter([*(partial(importlib.import_module, n) for n in missing), *more]),
    )


def _next(background: Background, steps: Iterator[Callable[[], object]]) -> None:
    step = next(steps, None)
    if step is None:
        return

    def done(_: Any, __: BaseException | None) -> None:
        _next(background, steps)

    background.call("ahead", step, done)
