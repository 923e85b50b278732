"""WHY never goes; the others leave in their order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.parameters import Parameter, PlanWords
from autoexp_tui.cockpit.state.rows import Column
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.widgets import job_panes as columns
from autoexp_tui.model.rules import ResultSpec
from autoexp_tui.model.snapshot import Live
from tests.support.campaigns import campaign
from tests.support.scripted_handle import HOSTILE

SESSION = build_session(campaign(125))
WORDS = PlanWords(SESSION.snapshot.plan)


def title_of_results(*names: str) -> str:
    """Of a campaign whose stages have these results, in turn."""
    base = campaign(10)
    assert base.plan is not None
    sets = {
        str(place): replace(base.plan.monitoring, result=ResultSpec(metric=name))
        for place, name in enumerate(names)
    }
    jobs = [
        replace(job, spec=replace(job.spec, rules=str(place % len(names))))
        for place, job in enumerate(base.jobs)
    ]
    plan = replace(base.plan, rule_sets=sets)
    session = build_session(replace(base, plan=plan, jobs=tuple(jobs)))
    found = columns.choose_columns(session, WORDS.parameters, 130, 130)
    return next(one.title for one in found if one.kind == "loss")


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (("",), "LOSS"),
        (("accuracy",), "ACCURACY"),
        (("heldout_loss",), "LOSS"),
        (("loss", "heldout_loss"), "LOSS"),
        (("accuracy", "loss"), "RESULT"),
        (("accuracy", ""), "RESULT"),
        (("f1",), "F1"),
        (("validation_accuracy_top5",), "VALID…TOP5"),
    ],
)
def test_the_column_of_results_is_named_by_what_they_are(
    names: tuple[str, ...], title: str
) -> None:
    assert title_of_results(*names) == title


def choose(screen: int, table: int | None = None) -> tuple[Column, ...]:
    parameters = WORDS.parameters
    return columns.choose_columns(SESSION, parameters, screen, table or screen)


@pytest.mark.parametrize(
    ("screen", "gone"),
    [(130, []), (129, ["id"]), (109, ["id", "trend"]), (99, ["id", "trend", "time"])],
)
def test_columns_leave_in_order_as_the_screen_narrows(
    screen: int, gone: list[str]
) -> None:
    found = {column.kind for column in choose(screen)}
    assert [kind for kind in ("id", "trend", "time") if kind not in found] == gone


def test_below_90_columns_two_parameters_remain() -> None:
    session = build_session(campaign(400))
    words = PlanWords(session.snapshot.plan)
    assert len(words.parameters) == 3
    found = columns.choose_columns(session, words.parameters, 89, 89)
    assert [column.kind for column in found].count("parameter") == 2
    assert "DONE" in [column.title for column in choose(75)]
    assert "trend" not in [column.kind for column in choose(140, 60)]


@pytest.mark.parametrize("screen", range(60, 210, 7))
@pytest.mark.parametrize("names", [(), HOSTILE], ids=["as usual", "hostile"])
def test_why_never_goes_and_a_row_is_as_wide_as_its_table(
    screen: int, names: tuple[str, ...]
) -> None:
    session = build_session(campaign(40, names=names))
    parameters = PlanWords(session.snapshot.plan).parameters
    chosen = columns.choose_columns(session, parameters, screen, screen)
    assert chosen[-1].kind == "why"
    for job in session.jobs:
        row = columns.render_row([job], chosen, session)
        assert width(row) == screen - columns.GUTTER
    assert width(columns.render_titles(chosen)) == screen


@pytest.mark.parametrize(("screen", "table", "least"), [(120, 89, 28), (200, 111, 42)])
def test_why_has_room_on_the_designed_sizes(
    screen: int, table: int, least: int
) -> None:
    assert choose(screen, table)[-1].cells >= least


def test_long_values_shrink_before_the_trend_goes() -> None:
    values = ("x" * 12, "y" * 12)
    long = [Parameter(key="k", label="k", values=values)]
    chosen = columns.choose_columns(SESSION, long, 120, 94)
    assert "trend" in [column.kind for column in chosen]
    assert next(one.cells for one in chosen if one.kind == "parameter") < 12


def test_a_folded_row_names_how_many_values_it_holds() -> None:
    chosen = choose(80)
    jobs = [job for job in SESSION.jobs if job.record.cause == "out_of_memory"]
    row = plain(columns.render_row(jobs, chosen, SESSION))
    assert f"{len(jobs)} lr" in row
    assert "1024" in row
    assert f"{len(jobs)}x out of memory" in row


@pytest.mark.parametrize(
    ("cells", "text"),
    [(12, "2 batch_size"), (6, "2 batc"), (4, "2 ba"), (3, "2 …"), (2, "2…")],
)
def test_how_many_values_there_are_is_told_by_no_single_letter_of_a_name(
    cells: int, text: str
) -> None:
    key = WORDS.parameters[0].key
    by_value = {job.record.spec.parameters.get(key): job for job in SESSION.jobs}
    two = list(by_value.values())[:2]
    column = Column(kind="parameter", title="batch_size", cells=cells, key=key)

    assert plain(columns.render_row(two, [column], SESSION)).rstrip() == text


def test_a_loss_that_is_no_number_is_marked() -> None:
    snapshot = campaign(31)
    place = next(
        job.index for job in build_session(snapshot).jobs if job.look is Look.RUNNING
    )
    live = list(snapshot.live)
    live[place] = Live(step=10, metrics={"loss": math.nan})
    session = build_session(replace(snapshot, live=tuple(live)))
    chosen = columns.choose_columns(session, WORDS.parameters, 120, 120)
    row = columns.render_row([session.jobs[place]], chosen, session)
    assert ("nan", "failed") in [(span.text.strip(), span.role) for span in row]


def test_a_plan_without_stages_has_no_stage_column() -> None:
    snapshot = campaign(31)
    jobs = tuple(
        replace(job, spec=replace(job.spec, stage="")) for job in snapshot.jobs
    )
    session = build_session(replace(snapshot, jobs=jobs))
    found = columns.choose_columns(session, WORDS.parameters, 120, 120)
    assert "stage" not in [column.kind for column in found]
