"""A leaf of a config, which conditions compare and executors take as options."""

from __future__ import annotations

from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
"""A leaf of a config."""
