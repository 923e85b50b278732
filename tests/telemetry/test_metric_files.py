"""What is read of files of metrics."""

from __future__ import annotations

import math
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import MetricFile
from autoexp_tui.telemetry import metric_files
from autoexp_tui.telemetry.metric_files import FileReader
from autoexp_tui.telemetry.metrics import Point
from tests.model.builders import job
from tests.telemetry.cuts import cut


def read(form: str, text: str, **fields: object) -> list[Point]:
    file = MetricFile(path="x", format=form, **fields)  # type: ignore[arg-type]
    return FileReader(file).read(text.encode())


def told(points: list[Point]) -> list[tuple[int, dict[str, float]]]:
    return [(point.step, dict(point.values)) for point in points]


@pytest.mark.parametrize(("path", "name", "lies"), [
    ("{stage}/metrics.jsonl", "a", "/out/a/train/metrics.jsonl"),
    ("/m/{name}.csv", "a", "/m/a.csv"),
    ("{name}/v*/m.csv", "a[1]", "/out/a[[]1]/a[[]1]/v*/m.csv"),
])  # fmt: skip
def test_a_file_lies_where_its_path_says(path: str, name: str, lies: str) -> None:
    file = MetricFile(path=path, format="csv")
    assert metric_files.locate_file(file, job(name, stage="train")) == lies
    unknown = metric_files.find_unknown_fields(f"{path}{{nmae}}/{{x}}.csv")
    assert unknown == ["nmae", "x"]


Told = list[tuple[int, dict[str, float]]]
READ: dict[str, tuple[str, str, dict[str, object], Told]] = {
    "every number of an object is a metric": (
        "jsonl", '{"step": 5, "train_loss": 2.5, "lr": 1e-3, "note": "x", "ok": true}',
        {}, [(5, {"loss": 2.5, "learning_rate": 1e-3})]),
    "nested keys are joined by dots": (
        "jsonl", '{"global_step": 3, "eval": {"ppl": 9.0, "by": {"de": 8}}}', {},
        [(3, {"eval_ppl": 9.0, "eval_by_de": 8.0})]),
    "metrics and step may be named": (
        "jsonl", '{"t": {"n": "7"}, "train": {"nll": "2.5", "x": 1}, "opt": {"lr": 1}}',
        {"step": "t.n", "metrics": {"loss": "train.nll", "lr": "opt.lr"}},
        [(7, {"loss": 2.5, "learning_rate": 1.0})]),
    "private keys may be the step; what is no number says nothing": (
        "jsonl", '{"_step": 4, "_runtime": 12.5, "host": "10", "gone": null, "all": [1]'
        ', "train/loss": 2.0}', {}, [(4, {"loss": 2.0})]),
    "new keys may come at any time": (
        "jsonl", '{"step": 1, "loss": 3}\n{"step": 2, "loss": 2, "acc": 0.5}', {},
        [(1, {"loss": 3.0}), (2, {"loss": 2.0, "acc": 0.5})]),
    "empty cells say nothing": (
        "csv", "epoch,step,train_loss,val_loss\n0,10,2.5,\n0,20,,2.25", {},
        [(10, {"epoch": 0.0, "loss": 2.5}), (20, {"epoch": 0.0, "eval_loss": 2.25})]),
    "tabs part cells": ("csv", "step\tloss\n1\t2.5", {}, [(1, {"loss": 2.5})]),
    "semicolons part cells": ("csv", "step;loss\n1;2.5", {}, [(1, {"loss": 2.5})]),
    "a header that comes again is no row; another holds for what follows": (
        "csv", "step,loss\n1,3\nstep,loss\n2,2\nstep,acc,loss\n3,0.5,2", {},
        [(1, {"loss": 3.0}), (2, {"loss": 2.0}), (3, {"acc": 0.5, "loss": 2.0})]),
    "rows have more or fewer cells": (
        "csv", "step,loss,lr\n1,3\n2,2,0.1,99", {},
        [(1, {"loss": 3.0}), (2, {"loss": 2.0, "learning_rate": 0.1})]),
    "without a header columns are numbered": (
        "csv", "1,2.5\n2,2.0", {"step": "column 1", "metrics": {"loss": "column 2"}},
        [(1, {"loss": 2.5}), (2, {"loss": 2.0})]),
    "a mark before the header and carriage returns are no part of names": (
        "csv", "\ufeff# step,loss\r\n1,3\r\n2,2\r", {},
        [(1, {"loss": 3.0}), (2, {"loss": 2.0})]),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_is_read_of_a_file(case: str) -> None:
    form, text, fields, expected = READ[case]
    assert told(read(form, text + "\n", **fields)) == expected


@pytest.mark.parametrize(
    "line",
    ["", "text", "[1, 2]", '{"step": 5, "los', "{" * 2000, '{"loss": 1e9999999}', "3"],
)
def test_a_line_that_cannot_be_read_costs_only_itself(line: str) -> None:
    points = read("jsonl", f'{line}\n{{"step": 6, "loss": 2}}\n')
    assert told(points)[-1] == (6, {"loss": 2.0})
    for spelled in ("NaN", '"nan"', '"NaN"', '"Infinity"', "-Infinity", '"-inf"'):
        (point,) = read("jsonl", f'{{"step": 1, "loss": {spelled}}}\n')
        assert not math.isfinite(point.values["loss"])


def test_lines_without_a_step_are_counted_and_know_where_they_begin() -> None:
    reader = FileReader(MetricFile(path="x", format="jsonl"))
    points = reader.read(b'\n{"loss": 3}\n{"loss": 2}\n', 100)
    assert [(point.step, point.offset) for point in points] == [(1, 101), (2, 113)]
    assert not reader.has_steps


def test_quoted_cells_may_hold_anything_but_another_line() -> None:
    text = 'step,"note, of ""x""",loss\n1,"a, b",2.5\n2,"e,2.0\n3,f,1.5\n'
    assert told(read("csv", text)) == [(1, {"loss": 2.5}), (2, {}), (3, {"loss": 1.5})]


LINES = st.lists(
    st.sampled_from(["step,loss", "step,acc,loss", "1,2.5", "2,nan,3", '3,"x y",4',
                     '"', "", '{"step": 4, "loss": 1}',
                     '{"step": 5, "a": {"b": -Infinity}}']),
    max_size=12,
)  # fmt: skip


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@given(lines=LINES, cuts=st.sets(st.integers(1, 24)))
def test_it_does_not_matter_how_a_file_was_cut_at_line_ends(
    form: str, lines: list[str], cuts: set[int]
) -> None:
    data = [f"{line}\n".encode() for line in lines]
    file = MetricFile(path="x", format=form)  # type: ignore[arg-type]
    reader, parts = FileReader(file), []
    for chunk, place in cut(list(chain(*(d.splitlines(True) for d in data))), cuts):
        parts += reader.read(chunk, place)
    assert repr(parts) == repr(FileReader(file).read(b"".join(data)))
