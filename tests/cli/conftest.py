"""What tests of the commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.config.planned_here import planning_here


@pytest.fixture
def planned_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands plan in this process: for tests of what they make of the answer.

    What a process of its own is to a command, `test_plan.py` sees, which has one.
    """
    with planning_here(monkeypatch):
        yield
