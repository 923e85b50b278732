"""Rows come in the order asked for, and fold without losing anybody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.rows import (
    Arrangement,
    Column,
    Row,
    build_rows,
    compile_filter,
    is_falling,
    sort_beside,
    sort_by,
    sort_next,
)
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.state.status import NEEDS, Look
from autoexp_tui.cockpit.widgets import job_panes as columns
from tests.support.campaigns import campaign
from tests.support.scripted_handle import moved

SESSION = build_session(campaign(125))
WORDS = PlanWords(SESSION.snapshot.plan)
COLUMNS = columns.choose_columns(SESSION, WORDS.parameters, 140, 140)


def looks(rows: tuple[Row, ...]) -> list[Look]:
    return [SESSION.jobs[row.jobs[0]].look for row in rows]


def test_plan_order_is_the_plan_s() -> None:
    rows = build_rows(SESSION, Arrangement())
    assert [row.key for row in rows] == [job.name for job in SESSION.jobs]


def test_needs_come_first_most_urgent_on_top() -> None:
    found = looks(build_rows(SESSION, Arrangement(order="needs")))
    needing = [look for look in found if look in NEEDS]
    assert found[: len(needing)] == needing
    assert needing == sorted(needing, key=NEEDS.index)


def test_folding_loses_nobody_and_folds_only_what_is_alike() -> None:
    rows = build_rows(SESSION, Arrangement(fold=True))
    folded = sorted(place for row in rows for place in row.jobs)
    assert folded == list(range(len(SESSION.jobs)))
    for row in rows:
        members = [SESSION.jobs[place] for place in row.jobs]
        assert len({(job.look, job.stage) for job in members}) == 1
    assert looks(rows).count(Look.RUNNING) == SESSION.count(Look.RUNNING)


def test_an_unfolded_cause_shows_its_jobs() -> None:
    rows = build_rows(SESSION, Arrangement(fold=True))
    largest = max(rows, key=lambda row: len(row.jobs))
    opened = build_rows(
        SESSION, Arrangement(fold=True, unfolded=frozenset({largest.key}))
    )
    assert len(opened) == len(rows) + len(largest.jobs) - 1


def test_a_filter_keeps_what_matches() -> None:
    rows = build_rows(SESSION, Arrangement(filter=compile_filter("failed")))
    assert set(looks(rows)) == {Look.FAILED}


def test_a_narrowed_table_holds_only_those() -> None:
    names = frozenset({SESSION.jobs[4].name, SESSION.jobs[9].name})
    rows = build_rows(SESSION, Arrangement(only=("two", names)))
    assert [row.key for row in rows] == [SESSION.jobs[4].name, SESSION.jobs[9].name]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.kind)
def test_every_column_can_be_sorted_by(column: Column) -> None:
    rows = build_rows(SESSION, sort_by(SESSION, column, Arrangement()))
    assert len(rows) == len(SESSION.jobs)


def test_parameters_sort_as_numbers() -> None:
    lr = next(column for column in COLUMNS if column.title == "lr")
    rows = build_rows(SESSION, sort_by(SESSION, lr, Arrangement()))
    values = [
        SESSION.jobs[row.jobs[0]].record.spec.parameters.get("optim.lr") for row in rows
    ]
    known = [float(str(value)) for value in values if value is not None]
    assert known == sorted(known)


LOSS = next(column for column in COLUMNS if column.kind == "loss")


def test_a_sort_stays_as_it_was_while_values_move() -> None:
    wanted = sort_by(SESSION, LOSS, Arrangement())
    before = [row.key for row in build_rows(SESSION, wanted)]
    later = build_session(moved(SESSION.snapshot, 600), SESSION)
    assert [row.key for row in build_rows(later, wanted)] == before


@pytest.mark.parametrize("again", [False, True])
def test_losses_sort_lowest_first_then_the_other_way_missing_last(again: bool) -> None:
    wanted = sort_by(SESSION, LOSS, Arrangement())
    rows = build_rows(SESSION, sort_by(SESSION, LOSS, wanted) if again else wanted)
    values = [SESSION.jobs[row.jobs[0]].list_metrics().get("loss") for row in rows]
    known = [value for value in values if value is not None]
    assert values[: len(known)] == sorted(known, reverse=again)
    assert values[len(known) :] == [None] * (len(values) - len(known))


def test_a_third_time_is_plan_order_and_then_the_column_comes_back() -> None:
    wanted = sort_by(SESSION, LOSS, sort_by(SESSION, LOSS, Arrangement()))
    back = sort_next(SESSION, COLUMNS, wanted)
    assert (back.order, back.column) == ("plan", "")
    again = sort_next(SESSION, COLUMNS, back)
    assert (again.column, again.reversed) == (LOSS.title, False)


def test_the_columns_beside_go_round() -> None:
    wanted = sort_by(SESSION, COLUMNS[0], Arrangement())
    for step in (1, -1):
        beside = sort_beside(SESSION, COLUMNS, wanted, step)
        assert beside.column == COLUMNS[step].title


def test_a_time_falls_at_first_and_a_loss_rises() -> None:
    time = next(column for column in COLUMNS if column.kind == "time")
    assert is_falling(COLUMNS, sort_by(SESSION, time, Arrangement()))
    rising = sort_by(SESSION, LOSS, Arrangement())
    assert not is_falling(COLUMNS, rising)
    assert is_falling(COLUMNS, sort_by(SESSION, LOSS, rising))


def test_a_column_that_has_gone_starts_over() -> None:
    wanted = replace(Arrangement(), order="column", column="GONE")
    assert sort_next(SESSION, COLUMNS, wanted).column == COLUMNS[0].title
