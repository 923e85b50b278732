"""The lines beside a list of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.cockpit.state.stages import build_rails


def drawn(parents: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{one.first}{stage}" for stage, one in build_rails(parents).items()]


@pytest.mark.parametrize(
    ("parents", "lines"),
    [
        ({"a": (), "b": ()}, ["a", "b"]),
        ({"a": (), "b": ("a",), "c": ("b",)}, ["a", "└b", " └c"]),
        ({"a": (), "b": ("a",), "c": ("a",)}, ["a", "├b", "└c"]),
        ({"": (), "b": ("",), "c": ("",)}, ["", "├b", "└c"]),
        (
            {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")},
            ["a", "├b", "└─c", " └┴d"],
        ),
        (
            {"a": (), "b": ("a",), "c": ("a",), "d": ("b",), "e": ("c",)},
            ["a", "├b", "└─c", " └─d", "  └e"],
        ),
        ({"a": ("b",), "b": ("a",)}, ["a", "└b"]),
    ],
    ids=["apart", "chain", "branches", "unstaged", "merge", "passed", "later"],
)
def test_lines_lead_to_a_stage_from_those_that_it_follows(
    parents: Mapping[str, Sequence[str]], lines: list[str]
) -> None:
    assert drawn(parents) == lines


def test_further_lines_of_a_stage_keep_the_lanes_that_are_open() -> None:
    found = build_rails({"": (), "b": ("",), "c": ("",)})
    assert [one.below for one in found.values()] == ["│", "│", ""]


NAMES = "abcdefgh"


@st.composite
def dags(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(draw(st.sets(st.sampled_from(NAMES[:at])))) if at else ()
        for at, name in enumerate(NAMES)
    }


@settings(max_examples=60, deadline=None)
@given(dags())
def test_a_line_joins_exactly_the_lanes_of_what_a_stage_follows(
    parents: dict[str, tuple[str, ...]],
) -> None:
    columns: dict[int, str] = {}
    for stage, one in build_rails(parents).items():
        joined = {columns[at] for at, mark in enumerate(one.first) if mark in "├└┼┴"}
        assert joined == set(parents[stage])
        columns[len(one.first)] = stage
