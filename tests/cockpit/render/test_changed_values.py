"""A job that runs with other values than the plan's: shown with them, and marked."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.cockpit.render import job_questions
from autoexp_tui.cockpit.render.job_details import build_pages
from autoexp_tui.cockpit.render.why import explain_job
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.rows import compile_filter
from autoexp_tui.cockpit.state.session import JobView
from autoexp_tui.cockpit.state.stages import build_families
from autoexp_tui.cockpit.widgets import job_panes as columns
from autoexp_tui.cockpit.widgets.grid_pane import choose_columns as columns_of_grid
from autoexp_tui.cockpit.widgets.grid_pane import render_row
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.planning.grid import build_grid
from tests.support.campaigns import campaign, plan_of
from tests.support.scripted_handle import with_job

BASE = campaign(20)
FIRST = BASE.jobs[0]
KEY = "optim.lr"


def changed(spec: JobSpec = FIRST.spec) -> JobSpec:
    return replace(
        spec,
        parameters={**spec.parameters, KEY: 7e-9, "train.iters": 500},
        planned={**spec.parameters, "train.iters": 800},
        overrides=(*spec.overrides, f"{KEY}=7e-9", "train.iters=500"),
    )


def desk() -> SessionModel:
    looks = SessionModel(BASE)
    attempts = tuple(
        replace(one, values=changed().parameters) for one in FIRST.attempts
    )
    looks.take(with_job(BASE, FIRST.name, spec=changed(), attempts=attempts))
    return looks


def job(at: SessionModel) -> JobView:
    found = at.session.job(FIRST.name)
    assert found is not None
    return found


def test_the_table_shows_the_job_s_own_value_and_marks_it() -> None:
    at = desk()
    chosen = columns.choose_columns(at.session, at.words.parameters, 200, 200)
    row = plain(columns.render_row([job(at)], chosen, at.session))
    assert " 7e-9* " in row
    assert " 500* " in row
    for other in at.session.jobs[1:]:
        assert "*" not in plain(columns.render_row([other], chosen, at.session))
    assert [one.label for one in at.words.parameters][-1] == "iters"
    assert "iters" not in [one.label for one in SessionModel(BASE).words.parameters]


def test_the_filter_asks_for_the_job_s_own_value() -> None:
    at = desk()
    at.update_arrangement(filter=compile_filter("lr=7e-9"))
    assert [at.session.jobs[row.jobs[0]].name for row in at.rows] == [FIRST.name]


def test_the_family_is_named_by_both_values() -> None:
    at = desk()
    stage = next(one for one in at.stages if one.name == FIRST.spec.stage)
    own = build_families(stage, at.session, at.words.of_families)[0]
    assert "lr=7e-9*" in own.label


def test_why_tells_the_values_of_the_job_and_of_each_attempt() -> None:
    at = desk()
    told = explain_job(job(at), at.session, at.words)
    text = [plain(line) for line in told.lines]
    assert any(
        line.strip().startswith("values") and "lr=7e-9*" in line for line in text
    )
    planned = next(line for line in text if line.strip().startswith("planned"))
    assert "train.iters=800" in planned
    assert any("ran with" in line and "optim.lr=7e-9" in line for line in text)


def test_the_grid_marks_the_cell_of_the_job_alone() -> None:
    at, grid = desk(), build_grid(plan_of(BASE))
    shown = columns_of_grid(grid, 400, 0)
    rows = [plain(render_row(grid, row, shown, at.session, None)) for row in grid.rows]
    assert sum(row.count("*") for row in rows) == 1


def test_the_config_page_tells_what_was_swept_and_what_runs() -> None:
    plan = plan_of(BASE)
    page = build_pages(plan, [changed()])[0]
    text = [plain(line) for line in page.lines]
    place = text.index("Changed  it runs with these values")
    assert any("7e-9  (planned: " in line for line in text[place:])
    assert not any("7e-9" in line for line in text[text.index(text[3]) : place])


def test_two_jobs_differ_by_what_they_run_with() -> None:
    page = build_pages(plan_of(BASE), [FIRST.spec, changed()])[0]
    assert any(plain(line) == f"+{KEY}: 7e-9" for line in page.lines)


def test_r_tells_the_value_that_a_job_has_by_now() -> None:
    rows = job_questions.render_overrides(
        [job(desk())], [f"{KEY}=5e-4", "train.iters=9", "x"]
    )
    *told, odd = (plain(row) for row in rows)
    assert told == [f"  {KEY}: 7e-9 -> 5e-4", "  train.iters: 500 -> 9"]
    assert "not of the form key=value" in odd


def test_r_says_that_other_values_write_into_the_same_directory() -> None:
    at = desk()
    one = plain(job_questions.render_place([job(at)]))
    assert one.strip().startswith("It writes into the same directory: ")
    assert FIRST.spec.output_dir in one
    assert "Each writes" in plain(job_questions.render_place(at.session.jobs[:2]))
