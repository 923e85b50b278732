"""What counts as the end of a run, and why it ended; rules over ends by class and over
the ways of jobs between their states; two rules that restart after one end: one
further attempt, and the other is told; the storm breaker over many ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, get_args

import pytest

from autoexp_tui.actions.kinds import Log, Restart
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts, MetadataIs
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.engine import report_reducer as judge
from autoexp_tui.engine.executor_port import (
    BeginRecord,
    ExitRecord,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.event import Event
from autoexp_tui.model.rules import LogEvent, Monitoring, StateClass, StateEvent, Storm
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Outcome, why
from tests.engine.bench import Bench, alone
from tests.engine.parts import CRASH, again, finds, on_end, says, writes
from tests.model.builders import ended, happen, job, plan, run, started, submit_event
from tests.support.fake_script import RunScript

BEGUN = BeginRecord(run=0, began_at=1.0, gpus=("0", "3"))


def running(*happened: Event, cancel: Cause | None = None) -> JobRecord:
    """A job `a` that runs, and what happens then."""
    state = started(plan(job("a")))
    run(state, "a")
    effect = CancelTasks(tasks=(("a", 1),))
    given: dict[str, Any] = {"effect_id": "e9", "effect": effect, "cause": cancel}
    if cancel:
        happened = (events.EffectOrdered(why=why(cancel.value), **given),)
    happen(state, *happened)
    return state.jobs["a"]


def report(phase: TaskPhase = TaskPhase.RUNNING, **fields: Any) -> TaskReport:
    return TaskReport(job="a", attempt=1, phase=phase, **fields)


def exited(code: int | None = 0, signal: int | None = None, **more: Any) -> ExitRecord:
    return ExitRecord(run=0, ended_at=9.0, exit_code=code, signal=signal, **more)


def end(
    record: ExitRecord | None, ordered: Cause | None = None, tail: str = "", **said: Any
) -> events.AttemptEnded:
    told = report(exited=record, **said)
    return judge.decide_end(running(cancel=ordered), told, 10.0, tail=tail)


# Their own kill for a stall: a run that ended well before it has completed.
WELL: Final = exited(0, asked=False)
STALL = Cause.STALL


@pytest.mark.parametrize(
    ("record", "ordered", "said", "outcome", "cause"),
    [
        (exited(0), None, None, "COMPLETED", None),
        (exited(127, note="no cmd"), None, None, "FAILED", "exit_code"),
        (exited(None, 9, note="no cmd"), None, None, "FAILED", "signal"),
        (exited(0), Cause.USER, None, "CANCELLED", "user"),
        (exited(0), Cause.CANCEL_CONDITION, None, "CANCELLED", "cancel_condition"),
        (exited(0), Cause.NAN, None, "FAILED", "nan"),
        (exited(0), STALL, None, "FAILED", "stall"),
        (WELL, Cause.USER, None, "CANCELLED", "user"),
        (WELL, Cause.CANCEL_CONDITION, None, "CANCELLED", "cancel_condition"),
        (WELL, Cause.NAN, None, "FAILED", "nan"),
        (WELL, Cause.KILL_CRITERION, None, "FAILED", "kill_criterion"),
        (WELL, STALL, None, "COMPLETED", None),
        (WELL, STALL, Cause.USER, "COMPLETED", None),
        (replace(WELL, asked=True), STALL, None, "FAILED", "stall"),
        (replace(WELL, asked=None), STALL, None, "FAILED", "stall"),
        (replace(WELL, exit_code=1), STALL, None, "FAILED", "stall"),
        (replace(WELL, exit_code=None, signal=9), STALL, None, "FAILED", "stall"),
    ],
)
def test_the_exit_record_and_our_own_orders_give_the_end(
    record: ExitRecord,
    ordered: Cause | None,
    said: Cause | None,
    outcome: str,
    cause: str | None,
) -> None:
    told = end(record, ordered, cause=said)
    assert (told.outcome, told.cause) == (outcome, cause)
    if record.note:
        assert told.why is not None
        assert (told.why.code, told.why.arg("note")) == (cause, "no cmd")
    if record is WELL and ordered is STALL:
        assert told.why is not None
        assert told.why.code == "well_before_the_kill"


@pytest.mark.parametrize(
    "cause", [Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.NODE_FAIL, Cause.PREEMPTED]
)
def test_what_the_executor_says_sets_the_cause_even_over_exit_0(cause: Cause) -> None:
    told = end(exited(0), cause=cause, rerun=True)
    assert (told.outcome, told.cause) == (Outcome.FAILED, cause)
    assert told.rerun is (cause is Cause.NODE_FAIL)
    assert end(WELL, STALL, cause=cause).outcome is Outcome.FAILED
    assert not end(WELL, Cause.NAN, cause=cause, rerun=True).rerun


KILLED = exited(None, 9, asked=False)
OF_SLURM = "step 3\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch\n"


@pytest.mark.parametrize(
    ("record", "tail"),
    [
        (KILLED, OF_SLURM),
        (KILLED, "slurmstepd: error: StepId=7.0 exceeded memory limit (9 > 8), killed"),
        (KILLED, "slurmstepd: error: Exceeded job memory limit"),
        (KILLED, "[1.2] Out of memory: Killed process 4711 (python) total-vm:1kB"),
        (
            replace(KILLED, exit_code=137, signal=None),
            "Some of them may have been killed by the cgroup out-of-memory handler.",
        ),
        (replace(KILLED, oom_kills=1), ""),
    ],
)
def test_a_kill_for_memory_is_told_by_its_text_or_the_kernels_count(
    record: ExitRecord, tail: str
) -> None:
    told = end(record, tail=tail)
    assert (told.outcome, told.cause) == (Outcome.FAILED, Cause.OUT_OF_MEMORY)
    others: list[dict[str, Any]] = [  # any other end is no kill for memory
        {"asked": True},
        {"exit_code": 1, "signal": None},
        {"signal": 11, "oom_kills": 1},
        {"exit_code": 0, "signal": None, "oom_kills": 1},
    ]
    for other in others:
        found = end(replace(KILLED, **other), tail=OF_SLURM)
        assert found.cause is not Cause.OUT_OF_MEMORY
    assert end(KILLED, tail="CUDA out of memory was caught\n").cause is Cause.SIGNAL


FORGED = "exit.0.json was not written by its supervisor"
REMOVED = "the records of its run were removed"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"began": BEGUN}, why("lost", seconds=9.0)),
        ({}, why("lost_records", what=REMOVED)),
        ({"began": BEGUN, "tampering": FORGED}, why("lost_records", what=FORGED)),
    ],
)
def test_a_lost_run_says_what_became_of_its_records(
    fields: dict[str, Any], reason: object
) -> None:
    told = end(None, phase=TaskPhase.ENDED, gone_for=9.0, **fields)
    assert (told.outcome, told.why) == (Outcome.LOST, reason)


@pytest.mark.parametrize(
    ("phase", "gone_for", "lost"),
    [
        (TaskPhase.ENDED, 4.0, False),
        (TaskPhase.ENDED, 5.0, True),
        (TaskPhase.UNKNOWN, 1e9, False),  # words that we do not know
        (TaskPhase.QUEUED, 1e9, False),
    ],
)
def test_a_task_without_trace_is_lost_only_after_the_grace(
    phase: TaskPhase, gone_for: float, lost: bool
) -> None:
    gone = report(phase, gone_for=gone_for)
    assert judge.has_ended(running(), gone, lost_after_seconds=5.0) is lost


def test_the_exit_record_of_a_lost_run_that_comes_late_completes_its_job() -> None:
    bench = alone(RunScript(seconds=50.0))
    bench.reach(a="RUNNING")
    bench.executor.kill_supervisor(("a", 1))
    bench.reach(a="LOST")
    bench.executor.copies[0].runs[0].exit = exited(0)
    bench.reach(a="COMPLETED")
    assert (bench.why("a").code, bench.tries("a")) == ("late_exit_record", 1)


def test_a_task_that_is_sent_again_is_not_lost_to_a_look_from_before() -> None:
    state = started(plan(job("a")))
    first = submit_event("a", 1)
    taken = events.SubmissionAccepted(
        token="token-a-1", executor_ids=("x1",), submitted_at=1.0
    )
    happen(state, events.JobsReleased(jobs=("a",)), first, taken)
    happen(state, replace(first, effect_id="e9"))
    gone = report(TaskPhase.ENDED, gone_for=400.0, unclaimed=True)
    assert not judge.has_ended(state.jobs["a"], gone, lost_after_seconds=300.0)


GONE = events.AttemptEnded(job="a", attempt=1, outcome=Outcome.LOST, cause=Cause.LOST)
FAILED = events.JobEnded(job="a", state=JobState.FAILED)


@pytest.mark.parametrize(
    ("happened", "record", "counts"),
    [
        ([events.RunBegan(job="a", attempt=1, run=1, began_at=5.0)], exited(1), False),
        ([GONE, events.JobEnded(job="a", state=JobState.LOST)], exited(0), True),
        ([ended("a"), FAILED], exited(), False),
    ],
)
def test_an_exit_record_ends_its_own_run_once_and_a_run_begins_once(
    happened: list[Event], record: ExitRecord, counts: bool
) -> None:
    a = running(*happened)
    assert judge.has_ended(a, report(exited=record), 5.0) is counts
    assert judge.find_begin(a, report(began=BEGUN)) is None


def test_a_run_that_begins_is_known_with_the_gpus_that_it_was_given() -> None:
    began = judge.find_begin(running(), report(began=replace(BEGUN, run=1)))
    assert began is not None
    attempt = running(began).attempt
    assert attempt is not None
    assert attempt.gpus == ("0", "3")


SAYS = Log(message="{name} at {attempt}")
OK = RunScript(seconds=2.0)


def moves(old: str | None, new: str, *more: StateEvent) -> Monitoring:
    """A rule over a way tells of it."""
    rule = StateEvent(name="moved", transition=(old, new), actions=(SAYS,))
    return Monitoring(state_events=(*more, rule))


def runs_of(rules: Monitoring, *runs: RunScript, **how: Any) -> Bench:
    """One job, whose only attempt has these runs."""
    return Bench(plan(job("a"), monitoring=rules), {"a": [list(runs)]}, **how)


@pytest.mark.parametrize(
    ("state", "script"),
    [
        ("success", OK),
        ("crash", CRASH),
        ("crash", RunScript(seconds=2.0, exit_code=None, signal=11)),
        ("crash", RunScript(seconds=2.0, ends="vanish")),
        ("timeout", replace(OK, cause=Cause.TIMEOUT)),
        ("oom", replace(OK, cause=Cause.OUT_OF_MEMORY)),
        ("node_fail", replace(OK, cause=Cause.NODE_FAIL)),
        ("preempted", replace(OK, cause=Cause.PREEMPTED)),
        ("stall", writes(says(1.0, "iteration 5 | lm loss: 2"))),
    ],
)
def test_an_end_is_of_one_class(state: StateClass, script: RunScript) -> None:
    rules = (
        on_end(name, Log(message=name), name=name) for name in get_args(StateClass)
    )
    given = Monitoring(stall_after_seconds=20.0, state_events=tuple(rules))
    one = alone(script, rules=given)
    one.ends(600)
    assert one.logged() == [state]


REQUEUED = RunScript(seconds=5.0, ends="requeue")
QUEUED = RunScript(begin_delay=5.0)


@pytest.mark.parametrize(
    ("rules", "runs", "told"),
    [
        (moves("QUEUED", "RUNNING"), [QUEUED], 1),
        (
            moves("RUNNING", "QUEUED"),
            [REQUEUED, replace(REQUEUED, begin_delay=5.0), QUEUED],
            2,
        ),
    ],
)
def test_a_way_between_two_states_is_told_each_time(
    rules: Monitoring, runs: list[RunScript], told: int
) -> None:
    one = runs_of(rules, *runs)
    one.reach(a="COMPLETED")
    assert one.logged() == ["a at 1"] * told
    one.start()
    one.run(20)
    assert one.logged() == ["a at 1"] * told  # another engine tells no move again


def test_a_rule_that_matches_once_does_so_in_each_run() -> None:
    bad = finds("bad", "bad (?P<what>.*)", SAYS, reason="what")
    rules = Monitoring(log_events=(replace(bad, match_once=True),))
    requeued = replace(REQUEUED, writes=(says(1.0, "bad a", "bad b"),))
    one = runs_of(rules, requeued, writes(says(1.0, "bad c"), seconds=5.0))
    one.reach(a="COMPLETED")
    assert len(one.logged()) == 2


LATE: Final = "/late"
"""A file that comes while the second attempt runs."""
FATAL: Final = writes(says(1.0, "FATAL"), seconds=4.0, exit_code=1)
RUNS_WELL: Final = RunScript(seconds=60.0)
Conditions = tuple[Condition, ...]
CONDITIONS: Final[dict[str, Conditions]] = {
    "none": (),
    "attempts": (MaxAttempts(max_attempts=3),),
    "no more": (MaxAttempts(max_attempts=1),),
    "cooldown": (Cooldown(cooldown_seconds=5.0),),
    "file": (FileExists(path=LATE, timeout_seconds=600.0),),
    "file of old": (FileExists(path=LATE),),
    "metadata": (MetadataIs(key="never", value="1"),),
}


def by_end(name: str, on: str = "none") -> StateEvent:
    restart = Restart(reason=name, conditions=CONDITIONS[on])
    return on_end("crash", restart, name=name)


def after_a_crash(*rules: StateEvent | LogEvent) -> Bench:
    """A job that crashes once and then runs well; seen until that is done.

    What a restart may have waited for comes while the second attempt runs.
    """
    given = Monitoring(
        state_events=tuple(rule for rule in rules if isinstance(rule, StateEvent)),
        log_events=tuple(rule for rule in rules if isinstance(rule, LogEvent)),
    )
    bench = alone(FATAL, RUNS_WELL, rules=given)
    bench.until(lambda: bench.tries("a") == 2, 60)
    bench.run(20)
    bench.files.append(LATE, b"x")
    bench.ends(600)
    bench.run(20)
    assert (bench.state("a"), bench.tries("a")) == ("COMPLETED", 2)
    return bench


def retries(bench: Bench) -> list[str]:
    """The reasons of the restarts that were decided."""
    happened = bench.happened(events.RetryOrdered)
    return [str(one.why.arg("reason")) for one in happened if not one.held and one.why]


@pytest.mark.parametrize("on", CONDITIONS)
def test_of_two_rules_the_first_that_holds_restarts_once(on: str) -> None:
    bench = after_a_crash(by_end("first"), by_end("second", on))
    assert retries(bench) == ["first"]
    (dropped,) = bench.happened(events.ActionDropped)
    assert (dropped.action, dropped.why.code) == ("second/0", "restarted_already")
    said = finds("said", "FATAL", Restart(reason="said"))
    bench = after_a_crash(by_end("ended", on), said)  # logs come before
    assert retries(bench) == ["said"]
    bench = after_a_crash(by_end("first", on), by_end("second"))
    at_once = on in ("none", "attempts", "cooldown")
    assert retries(bench) == ["first" if at_once else "second"]


def test_no_restart_goes_beyond_its_own_bound() -> None:
    bounds = {"twice": 2, "thrice": 3}
    rules = (on_end("crash", again(n, reason=r), name=r) for r, n in bounds.items())
    bench = alone(FATAL, rules=Monitoring(state_events=tuple(rules)))
    bench.reach(600, a="FAILED")
    assert (retries(bench), bench.tries("a")) == (["twice", "thrice"], 3)


AFTER_LONG = RunScript(seconds=60.0, exit_code=1)


def bench(
    *scripts: RunScript,
    stages: str = "t" * 15,
    slots: int = 1,
    restarts: bool = False,
    has_nodes: bool = False,
    trials: tuple[int, ...] = (),
    **storm: Any,
) -> Bench:
    """Job after job, the n-th with the n-th script and in the n-th stage, with a storm
    at three failures within 20 s."""
    given = Storm(**{"failures": 3, "quick_seconds": 20.0, **storm})
    rules = Monitoring(
        storm=given, state_events=(on_end("crash", again()),) if restarts else ()
    )
    names = [f"j{n}" for n in range(len(scripts))]
    jobs = (
        job(name, n, stage=stages[n], trial=n in trials) for n, name in enumerate(names)
    )
    by_name = {name: [[one]] * 9 for name, one in zip(names, scripts, strict=True)}
    return Bench(
        plan(*jobs, monitoring=rules), by_name, slots=slots, has_nodes=has_nodes
    )


def begun_after(one: Bench, seconds: float = 60.0) -> int:
    one.run(seconds)
    return len(one.executor.begun)


def blamed(one: Bench) -> str | None:
    """What submission is paused for; None: it is not paused."""
    paused = one.engine.state.paused
    assert paused is None or paused.code == "storm"
    return str(paused.arg("what")) if paused else None


def test_quick_failures_in_a_row_pause_submission_in_the_same_commit() -> None:
    one = bench(*[CRASH] * 6)
    assert begun_after(one) == 3
    assert blamed(one) == "in stage t"
    records = one.world.session.records
    kinds = [type(record.event) for record in records]
    paused = kinds.index(events.SubmissionPaused)
    ended = max(n for n in range(paused) if kinds[n] is events.AttemptEnded)
    assert all(record.more for record in records[ended:paused])


def test_restarts_count_and_are_held_back() -> None:
    one = bench(CRASH, restarts=True, quick_seconds=60.0)
    assert begun_after(one) == 3
    paused = one.engine.state.paused
    assert paused is not None
    assert (one.state("j0"), one.why("j0").code) == ("RETRYING", "held_by_storm")
    assert one.why("j0").arg("at") == paused.arg("at") != ""


@pytest.mark.parametrize(
    ("then", "begun", "warned"),
    [([CRASH] * 6, 6, ["storm"]), ([OK, OK], 5, [])],
)
def test_resume_releases_clears_the_warning_and_the_count_starts_anew(
    then: list[RunScript], begun: int, warned: list[str]
) -> None:
    one = bench(CRASH, CRASH, CRASH, *then)
    assert begun_after(one, 30) == 3
    one.order(commands.Resume())
    assert begun_after(one, 30) == begun
    assert list(one.engine.state.warnings) == warned


def on(*nodes: int) -> list[RunScript]:
    """Crashes on these nodes."""
    return [RunScript(seconds=2.0, exit_code=1, node=f"n{node}") for node in nodes]


LEAVES_OUT: dict[str, Any] = {"action": "exclude_node", "has_nodes": True}


def test_a_bad_node_is_left_out_instead_of_a_pause_where_asked() -> None:
    one = bench(*on(7, 7, 7), OK, OK, **LEAVES_OUT)
    one.run(60)
    assert (blamed(one), one.engine.state.excluded_nodes) == (None, ("n7",))
    assert one.executor.copies[-1].task.resources.options["exclude"] == "n7"
    assert "storm:n7" in one.engine.state.warnings
    one = bench(*on(*[7] * 9), slots=0, **LEAVES_OUT)  # what was queued there before
    one.run(60)
    assert (blamed(one), one.engine.state.excluded_nodes) == (None, ("n7",))


FOUR_NODES = on(*(n // 3 for n in range(15)))
BY_STAGE: dict[str, Any] = {"per": ("stage",), "stages": "ababab"}


@pytest.mark.parametrize(
    ("scripts", "how", "begun", "what", "left_out"),
    [
        ([CRASH, CRASH, OK, CRASH, CRASH, OK], {}, 6, None, 0),
        ([CRASH, CRASH, AFTER_LONG, CRASH, CRASH, OK], {}, 6, None, 0),
        ([CRASH] * 6, BY_STAGE, 5, "in stage a", 0),
        ([CRASH] * 5, {"stages": "abcde"}, 3, "", 0),
        ([CRASH] * 6, {"trials": (0, 1, 2, 3, 4, 5)}, 6, None, 0),
        ([CRASH, CRASH, OK, CRASH, CRASH], {"trials": (2,)}, 4, "in stage t", 0),
        (on(0, 1, 2, 3, 4), LEAVES_OUT, 3, "in stage t", 0),
        (FOUR_NODES, LEAVES_OUT, 12, "on node n3", 3),
    ],
)
def test_a_row_is_counted_by_stage_or_in_all_until_it_breaks_and_may_blame_nodes(
    scripts: list[RunScript],
    how: dict[str, Any],
    begun: int,
    what: str | None,
    left_out: int,
) -> None:
    one = bench(*scripts, **how)
    assert begun_after(one, 120) == begun
    assert blamed(one) == what
    assert one.engine.state.excluded_nodes == ("n0", "n1", "n2")[:left_out]
    assert left_out or one.warned() == ["storm"] * (what is not None)
