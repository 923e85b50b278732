"""The table's columns and rows; jobs that run with other values than the plan's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autoexp_tui.cockpit.dialogs.reader import build_pages
from autoexp_tui.cockpit.render.resubmit_questions import render_overrides, render_place
from autoexp_tui.cockpit.render.why import explain_job
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.rows import Column, compile_filter
from autoexp_tui.cockpit.state.session import Look, SessionView, build_session
from autoexp_tui.cockpit.state.stages import build_families
from autoexp_tui.cockpit.widgets import grid_pane
from autoexp_tui.cockpit.widgets.job_panes import (
    GUTTER,
    Columns,
    choose_columns,
    render_row,
    render_titles,
)
from autoexp_tui.model.rules import ResultSpec
from autoexp_tui.model.snapshot import Live
from autoexp_tui.planning.grid import build_grid
from tests.cockpit.plans import opened
from tests.cockpit.views import SESSION, changed, looking, text
from tests.planning.plans import job, plan
from tests.support.campaigns import campaign, plan_of
from tests.support.scripted_handle import HOSTILE, with_job


def choose(
    screen: int, table: int | None = None, session: SessionView = SESSION
) -> tuple[Column, ...]:
    words = PlanWords(session.snapshot.plan)
    return choose_columns(session, words, screen, table or screen).shown


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (("",), "LOSS"),
        (("loss", "heldout_loss"), "LOSS"),
        (("accuracy", ""), "RESULT"),
        (("f1",), "F1"),
        (("validation_accuracy_top5",), "VALID…TOP5"),
    ],
)
def test_the_column_of_results_is_named_by_what_they_are(
    names: tuple[str, ...], title: str
) -> None:
    base = campaign(10)
    usual = plan_of(base).monitoring
    results = [ResultSpec(metric=name) for name in names]
    sets = {str(at): replace(usual, result=one) for at, one in enumerate(results)}
    jobs = [
        replace(job, spec=replace(job.spec, rules=str(place % len(names))))
        for place, job in enumerate(base.jobs)
    ]
    plan = replace(plan_of(base), rule_sets=sets)
    session = build_session(replace(base, plan=plan, jobs=tuple(jobs)))
    titles = [one.title for one in choose(130, session=session) if one.kind == "loss"]
    assert titles == [title]


def test_narrow_tables_keep_what_tells_most() -> None:
    session = build_session(campaign(400))
    assert len(PlanWords(session.snapshot.plan).parameters) == 3
    order = ["id", "trend", "time"]  # in which columns leave as the screen narrows
    for screen, gone in ((130, 0), (129, 1), (109, 2), (99, 3)):
        found = {column.kind for column in choose(screen)}
        assert [kind for kind in order if kind not in found] == order[:gone]
    kinds = [column.kind for column in choose(64, session=session)]
    assert kinds.count("parameter") == 2
    assert "DONE" in [column.title for column in choose(75)]
    assert "trend" not in [column.kind for column in choose(140, 60)]
    for screen, table, least in ((120, 86, 18), (200, 109, 36)):  # the designed sizes
        assert choose(screen, table)[-1].cells >= least
        assert "trend" in [column.kind for column in choose(screen, table)]


WIDE = plan(
    [
        job(
            f"j{at}",
            at,
            parameters={"a": "x" * 12 + str(at), "b": at, "c": at, "d": at},
        )
        for at in range(4)
    ]
)
"""A plan whose parameters have no room in a narrow table."""


def choose_wide(cells: int, first: int = 0, *chosen: str) -> Columns:
    words, session = PlanWords(WIDE), build_session(opened(WIDE))
    return choose_columns(session, words, 100, cells, chosen, first)


def list_keys(table: Columns) -> str:
    return "".join(one.key for one in table.shown)


def test_parameters_are_narrowed_and_scrolled_and_what_has_no_room_is_counted() -> None:
    table = choose_wide(66)
    assert (list_keys(table), table.hidden, table.shown[1].cells) == ("abc", 3, 7)
    assert "".join(one.key for one in table.offered) == "abcd"
    assert list_keys(choose_wide(66, 1)) == "bcd"
    beyond = choose_wide(66, 99)
    assert (list_keys(beyond)[-1], beyond.shown[0].kind) == ("d", "state")
    assert (list_keys(choose_wide(200)), choose_wide(200).hidden) == ("abcd", 2)


def test_columns_that_a_person_chose_come_in_their_order() -> None:
    chosen = ("metric:acc", "name", "parameter:d", "node", "attempt", "gone", "x:y")
    table = choose_wide(100, 0, *chosen)
    titles = [one.title for one in table.shown]
    assert titles == ["STATE", "acc", "NAME", "d", "NODE", "TRY", "WHY"]
    names = replace(WIDE, jobs=(replace(WIDE.jobs[0], name="n" * 60), *WIDE.jobs[1:]))
    session = build_session(opened(names))
    named = choose_columns(session, PlanWords(names), 100, 66, chosen)
    assert named.shown[2].cells >= 20
    narrow = choose_wide(45, 0, *chosen)
    assert [one.key for one in narrow.shown] == ["", "acc", "d", ""]
    assert choose_wide(100, 0, *(f"metric:m{at}" for at in range(1000))).hidden > 900


@pytest.mark.parametrize("screen", range(60, 210, 21))
@pytest.mark.parametrize("names", [(), HOSTILE], ids=["as usual", "hostile"])
def test_why_never_goes_and_a_row_is_as_wide_as_its_table(
    screen: int, names: tuple[str, ...]
) -> None:
    session = build_session(campaign(40, names=names))
    chosen = choose(screen, session=session)
    assert chosen[-1].kind == "why"
    for one in session.jobs:
        assert width(render_row([one], chosen, session)) == screen - GUTTER
    assert width(render_titles(chosen)) == screen


def test_a_loss_that_is_no_number_is_marked() -> None:
    live = Live(step=10, metrics={"loss": math.nan})
    job, session = changed(looking(Look.RUNNING)[0], live)
    row = render_row([job], choose(120, session=session), session)
    assert ("nan", "failed") in [(span.text.strip(), span.role) for span in row]


BASE = campaign(20)
FIRST = BASE.jobs[0]
KEY = "optim.lr"
OTHER = replace(
    FIRST.spec,
    parameters={**FIRST.spec.parameters, KEY: 7e-9, "train.iters": 500},
    planned={**FIRST.spec.parameters, "train.iters": 800},
    overrides=(*FIRST.spec.overrides, f"{KEY}=7e-9", "train.iters=500"),
)


@pytest.fixture
def model() -> SessionModel:
    attempts = tuple(replace(one, values=OTHER.parameters) for one in FIRST.attempts)
    made = SessionModel(BASE)
    made.take(with_job(BASE, FIRST.name, spec=OTHER, attempts=attempts))
    return made


def test_a_value_of_its_own_is_marked_and_found_wherever_it_stands(
    model: SessionModel,
) -> None:
    job, *others = model.session.jobs
    values = model.words.parameters
    chosen = choose_columns(model.session, model.words, 200, 200).shown
    row = plain(render_row([job], chosen, model.session))
    assert all(value in row for value in (" 7e-9* ", " 500* "))
    for other in others:
        assert "*" not in plain(render_row([other], chosen, model.session))
    assert [one.label for one in values][-1] == "iters"
    assert "iters" not in [one.label for one in SessionModel(BASE).words.parameters]
    model.update_arrangement(filter=compile_filter("lr=7e-9"))
    assert [row.jobs for row in model.rows] == [(0,)]
    stage = next(one for one in model.stages if one.name == OTHER.stage)
    family = build_families(stage, model.session, model.words.of_families)[0]
    assert "lr=7e-9*" in family.label
    grid = build_grid(plan_of(BASE))
    shown = grid_pane.choose_columns(grid, 400, 0)
    rows = [
        plain(grid_pane.render_row(grid, row, shown, model.session, None))
        for row in grid.rows
    ]
    assert sum(row.count("*") for row in rows) == 1
    told = explain_job(job, model.session, model.words)
    facts = [plain(line).strip() for line in told.lines]
    (own,) = [row for row in facts if row.startswith("values")]
    (planned,) = [row for row in facts if row.startswith("planned")]
    assert "lr=7e-9*" in own
    assert "train.iters=800" in planned
    assert any("ran with" in row and f"{KEY}=7e-9" in row for row in facts)


def test_the_config_page_tells_what_was_swept_and_what_runs() -> None:
    page = text(*build_pages(plan_of(BASE), [OTHER])[0].lines)
    swept, _, runs = page.partition("Changed  it runs with these values")
    assert "7e-9  (planned: " in runs
    assert "7e-9" not in swept.split("\n", 3)[3]
    page = text(*build_pages(plan_of(BASE), [FIRST.spec, OTHER])[0].lines)
    assert f"+{KEY}: 7e-9" in page.split("\n")


def test_r_tells_the_value_that_a_job_has_by_now_and_where_it_writes(
    model: SessionModel,
) -> None:
    job = model.session.jobs[0]
    typed = [f"{KEY}=5e-4", "train.iters=9", "x"]
    *told, odd = map(plain, render_overrides([job], typed))
    assert told == [f"  {KEY}: 7e-9 -> 5e-4", "  train.iters: 500 -> 9"]
    assert "not of the form key=value" in odd
    place = plain(render_place([job])).strip()
    assert place.startswith("It writes into the same directory: ")
    assert OTHER.output_dir in place
    several = render_place(model.session.jobs[:2])
    assert "Each writes" in plain(several)
