"""Metrics from files and GPUs beside the log, through whole runs on fakes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.values import MetricIs
from autoexp_tui.engine.ports import FoundFile, LogChunk, LogCursor
from autoexp_tui.events import events
from autoexp_tui.model.rules import Anomalies, MetricFile, Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Logs

JSONL = MetricFile(path="metrics.jsonl", format="jsonl")
PATH = "/out/a/metrics.jsonl"


def row(at: float, path: str = PATH, **values: object) -> Write:
    return Write(at=at, data=json.dumps(values).encode() + b"\n", path=path)


def says(at: float, line: str) -> Write:
    return Write(at=at, data=line.encode() + b"\n")


def watched(*files: MetricFile, **fields: object) -> Plan:
    rules = Monitoring(metrics_files=files or (JSONL,), **fields)  # type: ignore[arg-type]
    return plan(job("a", progress_total=100), monitoring=rules)


def bench(the_plan: Plan, *writes: Write, seconds: float = 1e6) -> Bench:
    return Bench(the_plan, {"a": [[RunScript(seconds=seconds, writes=writes)]]})


def warned(one: Bench) -> list[str]:
    return [event.why.code for event in one.happened(events.WarningRaised)]


# --------------------------------------------------------------------------- values
def test_a_file_is_read_as_it_grows() -> None:
    one = bench(
        watched(), *(row(float(n), step=n, loss=4.0 / n, acc=0.5) for n in range(1, 9))
    )
    one.run(20)
    assert (one.live().step, one.live().metrics) == (8, {"loss": 0.5, "acc": 0.5})
    assert one.live().curves["loss"].steps == tuple(range(1, 9))
    assert one.live().rate is not None


def test_files_that_match_a_pattern_are_read_as_they_come() -> None:
    csv = MetricFile(path="v*/m.csv", format="csv")
    one = bench(
        watched(csv),
        Write(at=1.0, data=b"step,loss\n1,3\n", path="/out/a/v0/m.csv"),
        Write(at=50.0, data=b"step,acc\n1,0.5\n", path="/out/a/v1/m.csv"),
    )
    one.run(80)
    assert one.live().metrics == {"loss": 3.0, "acc": 0.5}


def test_a_file_s_metric_wins_over_the_log_s() -> None:
    one = bench(
        watched(),
        *(says(float(n), f"step {n} loss 9.0 lr 0.1") for n in range(1, 30)),
        *(row(float(n), step=n, loss=2.0) for n in range(5, 30)),
    )
    one.run(40)
    assert one.live().metrics == {"loss": 2.0, "learning_rate": 0.1}
    assert set(one.live().curves["loss"].values) == {2.0}


def test_a_file_that_is_written_seldom_turns_nothing_back() -> None:
    one = bench(
        watched(),
        *(says(float(n), f"step {n} loss 9.0") for n in range(1, 60)),
        row(30.0, step=10, acc=0.1),
        row(55.0, step=20, acc=0.2),
    )
    one.run(65)
    assert one.live().step == 59
    assert one.live().curves["acc"].steps == (10, 20)
    assert one.live().rate == pytest.approx(1.0, rel=0.3)


def test_a_condition_reads_a_metric_of_a_file() -> None:
    start = MetricIs(name="acc", job="a", op=">", value=0.4)
    waits = job("b", 1, depends_on=("a",), start_conditions=(start,))
    the_plan = replace(watched(), jobs=(*watched().jobs, waits))
    one = bench(the_plan, row(1.0, step=1, acc=0.1), row(20.0, step=2, acc=0.5))
    one.run(15)
    assert one.job("b").state is JobState.WAITING
    one.until(one.is_("b", JobState.COMPLETED))


def test_the_last_row_of_an_ended_run_is_noted() -> None:
    one = bench(
        watched(),
        row(1.0, step=1, loss=3.0),
        row(39.9, step=9, loss=1.0),
        seconds=40.0,
    )
    one.until(one.is_("a", JobState.COMPLETED), 60)
    noted = one.job("a").noted
    assert noted is not None
    assert (noted.step, noted.values) == (9, {"loss": 1.0})


def test_only_so_many_metrics_are_kept_and_that_is_said() -> None:
    values: dict[str, object] = {f"m{n}": float(n) for n in range(100)}
    one = bench(watched(), row(1.0, PATH, **values))
    one.run(10)
    assert len(one.live().metrics) == 64
    (message,) = one.happened(events.MessageLogged)
    assert "64 metrics" in message.text


# ------------------------------------------------------------------------ anomalies
def test_a_nan_in_a_file_ends_the_run() -> None:
    one = bench(watched(), row(1.0, step=1, loss=2.0), row(5.0, step=2, loss="nan"))
    one.until(one.is_("a", JobState.FAILED))
    assert one.job("a").cause is Cause.NAN


def test_the_next_run_is_not_ended_for_the_nan_of_the_last() -> None:
    again = StateEvent(
        name="again", transition=(None, "FAILED"), actions=(Restart(reason="x"),)
    )
    first = RunScript(seconds=1e6, writes=(row(1.0, step=1, loss="nan"),))
    second = RunScript(seconds=30.0, writes=(row(5.0, step=1, loss=2.0),))
    one = Bench(watched(state_events=(again,)), {"a": [[first], [second]]})
    one.until(one.is_("a", JobState.COMPLETED))
    assert [a.cause for a in one.job("a").attempts] == [Cause.NAN, None]
    assert one.job("a").noted is not None


def test_what_an_earlier_session_left_in_the_file_is_not_this_one_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = b'{"step": 900, "loss": NaN}\n'

    def find(_self: Logs, _search: object) -> object:
        return [FoundFile(PATH, 0, len(old), len(old), is_new=False)]

    monkeypatch.setattr(Logs, "find", find)
    one = bench(watched(), row(5.0, step=1, loss=2.0))
    one.files.data[PATH] = old
    one.run(20)
    assert one.job("a").state is JobState.RUNNING
    assert (one.live().step, one.live().metrics) == (1, {"loss": 2.0})
    assert one.live().curves["loss"].steps == (1,)


def test_a_logger_that_writes_its_file_anew_tells_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = Anomalies(min_points=2, flat_share=0.03, divergence="off")
    flat = [row(1.0, step=n, loss=2.0) for n in range(1, 9)]
    falls = [row(1.0, step=n, loss=2.0 - n / 10) for n in range(9, 13)]
    one = bench(watched(anomalies=quick), *flat, *falls)
    one.run(10)
    before = len(one.happened(events.WarningRaised))
    whole = one.files.data[PATH] + row(0.0, step=13, loss=0.6, acc=0.5).data
    original, swapped = Logs.read, [True]

    def read(logs: Logs, at: LogCursor) -> LogChunk | None:
        if at.path == PATH and swapped:
            swapped.clear()
            chunk = original(logs, replace(at, offset=0))
            assert chunk is not None
            return replace(chunk, reset=True)
        return original(logs, at)

    one.files.data[PATH] = whole
    monkeypatch.setattr(Logs, "read", read)
    one.run(30)
    assert not swapped
    assert one.live().step == 13
    assert one.live().curves["loss"].steps == tuple(range(1, 14))
    assert before == len(one.happened(events.WarningRaised)) == 1


def test_the_next_engine_reads_files_again_and_tells_nothing_twice() -> None:
    quick = Anomalies(min_points=2, flat_share=0.03, divergence="off")
    flat = [row(1.0, step=n, loss=2.0) for n in range(1, 9)]
    falls = [row(5.0, step=n, loss=2.0 - n / 10) for n in range(9, 13)]
    one = bench(watched(anomalies=quick), *flat, *falls)
    one.run(10)
    shown = one.live()
    for _ in range(2):
        one.start()
        one.run(10)
    assert warned(one) == ["plateau"]
    assert len(one.happened(events.WarningCleared)) == 1
    assert one.live().metrics == shown.metrics
    assert one.live().curves["loss"].values == shown.curves["loss"].values


def test_files_of_ended_jobs_are_read_again_for_their_curves() -> None:
    one = bench(
        watched(), row(1.0, step=1, acc=0.5), row(2.0, step=2, acc=0.6), seconds=5.0
    )
    one.until(one.is_("a", JobState.COMPLETED))
    one.start()
    one.run(10)
    assert one.live().curves["acc"].values == (0.5, 0.6)


# ------------------------------------------------------------------------------ GPUs
GPU_PATH = "/attempts/a/1/gpu.jsonl"


def sample(at: float, busy: float) -> Write:
    gpus = [{"util_percent": busy, "used_mib": 40.0, "total_mib": 80.0, "watts": 300.0}]
    return row(at, GPU_PATH, t=1000.0 + at, gpus=gpus)


def test_samples_of_gpus_are_metrics() -> None:
    one = bench(plan(job("a")), sample(1.0, 90.0), sample(31.0, 80.0))
    one.run(60)
    assert one.live().metrics == {"gpu_util": 80.0, "gpu_mem": 50.0, "gpu_power": 300.0}
    assert one.live().curves["gpu_util"].values == (90.0, 80.0)
    assert one.live().gpu is not None
    assert one.live().gpu.seen_at >= 31.0  # type: ignore[union-attr]


def test_samples_of_gpus_cost_no_note_in_the_journal() -> None:
    one = bench(plan(job("a")), *(sample(n * 30.0, 50.0) for n in range(20)))
    one.run(600)
    assert one.happened(events.MetricsNoted) == []


def test_a_new_attempt_has_samples_of_its_own() -> None:
    again = StateEvent(name="r", state="crash", actions=(Restart(reason="x"),))
    the_plan = plan(
        job("a", progress_total=100), monitoring=Monitoring(state_events=(again,))
    )
    first = RunScript(seconds=40.0, exit_code=1, writes=(sample(1.0, 50.0),))
    one = Bench(the_plan, {"a": [[first], [RunScript(seconds=1e6)]]})
    one.run(35)
    assert "gpu_util" in one.live().metrics
    one.until(
        lambda: (
            len(one.job("a").attempts) == 2 and one.job("a").state is JobState.RUNNING
        )
    )
    one.run(60)
    assert one.live().gpu is None
