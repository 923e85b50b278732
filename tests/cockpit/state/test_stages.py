"""Stages: counts, ends, and what they wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from autoexp_tui.cockpit.spans import plain, render_bar
from autoexp_tui.cockpit.state import stages
from autoexp_tui.cockpit.state.forecast import estimate_ends
from autoexp_tui.cockpit.state.reasons import describe_condition
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.conditions import kinds as k
from tests.cockpit.state.test_forecast import (
    BLIND,
    DONE,
    RUNS,
    TOTAL,
    WAITS,
    session_of,
)
from tests.cockpit.views import SESSION
from tests.support.campaigns import all_done


def test_a_stage_that_is_over_has_no_end_to_come() -> None:
    ended = stages.build_stages(build_session(all_done(10)), estimate_ends(SESSION))
    assert all((stage.end, stage.done) == (None, 1.0) for stage in ended)


def test_a_bar_fills_with_the_steps_of_what_runs_and_is_full_when_all_is_done() -> None:
    jobs = [DONE, RUNS, replace(RUNS, step=TOTAL), BLIND, WAITS]
    session = build_session(session_of(jobs))
    (stage,) = stages.build_stages(session, estimate_ends(session))
    assert stage.done == pytest.approx((1 + 0.5 + 0.99 + 0 + 0) / 5)
    assert plain(render_bar(0.99, 20)).endswith("█░")


EITHER = k.Composite(mode="any", conditions=(k.FileExists(path="/a"), k.Approval()))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (k.MetricIs(name="loss", op="<", value=2.5), "loss < 2.5"),
        (k.CommandPasses(command=("/bin/test", "-f")), "test exits 0"),
        (k.LogPattern(log_path="/a/b/c.log", pattern="ok"), "ok in b/c.log"),
        (k.TimeReached(after_seconds=7200), "2 h of waiting"),
        (k.Not(condition=k.FileExists(path="/a/b/c")), "not b/c"),
        (k.Approval(description="the boss"), "the boss"),
        (EITHER, "/a or your approval"),
        (k.MaxAttempts(max_attempts=3), "fewer than 3 attempts"),
        (k.OwnCondition(class_path="my.mod:Enough", fields={"path": "/a"}), "Enough"),
    ],
)
def test_every_condition_is_named_in_a_few_words(spec: k.Condition, text: str) -> None:
    assert describe_condition(spec, SESSION) == text


@pytest.mark.parametrize(
    ("parents", "lines"),
    [
        ({"a": "", "b": ""}, ["a", "b"]),
        ({"a": "", "b": "a", "c": "b"}, ["a", "└b", " └c"]),
        ({"a": "", "b": "a", "c": "a"}, ["a", "├b", "└c"]),
        ({"": (), "b": ("",), "c": ("",)}, ["", "├b", "└c"]),
        ({"a": "", "b": "a", "c": "a", "d": "bc"}, ["a", "├b", "└─c", " └┴d"]),
        (
            {"a": "", "b": "a", "c": "a", "d": "b", "e": "c"},
            ["a", "├b", "└─c", " └─d", "  └e"],
        ),
        ({"a": "b", "b": "a"}, ["a", "└b"]),
    ],
)
def test_lines_lead_to_a_stage_from_those_that_it_follows(
    parents: Mapping[str, Sequence[str]], lines: list[str]
) -> None:
    rails = stages.build_rails(parents)
    assert [f"{one.first}{stage}" for stage, one in rails.items()] == lines
    if lines == ["", "├b", "└c"]:  # further lines keep the lanes that are open
        assert [one.below for one in rails.values()] == ["│", "│", ""]
