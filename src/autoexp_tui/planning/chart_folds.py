"""How much of a plan its chart shows before it folds the rest into a line."""

from __future__ import annotations

from dataclasses import dataclass
from sys import maxsize
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Folds:
    """The most of each kind that is drawn; what is beyond it is counted."""

    stages: int = 40
    """Boxes."""
    jobs: int = 8
    """Lines for the jobs of one stage."""
    keys: int = 12
    """Swept keys."""
    value_lines: int = 2
    """Lines for the values of one key."""
    origins: int = 3
    """Stages that an arrow names."""
    sentences: int = 6
    """For one stage and purpose; jobs may each wait for something else."""
    warnings: int = 20
    """Different ones; equal warnings of several jobs are told once."""


FOLDED: Final = Folds()
"""What fits on a screen or two."""
WHOLE: Final = Folds(
    stages=maxsize,
    jobs=maxsize,
    keys=maxsize,
    value_lines=maxsize,
    origins=maxsize,
    sentences=maxsize,
    warnings=maxsize,
)
"""Everything."""
