"""The metrics and steps of real logs (`data/README.md`), beside those a reader finds.

    python -m tests.telemetry.test_log_samples

prints the table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import MetricFile
from autoexp_tui.telemetry.metric_files import FileReader
from autoexp_tui.telemetry.metrics import MetricReader, Point
from autoexp_tui.telemetry.tensorboard_events import parse_event

DATA = Path(__file__).parent / "data"
_MEGATRON = (
    "consumed_samples elapsed_time_per_iteration_ms learning_rate global_batch_size "
    "loss loss_scale number_of_skipped_iterations number_of_nan_iterations"
)
_HF = "loss grad_norm learning_rate epoch reward reward_std completion_length kl"
_SB3 = (
    "approx_kl clip_fraction clip_range entropy_loss explained_variance n_updates "
    "policy_gradient_loss std value_loss"
)


class Sample(NamedTuple):
    """What a person finds in a file."""

    metrics: str
    steps: list[int]
    """Of the lines that tell numbers, each once."""
    total: int | None = None
    missed: str = ""
    """What a person finds and we do not: numbers with units, and lists."""


READ_BY_PEOPLE = {
    "keras": Sample("loss accuracy eval_loss val_accuracy",
                    [1875, 3750, 5625, 7500], 18750),
    "keras_old": Sample("loss acc eval_loss val_acc",
                        [100_000, 129_696, 150_000, 200_000], 10_000_000),
    "keras_bare": Sample("sparse_categorical_accuracy", [1696, 1728], 6400),
    "keras_lines": Sample("loss", [1079, 2158], 21580),
    "lightning": Sample("loss", [0, 1, 2, 4], missed="iterations_per_second"),
    "lightning_val": Sample("loss acc", [932, 933], missed="iterations_per_second"),
    "hf_trainer": Sample(
        f"{_HF} rewards_accuracy_reward rewards_format_reward", [1, 2]),
    "hf_eval": Sample(
        "eval_loss eval_macrof1 eval_microf1 eval_runtime eval_samples_per_second "
        "eval_steps_per_second epoch", [1]),
    "nanogpt": Sample("loss eval_loss mfu", [2970, 2980, 2990, 3000, 3010],
                      missed="time"),
    "torchtune": Sample(
        "loss learning_rate tokens_per_second_per_gpu gpu_resources", [1, 2, 3]),
    "torchtune_bar": Sample("loss", [55, 56, 57]),
    "megatron": Sample(f"{_MEGATRON} grad_norm eval_loss eval_lm_loss_ppl",
                       [122, 123, 14194], 250_000),
    "megatron_deepspeed": Sample(
        f"{_MEGATRON} consumed_tokens actual_seqlen samples_per_second "
        "tokens_per_gpu_per_second_tgs tflops", [199], 317_892),
    "deepspeed": Sample(
        "loss learning_rate skipped runningavgsamplespersec currsamplespersec", [10],
        missed="mom memallocated maxmemallocated"),
    "deepspeed_neox": Sample(
        "loss learning_rate skipped runningavgsamplespersec currsamplespersec "
        "samples_sec elapsed_time_per_iteration_ms number_of_skipped_iterations "
        "number_of_nan_iterations", [34, 35], 10_000,
        "mom memallocated maxmemallocated flops forward_microstep backward_microstep "
        "backward_inner_microstep backward_allreduce_microstep step_microstep"),
    "timm": Sample("loss learning_rate data eval_loss eval_acc_1 eval_acc_5",
                   [0, 50, 73, 123], missed="time samples_per_second"),
    "sb3": Sample(
        "loss learning_rate rollout_ep_len_mean rollout_ep_rew_mean time_fps "
        "time_iterations " + " ".join(f"train_{name}" for name in _SB3.split()),
        [3584, 73728], missed="time_elapsed"),
    "jax": Sample("loss learning_rate train_accuracy steps_per_second", [400, 500]),
    "t5x": Sample("timing_train_iter_warmup", [0, 1, 3]),
    "maxtext": Sample(
        "loss lm_loss perplexity tflop_s_device tokens_s_device total_weights", [1, 2],
        missed="seconds"),
}  # fmt: skip


def read_sample(name: str) -> tuple[list[Point], Sample]:
    """(points, what we find) of a file."""
    points = MetricReader().read((DATA / f"{name}.log").read_bytes())
    names = " ".join(sorted({one for point in points for one in point.values}))
    steps = list(dict.fromkeys(point.step for point in points))
    return points, Sample(names, steps, points[-1].total)


@pytest.mark.parametrize("name", READ_BY_PEOPLE)
def test_a_real_log_tells_what_a_person_finds_in_it(name: str) -> None:
    wanted = READ_BY_PEOPLE[name]
    names = " ".join(sorted(wanted.metrics.split()))
    assert read_sample(name)[1] == wanted._replace(missed="", metrics=names)


@pytest.mark.parametrize(("name", "place", "values"), [
    ("keras", 1, {"loss": 0.3665, "accuracy": 0.8678, "eval_loss": 0.3542,
                  "val_accuracy": 0.8736}),
    ("timm", -1, {"eval_loss": 1.867, "eval_acc_1": 39.261, "eval_acc_5": 85.096}),
    ("jax", 0, {"loss": 3.219879150390625, "train_accuracy": 0.3724340796470642,
                "learning_rate": 0.35846155881881714, "steps_per_second": 1.583725}),
])  # fmt: skip
def test_each_number_stands_by_its_own_name(
    name: str, place: int, values: dict[str, float]
) -> None:
    assert read_sample(name)[0][place].values == values


ORDINARY = """\
2026-01-01 12:00:05,123 INFO [node12:29500] rank 3: connected to host 10.0.0.7:6006
[rank 7] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
torch 2.5.1, cuda 12.4, python 3.11.9, steps: off, seed: 1234
slurmstepd: error: *** STEP 4711.0 ON nid001 CANCELLED AT 2026-01-01T12:00:05 ***
loading /scratch/step_500/shard-3: 17 files, 3.4 GB, took: 12 s
Downloading: 45%|████▌     | 450/1000 [00:10<00:12, 45.1it/s]
Validation: 45%|████▌     | 450/1000 [00:10<00:12, 45.1it/s]
iterating over dataset: 1000 samples, batch: 32, workers: 8
config: {"hidden_size": 768, "max_steps": 1000, "warmup_steps": 100, "epochs": 3}
{"model": "resnet", "accuracy_threshold": 0.9, "layers": 12}
train_loss_weight: 0.5, loss_fn: 3, reward_scale: 2.0
Reward model loaded in 3.4 s, port: 8080
accuracy will be measured every 500 steps, on split: 3
the accuracy target: 0.9 was set by job: 17
ETA: 0:12:33, remaining: 120, elapsed: 35, progress: 54%, steps/s: 3
Saving checkpoint at epoch 3/10 to /out: 17
| NVIDIA-SMI 575.57.08   Driver Version: 575.57.08   CUDA Version: 12.9 |
|   0  N/A  N/A      1234      C   python        400MiB |
----------------------------
| batch_size | 32    |
| lr         | 0.001 |
----------------------------
3 s/iter: 0.3 and 14.2 ms per step: 120
'epoch' : [1, 2, 3]
number of parameters: 124.4M, iteration time: 3.5 ms
  File "/usr/lib/python3/site-packages/torch/iter.py", line 12, in step
"""


def test_ordinary_text_makes_no_metrics() -> None:
    found = MetricReader().read(ORDINARY.encode())
    assert [(one.step, one.values) for one in found if one.values] == []


@pytest.mark.parametrize(("line", "values"), [
    ("Epoch 3/10 - accuracy: 0.91 - val_acc: 0.8 - 3s",
     {"accuracy": 0.91, "val_acc": 0.8}),
    ("| epoch 010 | train loss 1.44 | train ppl 2.72 | words/s 961 | clip 100% | gpu 3",
     {"loss": 1.44, "epoch": 10.0, "train_ppl": 2.72, "words_s": 961.0, "clip": 100.0}),
    ("step 5: my metric=0.5, train acc=0.9, host: 7, took: 3 s, speed: 4 it/s, x: 5%",
     {"metric": 0.5, "train_acc": 0.9, "x": 5.0}),
    ("Test accuracy: 0.8716", {"test_accuracy": 0.8716}),
    ("step 7 | reward: -3.5 | id: 12 | v_num: 3 | time: 10:22 | eta: 3",
     {"reward": -3.5}),
    ("[eval] step 3/40 loss 2.1, acc: 0.5, lr: 0.1",
     {"eval_loss": 2.1, "eval_acc": 0.5, "learning_rate": 0.1}),
    ("step 4 loss 2.0 acc 71.2% ppl 10.1 layers 3",
     {"loss": 2.0, "acc": 71.2, "ppl": 10.1}),
    ("step 4 acc=0.5 val/acc=0.6", {"acc": 0.5, "val_acc": 0.6}),
    ("Epoch 3: val_acc 0.83, f1 0.77", {"val_acc": 0.83, "f1": 0.77}),
    ("epoch=4 mAP=0.4", {"epoch": 4.0, "map": 0.4}),
    ("step 4 | nll_loss 2.8 | loss 4.3", {"loss": 4.3, "nll_loss": 2.8}),
    ("val_loss=2.0 test_loss=3.0", {"eval_loss": 2.0, "test_loss": 3.0}),
    ("[valid] loss 4.3 nll_loss 2.8", {"eval_loss": 4.3, "eval_nll_loss": 2.8}),
])  # fmt: skip
def test_a_metric_line_keeps_every_number_with_a_name(
    line: str, values: dict[str, float]
) -> None:
    (point,) = MetricReader().read(line.encode())
    assert point.values == values


def test_a_table_in_two_chunks_is_one_point() -> None:
    reader, lines = MetricReader(), (DATA / "sb3.log").read_bytes().splitlines(True)
    parts = [
        point
        for start, line in zip(range(0, 10**6, 1000), lines, strict=False)
        for point in reader.read(line, start)
    ]
    assert [point.step for point in parts] == [3584, 73728]


TENSORBOARD = MetricFile(path="x", format="tensorboard")
EVENTS = {
    "tensorboardx": [
        (1, {"loss": 3.0}), (1, {"eval_acc": 0.25}), (2, {"loss": 1.5}),
        (2, {"eval_acc": 0.5}), (30, {"loss": 0.10000000149011612}),
        (30, {"eval_acc": math.nan})],
    "tensorboard": [(5, {"epoch_accuracy": 2.5}), (6, {"epoch_accuracy": 3.0})],
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
@given(size=st.integers(1, 400))
def test_event_files_tell_their_scalars_however_they_are_cut(
    name: str, size: int
) -> None:
    data, reader = (DATA / f"{name}.tfevents").read_bytes(), FileReader(TENSORBOARD)
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    points = [
        point for n, one in enumerate(chunks) for point in reader.read(one, n * size)
    ]
    assert repr([(one.step, one.values) for one in points]) == repr(EVENTS[name])
    assert [one.offset for one in points[:1]] == [40 if name == "tensorboardx" else 88]
    records = reader.records
    assert records is not None
    assert (records.unread, records.is_torn) == (0, False)


@pytest.mark.parametrize(("end", "flaw", "points", "is_torn"), [
    (250, b"", 4, False), (5, b"", 0, False), (182, b"\xff" * 60, 3, True),
    (182, b"text and no record", 3, True),
])  # fmt: skip
def test_a_cut_or_damaged_event_file_is_read_up_to_there(
    end: int, flaw: bytes, points: int, *, is_torn: bool
) -> None:
    reader, data = (
        FileReader(TENSORBOARD),
        (DATA / "tensorboardx.tfevents").read_bytes(),
    )
    assert len(reader.read(data[:end] + flaw)) == points
    records = reader.records
    assert records is not None
    assert records.is_torn == is_torn
    assert records.unread > 0
    assert reader.read(data[end:], end) == [] or not is_torn


@given(st.binary(max_size=80), st.integers(0, 300))
def test_no_content_of_a_record_is_an_error(noise: bytes, place: int) -> None:
    data = (DATA / "tensorboard.tfevents").read_bytes()
    parse_event(noise)
    parse_event(data[place : place + 60] + noise)


if __name__ == "__main__":
    for sample, wanted in READ_BY_PEOPLE.items():
        found, names = read_sample(sample)[1], wanted.metrics.split()
        kept = len(set(names) & set(found.metrics.split()))
        people = len(names) + len(wanted.missed.split())
        more = f"; not read: {wanted.missed}" if wanted.missed else ""
        print(f"{sample:20}{kept:3} of {people:2} metrics{more}")
        print(
            f"{'':20} steps {found.steps} of {found.total}"
            f"; a reader: {wanted.steps} of {wanted.total}"
        )
