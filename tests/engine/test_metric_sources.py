"""Metrics from files and GPUs beside the log, through whole runs on fakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.jobs import MetricIs
from autoexp_tui.engine.ports import FoundFile
from autoexp_tui.events import events
from autoexp_tui.model.rules import Anomalies, MetricFile, Monitoring, StateEvent
from tests.engine.bench import Bench, alone
from tests.engine.parts import replace_text, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import Write
from tests.support.sim_world import Logs

PATH = "/out/a/metrics.jsonl"
JSONL = MetricFile(path="metrics.jsonl", format="jsonl")
RULES = Monitoring(metrics_files=(JSONL,))
QUICK = Monitoring(
    metrics_files=(JSONL,),
    anomalies=Anomalies(min_points=2, flat_share=0.03, divergence="off"),
)


def row(at: float, path: str = PATH, **values: object) -> Write:
    return Write(at=at, data=json.dumps(values).encode() + b"\n", path=path)


def bench(*lines: Write, seconds: float = 1e6, rules: Monitoring = RULES) -> Bench:
    return alone(writes(*lines, seconds=seconds), rules=rules, progress_total=100)


def test_files_that_match_a_pattern_are_read_as_they_come() -> None:
    one = bench(
        Write(at=1.0, data=b"step,loss\n1,3\n", path="/out/a/v0/m.csv"),
        Write(at=50.0, data=b"step,acc\n1,0.5\n", path="/out/a/v1/m.csv"),
        rules=Monitoring(metrics_files=(MetricFile(path="v*/m.csv", format="csv"),)),
    )
    one.run(80)
    assert one.live().metrics == {"loss": 3.0, "acc": 0.5}


def test_a_file_s_metric_wins_over_the_log_s() -> None:
    one = bench(
        *(says(float(n), f"step {n} loss 9.0 lr 0.1") for n in range(1, 30)),
        *(row(float(n), step=n, loss=2.0) for n in range(5, 30)),
    )
    one.run(40)
    assert one.live().metrics == {"loss": 2.0, "learning_rate": 0.1}
    assert set(one.live().curves["loss"].values) == {2.0}


def test_a_condition_and_the_note_of_an_ended_run_have_a_file_s_last_row() -> None:
    start = MetricIs(name="acc", job="a", op=">", value=0.4)
    waits = job("b", 1, depends_on=("a",), start_conditions=(start,))
    rows = (row(1.0, step=1, acc=0.1), row(20.0, step=2, acc=0.5))
    script = writes(*rows, row(39.9, step=9, acc=0.7), seconds=40.0)
    one = Bench(plan(job("a"), waits, monitoring=RULES), {"a": [[script]]})
    one.run(15)
    assert one.state("b") == "WAITING"
    one.reach(20, b="COMPLETED")
    one.reach(60, a="COMPLETED")
    noted = one.job("a").noted
    assert noted is not None
    assert (noted.step, noted.values) == (9, {"acc": 0.7})


def test_only_so_many_metrics_are_kept() -> None:
    values: dict[str, Any] = {f"m{n}": float(n) for n in range(100)}
    one = bench(row(1.0, PATH, **values))
    one.run(10)
    assert len(one.live().metrics) == 64


def test_a_nan_in_a_file_ends_its_run_and_not_the_next() -> None:
    again = StateEvent(name="r", transition=(None, "FAILED"), actions=(Restart(),))
    rules = Monitoring(metrics_files=(JSONL,), state_events=(again,))
    first = writes(row(1.0, step=1, loss=2.0), row(5.0, step=2, loss="nan"))
    second = writes(row(5.0, step=1, loss=2.0), seconds=30.0)
    one = alone(first, second, rules=rules)
    one.reach(a="COMPLETED")
    assert [each.cause for each in one.job("a").attempts] == ["nan", None]
    assert one.job("a").noted is not None


def test_what_an_earlier_session_left_in_the_file_is_not_this_one_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = b'{"step": 900, "loss": NaN}\n'
    found = [FoundFile(PATH, 0, len(old), len(old), is_new=False)]
    monkeypatch.setattr(Logs, "find", lambda _self, _search: found)
    one = bench(row(5.0, step=1, loss=2.0))
    one.files.data[PATH] = old
    one.run(20)
    assert one.state("a") == "RUNNING"
    assert (one.live().step, one.live().metrics) == (1, {"loss": 2.0})
    assert one.live().curves["loss"].steps == (1,)


FLAT = [row(1.0, step=n, loss=2.0) for n in range(1, 9)]
FALLS = [row(5.0, step=n, loss=2.0 - n / 10) for n in range(9, 13)]


def test_a_file_that_is_written_anew_or_read_by_the_next_engine_tells_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = bench(*FLAT, *FALLS, rules=QUICK)
    one.run(10)
    whole = one.live()
    for _ in range(2):
        one.start()
        one.run(10)
    assert one.live().metrics == whole.metrics
    assert one.live().curves["loss"].values == whole.curves["loss"].values
    anew = one.files.data[PATH] + row(0.0, step=13, loss=0.6, acc=0.5).data
    replace_text(one, monkeypatch, PATH, anew)
    one.run(30)
    assert one.live().step == 13
    assert one.live().curves["loss"].steps == tuple(range(1, 14))
    assert one.codes(events.WarningRaised) == ["plateau"]
    assert len(one.happened(events.WarningCleared)) == 1


def test_files_of_ended_jobs_are_read_again_for_their_curves() -> None:
    one = bench(row(1.0, step=1, acc=0.5), row(2.0, step=2, acc=0.6), seconds=5.0)
    one.reach(a="COMPLETED")
    one.start()
    one.run(10)
    assert one.live().curves["acc"].values == (0.5, 0.6)


def sample(at: float, busy: float) -> Write:
    gpus = [{"util_percent": busy, "used_mib": 40.0, "total_mib": 80.0, "watts": 300.0}]
    return row(at, "/attempts/a/1/gpu.jsonl", t=1000.0 + at, gpus=gpus)


def test_samples_of_gpus_are_metrics_and_cost_no_note_in_the_journal() -> None:
    one = bench(*(sample(n * 30.0, 90.0 - n) for n in range(20)), rules=Monitoring())
    one.run(60)
    assert one.live().metrics == {"gpu_util": 89.0, "gpu_mem": 50.0, "gpu_power": 300.0}
    assert one.live().curves["gpu_util"].values == (90.0, 89.0)
    gpu = one.live().gpu
    assert gpu is not None
    assert gpu.seen_at >= 30.0
    one.run(540)
    assert one.happened(events.MetricsNoted) == []
