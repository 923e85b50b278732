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
    from autoexp_tui.ui.background import Background

MODULES: Final = (
    "autoexp_tui.ui.papers",
    "autoexp_tui.ui.acts",
    "autoexp_tui.ui.screens.question",
    "autoexp_tui.ui.view.questions",
    "autoexp_tui.ui.view.plot",
    "autoexp_tui.ui.screens.grid",
    "autoexp_tui.plan.grid",
    "autoexp_tui.ui.screens.waiting",
    "autoexp_tui.ui.screens.events",
    "autoexp_tui.ui.screens.timeline",
    "autoexp_tui.ui.folders",
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
