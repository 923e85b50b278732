"""The map from promises to tests leads to tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(\w+/\w+\.py(?:::\w+)?)`", PAGE)))


PLACES = sorted(set(re.findall(r"`(autoexp_tui/[\w/]+\.py)`", PAGE)))
ROWS = re.findall(r"^\| (\d+\.\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", PAGE, re.M)


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_map_names_exists(name: str) -> None:
    file, _, test = name.partition("::")
    text = (ROOT / "tests" / file).read_text("utf-8")
    assert f"def {test}(" in text if test else text


def test_a_file_that_the_map_names_exists() -> None:
    assert [name for name in PLACES if not (ROOT / "src" / name).is_file()] == []


def test_each_requirement_has_its_number_its_place_and_a_test() -> None:
    numbers = [number for number, _, _ in ROWS]
    assert len(numbers) == len(set(numbers)) > 200
    assert [n for n, place, test in ROWS if "`autoexp_tui/" not in place] == []
    assert [n for n, place, test in ROWS if "::test_" not in test] == []
