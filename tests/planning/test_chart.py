"""The chart of a plan: exact texts, widths, folding, and what it says of the DAG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.conditions.kinds import JobStateIs, MetadataIs
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.specs import PlanFinding as Finding
from autoexp_tui.model.wording import columns
from autoexp_tui.planning.chart import chart
from tests.planning.chart_plans import job, plan, ten_jobs

GOLDEN = Path(__file__).parent / "golden"


def staged(name: str, index: int, *after: str, **fields: Any) -> JobSpec:
    """A job alone in the stage that is called as it is."""
    return job(name, index, stage=name, depends_on=after, **fields)


def many(count: int, **fields: Any) -> list[JobSpec]:
    """Jobs of one stage that differ in one key."""
    return [
        job(
            f"run{at}",
            at,
            stage="train",
            family=f"f{at}",
            parameters={"seed": at},
            **fields,
        )
        for at in range(count)
    ]


def arrows(text: str) -> list[str]:
    """The labels of the arrows between boxes, in order."""
    return [line.partition("▼")[2].strip() for line in text.splitlines() if "▼" in line]


def titles(text: str) -> list[str]:
    """What the boxes are called, in order."""
    return [line.split()[1] for line in text.splitlines() if line.startswith("┌")]


# ------------------------------------------------------------------- exact texts
@pytest.mark.parametrize(
    ("golden", "width", "ascii_only"),
    [
        ("chart_80.txt", 80, False),
        ("chart_120.txt", 120, False),
        ("chart_80_ascii.txt", 80, True),
    ],
)
def test_the_shipped_experiment_is_drawn_exactly_so(
    golden: str, width: int, ascii_only: bool
) -> None:
    drawn = chart(ten_jobs(), width=width, ascii_only=ascii_only)
    assert drawn == (GOLDEN / golden).read_text(encoding="utf-8").rstrip("\n")


# ------------------------------------------------------------------------- widths
FEW = settings(max_examples=40, deadline=None)
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("\x1b[31m\n\t\r\u202e\u200d\u0301日本é─…%\"'<>/\ud800"),
        st.characters(),
    ),
    max_size=90,
)


@st.composite
def hostile_plans(draw: st.DrawFn) -> Plan:
    """Up to twelve jobs, every text from anywhere, waiting for each other at will."""
    texts = draw(st.lists(HOSTILE, min_size=1, max_size=12))
    jobs = [
        job(
            text,
            at,
            stage=draw(st.sampled_from(texts)),
            family=draw(st.sampled_from(["", "f0", "f1"])),
            parameters={draw(st.sampled_from(texts)): draw(HOSTILE)},
            depends_on=tuple(draw(st.lists(st.sampled_from(texts), max_size=3))),
            start_conditions=(
                JobStateIs(jobs=tuple(texts), state=draw(HOSTILE)),
                MetadataIs(key=draw(HOSTILE), value=draw(HOSTILE)),
            ),
        )
        for at, text in enumerate(texts)
    ]
    finding = Finding(message=draw(HOSTILE), hint=draw(HOSTILE), job=draw(HOSTILE))
    return plan(jobs, name=draw(HOSTILE), warnings=(finding,))


@FEW
@given(hostile_plans(), st.integers(24, 200))
def test_no_line_is_wider_than_asked_whatever_the_names(made: Plan, width: int) -> None:
    assert max(map(columns, chart(made, width=width).splitlines())) <= width


@FEW
@given(hostile_plans(), st.integers(24, 200))
def test_every_line_of_a_box_is_exactly_as_wide_as_asked(
    made: Plan, width: int
) -> None:
    drawn = chart(made, width=width).splitlines()
    assert {columns(line) for line in drawn if line[:1] in "┌│└"} <= {0, width}


@FEW
@given(hostile_plans(), st.integers(24, 200))
def test_nothing_in_a_chart_steers_a_terminal(made: Plan, width: int) -> None:
    drawn = chart(made, width=width).replace("\n", "")
    assert not [char for char in drawn if ord(char) < 32 or char in "\x7f\x9b\u202e"]


@FEW
@given(hostile_plans(), st.integers(24, 200))
def test_the_ascii_twin_has_the_same_columns(made: Plan, width: int) -> None:
    twin = chart(made, width=width, ascii_only=True)
    lines = chart(made, width=width).splitlines()
    assert twin.isascii()
    assert [columns(line) for line in lines] == [
        len(line) for line in twin.splitlines()
    ]


def test_a_width_too_small_for_a_box_is_drawn_as_the_smallest() -> None:
    assert chart(ten_jobs(), width=3) == chart(ten_jobs(), width=24)


# ------------------------------------------------------------------------ folding
def test_a_stage_with_many_jobs_shows_the_first_and_counts_the_rest() -> None:
    drawn = chart(plan(many(44)), width=80)
    assert "run6" in drawn
    assert "run7" not in drawn
    assert "... and 37 more " in drawn


def test_a_stage_that_just_fits_is_not_folded() -> None:
    drawn = chart(plan(many(8)), width=80)
    assert "run7" in drawn
    assert "more" not in drawn


def test_a_key_with_many_values_fills_two_lines_and_counts_the_rest() -> None:
    drawn = chart(plan(many(400)), width=60).splitlines()
    rows = [line for line in drawn[2:8] if "seed" in line or "more" in line]
    assert rows[0].startswith("│ seed  0, 1, 2, 3,")
    assert rows[1].rstrip(" │").endswith("more")


def test_conditions_that_differ_from_job_to_job_are_folded_and_counted() -> None:
    jobs = [
        job(f"run{at}", at, stage="s", start_conditions=(MetadataIs(key=f"k{at}"),))
        for at in range(10)
    ]
    drawn = chart(plan(jobs), width=80)
    assert "when  k5 == null [1 of 10 jobs]" in drawn
    assert "k6" not in drawn
    assert "... and 4 more that differ from job to job" in drawn


def test_many_stages_are_counted_instead_of_drawn() -> None:
    made = plan([staged(f"s{at}", at) for at in range(45)])
    drawn = chart(made, width=80)
    assert len(titles(drawn)) == 41
    assert "... and 5 stages more with 5 jobs" in drawn


def test_a_long_name_is_cut_in_its_middle() -> None:
    drawn = chart(plan([job("begin" + "x" * 200 + "end")]), width=60)
    assert "│ beginxxx" in drawn
    assert "xend │" in drawn


def test_a_span_of_time_is_not_broken_between_lines() -> None:
    assert "60\n" not in "\n".join(
        line.strip("│ ")
        for width in range(60, 121)
        for line in chart(ten_jobs(), width=width).splitlines()
    )


# ------------------------------------------------------------------------ the DAG
def test_a_stage_is_drawn_after_those_it_waits_for_whatever_its_index() -> None:
    made = plan([staged("last", 0, "first"), staged("first", 1)])
    assert titles(chart(made, width=80)) == ["Sweep", "first", "last"]


def test_an_arrow_from_the_box_above_needs_no_words() -> None:
    made = plan([staged("a", 0), staged("b", 1, "a")])
    assert arrows(chart(made, width=80)) == ["", ""]


def test_an_arrow_from_elsewhere_names_where_it_comes_from() -> None:
    jobs = [staged("a", 0), staged("b", 1, "a"), staged("c", 2, "a")]
    assert arrows(chart(plan(jobs), width=80)) == ["", "", "after a"]


def test_a_stage_that_follows_from_nothing_has_no_arrow() -> None:
    made = plan([staged("a", 0), staged("b", 1)])
    assert arrows(chart(made, width=80)) == [""]


def test_reading_without_waiting_is_told_apart_from_waiting() -> None:
    edges = (Edge(before="a", after="b", mode="reads"),)
    made = plan([staged("a", 0), staged("b", 1)], edges=edges)
    drawn = chart(made, width=80)
    assert arrows(drawn) == ["", "reads a"]
    assert "│ b  reads a " in drawn


def test_jobs_without_stages_are_one_box_of_jobs() -> None:
    drawn = chart(plan([job("a"), job("b", 1)]), width=80)
    assert titles(drawn) == ["Sweep", "jobs"]
    assert drawn.startswith("exp: 2 jobs, config exp\n")


def test_names_that_leave_no_room_are_told_as_stages() -> None:
    long = "x" * 40
    jobs = [
        job(f"{long}_{stage}", at, stage=stage, family="f0", depends_on=after)
        for at, (stage, after) in enumerate([("a", ()), ("b", (f"{long}_a",))])
    ]
    assert f"│ {long}_b  after its a job " in chart(plan(jobs), width=80)
    assert f"│ {long}_b  after {long}_a " in chart(plan(jobs), width=120)


def test_what_tells_jobs_apart_is_left_out_where_there_is_no_room() -> None:
    row = "│ lr1e-3_evaluate  after lr1e-3_cooldown and lr1e-3_stable │"
    assert row in chart(ten_jobs(), width=60)


def test_a_condition_of_some_jobs_tells_what_marks_them() -> None:
    jobs = [
        job(
            f"run{at}",
            at,
            stage="s",
            parameters={"bsz": bsz, "seed": at},
            start_conditions=(MetadataIs(key="step", op=">=", value=bsz),),
        )
        for at, bsz in enumerate((256, 256, 512))
    ]
    drawn = chart(plan(jobs), width=80)
    assert "when  step >= 256 [bsz=256] " in drawn
    assert "when  step >= 512 [bsz=512] " in drawn


def reacting(name: str, at: int, *keys: str) -> JobSpec:
    """A job that waits for each key, and is cancelled by each."""
    asked = tuple(MetadataIs(key=key) for key in keys)
    return job(name, at, stage="s", start_conditions=asked, cancel_conditions=asked)


def test_only_conditions_that_one_job_has_both_are_joined() -> None:
    jobs = [
        reacting("one", 0, "first"),
        reacting("two", 1, "second"),
        reacting("three", 2, "first", "third"),
    ]
    drawn = chart(plan(jobs), width=80)
    rows = [line.strip("│ ") for line in drawn.splitlines() if "== null" in line]
    assert rows == [
        "Starts     when  first == null [2 of 3 jobs]",
        "and   third == null [1 of 3 jobs]",
        "when  second == null [1 of 3 jobs]",
        "Cancelled  if    first == null [2 of 3 jobs]",
        "or    third == null [1 of 3 jobs]",
        "if    second == null [1 of 3 jobs]",
    ]


def test_a_value_that_other_jobs_have_too_marks_nothing() -> None:
    ready = MetadataIs(key="step", op=">=", value=8)
    jobs = [
        job("a", stage="s", parameters={"bsz": 1}, start_conditions=(ready,)),
        job("b", 1, stage="s", parameters={"bsz": 1}),
        job("c", 2, stage="s", parameters={"bsz": 2}),
    ]
    assert "step >= 8 [1 of 3 jobs] " in chart(plan(jobs), width=80)


def test_jobs_that_may_start_at_once_are_counted_beside_those_that_wait() -> None:
    ready = JobStateIs(jobs=("a",), state="COMPLETED")
    jobs = [job("a", stage="s"), job("b", 1, stage="s", start_conditions=(ready,))]
    drawn = chart(plan(jobs), width=80)
    assert "Starts     at once [1 of 2 jobs] " in drawn
    assert "           when  a is COMPLETED [1 of 2 jobs] " in drawn


# --------------------------------------------------------------------- validation
def test_a_sound_plan_without_warnings_says_so() -> None:
    assert [
        line[0] for line in chart(plan([job("a")]), width=80).splitlines()[-4:]
    ] == [
        "✓",
        "✓",
        "✓",
        "✓",
    ]


def test_two_jobs_of_one_name_are_found() -> None:
    drawn = chart(plan([job("a"), job("a", 1, output_dir="x")]), width=80)
    assert "✗ used more than once: a\n" in drawn


def test_two_jobs_in_one_directory_are_found() -> None:
    drawn = chart(
        plan([job("a", output_dir="x"), job("b", 1, output_dir="x")]), width=80
    )
    assert "✗ used more than once: x\n" in drawn


def test_a_wait_for_a_job_that_is_not_there_is_found() -> None:
    drawn = chart(plan([job("a", depends_on=("gone",))]), width=80)
    assert "✗ not in the plan: gone\n" in drawn


def test_a_ring_is_found() -> None:
    made = plan([staged("a", 0, "b"), staged("b", 1, "a")])
    assert "✗ some jobs follow each other in a ring" in chart(made, width=80)


def test_a_ring_that_goes_by_way_of_a_reading_is_found() -> None:
    edges = (
        Edge(before="a", after="b", mode="waits"),
        Edge(before="b", after="a", mode="reads"),
    )
    made = plan([staged("a", 0), staged("b", 1)], edges=edges)
    assert "✗ some jobs follow each other in a ring" in chart(made, width=80)


def test_warnings_have_their_job_place_and_hint() -> None:
    warning = Finding(message="is odd", where="lr", job="a", hint="write it so")
    drawn = chart(plan([job("a")], warnings=(warning,)), width=80)
    assert drawn.endswith("! a lr: is odd\n    write it so")


def test_equal_warnings_of_several_jobs_are_told_once() -> None:
    warnings = tuple(Finding(message="is odd", job=f"run{at}") for at in range(5))
    drawn = chart(plan(many(5), warnings=warnings), width=80)
    assert drawn.endswith("! run0 and 4 others: is odd")


def test_many_different_warnings_are_counted() -> None:
    warnings = tuple(Finding(message=f"oddity {at}") for at in range(30))
    drawn = chart(plan([job("a")], warnings=warnings), width=80)
    assert drawn.endswith("! oddity 19\n... and 10 warnings more")


# ------------------------------------------------------------------------ unfolded
def test_all_unfolds_every_job_and_every_value() -> None:
    drawn = chart(plan(many(30)), width=80, whole=True)
    assert all(f"run{at} " in drawn for at in range(30))
    assert "more" not in drawn


def test_all_unfolds_every_warning() -> None:
    warnings = tuple(Finding(message=f"warning {at}.") for at in range(30))
    drawn = chart(plan([job("a")], warnings=warnings), width=80, whole=True)
    assert "warning 29." in drawn
