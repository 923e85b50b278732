"""Logs of whole runs: read again or begun anew they tell nothing twice and miss none,
those that cannot be read end nobody, and rules over their silence count lived time;
rules that match more than anybody can read, and logs that are too long; metrics from
files and GPUs beside the log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.actions.action_runner import MOST_JOINS
from autoexp_tui.actions.kinds import Log, NewJob, Restart
from autoexp_tui.conditions.jobs import MetricIs
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import poller, run_reports
from autoexp_tui.engine.ports import FoundFile, LogChunk, LogCursor
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, Pause
from autoexp_tui.model.rules import (
    Anomalies,
    LogEvent,
    MetricFile,
    Monitoring,
    StateEvent,
)
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.states import Why
from tests.engine.bench import Bench, alone
from tests.engine.parts import finds, replace_text, sample, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Logs

EVENTS = Path(__file__).parents[1] / "telemetry/data/tensorboardx.tfevents"
QUICK = Anomalies(min_points=2, flat_share=0.05, divergence="off", nan="warn")
NOTE = Log(message="{name}: {line}")
EVERY = finds("every", "E", NOTE)
BOTH = Monitoring(log_events=(EVERY, replace(EVERY, name="once", match_once=True)))
RAISED, CLEARED = events.WarningRaised, events.WarningCleared


def told(bench: Bench) -> list[type]:
    """Warnings raised and cleared, oldest first."""
    kinds = (type(record.event) for record in bench.world.session.records)
    return [kind for kind in kinds if kind in (RAISED, CLEARED)]


@pytest.mark.parametrize("steps", [0, 30])
def test_a_log_begun_anew_is_judged_from_its_start(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    rules = replace(BOTH, anomalies=QUICK)
    falls = (f"step: {n} loss: {2 - n / 100}" for n in range(1, steps + 1))
    run = writes(says(1.0, "E one", *falls), seconds=1e6)
    bench = alone(run, rules=rules, progress_total=100)
    bench.run(30)
    path = bench.job("a").attempts[-1].log_path
    replace_text(bench, monkeypatch, path, b"E two\nE three\nstep: 31 loss: nan\n")
    for _ in range(2):  # further engines read it anew
        bench.start()
        bench.run(5)
    matched = [event.line for event in bench.happened(events.LogMatched)]
    assert matched == ["E one", "E one", "E two", "E three"]
    assert told(bench) == [RAISED]


JOBS, NEWEST = 12, 4
STEPS = says(1.0, *(f"step: {n} loss: {9.0 - n / 10}" for n in range(1, 41)))
RUN = writes(STEPS, seconds=5.0)


def campaign(*late: Any, **others: list[list[RunScript]]) -> Bench:
    """One job after the other, all to their ends; a new engine would read the newest
    four again."""
    names = [f"j{n:02d}" for n in range(JOBS)]
    specs = [*(job(name, n) for n, name in enumerate(names)), *late]
    scripts = {spec.name: [[RUN]] for spec in specs} | others
    rules = Monitoring(log_events=(finds("step", "step"),))
    bench = Bench(plan(*specs, monitoring=rules), scripts, slots=1)
    bench.ends(9e3)
    bench.run(5)
    return bench


def curves(bench: Bench) -> dict[str, Live]:
    """The jobs that have any."""
    snapshot = bench.snapshots[-1]
    pairs = zip(snapshot.jobs, snapshot.live, strict=True)
    return {job.name: live for job, live in pairs if live and live.curves}


def test_a_new_engine_reads_the_newest_again_and_tells_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poller, "MOST_REREAD", NEWEST)
    bench = campaign()
    assert len(curves(bench)) == JOBS
    before = len(bench.world.session.records)
    whole = curves(bench)["j11"].curves["loss"]
    bench.start()
    bench.run(20)
    assert len(curves(bench)) == NEWEST
    again = curves(bench)["j11"].curves["loss"]
    assert (again.steps, again.values) == (whole.steps, whole.values)
    assert len(bench.world.session.records) == before + 1  # that it started


def test_what_a_run_that_ended_long_ago_said_counts_until_its_job_runs_again() -> None:
    early = MetricIs(name="loss", job="j00", op="<", value=6.0)
    crash = replace(RUN, exit_code=1)
    again = writes(says(1.0, "step: 7 loss: 1.0"), seconds=1e6)
    late = job("late", JOBS, start_conditions=(early,))
    bench = campaign(late, j00=[[crash], [again]])
    assert bench.state("late") == "COMPLETED"
    bench.resubmit("j00")
    bench.reach(j00="RUNNING")
    bench.run(10)
    assert curves(bench)["j00"].curves["loss"].steps == (1, 2, 3, 4, 5, 6, 7)


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Jobs whose logs may not be read; change it at will."""
    names: set[str] = set()
    original = Logs.read

    def read(self: Logs, at: LogCursor) -> object:
        if at.job in names:
            raise PermissionError(13, "Permission denied", "/logs/x")
        return original(self, at)

    monkeypatch.setattr(Logs, "read", read)
    return names


def stepping(seconds: float = 1e6, **ends: Any) -> Bench:
    steps = (says(float(n), f"step {n} loss 2.5") for n in range(1, 200))
    return alone(writes(*steps, seconds=seconds, **ends))


@pytest.mark.parametrize("anew", [False, True])
def test_one_that_is_forbidden_for_long_is_warned_of_until_it_can_be_read(
    forbidden: set[str], anew: bool
) -> None:
    one = stepping()
    forbidden.add("a")
    one.run(100)
    why, log = one.warning().why, one.job("a").attempts[-1].log_path
    assert why.code == "log_unreadable"
    assert why.arg("error") == f"{log}: Permission denied"
    forbidden.clear()
    if anew:
        one.start()
    one.run(20)
    assert one.warned() == []


def test_the_end_of_a_run_waits_for_its_log_and_then_goes_without(
    forbidden: set[str],
) -> None:
    one = stepping(seconds=20.0, exit_code=1)
    one.run(10)
    forbidden.add("a")
    one.run(25)
    assert one.state("a") == "RUNNING"
    assert one.engine.next_wake() > 0  # it costs no more than its polls
    one.reach(60, a="FAILED")
    assert "could not be read" in one.job("a").attempts[-1].evidence


SILENT = LogEvent(
    name="silent", pattern_type="inactivity", after_seconds=30.0, actions=(NOTE,)
)
NO_STEP = replace(SILENT, name="steps", pattern_type="progress")


def step(at: float, number: int) -> Write:
    return says(at, f"iteration {number}/1000 | lm loss: 2.5")


HANGS = writes(step(1.0, 10), step(2.0, 20))


def quiet(script: RunScript, *rules: LogEvent, **others: Any) -> Bench:
    given = Monitoring(log_events=rules, **others)
    return alone(script, rules=given, stage="train")


def test_another_engine_repeats_nothing_and_counts_from_its_first_look() -> None:
    one = quiet(HANGS, SILENT, NO_STEP)
    one.run(25)
    one.clock.advance(3600.0)  # nobody lived meanwhile
    one.start()
    one.run(25)
    assert one.logged() == []
    one.run(20)
    told = one.logged()
    assert len(told) == 2
    one.start()
    one.run(120)
    assert one.logged() == told


def test_a_stall_rule_of_another_stage_ends_nothing() -> None:
    other = StateEvent(name="s", state="stall", stages=("cooldown",))
    one = quiet(HANGS, stall_after_seconds=30.0, state_events=(other,))
    one.run(60)
    assert (one.state("a"), one.warned()) == ("RUNNING", ["stall"])


HIT = finds("every", r"hit number=(?P<number>\d+)", Log(message="x"), number="number")
RULES = Monitoring(log_events=(HIT,))
LINES = 20_000


def hits(count: int) -> bytes:
    return b"".join(b"hit number=%d\n" % number for number in range(count))


FLOOD = hits(LINES)


def saying(data: bytes, at: float = 1.0, seconds: float = 60.0) -> Bench:
    return alone(writes(Write(at=at, data=data), seconds=seconds), rules=RULES)


def counts(bench: Bench) -> list[int]:
    """How many lines each match that was recorded stands for."""
    return [match.count for match in bench.happened(events.LogMatched)]


def warned(bench: Bench, code: str) -> list[Why]:
    return [
        one.why for one in bench.happened(events.WarningRaised) if one.why.code == code
    ]


def number(bench: Bench) -> str:
    return str(bench.job("a").metadata["number"])


def test_matches_beyond_a_few_a_second_are_recorded_together_and_told_once() -> None:
    bench = saying(FLOOD)
    bench.run(30)
    found = bench.happened(events.LogMatched)
    assert (len(found) < 200, sum(counts(bench))) == (True, LINES)
    several = [match for match in found if match.count > 1]
    alone = [match for match in found if match.count == 1]
    assert several[0].first_offset == alone[-1].offset + len(b"hit number=49\n")
    assert several[-1].offset == len(FLOOD) - len(f"hit number={LINES - 1}\n")
    assert number(bench) == str(LINES - 1)
    (told,) = warned(bench, "matches_gathered")
    said = "the rule every matches more than a few lines a second"
    assert bench.words(told).startswith(said)


def test_an_engine_that_died_amid_them_or_the_end_of_the_run_leaves_none_out() -> None:
    bench = saying(FLOOD)
    bench.until(lambda: bool(counts(bench)), 30)
    bench.die(gone_for=5.0)
    bench.run(30)
    assert sum(counts(bench)) == LINES
    bench = saying(FLOOD, seconds=1.5)
    bench.reach(120, a="COMPLETED")
    assert sum(counts(bench)) == LINES


def test_a_rule_that_joins_jobs_without_end_is_bounded_and_told() -> None:
    joins = finds("more", "hit", NewJob(name="child", command=("true",)))
    parts = (Write(at=1.0 + 10 * at, data=hits(40)) for at in range(5))
    rules = Monitoring(log_events=(joins,))
    bench = alone(writes(*parts, seconds=100.0), rules=rules)
    bench.run(90)
    fired = [one for one in bench.happened(events.ActionFired) if one.job == "a"]
    assert len(fired) == MOST_JOINS
    (told,) = warned(bench, "joins_spent")
    assert "has let other jobs join 100 times" in bench.words(told)


LONG = (b"x" * 79 + b"\n") * 150_000 + b"hit number=7\n"


@pytest.mark.parametrize(("last", "cause"), [("1.5", None), ("nan", "nan")])
def test_what_a_run_told_between_two_looks_counts_however_far_from_its_end(
    last: str, cause: str | None
) -> None:
    text = f"step: 1 loss: 2.0\nstep: 2 loss: {last}\n".encode()
    data = LONG + text + LONG[:100_000]
    bench = alone(writes(Write(at=2.9, data=data), seconds=3.0))
    bench.ends()
    noted, attempt = bench.job("a").noted, bench.job("a").attempt
    assert noted is not None
    assert attempt is not None
    assert (str(noted.values["loss"]), noted.step, attempt.cause) == (last, 2, cause)


def test_what_no_rule_saw_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"TAIL_READ": 100_000, "DRAIN_SECONDS": 0.0, "LAST_READ": 1_000}
    for name, value in limits.items():  # even the tail takes too long
        monkeypatch.setattr(run_reports, name, value)
    bench = saying(LONG, at=0.9, seconds=1.0)  # 12 MB as it ends
    bench.reach(120, a="COMPLETED")
    (told,) = warned(bench, "log_unread")
    assert "of the log of a were not searched by any rule" in bench.words(told)
    assert told.arg("tail") == 1_000
    assert number(bench) == "7"


def test_who_ends_a_run_waits_for_its_tail_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_reports, "TAIL_READ", 100_000)
    bench = saying(LONG, at=2.0, seconds=500.0)
    bench.reach(20, a="RUNNING")
    bench.clock.advance(3.0)
    bench.executor.settle()
    bench.kill("a")
    bench.reach(60, a="CANCELLED")
    assert number(bench) == "7"


def test_a_command_does_not_wait_for_logs_that_came_with_it() -> None:
    bench = alone(RunScript(seconds=60.0), rules=RULES)
    bench.reach(20, a="RUNNING")
    text = b"hit number=1\n"
    at = LogCursor(job="a", attempt=1, run=0, path="", offset=0)
    chunk = LogChunk(offset=0, data=text, size=len(text))
    bench.engine._mailbox.post(seen.LogsRead(reads=(seen.LogRead(at=at, chunk=chunk),)))
    order = Order(command_id="c9", command=Pause())  # a person's, from the inbox
    bench.engine._mailbox.post(seen.OrdersTaken(orders=(order,)))
    bench.engine.commit()
    assert bench.engine.state.paused is not None
    assert not counts(bench)
    bench.engine.commit()
    assert counts(bench) == [1]


PATH = "/out/a/metrics.jsonl"
JSONL = MetricFile(path="metrics.jsonl", format="jsonl")
OF_FILES = Monitoring(metrics_files=(JSONL,))
QUICK_FILE = Monitoring(
    metrics_files=(JSONL,),
    anomalies=Anomalies(min_points=2, flat_share=0.03, divergence="off"),
)


def row(at: float, path: str = PATH, **values: object) -> Write:
    return Write(at=at, data=json.dumps(values).encode() + b"\n", path=path)


def bench(*lines: Write, seconds: float = 1e6, rules: Monitoring = OF_FILES) -> Bench:
    return alone(writes(*lines, seconds=seconds), rules=rules, progress_total=100)


def test_files_that_match_a_pattern_are_read_as_they_come() -> None:
    one = bench(
        Write(at=1.0, data=b"step,loss\n1,3\n", path="/out/a/v0/m.csv"),
        Write(at=50.0, data=b"step,acc\n1,0.5\n", path="/out/a/v1/m.csv"),
        rules=Monitoring(metrics_files=(MetricFile(path="v*/m.csv", format="csv"),)),
    )
    one.run(80)
    assert one.live().metrics == {"loss": 3.0, "acc": 0.5}


def test_an_event_file_is_read_as_it_grows_and_one_that_is_cut_is_told_of() -> None:
    path, data = "/out/a/tb/events.out.tfevents.1.vm", EVENTS.read_bytes()
    parts = (data[:100], data[100:230], data[230:-9])
    rules = MetricFile(path="tb/events.out.*", format="tensorboard")
    one = bench(
        *(Write(at=5.0 * n, data=part, path=path) for n, part in enumerate(parts)),
        seconds=40.0,
        rules=Monitoring(metrics_files=(rules,)),
    )
    one.run(8)
    assert (one.live().step, one.live().metrics) == (2, {"loss": 1.5, "eval_acc": 0.5})
    one.reach(60, a="COMPLETED")
    (told,) = warned(one, "metrics_file_torn")
    assert path in one.words(told)


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
    one = Bench(plan(job("a"), waits, monitoring=OF_FILES), {"a": [[script]]})
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


@pytest.mark.parametrize("quiet", [0, 500])
def test_a_nan_in_a_log_ends_its_run_within_a_poll(quiet: int) -> None:
    one = alone(writes(says(1.0, "loss: 2.0"), says(5.0 + quiet, "loss: nan")))
    one.run(3 + quiet)
    assert not one.ordered(CancelTasks)
    path = one.job("a").attempts[-1].log_path
    while b"nan" not in one.files.data[path]:
        one._pass()
    one.run(Monitoring().poll_seconds)
    assert [order.tasks for order in one.ordered(CancelTasks)] == [(("a", 1),)]


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
    one = bench(*FLAT, *FALLS, rules=QUICK_FILE)
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
