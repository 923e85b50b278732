"""A campaign of real processes, ended with its test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.campaign import Campaign


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    made = Campaign(tmp_path)
    yield made
    made.end()
