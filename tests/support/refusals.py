"""Tables of what is refused: `refusals.yaml` beside the tests that read them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


def read_refusals(test_file: str, name: str) -> list[tuple[Any, ...]]:
    """The rows of one table, as the arguments of a test."""
    return [tuple(row) for row in _read_tables(Path(test_file).parent)[name]]


@cache
def _read_tables(folder: Path) -> Any:
    return yaml.safe_load((folder / "refusals.yaml").read_text())
