"""What is read from the lines of training logs."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import MetricPattern
from autoexp_tui.telemetry.metrics import (
    MetricReader,
    OwnMetrics,
    Point,
    compile_metric,
)
from autoexp_tui.text.log_lines import find_canonical_name
from autoexp_tui.text.patterns import MAX_LINE

MEGATRON = (
    " [2026-01-01 12:00:00] iteration     8000/   10000 | consumed samples: 512000 |"
    " elapsed time per iteration (ms): 1.2 | tokens/s: 51200 | learning rate: 1.000E-03"
    " | lm loss: 2.915E+00 | loss scale: 1.0 | grad norm: 0.812 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
TORCHTITAN = "step: 10  loss:  7.9  grad_norm: 1.2 memory: 30GiB  tps: 2,345  mfu: 30%"
BAR = "50%|█████     | 500/1000 [00:10<00:10, 50.0it/s, loss=2.91]"


def reader_of(*patterns: MetricPattern) -> MetricReader:
    return MetricReader(OwnMetrics([compile_metric(one) for one in patterns]))


def points(text: str, *patterns: MetricPattern) -> list[Point]:
    return reader_of(*patterns).read(text.encode() + b"\n")


def only(text: str, *patterns: MetricPattern) -> Point:
    (point,) = points(text, *patterns)
    return point


@pytest.mark.parametrize(("line", "values"), [
    (MEGATRON,
     {"loss": 2.915, "learning_rate": 1e-3, "tokens_per_second": 51200.0,
      "grad_norm": 0.812}),
    (TORCHTITAN, {"loss": 7.9, "grad_norm": 1.2, "tokens_per_second": 2345.0}),
    ("{'loss': 2.9, 'grad_norm': 1.5, 'learning_rate': 1e-4, 'epoch': 0.1}",
     {"loss": 2.9, "grad_norm": 1.5, "learning_rate": 1e-4}),
    ('{"step": 500, "loss": 4.56, "lr": 3e-4}', {"loss": 4.56, "learning_rate": 3e-4}),
    ('{"loss": "2.9", "num_updates": "5"}', {"loss": 2.9}),
    ("lm loss: 2.9E+00", {"loss": 2.9}), ("loss: 2.9", {"loss": 2.9}),
    ("loss=2.9", {"loss": 2.9}), ("loss 2.9", {"loss": 2.9}),
    ("Training Loss: 3.5", {"loss": 3.5}), ("train/loss: 2.0", {"loss": 2.0}),
    ("loss/train: 2.0", {"loss": 2.0}), ("cross_entropy_loss=2.0", {"loss": 2.0}),
    ("loss: tensor(2.9, device='cuda:0')", {"loss": 2.9}),
    ("loss: -0.5e-3", {"loss": -0.0005}), ("loss=.5", {"loss": 0.5}),
    ("lr 0.1 loss 2", {"learning_rate": 0.1, "loss": 2.0}),
    ("step 5 loss 2, 51.2k tok/s", {"loss": 2.0, "tokens_per_second": 51200.0}),
    ("step 5 loss 2 | tok/sec: 1,234", {"loss": 2.0, "tokens_per_second": 1234.0}),
    ("lm loss: 2.9 | load_balancing_loss: 0.01",
     {"loss": 2.9, "load_balancing_loss": 0.01}),
    ("loss: 3.0, interval: 10", {"loss": 3.0}),
    ("[/home/u/eval/run.py] step 1 loss 2.0", {"loss": 2.0}), (BAR, {"loss": 2.91}),
])  # fmt: skip
def test_values_are_read(line: str, values: dict[str, float]) -> None:
    assert only(line).values == values


@pytest.mark.parametrize(("line", "values"), [
    ("eval_loss: 2.1", {"eval_loss": 2.1}),
    ("{'eval_loss': 2.1, 'eval_runtime': 3.0}", {"eval_loss": 2.1}),
    ("val loss: 2.1", {"eval_loss": 2.1}), ("val/loss=2.1", {"eval_loss": 2.1}),
    ("loss/val=2.1", {"eval_loss": 2.1}), ("validation loss 2.1", {"eval_loss": 2.1}),
    ("test loss: 2.1, accuracy: 0.9", {"eval_loss": 2.1}),
    ("[held-out] loss: 2.1", {"eval_loss": 2.1}),
    ("[eval] step 3/40 loss 2.1", {"eval_loss": 2.1}),
    ("validation loss at iteration 10 | lm loss value: 2.1E+00 | lm loss PPL: 8",
     {"eval_loss": 2.1}),
    ("step 250: train loss 1.9, val loss 2.1", {"loss": 1.9, "eval_loss": 2.1}),
    ("step 250: val loss 2.1, train loss 1.9", {"loss": 1.9, "eval_loss": 2.1}),
    ("train_loss=1.9, val_loss=2.1", {"loss": 1.9, "eval_loss": 2.1}),
    ("step 250 | val loss 2.1 | loss 1.9", {"loss": 1.9, "eval_loss": 2.1}),
])  # fmt: skip
def test_a_loss_of_an_evaluation_is_never_the_loss(
    line: str, values: dict[str, float]
) -> None:
    assert only(line).values == values


@pytest.mark.parametrize(("line", "values"), [
    ("held-out loss: 1.576 | bits per byte: 2.2", {"heldout_loss": 1.576}),
    ("held out loss: 1.576", {"heldout_loss": 1.576}),
    ("Heldout_Loss=1.576", {"heldout_loss": 1.576}),
    ("baseline loss: 1.621", {"baseline_loss": 1.621}),
    ("step 5 | teacher loss: 2.1 | loss: 2.3", {"teacher_loss": 2.1, "loss": 2.3}),
    ("aux loss: 3.0", {"aux_loss": 3.0}), ("z-loss: 0.1", {"zloss": 0.1}),
    ("moe/aux_loss=0.01", {"moe_aux_loss": 0.01}), ("best loss: 5", {"best_loss": 5.0}),
    ("the loss: 2.0", {"loss": 2.0}), ("INFO loss 2.0", {"loss": 2.0}),
    ("cross-entropy loss 2.0", {"loss": 2.0}),
])  # fmt: skip
def test_a_loss_of_another_name_keeps_its_own(
    line: str, values: dict[str, float]
) -> None:
    assert only(line).values == values


@pytest.mark.parametrize("line", [
    "no loss: 3", "closs: 3", "loss scale: 4096.0", "loss_scale=4096", "loss2: 3.0",
    "loss: 90%", "loss: high", "loss_fn=CrossEntropy", "Epoch 3/10",
    "warmup_steps: 500", "3 s/iter: 0.3", "ms per step: 120", "eval step 3/40",
    "saved checkpoint from iteration 8000 to /o/iter_00008000",
    "stops at iteration 10000", "learning rate set to 3", "",
])  # fmt: skip
def test_what_only_looks_alike_is_no_point(line: str) -> None:
    assert points(line) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("nan", math.nan), ("NaN", math.nan), ("inf", math.inf), ("-Infinity", -math.inf)],
)
def test_losses_that_are_no_numbers_are_read(text: str, value: float) -> None:
    for line in (f"step 5 | loss: {text} |", f"iteration 7: loss is {text}"):
        read = only(line).values["loss"]
        assert read == value or (math.isnan(read) and math.isnan(value))


@pytest.mark.parametrize(("line", "step", "total"), [
    (MEGATRON, 8000, 10000), ("step 80/100", 80, 100), ("step 80 of 100", 80, 100),
    ("Iteration 150 loss=2.34", 150, None),
    ("iter 100: loss 2.5123, time 23.4ms, mfu 30.1%", 100, None),
    ("global_step=77 loss 1", 77, None), ('{"step": 500, "loss": 4.56}', 500, None),
    ("step 1,000/10,000 loss 2", 1000, 10000),
    ("step 00010/21400 (0.05%) | loss: 10.5", 10, 21400),
    ("step_time=0.4 step=3 loss=3", 3, None), ("[12:00:00] INFO step 80", 80, None),
    ("Epoch 2/3 step 80/100 loss 2", 80, 100), (BAR, 500, 1000),
])  # fmt: skip
def test_the_step_and_the_last_one_are_read(
    line: str, step: int, total: int | None
) -> None:
    point = only(line)
    assert (point.step, point.total) == (step, total)


def test_values_below_their_step_belong_to_it() -> None:
    read = points("step 80/100\n  loss: 2.9\n  val loss: 3.0\nstep 81/100\n  loss: 2.8")
    assert [(point.step, sorted(point.values)) for point in read] == [
        (80, []), (80, ["loss"]), (80, ["eval_loss"]), (81, []), (81, ["loss"]),
    ]  # fmt: skip


def test_the_steps_of_an_evaluation_do_not_turn_training_back() -> None:
    read = points("step 80/100 loss 2\n[eval] step 3/40 loss 3\nstep 81/100 loss 2")
    assert [(point.step, point.total) for point in read] == [
        (80, 100), (80, 100), (81, 100),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "steps"),
    [(f"Epoch 3: {BAR}", [1]),
     ("{'loss': 3.0}\n{'loss': 2.0}\n{'eval_loss': 2.5}\n{'loss': 1.0}", [1, 2, 2, 3]),
     ("step 80 loss 2\nstep 60 loss 3", [80, 60]),
     ("step 198/200 loss 3\nstep 200/200 loss 2\nfinal loss: 1.5\nloss 2",
      [198, 200, 200, 200]),
     ("step 600/600 loss 2\nloss 1.5\nloss 1.4", [600, 600, 600]),
     ("resumes at step 500: loss 2\nloss 1.5\nloss 1.4", [500, 501, 502])],
    ids=["a bar that starts anew each epoch counts no steps",
         "a log without steps counts its own points", "a resumed run goes back",
         "a line without a step is none where the log tells its steps",
         "a counted step never passes the last one",
         "after one told step alone points are counted"],
)  # fmt: skip
def test_each_point_has_a_step(text: str, steps: list[int]) -> None:
    assert [point.step for point in points(text)] == steps


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


def test_a_point_knows_where_its_line_begins() -> None:
    assert MetricReader().read(b"\xff text\nloss: 2\n", 1000)[0].offset == 1007


def test_each_state_of_a_progress_bar_is_a_line() -> None:
    read = MetricReader().read(b"step 1/3 loss 3\rstep 2/3 loss 2\rstep 3/3 loss 1\n")
    assert [(p.step, p.offset) for p in read] == [(1, 0), (2, 16), (3, 32)]


def test_a_number_at_the_far_end_is_read_whole_or_not_at_all() -> None:
    line = b"step 1 loss 2.5" + b" " * (MAX_LINE - 22) + b"lr 0.00123456"
    (point,) = MetricReader().read(line + b" " * 9 + b"x" * 100 + b"\n")
    assert point.values == {"loss": 2.5}


@pytest.mark.parametrize(
    ("name", "pattern", "text", "told"),
    [
        ("ppl", r"ppl ([\d.]+)", "at step 5 ppl 12.5", [(5, {"ppl": 12.5})]),
        ("loss", r"objective (\S+)", "step 1 loss 2 objective 7", [(1, {"loss": 7.0})]),
        ("loss", r"objective (\S+)", "step 2 loss 3", [(2, {})]),
        ("iter", r"tick (\d+)", "tick 7\nstep 3 loss 2", [(7, {}), (7, {"loss": 2.0})]),
        ("x", r"(\w+)=(?P<value>\d+)", "mine=7", [(1, {"x": 7.0})]),
        ("größe", r"Größe=([\d,]+)", "Größe=1,234", [(1, {"größe": 1234.0})]),
        ("x", r"x=(\w+)", "x=abc", []),
    ],
    ids=[
        "a metric of one's own",
        "one's own loss wins over the known one",
        "the known loss is none where one's own is not told",
        "one's own step wins over the known one",
        "a group that is called value holds the number",
        "the text is seen as it was written",
        "what is found is no number",
    ],
)  # fmt: skip
def test_a_users_pattern_yields_a_metric(
    name: str, pattern: str, text: str, told: list[tuple[int, dict[str, float]]]
) -> None:
    read = points(text, MetricPattern(name=name, pattern=pattern))
    assert [(point.step, point.values) for point in read] == told


@pytest.mark.parametrize("pattern", ["(", "no group"])
def test_a_pattern_that_cannot_work_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="metric x: "):
        compile_metric(MetricPattern(name="x", pattern=pattern))


@pytest.mark.parametrize(("name", "expected"), [
    ("lr", "learning_rate"), ("Learning rate", "learning_rate"), ("iteration", "step"),
    ("val_loss", "eval_loss"), ("LOSS", "loss"), ("Perplexity", "perplexity"),
    ("Held-out loss", "heldout_loss"), ("val/acc@5 (top)", "val_acc_5_top"),
    ("z-loss", "zloss"), ("Größe", "größe"), ("tok/s", "tokens_per_second"),
])  # fmt: skip
def test_a_metric_has_one_name(name: str, expected: str) -> None:
    assert find_canonical_name(name) == expected


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
def shapes(draw: st.DrawFn) -> str:
    return draw(JOINTS).join(draw(st.lists(LABELS, min_size=1, max_size=5)))


def _fill(draw: st.DrawFn, shape: str) -> bytes:
    holes = shape.count("{")
    return _line(draw, shape.format(*(draw(NUMBERS) for _ in range(holes))))


def _line(draw: st.DrawFn, text: str) -> bytes:
    return text.replace("@", draw(FILLS)).encode() + b"\n"


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Lines of a few shapes, mixed with text, as real logs are."""
    some = draw(st.lists(shapes(), min_size=1, max_size=3))
    kinds = draw(st.lists(st.sampled_from([*some, *some, "text"]), max_size=14))
    return [_fill(draw, shape) if shape != "text" else b"text\n" for shape in kinds]


def same(one: list[Point], two: list[Point]) -> bool:
    """Equal, where nan equals nan."""
    return repr([_sorted(p) for p in one]) == repr([_sorted(p) for p in two])


def _sorted(point: Point) -> Point:
    return point._replace(values=dict(sorted(point.values.items())))


@given(logs(), st.sets(st.integers(1, 14)), st.booleans())
def test_any_chunking_at_line_ends_gives_the_same_points(
    lines: list[bytes], cuts: set[int], custom: bool
) -> None:
    patterns = [MetricPattern(name="epoch", pattern=r"epoch (\S+)")] if custom else []
    reader, parts, place = reader_of(*patterns), [], 50
    for begin, end in pairwise(
        sorted({0, len(lines), *(c for c in cuts if c < len(lines))})
    ):
        chunk = b"".join(lines[begin:end])
        parts += reader.read(chunk, place)
        place += len(chunk)
    assert same(parts, reader_of(*patterns).read(b"".join(lines), 50))
