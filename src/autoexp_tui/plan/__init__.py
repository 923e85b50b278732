"""Config to plan: sweep, filters, references, families, names, validation, chart.

Pure given its ports: nothing here imports Hydra, reads a file or knows a clock. The
public names are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from autoexp_tui.plan.build import build_execution_plan
    from autoexp_tui.plan.families import find_sibling
    from autoexp_tui.plan.points import SweepPoint
    from autoexp_tui.plan.sweep import expand_sweep
    from autoexp_tui.plan.validation import validate_execution_plan

_HOMES: Final = {
    "SweepPoint": "points",
    "build_execution_plan": "build",
    "expand_sweep": "sweep",
    "find_sibling": "families",
    "validate_execution_plan": "validation",
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
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
