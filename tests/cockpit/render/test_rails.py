"""The lines beside a list of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.cockpit.state.stages import build_rails


def drawn(parents: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{one.first}{stage}" for stage, one in build_rails(parents).items()]


def test_stages_that_follow_from_nothing_have_no_lines() -> None:
    assert drawn({"a": (), "b": ()}) == ["a", "b"]


def test_each_of_a_chain_hangs_on_the_one_before() -> None:
    assert drawn({"a": (), "b": ("a",), "c": ("b",)}) == ["a", "└b", " └c"]


def test_branches_hang_on_the_same_stage() -> None:
    assert drawn({"a": (), "b": ("a",), "c": ("a",)}) == ["a", "├b", "└c"]


def test_what_follows_from_jobs_without_a_stage_hangs_on_them() -> None:
    parents = {"": (), "b": ("",), "c": ("",)}
    assert drawn(parents) == ["", "├b", "└c"]
    assert build_rails(parents)["b"].below == "│"


def test_a_merge_joins_every_stage_that_it_follows_from() -> None:
    parents = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    assert drawn(parents) == ["a", "├b", "└─c", " └┴d"]


def test_a_line_passes_over_a_lane_that_it_does_not_join() -> None:
    parents = {"a": (), "b": ("a",), "c": ("a",), "d": ("b",), "e": ("c",)}
    assert drawn(parents) == ["a", "├b", "└─c", " └─d", "  └e"]


def test_further_lines_of_a_stage_keep_the_lanes_that_are_open() -> None:
    found = build_rails({"a": (), "b": ("a",), "c": ("a",)})
    assert [one.below for one in found.values()] == ["│", "│", ""]


def test_a_parent_that_comes_later_has_no_line() -> None:
    assert drawn({"a": ("b",), "b": ("a",)}) == ["a", "└b"]


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
