"""Rows come in the order asked for, and fold without losing anybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.rows import (
    Arrangement,
    Column,
    Filter,
    FilterError,
    Row,
    build_rows,
    check_names,
    compile_filter,
    is_falling,
    is_unfinished,
    sort_beside,
    sort_by,
    sort_next,
)
from autoexp_tui.cockpit.state.session import JobView, build_session
from autoexp_tui.cockpit.state.status import NEEDS, Look
from autoexp_tui.cockpit.widgets import job_panes as columns
from autoexp_tui.model.states import Cause
from tests.support.campaigns import campaign
from tests.support.scripted_handle import moved

SESSION = build_session(campaign(125))
WORDS = PlanWords(SESSION.snapshot.plan)
COLUMNS = columns.choose_columns(SESSION, WORDS.parameters, 140, 140)


def looks(rows: tuple[Row, ...]) -> list[Look]:
    return [SESSION.jobs[row.jobs[0]].look for row in rows]


def test_rows_are_in_plan_order_and_narrowed() -> None:
    names = [job.name for job in SESSION.jobs]
    assert [row.key for row in build_rows(SESSION, Arrangement())] == names
    two = Arrangement(only=("two", frozenset({names[9], names[4]})))
    assert [row.key for row in build_rows(SESSION, two)] == [names[4], names[9]]
    failed = build_rows(SESSION, Arrangement(filter=compile_filter("failed")))
    assert set(looks(failed)) == {Look.FAILED}
    assert compile_filter("   ") is None


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


def rate(job: JobView) -> float:
    return float(str(job.record.spec.parameters["optim.lr"]))


KEEPS: dict[str, Callable[[JobView], bool]] = {
    "cooldown": lambda job: job.stage == "cooldown",
    "COOLDOWN": lambda job: job.stage == "cooldown",
    "cannot": lambda job: job.look is Look.DOOMED,
    "failed stable": lambda job: (job.look, job.stage) == (Look.FAILED, "stable"),
    "memory": lambda job: job.record.cause is Cause.OUT_OF_MEMORY,
    "lr>1e-3": lambda job: rate(job) > 1e-3,
    "optim.lr>1e-3": lambda job: rate(job) > 1e-3,
    "lr>=2e-3": lambda job: rate(job) >= 2e-3,
    "lr!=1e-3 lr>1e-3": lambda job: rate(job) > 1e-3,
    "lr=0.001": lambda job: rate(job) == 1e-3,
    "lr=1e-3": lambda job: rate(job) == 1e-3,
    "stage:cooldown": lambda job: job.stage == "cooldown",
    'stage=="cooldown"': lambda job: job.stage == "cooldown",
    "stage!=cooldown": lambda job: job.stage != "cooldown",
    "loss<2.6": lambda job: job.list_metrics().get("loss", 9.0) < 2.6,
    "momentum>0": lambda job: False,
    "stage>3": lambda job: False,
}


@pytest.mark.parametrize("text", KEEPS)
def test_a_filter_keeps_what_a_person_means(text: str) -> None:
    found, means = compile_filter(text), KEEPS[text]
    assert found is not None
    for job in SESSION.jobs:
        meant = "optim.lr" in job.record.spec.parameters or "lr" not in text
        assert found.keeps(job) == (meant and means(job)), job.name


def of_language(text: str) -> Filter:
    found = compile_filter(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        "stage == 'stable' and lr > 1e-3",
        "lr > 1e-3 and stage in ['stable']",
        "stage == 'stable' or lr<0",
    ],
)
def test_an_expression_goes_to_the_sweep_s_language(text: str) -> None:
    found = of_language(text)
    assert {job.stage for job in SESSION.jobs if found.keeps(job)} == {"stable"}


def test_an_expression_that_fails_over_a_job_does_not_keep_it() -> None:
    found = of_language("stage == 1 and lr > 2")
    report = next(job for job in SESSION.jobs if job.stage == "report")
    assert not found.keeps(report)


@pytest.mark.parametrize("text", ["lr > ! 2", "(lr > 1e-3", "lr != 1 and ! x"])
def test_a_broken_expression_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(FilterError, match="does not parse"):
        compile_filter(text)


@pytest.mark.parametrize("text", ["not a ! word", "in doubt !", "failed stable"])
def test_plain_words_are_never_refused(text: str) -> None:
    assert of_language(text).text == text


def test_words_with_a_keyword_are_found_as_words() -> None:
    wanted = of_language("cooldown in")
    assert not any(wanted.keeps(job) for job in SESSION.jobs if job.stage == "report")


@pytest.mark.parametrize("text", ["lrr>1e-3", "failed lrr=2", "lrr > 1e-3"])
def test_a_name_that_no_job_has_is_refused_with_the_near_miss(text: str) -> None:
    with pytest.raises(FilterError, match="no job has `lrr`; did you mean `lr`"):
        check_names(compile_filter(text), SESSION.jobs)
    with pytest.raises(FilterError, match=r"there are .*loss"):
        check_names(compile_filter("momentum>0"), SESSION.jobs)


@pytest.mark.parametrize("text", ["", "lr>1e-3 failed", "loss<3", "optim.lr=1", "a b"])
def test_names_that_some_job_has_are_fine(text: str) -> None:
    check_names(compile_filter(text), SESSION.jobs)


@pytest.mark.parametrize("text", ["lr>", "lr > 1 and", "lr ==", "stage:", "min(lr"])
def test_what_is_still_being_typed_is_not_judged(text: str) -> None:
    assert is_unfinished(text)
    assert not is_unfinished(f"{text} 1)")
