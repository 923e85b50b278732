"""What a plan looks like before anything is submitted: graph, grid, details, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Hole, JobSpec, Plan
from autoexp_tui.planning.job_details import Entry, JobDetails
from tests.cockpit.plans import branching, holey, opened
from tests.planning.plans import job, plan
from tests.snapshots.test_screens import (
    ASCII,
    BY_SIZE,
    LOOKS,
    LOW,
    USUAL,
    Compare,
    Size,
    app,
    keys,
)

HOSTILE = "\x1b]52;c;AA\x07[/red]\u202e日本"


@BY_SIZE
def test_stages_as_a_graph(snap_compare: Compare, size: Size) -> None:
    shown = app(opened(branching()))
    assert snap_compare(shown, terminal_size=size, run_before=keys("1"))


def test_stages_as_a_graph_enlarged_in_ascii(snap_compare: Compare) -> None:
    shown, pressed = app(opened(branching()), **ASCII), keys("1 plus j l")
    assert snap_compare(shown, terminal_size=USUAL, run_before=pressed)


@BY_SIZE
def test_the_grid(snap_compare: Compare, size: Size) -> None:
    shown = app(opened(holey()))
    assert snap_compare(shown, terminal_size=size, run_before=keys("1 G l end"))


@pytest.mark.parametrize("look", ["light", "ansi", "nocolour"])
def test_the_grid_of_a_session(snap_compare: Compare, look: str) -> None:
    shown, pressed = app(**LOOKS[look]), keys("1 G j l")
    assert snap_compare(shown, terminal_size=USUAL, run_before=pressed)


def test_the_grid_with_hostile_names_in_ascii(snap_compare: Compare) -> None:
    own: list[Any] = [{"parameters": {HOSTILE: f"{HOSTILE}{n}"}} for n in range(2)]
    jobs = [job(f"j{n}", n, stage=HOSTILE, **own[n]) for n in range(2)]
    hole = Hole(parameters={HOSTILE: "x"}, stage=HOSTILE, filter=HOSTILE, where=HOSTILE)
    shown = app(opened(plan(jobs, holes=(hole,))), **ASCII)
    assert snap_compare(shown, terminal_size=LOW, run_before=keys("1 G end"))


def details(_: Plan, spec: JobSpec) -> JobDetails:
    """A config of every origin; the seed differs from job to job."""
    entries = (
        Entry("optim.lr", "1e-3", "swept"),
        Entry("optim.name", "adamw", "override"),
        Entry("train.iters", "60000", "computed", "${oc.eval:'_0*1000',${n}}"),
        Entry("seed", str(spec.index), "file"),
        Entry("stage", spec.stage, "ours"),
    )
    script = ("cd /work", "python train.py \\", f"  --seed {spec.index}")
    return JobDetails(entries=entries, script=script)


@BY_SIZE
def test_how_a_job_is_made(snap_compare: Compare, size: Size) -> None:
    shown = app(opened(holey()), details=details)
    assert snap_compare(shown, terminal_size=size, run_before=keys("i n"))


def test_what_differs_between_two_jobs(snap_compare: Compare) -> None:
    shown, pressed = app(opened(holey()), details=details), keys("space j space d")
    assert snap_compare(shown, terminal_size=LOW, run_before=pressed)


@BY_SIZE
def test_errors_of_a_plan(
    snap_compare: Compare, size: Size, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("exp.yaml").write_text("".join(f"key{at}: {at}\n" for at in range(1, 50)))
    wrong = Problem(
        message="is not in the config (and for 3 more jobs)",
        where="backend.lrr",
        job="job 0 (stage=stable, lr=1e-3)",
        hint="did you mean `backend.lr`? write `++backend.lrr` to add it",
        place="exp.yaml:41",
    )
    none = Problem(message="makes no job", where="sweep", hint="its filters take all")

    async def open_them(pilot: Any) -> None:
        await pilot.pause()
        pilot.app.show_faults((wrong, none))
        await pilot.pause()
        await keys("enter")(pilot)

    assert snap_compare(app(opened(holey())), terminal_size=size, run_before=open_them)
