"""What is read from the lines of training logs, and of files of metrics."""

from __future__ import annotations

import math
import random
import time
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import MetricFile, MetricPattern
from autoexp_tui.telemetry import metric_files
from autoexp_tui.telemetry import metrics as m
from autoexp_tui.telemetry.metric_files import FileReader
from autoexp_tui.telemetry.metrics import MetricReader, Point
from autoexp_tui.text.patterns import MAX_LINE
from tests.model.builders import job
from tests.telemetry.cuts import cut

MEGATRON = (
    " [2026-01-01 12:00:00] iteration     8000/   10000 | consumed samples: 512000 |"
    " elapsed time per iteration (ms): 1.2 | tokens/s: 51200 | learning rate: 1.000E-03"
    " | lm loss: 2.915E+00 | loss scale: 1.0 | grad norm: 0.812 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
TORCHTITAN = "step: 10  loss:  7.9  grad_norm: 1.2 memory: 30GiB  tps: 2,345  mfu: 30%"
BAR = "50%|█████     | 500/1000 [00:10<00:10, 50.0it/s, loss=2.91]"


def reader_of(*patterns: MetricPattern) -> MetricReader:
    return MetricReader(m.OwnMetrics([m.compile_metric(one) for one in patterns]))


def points(text: str, *patterns: MetricPattern) -> list[Point]:
    return reader_of(*patterns).read(text.encode() + b"\n")


@pytest.mark.parametrize(("line", "values"), [
    (TORCHTITAN,
     {"loss": 7.9, "grad_norm": 1.2, "tokens_per_second": 2345.0, "mfu": 30.0}),
    ("{'loss': 2.9, 'grad_norm': 1.5, 'learning_rate': 1e-4, 'epoch': 0.1}",
     {"loss": 2.9, "grad_norm": 1.5, "learning_rate": 1e-4, "epoch": 0.1}),
    ('{"step": 500, "loss": 4.56, "lr": 3e-4}', {"loss": 4.56, "learning_rate": 3e-4}),
    ('{"loss": "2.9", "num_updates": "5"}', {"loss": 2.9, "num_updates": 5.0}),
    ("lm loss: 2.9E+00", {"loss": 2.9}), ("loss: 2.9", {"loss": 2.9}),
    ("loss=2.9", {"loss": 2.9}), ("loss 2.9", {"loss": 2.9}),
    ("Training Loss: 3.5", {"loss": 3.5}), ("train/loss: 2.0", {"loss": 2.0}),
    ("loss/train: 2.0", {"loss": 2.0}), ("cross_entropy_loss=2.0", {"loss": 2.0}),
    ("loss: tensor(2.9, device='cuda:0')", {"loss": 2.9}),
    ("loss: -0.5e-3", {"loss": -0.0005}), ("loss=.5", {"loss": 0.5}),
    ("loss=-0.5", {"loss": -0.5}), ("{'loss': 2.3}", {"loss": 2.3}),
    ("lr 0.1 loss 2", {"learning_rate": 0.1, "loss": 2.0}),
    ("step 5 loss 2, 51.2k tok/s", {"loss": 2.0, "tokens_per_second": 51200.0}),
    ("step 5 loss 2 | tok/sec: 1,234 | n: 1,024",
     {"loss": 2.0, "tokens_per_second": 1234.0, "n": 1024.0}),
    ("lm loss: 2.9 | load_balancing_loss: 0.01",
     {"loss": 2.9, "load_balancing_loss": 0.01}),
    ("loss: 3.0, interval: 10", {"loss": 3.0, "interval": 10.0}),
    ("[/home/u/eval/run.py] step 1 loss 2.0", {"loss": 2.0}), (BAR, {"loss": 2.91}),
    ("eval_loss: 2.1", {"eval_loss": 2.1}),
    ("{'eval_loss': 2.1, 'eval_f1': 3.0}", {"eval_loss": 2.1, "eval_f1": 3.0}),
    ("val loss: 2.1", {"eval_loss": 2.1}), ("val/loss=2.1", {"eval_loss": 2.1}),
    ("loss/val=2.1", {"eval_loss": 2.1}), ("validation loss 2.1", {"eval_loss": 2.1}),
    ("test loss: 2.1, accuracy: 0.9", {"eval_loss": 2.1, "accuracy": 0.9}),
    ("[held-out] loss: 2.1", {"eval_loss": 2.1}),
    ("[eval] step 3/40 loss 2.1", {"eval_loss": 2.1}),
    ("validation loss at iteration 10 | lm loss value: 2.1E+00 | lm loss PPL: 8",
     {"eval_loss": 2.1, "eval_lm_loss_ppl": 8.0}),
    ("step 250: train loss 1.9, val loss 2.1", {"loss": 1.9, "eval_loss": 2.1}),
    ("step 250: val loss 2.1, train loss 1.9", {"loss": 1.9, "eval_loss": 2.1}),
    ("train_loss=1.9, val_loss=2.1", {"loss": 1.9, "eval_loss": 2.1}),
    ("step 250 | val loss 2.1 | loss 1.9", {"loss": 1.9, "eval_loss": 2.1}),
    ("held-out loss: 1.576 | bits per byte: 2.2",
     {"heldout_loss": 1.576, "bits_per_byte": 2.2}),
    ("held out loss: 1.576", {"heldout_loss": 1.576}),
    ("Heldout_Loss=1.576", {"heldout_loss": 1.576}),
    ("baseline loss: 1.621", {"baseline_loss": 1.621}),
    ("step 5 | teacher loss: 2.1 | loss: 2.3", {"teacher_loss": 2.1, "loss": 2.3}),
    ("aux loss: 3.0", {"aux_loss": 3.0}), ("z-loss: 0.1", {"zloss": 0.1}),
    ("moe/aux_loss=0.01", {"moe_aux_loss": 0.01}), ("best loss: 5", {"best_loss": 5.0}),
    ("the loss: 2.0", {"loss": 2.0}), ("INFO loss 2.0", {"loss": 2.0}),
    ("cross-entropy loss 2.0", {"loss": 2.0}),
    ("INFO:tensorflow:loss = 0.3, step = 100 (2.1 sec)", {"loss": 0.3}),
    ("step 5 loss nan lr 1e-4 grad_norm 2 tok/s 51k",
     {"loss": math.nan, "learning_rate": 1e-4, "grad_norm": 2.0,
      "tokens_per_second": 51_000.0}),
    ("learning rate=0.1 gradient norm=1,234.5 loss=2.0",
     {"loss": 2.0, "learning_rate": 0.1, "grad_norm": 1234.5}),
    *((line, {}) for line in (
        "no loss: 3", "closs: 3", "loss scale: 4096.0", "loss_scale=4096",
        "loss2: 3.0", "loss: 90%", "loss: high", "loss_fn=CrossEntropy", "Epoch 3/10",
        "warmup_steps: 500", "3 s/iter: 0.3", "ms per step: 120", "eval step 3/40",
        "saved checkpoint from iteration 8000 to /o/iter_00008000",
        "stops at iteration 10000", "learning rate set to 3", "")),
    *((line.format(value), {"loss": float(value)})
      for value in ("nan", "NaN", "inf", "-Infinity")
      for line in ("loss: {}", "step 5 | loss: {} |", "iteration 7: loss is {}")),
])  # fmt: skip
def test_values_are_read_and_only_the_loss_is_the_loss(
    line: str, values: dict[str, float]
) -> None:
    found = [sorted(one.values.items()) for one in points(line)]
    assert repr(found) == repr([sorted(values.items())] if values else [])


@pytest.mark.parametrize(("text", "steps"), [
    (MEGATRON, [(8000, 10000)]), ("step 80 of 100", [(80, 100)]),
    ("Iteration 150 loss=2.34", [150]),
    ("iter 100: loss 2.5123, time 23.4ms, mfu 30.1%", [100]),
    ("global_step=77 loss 1", [77]), ('{"step": 500, "loss": 4.56}', [500]),
    ("step 1,000/10,000 loss 2", [(1000, 10000)]),
    ("step 00010/21400 (0.05%) | loss: 10.5", [(10, 21400)]),
    ("step_time=0.4 step=3 loss=3", [3]), ("[12:00:00] INFO step 80", [80]),
    ("Epoch 2/3 step 80/100 loss 2", [(80, 100)]), (BAR, [(500, 1000)]),
    ("step 80/100\n  loss: 2.9\n  val loss: 3.0\nstep 81/100", [80, 80, 80, 81]),
    # a bar of an epoch counts the steps of those before it, and all where they are told
    (f"Epoch 3: {BAR}", [2500]), (f"Epoch 2/4: {BAR}", [(1500, 4000)]),
    (f"Epoch 2/4\n{BAR}\n7/9 [00:01<, loss=1]", [(1500, 4000), (1500, 4000)]),
    (f"Epoch 2/4\nstep 7 loss 1\nEpoch 3/4\n{BAR}", [7, (500, 1000)]),
    (" 9/40 [====>.] - ETA: 1s - accuracy: 0.9\n10/40 [===>] - accuracy: 1", [1, 2]),
    ("Total optimization steps = 80\n 10%|█  | 8/80 [00:01<00:09, 8it/s]\n"
     "20%|█ | 2/10 [00:01<]\n{'loss': 2, 'epoch': 1}", [(8, 80), (8, 80)]),
    # epochs alone tell how many points there will be
    ("Epoch 1/3\nloss: 3\nloss: 2\nEpoch 2/3\nloss: 2", [1, 2, (2, 6), (3, 6)]),
    ("epoch: 1 | 3 | loss: 3\nepoch: 2 | 3 | loss: 2", [1, (2, 3)]),
    ("{'loss': 3.0}\n{'loss': 2.0}\n{'eval_loss': 2.5}\n{'loss': 1.0}", [1, 2, 2, 3]),
    # a run goes back when it resumes, not for the steps of an evaluation
    ("step 80 loss 2\nstep 60 loss 3", [80, 60]),
    ("step 80/100 loss 2\n[eval] step 3/40 loss 3\nstep 81/100 loss 2",
     [(80, 100), (80, 100), (81, 100)]),
    # no step is counted where the log tells them, nor past the last one
    ("step 198/200 loss 3\nstep 200/200 loss 2\nfinal loss: 1.5\nloss 2",
     [198, 200, 200, 200]),
    ("step 600/600 loss 2\nloss 1.5\nloss 1.4", [600, 600, 600]),
    ("resumes at step 500: loss 2\nloss 1.5\nloss 1.4", [500, 501, 502]),
])  # fmt: skip
def test_each_point_has_its_step_and_the_last_one(
    text: str, steps: list[int | tuple[int, int]]
) -> None:
    for point, wanted in zip(points(text), steps, strict=True):
        told = (point.step, point.total) if isinstance(wanted, tuple) else point.step
        assert told == wanted


@pytest.mark.parametrize("line", [
    b"loss:" + b" " * 60_000 + b"x", b"loss" + b" " * 60_000 + b"x",
    b"loss: " + b"1" * 60_000 + b"x", b"loss: " + b"1" * 60_000 + b"%",
    b"lr: " + b"." + b"1" * 60_000 + b"x", b"loss: tensor(" + b" " * 60_000 + b"x",
    b"step" + b" :#" * 20_000 + b"x", b"step " + b"1" * 60_000 + b"x",
    b"step 1" + b"|111" * 15_000 + b"|1", b"step 1 of" + b" " * 60_000 + b"x",
    b"loss 1 tokens/s: " + b"1" * 60_000 + b"x",
    b"loss 1 tok/s: 1" + b"|111" * 15_000 + b"x", b"loss 1 " + b"1/" * 30_000,
    b"loss" * 15_000, b"val " * 15_000 + b"loss: 1",
    b"a-" * 15 + b"loss: 1 " + b"loss: -" * 8_000, b"info " * 12_000 + b"step 1",
], ids=lambda line: line[:12].decode())  # fmt: skip
def test_no_line_holds_our_own_reading_up(line: bytes) -> None:
    begin = time.process_time()
    for every in (0, 1 << 20):
        MetricReader().read(line + b"\n", 0, every)
    assert time.process_time() - begin < 2


def test_a_number_at_the_far_end_is_read_whole_or_not_at_all() -> None:
    line = b"step 1 loss 2.5" + b" " * (MAX_LINE - 22) + b"lr 0.00123456"
    (point,) = MetricReader().read(line + b" " * 9 + b"x" * 100 + b"\n")
    assert point.values == {"loss": 2.5}


@pytest.mark.parametrize(("name", "pattern", "text", "told"), [
    ("ppl", r"ppl ([\d.]+)", "at step 5 ppl 12.5", [(5, {"ppl": 12.5})]),
    ("loss", r"objective (\S+)", "step 1 loss 2 objective 7", [(1, {"loss": 7.0})]),
    ("loss", r"objective (\S+)", "step 2 loss 3", [(2, {})]),
    ("iter", r"tick (\d+)", "tick 7\nstep 3 loss 2", [(7, {}), (7, {"loss": 2.0})]),
    ("x", r"(\w+)=(?P<value>\d+)", "mine=7", [(1, {"x": 7.0})]),
    ("größe", r"Größe=([\d,]+)", "Größe=1,234", [(1, {"größe": 1234.0})]),
    ("x", r"x=(\w+)", "x=abc", []),
])  # fmt: skip
def test_a_users_pattern_yields_a_metric_that_wins_over_the_known_one(
    name: str, pattern: str, text: str, told: list[tuple[int, dict[str, float]]]
) -> None:
    read = points(text, MetricPattern(name=name, pattern=pattern))
    assert [(point.step, point.values) for point in read] == told


@pytest.mark.parametrize("pattern", ["(", "no group"])
def test_a_pattern_that_cannot_work_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="metric x: "):
        m.compile_metric(MetricPattern(name="x", pattern=pattern))


NUMBERS = st.one_of(
    st.integers(0, 99999).map(str),
    st.floats(0, 1e6).map(lambda x: f"{x:.3f}"),
    st.floats(1e-9, 1e9).map(lambda x: f"{x:.3E}"),
    st.sampled_from(["-0.5", "+3", "nan", "-inf", "1e-05", "2.", "1,234", "80.5k"]),
)
LABELS = st.sampled_from([
    "step {}/{}", "step {}", " {}%|@| {}/{} [0:{}<0:09, {}it/s",
    "Epoch {}: {}%|@| {}/{} [0:{}<0:09", "iteration {:>8}/{:>8}", "iter -{}",
    "lm loss: {}", "loss={}", "'loss': {}", "val loss: {}", "val_loss={}",
    "aux loss {}", "loss {} {}", "lr: {}", "learning rate: {:>9}", "tokens/s: {}",
    "{} tok/s", "grad norm: {}", "loss scale: {}", "number of nan iterations: {}",
    "validation at {}", "epoch {}", "[{}:{}]", "{}|{}/{} [{}:00<]", "e{}e", "a-{}",
])  # fmt: skip
FILLS = st.sampled_from(
    ["", "   ", "##5  ", "####", "██▌ ", "██", "7", "0 0", "-|5", "=> "]
)
"""Of progress bars."""
JOINTS = st.sampled_from([" ", " | ", ", ", "; ", "  "])


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Lines of a few shapes, mixed with text, as real logs are."""
    labels = st.lists(LABELS, min_size=1, max_size=5)
    shapes = [draw(JOINTS).join(draw(labels)) for _ in range(draw(st.integers(1, 3)))]
    kinds = draw(st.lists(st.sampled_from([*shapes, *shapes, "text"]), max_size=14))
    return [
        shape.format(*(draw(NUMBERS) for _ in range(shape.count("{"))))
        .replace("@", draw(FILLS))
        .encode() + b"\n"
        for shape in kinds
    ]  # fmt: skip


def spelled(found: list[Point]) -> str:
    """Equal, where nan equals nan."""
    return repr([p._replace(values=dict(sorted(p.values.items()))) for p in found])


@given(logs(), st.sets(st.integers(1, 14)), st.booleans())
def test_any_chunking_at_line_ends_gives_the_same_points(
    lines: list[bytes], cuts: set[int], custom: bool
) -> None:
    patterns = [MetricPattern(name="epoch", pattern=r"epoch (\S+)")] if custom else []
    reader, parts = reader_of(*patterns), []
    for chunk, place in cut(lines, cuts, 50):
        parts += reader.read(chunk, place)
    assert spelled(parts) == spelled(reader_of(*patterns).read(b"".join(lines), 50))


EVERY = 4096


def backlog(lines: int, **others: bytes) -> bytes:
    """A dense log; `others`: lines that stand after the line of their number."""
    line = b"iteration %8d/ 9999 | lm loss: %.3fE+00 | nan iterations: 0 |\n"
    dense = [line % (n, 3 - n / 9e3) for n in range(lines)]
    for number, other in others.items():
        dense[int(number[1:])] += other + b"\n"
    return b"".join(dense)


def test_of_a_stretch_two_lines_remain_the_first_and_the_last() -> None:
    data = backlog(2000)
    read = MetricReader().read(data, 0, EVERY)
    assert len(read) <= 2 * (len(data) / EVERY + 1)
    assert (read[0].step, read[-1].step) == (0, 1999)
    data = b"".join(b"step %d loss 2.5\nsome text\n" % n for n in range(2000))
    assert len(MetricReader().read(data, 0, 1024)) < 250


@pytest.mark.parametrize("line", [
    b"iteration     1000/ 9999 | lm loss: nan | nan iterations: 1 |",
    b"iteration     1000/ 9999 | lm loss: inf | nan iterations: 0 |",
    b"iteration     1000/ 9999 | lm loss: 1e999 | nan iterations: 0 |",
    b"iteration     1000/ 9999 | val loss: 2.0 | nan iterations: 0 |",
    b"validation loss at iteration 1000 | lm loss value: 2.0E+00 |",
    b"{'eval_loss': 2.0}",
])  # fmt: skip
@pytest.mark.parametrize("talk", [b"", b"some text\n"])
def test_what_must_be_seen_is_never_passed_over(line: bytes, talk: bytes) -> None:
    (alone,) = MetricReader().read(line + b"\n")
    data = backlog(2000, n1000=line).replace(b" 0 |\n", b" 0 |\n" + talk)
    read = MetricReader().read(data, 0, EVERY)
    assert any(repr(point.values) == repr(alone.values) for point in read)


def test_points_keep_the_step_of_a_line_that_is_passed_over() -> None:
    read = MetricReader().read(backlog(2000, n1234=b"  val loss: 2.0"), 0, EVERY)
    assert [p.step for p in read if "eval_loss" in p.values] == [1234]
    rng = random.Random(1)
    lines = [b"{'loss': %.4f, 'epoch': 0.1}\n" % rng.random() for _ in range(2000)]
    lines[700] += b"{'eval_loss': 2.5, 'epoch': 0.2}\n"
    whole = {p.offset: p for p in MetricReader().read(b"".join(lines))}
    thinned = MetricReader().read(b"".join(lines), 0, EVERY)
    assert len(thinned) < 400
    assert thinned == [whole[point.offset] for point in thinned]


def test_a_line_with_a_metric_of_the_users_is_never_passed_over() -> None:
    data = backlog(2000, n1000=b"ppl 7.5", n1500=b"step 1500 loss 2.5 ppl 7.25")
    own = MetricPattern(name="ppl", pattern=r"ppl (\S+)")
    read = reader_of(own).read(data, 0, EVERY)
    assert len(read) < 400
    assert [p.values["ppl"] for p in read if "ppl" in p.values] == [7.5, 7.25]


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
