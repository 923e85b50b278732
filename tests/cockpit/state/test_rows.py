"""Rows come in the order asked for; parameters and filters are what a person means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from autoexp_tui.cockpit.state import parameters
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.rows import (
    Arrangement,
    Column,
    FilterError,
    Row,
    build_rows,
    compile_filter,
    is_falling,
    is_stale,
    is_unfinished,
    sort_by,
    sort_next,
)
from autoexp_tui.cockpit.state.session import (
    NEEDS,
    JobView,
    Look,
    SessionView,
    build_session,
)
from autoexp_tui.cockpit.widgets import job_panes
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause
from tests.cockpit.plans import opened
from tests.cockpit.views import SESSION, WORDS
from tests.planning.plans import job, plan
from tests.support.scripted_handle import moved

MORE = (*job_panes.list_choosable(SESSION, WORDS),)
COLUMNS = job_panes.choose_columns(SESSION, WORDS, 140, 400, MORE).shown
PLAIN = Arrangement()
(LOSS,) = (column for column in COLUMNS if column.kind == "loss")


def jobs_of(wanted: Arrangement) -> list[JobView]:
    return [SESSION.jobs[row.jobs[0]] for row in build_rows(SESSION, wanted)]


def test_who_needs_a_person_comes_first_the_gravest_before_others() -> None:
    looks = [job.look for job in jobs_of(Arrangement(order="needs"))]
    needing = [look for look in looks if look in NEEDS]
    assert looks[: len(needing)] == needing == sorted(needing, key=NEEDS.index)


def test_folding_loses_nobody_and_folds_only_what_is_alike() -> None:
    def fold(*unfolded: str) -> tuple[Row, ...]:
        wanted = Arrangement(fold=True, unfolded=frozenset(unfolded))
        return build_rows(SESSION, wanted)

    rows = fold()
    folded = sorted(place for row in rows for place in row.jobs)
    assert folded == list(range(len(SESSION.jobs)))
    for row in rows:
        members = [SESSION.jobs[place] for place in row.jobs]
        assert len({(job.look, job.stage) for job in members}) == 1
        assert members[0].look is not Look.RUNNING or len(members) == 1
    largest = max(rows, key=lambda row: len(row.jobs))
    assert len(fold(largest.key)) == len(rows) + len(largest.jobs) - 1


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.id)
def test_every_column_can_be_sorted_by(column: Column) -> None:
    rows = jobs_of(sort_by(SESSION, column, PLAIN))
    assert len(rows) == len(SESSION.jobs)
    if column.key == "optim.lr":
        values = [job.record.spec.parameters.get("optim.lr") for job in rows]
        known = [float(str(value)) for value in values if value is not None]
        assert known == sorted(known)


@pytest.mark.parametrize("again", [False, True])
def test_losses_sort_lowest_first_then_the_other_way_missing_last(again: bool) -> None:
    wanted = sort_by(SESSION, LOSS, PLAIN)
    wanted = sort_next(SESSION, COLUMNS, wanted) if again else wanted
    assert is_falling(wanted) is again
    (time,) = (column for column in COLUMNS if column.kind == "time")
    assert is_falling(sort_by(SESSION, time, PLAIN))
    values = [job.list_metrics().get("loss") for job in jobs_of(wanted)]
    known = [value for value in values if value is not None]
    assert values[: len(known)] == sorted(known, reverse=again)
    assert values[len(known) :] == [None] * (len(values) - len(known))
    later = build_session(moved(SESSION.snapshot, 600), SESSION)  # it stays as it was
    assert build_rows(later, wanted) == build_rows(SESSION, wanted)


def test_a_sort_is_stale_once_a_value_is_out_of_its_place_and_is_then_done_again() -> (
    None
):
    wanted = sort_next(SESSION, COLUMNS, PLAIN)  # the first: by results
    assert wanted.column == LOSS
    names = [job.name for job in wanted.sorted]

    def with_loss(place: int, value: float) -> SessionView:
        job = SESSION.find_job(names[place])
        assert job is not None
        lives = list(SESSION.snapshot.live)
        lives[job.index] = Live(step=9, metrics={"loss": value})
        return build_session(replace(SESSION.snapshot, live=tuple(lives)), SESSION)

    assert not is_stale(SESSION, wanted)
    assert not is_stale(with_loss(0, 1.0), wanted)  # it is the first still
    worse = with_loss(0, 9.0)
    assert is_stale(worse, wanted)
    assert not is_stale(worse, replace(wanted, order="plan"))
    again = sort_next(worse, COLUMNS, wanted, stale=True)
    assert (again.reversed, again.column) == (False, LOSS)
    assert [job.name for job in again.sorted][:3] == names[1:4]


def has_rate(holds: Callable[[float], bool]) -> Callable[[JobView], bool]:
    def keeps(job: JobView) -> bool:
        rate = job.record.spec.parameters.get("optim.lr")
        return rate is not None and holds(float(str(rate)))

    return keeps


KEEPS: dict[str, Callable[[JobView], bool]] = {
    "cooldown": lambda job: job.stage == "cooldown",
    "CANNOT": lambda job: job.look is Look.DOOMED,
    "failed stable": lambda job: (job.look, job.stage) == (Look.FAILED, "stable"),
    "memory": lambda job: job.record.cause is Cause.OUT_OF_MEMORY,
    "lr>1e-3": has_rate(lambda rate: rate > 1e-3),
    "optim.lr>=2e-3": has_rate(lambda rate: rate >= 2e-3),
    "lr!=1e-3 lr>1e-3": has_rate(lambda rate: rate > 1e-3),
    "lr=0.001": has_rate(lambda rate: rate == 1e-3),
    "stage:cooldown": lambda job: job.stage == "cooldown",
    "stage!=cooldown": lambda job: job.stage != "cooldown",
    "loss<2.6": lambda job: job.list_metrics().get("loss", 9.0) < 2.6,
    "momentum>0": lambda job: False,
    "in doubt !": lambda job: False,
    "stage == 'stable' and lr > 0": lambda job: job.stage == "stable",
    "lr > 0 and stage in ['stable']": lambda job: job.stage == "stable",
    "stage == 1 and lr > 2": lambda job: False,
}


@pytest.mark.parametrize("text", KEEPS)
def test_a_filter_keeps_what_a_person_means(text: str) -> None:
    found = compile_filter(text)
    assert found is not None
    assert found.text == text
    for one in SESSION.jobs:
        assert found.keeps(one) == KEEPS[text](one), one.name


@pytest.mark.parametrize("text", ["lr > ! 2", "(lr > 1e-3", "lr != 1 and ! x"])
def test_a_broken_expression_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(FilterError, match="does not parse"):
        compile_filter(text)


@pytest.mark.parametrize("text", ["lr>", "lr > 1 and", "lr ==", "stage:", "min(lr"])
def test_what_is_still_being_typed_is_not_judged(text: str) -> None:
    assert is_unfinished(text)
    assert not is_unfinished(f"{text} 1)")


def sweep(*points: Mapping[str, object], stages: str = "") -> Plan:
    """A plan with a job for each of these values, in stages of one letter."""
    names = stages or " " * len(points)
    told = zip(names, points, strict=True)
    return plan(
        [
            job(f"j{n}", n, stage=stage.strip(), parameters=values)
            for n, (stage, values) in enumerate(told)
        ]
    )


X1, X2 = {"x": 1}, {"x": 2}


@pytest.mark.parametrize(
    ("made", "shown", "families"),
    [
        (sweep({"a.lr": 1, "seed": 7}, {"a.lr": 2, "seed": 7}), "lr", "lr"),
        (sweep({"a.k": 1, "b.k": 3}, {"a.k": 2, "b.k": 4}), "a.k b.k", "a.k b.k"),
        (sweep({"stage": "a"}, {"stage": "b"}, stages="ab"), "", ""),
        (sweep({"x": 1}, {"x": True}), "x", "x"),
        (sweep({"x": [1, 2]}, {"x": {"a": 1}}), "x", "x"),
        (sweep({}, {"k": 2, **X1}, {"k": 3, **X1}, X2, stages="abbc"), "k", ""),
        (sweep(X1, {"k": 2, **X1}, X2, {"k": 3, **X2}, stages="abab"), "x k", "x"),
    ],
)
def test_what_varies_is_shown_by_a_name_of_its_own(
    made: Plan, shown: str, families: str
) -> None:
    words = PlanWords(made)
    assert [one.label for one in words.parameters] == shown.split()
    assert [one.label for one in words.of_families] == families.split()


def test_values_are_spelled_as_a_person_writes_them() -> None:
    values = (1e-4, True, "a\x1b[31mb", "")
    assert [*map(parameters.format_value, values)] == ["1e-4", "true", "ab", '""']


def test_jobs_are_named_by_what_they_share_and_one_by_all_of_it() -> None:
    points = sweep({"lr": 1, "bsz": 8}, {"lr": 2, "bsz": 8}, {"lr": 3, "bsz": 9})
    words, jobs = PlanWords(points), build_session(opened(points)).jobs
    assert words.find_common(jobs[:2]) == "bsz=8"
    assert words.find_common(jobs) == ""
    assert words.find_common(jobs[:1]) == "lr=1 bsz=8"
