"""Stages: counts, ends, and what they wait for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.cockpit.render.lists import (
    measure_labels,
    render_compact,
    render_counts,
    render_family,
    render_stage,
)
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.forecast import Ends, count_gpu_hours, estimate_ends
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.reasons import describe_condition
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.state.stages import build_families, build_rails, build_stages
from autoexp_tui.conditions import kinds as k
from autoexp_tui.model.state import ConditionStatus
from autoexp_tui.model.states import JobState, Result, why
from tests.support.campaigns import T0, all_done, campaign, planned

SESSION = build_session(campaign(125))
ENDS = estimate_ends(SESSION)
STAGES = build_stages(SESSION, ENDS)


def test_a_stage_says_what_it_waits_for() -> None:
    assert [(stage.name, stage.waits) for stage in STAGES if stage.is_waiting] == [
        ("cooldown", "iter_48000/done.txt"),
        ("evaluate", "cooldown COMPLETED"),
        ("report", "your approval"),
    ]
    assert all(sum(stage.counts.values()) == stage.total for stage in STAGES)
    assert ENDS.stages["stable"] < ENDS.stages["cooldown"] < ENDS.stages["evaluate"]
    assert ENDS.session == ENDS.stages["evaluate"]


def test_a_stage_says_nothing_of_what_its_job_has_got() -> None:
    base = planned(10)
    first = base.jobs[-1]
    passed = ConditionStatus(result=Result.PASS, why=why("ok"), since=T0)
    conditions = (k.FileExists(path="/a/done.txt"), k.Approval())
    job = replace(
        first,
        spec=replace(first.spec, start_conditions=conditions),
        start=(passed, None),
    )
    session = build_session(replace(base, jobs=(*base.jobs[:-1], job)))
    assert build_stages(session, Ends())[-1].waits == "your approval"


@pytest.mark.parametrize("cells", [20, 33, 60])
def test_no_line_of_a_stage_is_too_wide(cells: int) -> None:
    labels = measure_labels(STAGES, cells, 9)
    for stage in STAGES:
        assert width(render_stage(stage, cells, labels, "▾")) <= cells
        assert width(render_counts(stage, cells, SESSION.now)) <= cells
        assert width(render_compact(stage, cells, labels)) <= cells


@pytest.mark.parametrize("cells", [33, 60])
def test_bars_begin_in_one_column_however_deep_a_stage_is(cells: int) -> None:
    labels = measure_labels(STAGES, cells, 9)
    heads = [plain(render_stage(stage, cells, labels, "▾")) for stage in STAGES]
    strips = [plain(render_compact(stage, cells, labels)) for stage in STAGES]
    assert cells < 60 or all(
        f"{stage.name} " in text for stage, text in zip(STAGES, strips, strict=True)
    )
    for lines in (heads, strips):
        assert len({len(re.split("[█░]", text)[0]) for text in lines}) == 1


def test_a_family_has_a_glyph_for_each_of_its_stages() -> None:
    words = PlanWords(SESSION.snapshot.plan)
    first = build_families(STAGES[0], SESSION, words.parameters)[0]
    assert plain(render_family(first, 40)).strip() == "✓✓✓ lr=1e-3 bsz=256"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (k.MetricIs(name="loss", op="<", value=2.5), "loss < 2.5"),
        (k.MetadataIs(key="iter", op=">=", value=8), "iter >= 8"),
        (k.CommandPasses(command=("/bin/test", "-f")), "test exits 0"),
        (k.LogPattern(log_path="/a/b/c.log", pattern="ok"), "ok in b/c.log"),
        (k.FileContent(path="/a/b/c", pattern="x"), "x in b/c"),
        (k.TimeReached(after_seconds=7200), "2 h of waiting"),
        (k.Not(condition=k.FileExists(path="/a/b/c")), "not b/c"),
        (k.Approval(description="the boss"), "the boss"),
        (
            k.Composite(mode="any", conditions=(k.FileExists(path="/a"), k.Approval())),
            "/a or your approval",
        ),
        (k.MaxAttempts(max_attempts=3), ""),
        (k.OwnCondition(class_path="my.mod:Enough", fields={"path": "/a"}), "Enough"),
    ],
)
def test_every_condition_is_named_in_a_few_words(spec: k.Condition, text: str) -> None:
    assert describe_condition(spec, SESSION) == text


def test_a_stage_that_ended_has_no_end_to_come() -> None:
    ended = build_stages(build_session(all_done(10)), ENDS)
    assert all(stage.ends_at is None for stage in ended)


def test_without_rates_and_finished_runs_nothing_is_estimated() -> None:
    base = campaign(31)
    blind = tuple(
        replace(job, state=JobState.RUNNING) if job.state is JobState.COMPLETED else job
        for job in base.jobs
    )
    session = build_session(replace(base, jobs=blind, live=(None,) * len(blind)))
    assert estimate_ends(session) == Ends()
    assert estimate_ends(build_session(planned(10))) == Ends()


def test_gpu_hours_count_every_attempt() -> None:
    assert count_gpu_hours(SESSION) > 500


def test_every_count_is_shown_before_the_end_of_the_stage() -> None:
    session = build_session(campaign(125))
    cooldown = build_stages(session, Ends(stages={"cooldown": T0 + 3600}))[1]
    assert "✗3" in plain(render_counts(cooldown, 27, T0))
    assert "~" not in plain(render_counts(cooldown, 27, T0))
    assert "~" in plain(render_counts(cooldown, 50, T0))


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
