"""The planner's public functions, imported when they are first asked for.

They stand in `autoexp_tui.sweep` and `autoexp_tui.planning`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from autoexp_tui.planning.build import build_execution_plan
    from autoexp_tui.planning.validate import validate_execution_plan
    from autoexp_tui.sweep.expand import expand_sweep
    from autoexp_tui.sweep.families import find_sibling
    from autoexp_tui.sweep.points import SweepPoint

_HOMES: Final = {
    "SweepPoint": "autoexp_tui.sweep.points",
    "build_execution_plan": "autoexp_tui.planning.build",
    "expand_sweep": "autoexp_tui.sweep.expand",
    "find_sibling": "autoexp_tui.sweep.families",
    "validate_execution_plan": "autoexp_tui.planning.validate",
}

__all__ = [
    "SweepPoint",
    "build_execution_plan",
    "expand_sweep",
    "find_sibling",
    "validate_execution_plan",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
