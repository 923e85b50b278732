"""What a campaign found: groups, averages, what is missing, forms to keep it in."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.model.outputs import DoneWork, NotedMetrics
from autoexp_tui.model.rules import Monitoring, ResultSpec
from autoexp_tui.model.snapshot import Curve, Live
from autoexp_tui.model.specs import Hole
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.telemetry.result_export import (
    list_json,
    write_csv,
    write_json,
    write_markdown,
    write_text,
)
from autoexp_tui.telemetry.results import (
    VERSION,
    Measure,
    ResultTable,
    Source,
    build_heat_map,
    group_runs,
    list_metrics,
    parse_measures,
    read_value,
)
from tests.planning.plans import job, plan

DONE, RUNS = JobState.COMPLETED, JobState.RUNNING
LOSS, LOW, HIGH = Measure("loss"), Measure("loss", "min"), Measure("loss", "max")
OVER: Any = "mean and deviation over seed, found by its name"


def noted(values: Mapping[str, Any], **fields: Any) -> NotedMetrics:
    usual = {"attempt": 1, "step": 9, "total": 9, "values": values}
    return NotedMetrics(**{**usual, **fields})


def record(name: str, at: int, own: Mapping[str, Any], **fields: Any) -> JobRecord:
    """A job of the stage `train` that completed with `loss` as its newest value."""
    stage, loss = fields.pop("stage", "train"), fields.pop("loss", None)
    told = noted({"loss": loss}) if loss is not None else None
    spec = job(name, at, stage=stage, parameters=own)
    return JobRecord(**{"spec": spec, "state": DONE, "noted": told, **fields})


def source(*records: JobRecord, session: str = "", **fields: Any) -> Source:
    made = plan([one.spec for one in records], **fields)
    return Source(made, records, [None] * len(records), session)


def table(*sources: Source, measures: Any = (LOSS,), **asked: Any) -> ResultTable:
    return ResultTable(sources, group_runs(sources, **asked), measures)


def two_seeds(*losses: Any, **fields: Any) -> Source:
    """Two rates, two seeds each."""
    return source(
        *(
            record(f"j{at}", at, {"optim.lr": (1e-3, 3e-3)[at // 2], "m.seed": at % 2}
                   | fields.get("own", {}), loss=loss)
            for at, loss in enumerate(losses)
        ),
        **{k: v for k, v in fields.items() if k != "own"},
    )  # fmt: skip


def test_runs_that_differ_in_the_seed_alone_are_one_row_with_mean_and_deviation() -> (
    None
):
    shown = table(two_seeds(3.0, 4.0, 1.0, 1.5))
    assert shown.groups.describe_over() == OVER
    assert [shown.describe_row(at) for at in shown.sort_rows(1)] == [
        "lr=3e-3",
        "lr=1e-3",
    ]
    cell = shown.cell(0, 0)
    assert (cell.mean, cell.finite, cell.of) == (3.5, 2, 2)
    assert cell.deviation == pytest.approx(math.sqrt(0.5))
    assert replace(shown, baseline=0).list_cells(1)[0][1] == -2.25


@pytest.mark.parametrize(
    ("over", "rows", "told"),
    [
        (None, 2, OVER),
        ((), 4, ""),
        (("optim.lr",), 2, "mean and deviation over lr"),
        (("lr", "seed"), 1, "mean and deviation over lr, seed"),
        (("sed",), 4, "no job of this stage sets sed"),
    ],
)
def test_the_config_says_what_is_averaged_over(over: Any, rows: int, told: str) -> None:
    rules = Monitoring(result=ResultSpec(over=over))
    groups = group_runs([two_seeds(1.0, 2.0, 3.0, 4.0, monitoring=rules)])
    assert (len(groups.rows), groups.describe_over()) == (rows, told)


def test_rows_by_some_parameters_average_over_all_others() -> None:
    groups = group_runs([two_seeds(1.0, 2.0, 3.0, 4.0)], by=("seed",))
    assert ([one.key for one in groups.axes], groups.over) == (
        ["m.seed"],
        ("optim.lr",),
    )


def test_what_is_not_finite_is_counted_and_never_averaged() -> None:
    shown = table(two_seeds("nan", 2.0, "inf", "nan"))
    assert shown.describe_cell(0, 0) == "2.0000 1/2"
    assert shown.cell(0, 0).problems == {"nan": 1}
    assert shown.describe_cell(1, 0) == "inf; nan"
    assert shown.sort_rows(1) == shown.sort_rows(1, reverse=True) == (0, 1)


def test_values_of_any_size_have_a_mean_and_a_deviation() -> None:
    cell = table(two_seeds(1.7e308, 1.6e308, 1.0, 1.0)).cell(0, 0)
    assert cell.mean == pytest.approx(1.65e308)
    assert cell.deviation == pytest.approx(7.07e306, rel=0.01)


STATES: list[tuple[Mapping[str, Any], str]] = [
    ({"state": RUNS}, "running, no value yet"),
    ({"state": JobState.PLANNED}, "not submitted"),
    ({"state": JobState.WAITING}, "waiting"),
    ({"state": JobState.FAILED, "cause": Cause.OUT_OF_MEMORY}, "failed: out of memory"),
    ({}, "no metric was recorded"),
    ({"noted": noted({"acc": 1.0})}, "its log tells no loss"),
]


@pytest.mark.parametrize(("fields", "why"), STATES)
def test_what_is_missing_says_why(fields: Mapping[str, Any], why: str) -> None:
    value = read_value(record("a", 0, {}, **fields), None, LOSS, Measure("other"))
    assert (value.number, value.why) == (None, why)


CURVE = Curve((1, 10, 20), (3.0, 1.0, 2.0))
ENDED = noted({"loss": 2.0}, lows={"loss": (0.5, 200)})
VALUES: dict[str, tuple[JobRecord, Live | None, Measure, tuple[Any, Any, str]]] = {
    "the best of a run that goes on": (
        record("a", 0, {}, state=RUNS),
        Live(metrics={"loss": 2.0}, lows={"loss": (1.0, 10)}), LOW, (1.0, 10, "")),
    "of a replay, by its curve": (
        record("a", 0, {}, state=RUNS),
        Live(metrics={"loss": 2.0}, curves={"loss": CURVE}), HIGH, (3.0, 1, "")),
    "as it was noted": (
        record("a", 0, {}, noted=ENDED), None, LOW, (0.5, 200, "")),
    "of an older version": (
        record("a", 0, {}, loss=2.0), None, LOW,
        (None, None, "its best was not recorded by the version that ran it")),
    "of an older version, where it is the result": (
        record("a", 0, {}, noted=noted({"loss": 2.0}, result=1.5)), None,
        Measure("acc", "max"), (1.5, None, "")),
    "the nearest step of a curve": (
        record("a", 0, {}), Live(curves={"loss": CURVE}), Measure("loss", "step", 17),
        (2.0, 20, "")),
    "a step that was not reached": (
        record("a", 0, {}, state=RUNS), Live(curves={"loss": CURVE}),
        Measure("loss", "step", 99), (None, None, "is at step 20")),
    "a step of a log that nobody has in memory": (
        record("a", 0, {}, loss=2.0), None, Measure("loss", "step", 5),
        (None, None, "no curve at hand: no engine has its log in memory")),
    "work of an earlier session, not submitted again": (
        record("a", 0, {}, state=JobState.PLANNED, done=DoneWork(
            job="a", session="s", mark="m", fingerprint="f", at=0.0, step=9,
            values={"loss": 2.0})), None, LOSS, (2.0, None, "")),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_a_value_of_a_run(case: str) -> None:
    run, live, measure, expected = VALUES[case]
    assert tuple(read_value(run, live, measure, Measure("acc", "max"))) == expected


def test_the_stage_that_says_what_its_result_is_is_shown_unasked() -> None:
    own = {"r": Monitoring(result=ResultSpec(metric="Acc", mode="max"))}
    jobs = [
        replace(job(f"{stage}{at}", n, stage=stage), rules="r" * (stage == "eval"))
        for n, (stage, at) in enumerate(
            [(s, at) for s in ("train", "eval", "report") for at in "ab"][:5]
        )
    ]
    made = plan(jobs, rule_sets=own)
    records = [JobRecord(spec=one) for one in jobs]
    groups = group_runs([Source(made, records, [None] * 5)])
    assert (groups.stage, groups.result) == ("eval", Measure("acc", "max"))


def test_calls_of_agents_are_no_results() -> None:
    calls = [replace(job(f"c{at}", at, stage="call"), place="beside") for at in (0, 1)]
    jobs = (*calls, job("run", 2, stage="run"))
    records = [JobRecord(spec=one) for one in jobs]
    for some, stages in ((jobs, ("run",)), (jobs[:2], ())):
        groups = group_runs([Source(plan([*some]), records, [None] * len(some))])
        assert groups.stages == stages
        assert len(groups.rows) == len(stages)


def test_sessions_stand_in_one_table_with_a_column_that_tells_them_apart() -> None:
    shown = table(
        two_seeds(1, 1, 2, 2, session="a1"), two_seeds(3, 3, 0, 0, session="b2")
    )
    assert [shown.describe_row(at) for at in shown.sort_rows(2)] == [
        "session=b2 lr=3e-3", "session=a1 lr=1e-3",
        "session=a1 lr=3e-3", "session=b2 lr=1e-3",
    ]  # fmt: skip


def test_metrics_are_asked_for_by_name_way_and_step() -> None:
    known = ("loss", "eval_loss", "acc")
    asked = "val_loss:min, acc loss@500"
    measures = (
        Measure("eval_loss", "min"),
        Measure("acc"),
        Measure("loss", "step", 500),
    )
    assert parse_measures(asked, known) == measures
    assert parse_measures("*", known) == tuple(map(Measure, known))
    for wrong, word in (("los", "loss"), ("loss:best", "reads"), ("loss@x", "reads")):
        with pytest.raises(ValueError, match=word):
            parse_measures(wrong, known)
    assert [one.is_large_good for one in (LOW, HIGH, Measure("val_acc"))] == [
        *(False, True, True)
    ]


def test_a_metric_that_only_some_runs_have_is_a_column_of_all() -> None:
    records = [record(f"j{at}", at, {"lr": at}, loss=1.0) for at in range(3)]
    wide = {f"m{n}": 1.0 for n in range(5000)}
    given = source(*records, record("w", 3, {"lr": 3}, noted=noted(wide)))
    names = list_metrics([given], group_runs([given]))
    assert len(names) == 5001
    shown = table(given, measures=tuple(map(Measure, names)))
    assert [shown.describe_cell(row, 5000) for row in (0, 3)] == [
        *("its log tells no m4999", "1.0000")
    ]


def test_jobs_whose_values_are_all_alike_have_a_row_each_by_their_version() -> None:
    jobs = (("a", 1), ("a_v2", 1), ("b", 2))
    given = source(
        *(record(n, at, {"lr": lr}, loss=at) for at, (n, lr) in enumerate(jobs))
    )
    groups = group_runs([given])
    assert [one.label for one in groups.axes] == ["lr", "version"]
    assert [row.jobs for row in groups.rows] == [(0,), (1,), (2,)]
    versions = [
        row["parameters"][VERSION] for row in list_json(table(given), (0, 1, 2))["rows"]
    ]
    assert versions == ["1", "2", "1"]
    assert [row.jobs for row in group_runs([given], by=["lr"]).rows] == [(0, 1), (2,)]


HOSTILE = {"note": 'a, "b"\nc|d', "api_token": "s3cret-value"}


def test_csv_keeps_commas_quotes_and_newlines_and_no_secret() -> None:
    given = two_seeds(1.0, 2.0, "nan", 4.0, own=HOSTILE)
    other = record("x", 4, {**HOSTILE, "note": "plain", "api_token": "other"}, loss=9.0)
    shown = table(source(*given.jobs, other), measures=(LOSS, LOW))
    rows = list(csv.DictReader(io.StringIO(write_csv(shown, shown.sort_rows(0)))))
    assert [row["note"] for row in rows].count(HOSTILE["note"]) == 2
    assert {row["optim.lr"] for row in rows} == {"0.001", "0.003", ""}
    first = next(row for row in rows if row["optim.lr"] == "0.003")
    assert (first["loss"], first["loss.n"], first["loss.missing"]) == (
        "4.0",
        "1",
        "1x nan",
    )
    assert "s3cret" not in write_csv(shown, (0, 1)) + write_json(shown, (0, 1))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("\t=1", "'\t=1"),
        ("-1e-3", "-1e-3"),
        (-0.5, "-0.5"),
        ("a=1", "a=1"),
    ],
)
def test_csv_gives_no_formula_to_a_spreadsheet_and_every_number_as_it_is(
    value: str | float, cell: str
) -> None:
    both = (record(f"j{at}", at, {"=k": one}) for at, one in enumerate((value, "z")))
    head, row, _ = csv.reader(io.StringIO(write_csv(table(source(*both)), (0, 1))))
    assert (head[0], row[0]) == ("'=k", cell)


def test_markdown_and_text_have_a_line_a_row_whatever_the_values_hold() -> None:
    shown = table(
        two_seeds(1.0, 2.0, 3.0, 4.0, own=HOSTILE), over=("lr",), by=("note", "seed")
    )
    assert [
        line.count(" | ")
        for line in write_markdown(shown, (0, 1)).split("\n\n")[0].splitlines()
    ] == [2] * 4
    assert len(write_text(shown, (0, 1)).splitlines()) == 3


def test_json_has_the_values_as_they_are_and_no_nan() -> None:
    shown = replace(table(two_seeds("nan", 2.0, 4.0, 6.0)), baseline=0)
    tree = json.loads(write_json(shown, (1, 0)), parse_constant=pytest.fail)
    assert tree == json.loads(json.dumps(list_json(shown, (1, 0))))
    best, other = tree["rows"]
    assert best["parameters"] == {"optim.lr": 0.003}
    assert best["jobs"] == ["j2", "j3"]
    assert best["results"][0]["difference"] == 3.0
    assert other["results"][0]["missing"] == {"nan": 1}


def test_a_heat_map_has_the_best_of_each_field_and_names_its_holes() -> None:
    own = [(1, 8), (1, 16), (2, 8), (2, 8)]
    records = [
        record(f"j{at}", at, {"lr": lr, "bsz": size, "wd": at}, loss=loss)
        for at, ((lr, size), loss) in enumerate(
            zip(own, (4.0, 1.0, 3.0, 2.0), strict=True)
        )
    ]
    hole = Hole(parameters={"lr": 2, "bsz": 16}, filter="not big", where="sweep.filter")
    shown = table(source(*records, holes=(hole,)))
    heat = build_heat_map(shown, 1, 0, 0)
    assert {key: (cell.rows, cell.level) for key, cell in heat.cells.items()} == {
        ("1", "8"): ((0,), 0), ("1", "16"): ((1,), 3), ("2", "8"): ((3, 2), 2),
    }  # fmt: skip
    assert heat.holes == {("2", "16"): "not big"}
