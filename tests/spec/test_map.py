"""The map from promises to tests leads to tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(\w+/\w+\.py(?:::\w+)?)`", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_map_names_exists(name: str) -> None:
    file, _, test = name.partition("::")
    text = (ROOT / "tests" / file).read_text("utf-8")
    assert f"def {test}(" in text if test else text
