"""What the engine decides, seen through whole runs on fakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    Cooldown,
    FileExists,
    JobStateIs,
    MaxAttempts,
    MetadataIs,
    TimeReached,
)
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.rules import (
    Anomalies,
    LogEvent,
    Monitoring,
    StateEvent,
)
from autoexp_tui.model.specs import JobSpec, Plan, Resources
from autoexp_tui.model.states import Cause, JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import Fault, RunScript, Write
from tests.support.sim_world import Recompose

OK = RunScript(seconds=5.0)
CRASH = RunScript(seconds=2.0, exit_code=1)
SAVED = LogEvent(
    name="saved",
    pattern=r"saved checkpoint (?P<n>\d+)",
    pattern_type="regex",
    extract_groups={"checkpoint_iteration": "n"},
)


def says(at: float, text: str) -> Write:
    return Write(at=at, data=text.encode() + b"\n")


def after(name: str, state: str = "COMPLETED", **fields: object) -> JobStateIs:
    return JobStateIs(jobs=(name,), state=state, **fields)  # type: ignore[arg-type]


def two(start: tuple[object, ...] = (), cancel: tuple[object, ...] = ()) -> Plan:
    """`b` depends on `a`."""
    return plan(
        job("a"),
        job(
            "b",
            1,
            depends_on=("a",),
            start_conditions=start,
            cancel_conditions=cancel,
        ),
        monitoring=Monitoring(log_events=(SAVED,)),
    )


# ------------------------------------------------------------------------ starting
def test_nothing_runs_before_somebody_submits() -> None:
    bench = Bench(plan(job("a")), submit=False)
    bench.run(20)
    assert bench.states() == {"a": "PLANNED"}
    assert not bench.executor.begun


def test_a_job_waits_for_its_upstream_and_then_runs() -> None:
    bench = Bench(two(start=(after("a"),)), {"a": [[OK]], "b": [[OK]]})
    bench.until(bench.is_("a", JobState.RUNNING))
    assert bench.job("b").state is JobState.WAITING
    bench.until(bench.is_("b", JobState.COMPLETED))


def test_a_checkpoint_and_its_logged_iteration_are_both_waited_for() -> None:
    path = "/out/a/iter_80/done.txt"
    start = (
        FileExists(path=path, writer="a"),
        MetadataIs(key="checkpoint_iteration", job="a", op=">=", value=80),
    )
    script = RunScript(
        seconds=60.0,
        writes=(
            Write(at=2.0, data=b"x", path=path),
            says(20.0, "saved checkpoint 80"),
        ),
    )
    scripts = {"a": [[script]], "b": [[RunScript(seconds=30.0)]]}
    bench = Bench(two(start=start), scripts)
    bench.run(10)
    assert [s.result.value for s in bench.job("b").start if s] == ["pass", "wait"]
    bench.until(bench.is_("b", JobState.RUNNING), 20)
    assert bench.job("a").state is JobState.RUNNING


def test_ready_jobs_wait_for_a_slot_and_say_so() -> None:
    bench = Bench(plan(*(job(f"j{n}", n) for n in range(3))), slots=2)
    bench.step()
    assert sorted(bench.states().values())[-1] == "WAITING"
    assert bench.why("j2").code == "held_by_slots"
    bench.until(bench.is_("j2", JobState.COMPLETED))


def test_a_pause_holds_what_is_ready_and_leaves_what_runs() -> None:
    bench = Bench(two(start=(after("a"),)), {"a": [[OK]]})
    bench.until(bench.is_("a", JobState.RUNNING))
    bench.order(commands.Pause())
    bench.until(bench.is_("a", JobState.COMPLETED))
    bench.run(10)
    assert bench.job("b").state is JobState.WAITING
    paused, kept = bench.engine.state.paused, bench.job("b").why
    assert paused is not None
    assert kept is not None
    assert kept.arg("at") == paused.arg("at") > 0  # type: ignore[operator]
    bench.order(commands.Resume())
    bench.until(bench.is_("b", JobState.COMPLETED))


# ----------------------------------------------------------------- cancel and fail
def test_cancel_wins_when_start_and_cancel_are_true_at_once() -> None:
    bench = Bench(
        two(start=(after("a"),), cancel=(after("a", "COMPLETED"),)), {"a": [[OK]]}
    )
    bench.until(bench.is_("b", JobState.CANCELLED))
    assert bench.job("b").cause is Cause.CANCEL_CONDITION


def test_a_failed_upstream_skips_its_dependant_with_the_reason() -> None:
    bench = Bench(two(start=(after("a"),)), {"a": [[CRASH]]})
    bench.until(bench.is_("b", JobState.SKIPPED))
    assert bench.job("b").cause is Cause.UPSTREAM
    assert bench.job("a").cause is Cause.EXIT_CODE


def test_a_file_whose_writer_ended_without_it_is_doomed_after_a_grace() -> None:
    start = (FileExists(path="/out/a/done.txt", writer="a"),)
    bench = Bench(two(start=start), {"a": [[OK]]})
    bench.until(bench.is_("a", JobState.COMPLETED))
    bench.run(50)
    assert bench.job("b").state is JobState.WAITING
    bench.until(bench.is_("b", JobState.SKIPPED), 20)
    assert bench.why("b").code == "doomed_file"


# ------------------------------------------------------------------------ reactions
RESTART = Restart(
    reason="crashed",
    conditions=(MaxAttempts(max_attempts=2), Cooldown(cooldown_seconds=10.0)),
)


def restarting(*cancel: object) -> Plan:
    return plan(
        *two(start=(after("a"),), cancel=cancel).jobs,
        edges=two().edges,
        monitoring=Monitoring(
            log_events=(SAVED,),
            state_events=(
                StateEvent(name="crashed", state="crash", actions=(RESTART,)),
            ),
        ),
    )


def test_a_crash_is_restarted_from_its_checkpoint() -> None:
    bench = Bench(restarting(), {"a": [[CRASH], [OK]]})
    bench.until(bench.is_("b", JobState.COMPLETED))
    attempts = bench.job("a").attempts
    assert [a.outcome.value for a in attempts if a.outcome] == ["FAILED", "COMPLETED"]
    assert [a.resume for a in attempts] == [False, True]


def test_after_the_last_attempt_a_crash_is_for_good() -> None:
    bench = Bench(restarting(after("a", "FAILED")), {"a": [[CRASH], [CRASH]]})
    bench.until(bench.is_("b", JobState.CANCELLED))
    assert bench.job("a").state is JobState.FAILED
    assert len(bench.job("a").attempts) == 2


def test_a_restart_with_overrides_runs_once_they_are_composed() -> None:
    restart = Restart(overrides=("lr={best_lr}",), exclude_node=True)
    found = LogEvent(
        name="best",
        pattern=r"best lr (?P<lr>\S+)",
        pattern_type="regex",
        extract_groups={"best_lr": "lr"},
    )
    rules = Monitoring(
        log_events=(found,),
        state_events=(StateEvent(name="c", state="crash", actions=(restart,)),),
    )
    crash = RunScript(seconds=3.0, exit_code=1, writes=(says(1.0, "best lr 2e-4"),))
    bench = Bench(plan(job("a"), monitoring=rules), {"a": [[crash], [OK]]})
    bench.until(bench.is_("a", JobState.COMPLETED))
    spec = bench.job("a").spec
    assert spec.overrides == ("lr=2e-4",)
    assert spec.resources.options["exclude"] == "fakehost"


def test_a_restart_whose_script_would_hold_a_log_s_text_is_held() -> None:
    class Scripted(Recompose):
        def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
            spec = super().compose(plan, job, overrides)
            return replace(spec, command=("bash", "-c", f"train {overrides[-1]}"))

    found = LogEvent(
        name="best",
        pattern=r"load (?P<path>.+)",
        pattern_type="regex",
        extract_groups={"best": "path"},
    )
    restart = StateEvent(
        name="c", state="crash", actions=(Restart(overrides=("load={best}",)),)
    )
    rules = Monitoring(log_events=(found,), state_events=(restart,))
    crash = RunScript(seconds=3.0, exit_code=1, writes=(says(1.0, "load /x;reboot"),))
    bench = Bench(plan(job("a"), monitoring=rules), {"a": [[crash], [OK]]})
    object.__setattr__(bench.engine._parts, "planner", Scripted())
    bench.until(bench.is_("a", JobState.HELD))
    assert len(bench.executor.begun) == 1
    told = [event.why.code for event in bench.happened(events.WarningRaised)]
    assert told == ["value_in_script"]


def test_nodes_stay_avoided_when_a_person_brings_the_job_back() -> None:
    restart = Restart(exclude_node=True, conditions=(MaxAttempts(max_attempts=2),))
    rule = StateEvent(name="c", state="crash", actions=(restart,))
    bench = Bench(
        plan(job("a"), monitoring=Monitoring(state_events=(rule,))),
        {"a": [[replace(CRASH, node=f"n{n}")] for n in (1, 2)] + [[OK]]},
    )
    bench.until(bench.is_("a", JobState.FAILED))
    bench.start()
    bench.order(commands.Resubmit(jobs=("a",), exclude_nodes=("n2",)))
    bench.until(bench.is_("a", JobState.COMPLETED))
    last = bench.executor.copies[-1].task
    assert last.resources.options["exclude"] == "n1,n2"


def test_a_job_killed_by_a_person_is_not_restarted() -> None:
    bench = Bench(restarting(), {"a": [[RunScript(seconds=500.0)]]})
    bench.until(bench.is_("a", JobState.RUNNING))
    bench.order(commands.Kill(jobs=("a",)))
    bench.until(bench.is_("a", JobState.CANCELLED))
    bench.run(30)
    assert len(bench.job("a").attempts) == 1
    assert bench.job("a").cause is Cause.USER
    assert bench.job("b").state is JobState.SKIPPED


def test_bringing_a_killed_job_back_brings_its_dependants_back() -> None:
    bench = Bench(two(start=(after("a"),)), {"a": [[RunScript(seconds=99.0)], [OK]]})
    bench.until(bench.is_("a", JobState.RUNNING))
    bench.order(commands.Kill(jobs=("a",)))
    bench.until(bench.is_("b", JobState.SKIPPED))
    bench.order(commands.Resubmit(jobs=("a",)))
    bench.until(bench.is_("b", JobState.COMPLETED))


# ------------------------------------------------------------------------ anomalies
def loss(at: float, step: int, value: str) -> Write:
    return says(at, f"iteration {step}/100 | lm loss: {value}")


def test_a_loss_that_is_no_number_fails_the_job_with_cause_nan() -> None:
    script = RunScript(
        seconds=500.0, writes=(loss(1.0, 10, "2.5"), loss(2.0, 20, "nan"))
    )
    bench = Bench(two(start=(after("a"),)), {"a": [[script]]})
    bench.until(bench.is_("a", JobState.FAILED), 10)
    assert bench.job("a").cause is Cause.NAN
    assert bench.job("b").state is JobState.SKIPPED
    assert bench.warned() == ["nan"]


def test_a_step_counter_that_stopped_is_a_stall_although_the_log_grows() -> None:
    writes = (loss(1.0, 10, "2.5"), *(says(n * 5.0, "noise") for n in range(1, 90)))
    rules = Monitoring(stall_after_seconds=60.0)
    bench = Bench(
        plan(job("a"), monitoring=rules),
        {"a": [[RunScript(seconds=400.0, writes=writes)]]},
    )
    bench.run(50)
    assert not bench.engine.state.warnings
    bench.run(40)
    assert bench.warned() == ["stall"]


def test_a_flat_loss_is_no_worry_any_more_once_the_run_has_ended() -> None:
    writes = tuple(loss(n * 0.5, n * 100, "2.5") for n in range(1, 40))
    rules = Monitoring(anomalies=Anomalies(min_points=5, flat_share=0.1))
    bench = Bench(
        plan(job("a", progress_total=10_000), monitoring=rules),
        {"a": [[RunScript(seconds=30.0, writes=writes)]]},
    )
    bench.run(20)
    assert bench.warned() == ["plateau"]
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert not bench.engine.state.warnings


# ------------------------------------------------------------------------ approvals
def asking() -> Plan:
    return two(start=(after("a"), Approval(prompt="publish?")))


def test_an_approval_is_asked_only_when_all_else_passed() -> None:
    bench = Bench(asking(), {"a": [[OK]]})
    bench.until(bench.is_("a", JobState.RUNNING))
    assert bench.job("b").ask is None
    bench.until(lambda: bench.job("b").ask is not None)
    bench.run(10)
    assert bench.job("b").state is JobState.WAITING


def test_an_approved_job_runs_and_a_refused_one_is_skipped() -> None:
    for approved, end in ((True, JobState.COMPLETED), (False, JobState.SKIPPED)):
        bench = Bench(asking(), {"a": [[OK]]})
        bench.until(lambda b=bench: b.job("b").ask is not None)  # type: ignore[misc]
        ask = bench.job("b").ask
        assert ask is not None
        bench.order(commands.Answer(job="b", digest=ask.digest, approved=approved))
        bench.until(bench.is_("b", end))
    assert bench.job("b").cause is Cause.APPROVAL_REFUSED


def test_an_answer_is_bound_to_what_the_job_takes_from_its_executor() -> None:
    digests = set()
    for gpus in (1, 8):
        spec = job("a", start_conditions=(Approval(),), resources=Resources(gpus=gpus))
        bench = Bench(plan(spec))
        bench.step()
        ask = bench.job("a").ask
        assert ask is not None
        digests.add(ask.digest)
    assert len(digests) == 2


def test_who_resumes_with_approvals_answers_what_was_asked_before() -> None:
    bench = Bench(asking(), {"a": [[OK]]})
    bench.until(lambda: bench.job("b").ask is not None)
    bench.world.auto_approve = frozenset({"*"})
    bench.die(30.0)
    bench.until(bench.is_("b", JobState.COMPLETED))
    (answer,) = bench.happened(events.ApprovalAnswered)
    assert (answer.by, answer.sender) == ("--approve", None)
    assert answer.policy.startswith("--approve ")


def test_approvals_of_another_stage_leave_what_was_asked_before_open() -> None:
    bench = Bench(asking(), {"a": [[OK]]})
    bench.until(lambda: bench.job("b").ask is not None)
    bench.world.auto_approve = frozenset({"other"})
    bench.die(30.0)
    bench.run(30)
    assert bench.job("b").state is JobState.WAITING


def test_an_approval_given_beforehand_is_recorded_as_a_policy_and_nobody_s() -> None:
    bench = Bench(asking(), {"a": [[OK]]}, approve=frozenset({"*"}))
    bench.until(bench.is_("b", JobState.COMPLETED))
    (answer,) = bench.happened(events.ApprovalAnswered)
    assert (answer.policy, answer.sender) == ("--approve all", None)


# ---------------------------------------------------------------- doubt and trouble
def test_a_lost_answer_is_looked_up_by_name_and_nothing_runs_twice() -> None:
    bench = Bench(plan(job("a")), {"a": [[OK]]}, submit=False)
    bench.fault(Fault.ANSWER_LOST)
    bench.order(commands.Submit())
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert len(bench.executor.begun) == 1
    assert bench.happened(events.SubmissionUncertain)


def test_a_lost_request_is_sent_again_after_the_executor_said_no() -> None:
    bench = Bench(plan(job("a")), {"a": [[OK]]}, submit=False)
    bench.fault(Fault.REQUEST_LOST)
    bench.order(commands.Submit())
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert bench.happened(events.SubmissionAbsent)
    assert len(bench.job("a").attempts) == 1


def test_a_rejected_submission_fails_its_job_alone() -> None:
    bench = Bench(plan(job("a"), job("b", 1)), submit=False)
    bench.fault(Fault.REJECTED)
    bench.order(commands.Submit())
    bench.until(lambda: all(j.ended for j in bench.engine.state.jobs.values()))
    assert bench.states() == {"a": "FAILED", "b": "COMPLETED"}
    assert bench.job("a").cause is Cause.REJECTED


def test_a_lost_run_is_fenced_before_the_job_runs_again() -> None:
    gone = RunScript(seconds=3.0, ends="vanish")
    bench = Bench(plan(job("a")), {"a": [[gone], [OK]]})
    bench.until(bench.is_("a", JobState.LOST))
    bench.order(commands.Resubmit(jobs=("a",)))
    bench.until(bench.is_("a", JobState.COMPLETED))
    happened = bench.happened(events.EffectOrdered)
    orders = [e.effect for e in happened]
    fence = CancelTasks(tasks=(("a", 1),))
    assert orders.index(fence) == len(orders) - 2


def test_what_a_requeued_run_had_logged_says_nothing_of_the_next_run() -> None:
    fatal = Write(at=1.0, data=b"FATAL: lost a neighbour\n")
    first = RunScript(seconds=3.0, ends="requeue", writes=(fatal,))
    rule = LogEvent(name="fatal", pattern="FATAL", actions=(Log(message="seen"),))
    the_plan = plan(job("a"), monitoring=Monitoring(log_events=(rule,)))
    bench = Bench(the_plan, {"a": [[first, OK]]})
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert len(bench.happened(events.LogMatched)) == 1


def test_a_killed_submission_that_never_arrived_ends_cancelled() -> None:
    bench = Bench(plan(job("a")), {"a": [[OK]]}, submit=False)
    bench.fault(Fault.REQUEST_LOST)
    bench.order(commands.Submit())
    bench.until(bench.is_("a", JobState.SUBMIT_UNKNOWN))
    bench.order(commands.Kill(jobs=("a",)))
    bench.until(bench.is_("a", JobState.CANCELLED))
    assert not bench.executor.begun


def test_time_conditions_need_nobody_to_wake_them() -> None:
    bench = Bench(plan(job("a", start_conditions=(TimeReached(after_seconds=20.0),))))
    bench.run(15)
    assert bench.job("a").state is JobState.WAITING
    assert bench.engine.next_wake() < 6.0
    bench.until(bench.is_("a", JobState.COMPLETED))


def test_an_idle_engine_publishes_nothing() -> None:
    bench = Bench(plan(job("a", start_conditions=(TimeReached(after_seconds=1e6),))))
    bench.run(5)
    before = len(bench.snapshots)
    bench.run(60)
    assert len(bench.snapshots) == before
