"""A plan as a grid: its rows, its columns, its cells, what emptied the others."""

from __future__ import annotations

import pytest

from autoexp_tui.model.specs import Hole
from autoexp_tui.planning.grid import Grid, build_grid
from tests.cockpit.plans import FILTER, holey
from tests.planning.plans import job, plan


def hole(stage: str = "", **parameters: float) -> Hole:
    return Hole(parameters=parameters, stage=stage, filter="lr < 1", where="sweep.f")


def rows(grid: Grid) -> list[str]:
    return [grid.describe_row(row) for row in grid.rows]


def test_a_row_is_a_combination_of_what_is_swept() -> None:
    grid = build_grid(holey())
    assert rows(grid) == [
        "lr=1e-4 bsz=64",
        "lr=1e-4 bsz=128",
        "lr=3e-4 bsz=64",
        "lr=3e-4 bsz=128",
        "lr=1e-3 bsz=64",
        "lr=1e-3 bsz=128",
    ]


def test_columns_are_the_stages_each_after_what_it_waits_for() -> None:
    jobs = [job("c", 0, stage="late", depends_on=("a",)), job("a", 1, stage="early")]
    assert build_grid(plan(jobs)).stages == ("early", "late")


def test_a_cell_holds_the_places_of_its_jobs() -> None:
    made = holey()
    grid = build_grid(made)
    (place,) = grid.jobs[grid.rows[1], "cooldown"]
    assert made.jobs[place].name == "lr0.0001_bsz128_cooldown"


def test_a_hole_names_its_filter_and_where_that_stands() -> None:
    grid = build_grid(holey())
    place = grid.holes[grid.rows[-1], "cooldown"]
    assert grid.filters[place] == (FILTER, "sweep.filter")


def test_holes_are_counted_by_filter() -> None:
    assert dict(build_grid(holey()).counts) == {0: 2}


def test_a_row_of_which_nothing_is_left_is_there() -> None:
    jobs = [job("a", 0, stage="s", parameters={"lr": 0.5})]
    grid = build_grid(plan(jobs, holes=(hole("s", lr=2.0),)))
    assert rows(grid) == ["lr=0.5", "lr=2"]


def test_a_hole_without_a_stage_is_one_of_every_stage() -> None:
    jobs = [
        job("a", 0, stage="s", parameters={"lr": 0.5}),
        job("b", 1, stage="t", parameters={"lr": 0.5}),
    ]
    grid = build_grid(plan(jobs, holes=(hole(lr=2.0),)))
    assert [stage for _, stage in grid.holes] == ["s", "t"]


def test_a_hole_that_names_one_axis_is_one_of_every_value_of_the_others() -> None:
    jobs = [
        job(f"j{at}", at, stage="s", parameters={"lr": 0.5, "seed": at})
        for at in range(3)
    ]
    grid = build_grid(plan(jobs, holes=(hole(lr=2.0),)))
    assert [grid.describe_row(row) for row, _ in grid.holes] == [
        "lr=2 seed=0",
        "lr=2 seed=1",
        "lr=2 seed=2",
    ]


def test_a_job_wins_over_a_hole_in_its_cell() -> None:
    jobs = [
        job("a", 0, stage="s", parameters={"lr": 0.5}),
        job("b", 1, stage="s", parameters={"lr": 2.0}),
    ]
    assert not build_grid(plan(jobs, holes=(hole("s", lr=2.0),))).holes


def test_what_one_stage_alone_varies_makes_no_rows() -> None:
    jobs = [
        job("a", 0, stage="s"),
        job("b", 1, stage="t", parameters={"scale": 1}),
        job("c", 2, stage="t", parameters={"scale": 2}),
    ]
    grid = build_grid(plan(jobs))
    assert (grid.axes, grid.jobs[(), "t"]) == ((), (1, 2))


def test_holes_that_were_not_remembered_are_counted() -> None:
    assert build_grid(plan([job("a")], holes_more=7)).more == 7


def test_rows_that_one_hole_has_too_many_of_are_counted() -> None:
    jobs = [
        job(f"j{at}", at, stage="s", parameters={"lr": 0.5, "seed": at})
        for at in range(1007)
    ]
    grid = build_grid(plan(jobs, holes=(hole(lr=2.0),)))
    assert (len(grid.holes), grid.more) == (1000, 7)


def test_rows_beyond_the_most_of_a_grid_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autoexp_tui.planning.grid.MOST_ROWS", 3)
    jobs = [job("a", 0, stage="s", parameters={"lr": 0.5})]
    holes = tuple(hole("s", lr=1.0 + at) for at in range(5))
    grid = build_grid(plan(jobs, holes=holes))
    assert (len(grid.rows), grid.more) == (3, 3)
