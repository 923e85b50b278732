"""A plan as a grid: its rows, its columns, its cells, what emptied the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autoexp_tui.model.specs import Hole, JobSpec
from autoexp_tui.planning.grid import Grid, build_grid, find_axes, read_settings
from tests.cockpit.plans import FILTER, holey
from tests.planning.plans import job, plan


def points(*parameters: Mapping[str, object], stage: str = "") -> list[JobSpec]:
    return [
        job(f"{stage}{at}", at, stage=stage, family=f"f{at}", parameters=own)
        for at, own in enumerate(parameters)
    ]


def hole(stage: str = "", **parameters: float) -> Hole:
    return Hole(parameters=parameters, stage=stage, filter="lr < 1", where="sweep.f")


def of(*parameters: Mapping[str, object], **fields: Any) -> Grid:
    return build_grid(plan(points(*parameters, stage="s"), **fields))


def rows(grid: Grid) -> list[str]:
    return [grid.describe_row(row) for row in grid.rows]


def test_a_row_is_a_combination_and_its_cells_hold_jobs_or_the_filter() -> None:
    made = holey()
    grid = build_grid(made)
    rates = ("1e-4", "3e-4", "1e-3")
    assert rows(grid) == [f"lr={lr} bsz={bsz}" for lr in rates for bsz in (64, 128)]
    (place,) = grid.jobs[grid.rows[1], "cooldown"]
    assert made.jobs[place].name == "lr0.0001_bsz128_cooldown"
    emptied = grid.holes[grid.rows[-1], "cooldown"]
    assert grid.filters[emptied] == (FILTER, "sweep.filter")
    assert dict(grid.counts) == {0: 2}
    holes = (hole("s", lr=2.0),)
    assert rows(of({"lr": 0.5}, holes=holes)) == ["lr=0.5", "lr=2"]
    assert not of({"lr": 0.5}, {"lr": 2.0}, holes=holes).holes


def test_a_hole_is_one_of_every_stage_and_value_that_it_does_not_name() -> None:
    jobs = [job(s, at, stage=s, parameters={"lr": 0.5}) for at, s in enumerate("st")]
    grid = build_grid(plan(jobs, holes=(hole(lr=2.0),)))
    assert [stage for _, stage in grid.holes] == ["s", "t"]
    seeds = [{"lr": 0.5, "seed": at} for at in range(1007)]
    grid = of(*seeds[:3], holes=(hole(lr=2.0),))
    told = [grid.describe_row(row) for row, _ in grid.holes]
    assert told == ["lr=2 seed=0", "lr=2 seed=1", "lr=2 seed=2"]
    grid = of(*seeds, holes=(hole(lr=2.0),))
    assert (len(grid.holes), grid.more) == (1000, 7)


def test_what_one_stage_alone_varies_makes_no_rows() -> None:
    scales = [job(f"b{at}", at, stage="t", parameters={"scale": at}) for at in (1, 2)]
    grid = build_grid(plan([job("a", 0, stage="s"), *scales]))
    assert (grid.axes, grid.jobs[(), "t"]) == ((), (1, 2))
    jobs = [job("c", 0, stage="late", depends_on=("a",)), job("a", 1, stage="early")]
    assert build_grid(plan(jobs)).stages == ("early", "late")


def test_what_is_not_kept_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of({}, holes_more=7).more == 7
    monkeypatch.setattr("autoexp_tui.planning.grid.MOST_ROWS", 3)
    grid = of({"lr": 0.5}, holes=tuple(hole("s", lr=1.0 + at) for at in range(5)))
    assert (len(grid.rows), grid.more) == (3, 3)


@pytest.mark.parametrize(("jobs", "found"), [
    (points({"lr": 0.001}, {"lr": 2.5e-4}, {"lr": 50.0}),
     {"lr": ("2.5e-4", "1e-3", "50")}), (points({"lr": 1}, {}), {"lr": ("1",)}),
    (points({"lr": 1, "bsz": 4}, {"lr": 2, "bsz": 4}), {"lr": ("1", "2")}),
    ([*points({"steps": 8}, stage="a"), *points({"steps": 2}, stage="b")], {}),
    ([*points({"lr": 1}, stage="a"), *points({"lr": 2}, stage="b"),
      *points({}, {"lr": 3}, stage="a")[1:], *points({}, {"lr": 4}, stage="b")[1:]],
     {"lr": ("1", "2", "3", "4")}),
    ([*points({"lr": 1}, {"lr": 2}, stage="a"), *points({}, stage="b")],
     {"lr": ("1", "2")}), (points({"++lr": 1}, {"++lr": 2}), {"lr": ("1", "2")}),
    (points({"stage": "a", "aux": 1, "_meta": 2}, {"stage": "b", "aux": 2}), {}),
    (points({"_stage": "a", "project.name": "a"}, {"project.name": "b"}), {}),
    (points({"x": True}, {"x": False}, {"x": None}, {"x": ""}),
     {"x": ("true", "false", "null", '""')}),
])  # fmt: skip
def test_a_key_is_swept_where_jobs_of_one_stage_differ(jobs: Any, found: Any) -> None:
    axes = find_axes([(one.stage, read_settings(one.parameters)) for one in jobs])
    assert {one.key: one.values for one in axes} == found


def test_labels_are_short_where_that_tells_them_apart() -> None:
    both = [{"a.lr": f"{n}", "b.lr": f"{n}", "c.bsz": f"{n}"} for n in (1, 2)]
    labels = [one.label for one in find_axes([("", own) for own in both])]
    assert labels == ["a.lr", "b.lr", "bsz"]
