"""What the engine decides, seen through whole runs on fakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoexp_tui.conditions import kinds
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Resources
from tests.engine.bench import Bench, alone
from tests.engine.parts import OK, again, done, finds, on_end, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import Fault, RunScript

SAVED = finds("saved", r"saved checkpoint (?P<n>\d+)", checkpoint_iteration="n")
SAVING = Monitoring(log_events=(SAVED,))
AFTER_A = (done("a"),)
ALL = frozenset({"*"})


def two(
    *attempts: RunScript,
    start: Sequence[Condition] = AFTER_A,
    cancel: Sequence[Condition] = (),
    rules: Monitoring = SAVING,
    **how: Any,
) -> Bench:
    """`b` depends on `a`, which has these attempts."""
    given = {"start_conditions": tuple(start), "cancel_conditions": tuple(cancel)}
    both = (job("a"), job("b", 1, depends_on=("a",), **given))
    scripts = {"a": [[run] for run in attempts]}
    return Bench(plan(*both, monitoring=rules), scripts, **how)


def test_time_conditions_wake_the_engine_which_publishes_nothing_while_idle() -> None:
    bench = alone(start_conditions=(kinds.TimeReached(after_seconds=80.0),))
    bench.run(5)
    before = len(bench.snapshots)
    bench.run(70)
    assert len(bench.snapshots) == before
    assert (bench.state("a"), bench.engine.next_wake() < 6.0) == ("WAITING", True)
    bench.reach(a="COMPLETED")


def test_cancel_wins_when_start_and_cancel_are_true_at_once() -> None:
    bench = two(OK, cancel=AFTER_A)
    bench.reach(b="CANCELLED")
    assert bench.cause("b") == "cancel_condition"


def crash_with(line: str, rule: str, **overrides: Any) -> Bench:
    """What a log says is put into the restart's overrides."""
    restart = on_end("crash", again(**overrides))
    rules = Monitoring(
        log_events=(finds("best", rule, best="best"),), state_events=(restart,)
    )
    return alone(writes(says(1.0, line), seconds=3.0, exit_code=1), OK, rules=rules)


def test_a_restart_with_overrides_runs_once_they_are_composed() -> None:
    how = {"overrides": ("lr={best}",), "exclude_node": True}
    bench = crash_with("best lr 2e-4", r"best lr (?P<best>\S+)", **how)
    bench.reach(a="COMPLETED")
    spec = bench.job("a").spec
    assert spec.overrides == ("lr=2e-4",)
    assert spec.resources.options["exclude"] == "fakehost"


ASKING = (*AFTER_A, kinds.Approval(prompt="publish?"))


def asked() -> Bench:
    bench = two(OK, start=ASKING, approve=frozenset())
    bench.reach(a="RUNNING")
    assert bench.job("b").ask is None
    bench.until(lambda: bench.job("b").ask is not None)
    return bench


def test_an_answer_is_bound_to_what_the_job_takes_from_its_executor() -> None:
    digests = set()
    for gpus in (1, 8):
        approval = (kinds.Approval(),)
        bench = alone(start_conditions=approval, resources=Resources(gpus=gpus))
        bench.step()
        digests.add(bench.ask("a").digest)
    assert len(digests) == 2


def test_an_approval_given_beforehand_or_on_resuming_is_a_policy_and_nobody_s() -> None:
    bench = asked()
    bench.world.auto_approve = frozenset({"other"})
    bench.die(30.0)
    bench.run(30)
    assert bench.state("b") == "WAITING"  # of another stage
    bench.world.auto_approve = ALL
    bench.die(30.0)
    for one in (bench, two(OK, start=ASKING, approve=ALL)):
        one.reach(b="COMPLETED")
        (answer,) = one.happened(events.ApprovalAnswered)
        assert (answer.by, answer.sender) == ("--approve", None)
        assert answer.policy == "--approve all"


def submitted(fault: Fault) -> Bench:
    bench = alone(OK, submit=False)
    bench.executor.faults.append(fault)
    bench.order(commands.Submit())
    return bench


def test_a_lost_answer_is_looked_up_by_name_and_a_lost_request_sent_again() -> None:
    told = {
        Fault.ANSWER_LOST: events.SubmissionUncertain,
        Fault.REQUEST_LOST: events.SubmissionAbsent,
    }
    for fault, event in told.items():
        bench = submitted(fault)
        bench.reach(a="COMPLETED")
        assert (len(bench.executor.begun), bench.tries("a")) == (1, 1)
        assert bench.happened(event)


def test_a_killed_submission_that_never_arrived_ends_cancelled() -> None:
    bench = submitted(Fault.REQUEST_LOST)
    bench.reach(a="SUBMIT_UNKNOWN")
    bench.kill("a")
    bench.reach(a="CANCELLED")
    assert not bench.executor.begun


def test_a_lost_run_is_fenced_before_the_job_runs_again() -> None:
    bench = alone(RunScript(seconds=3.0, ends="vanish"), OK)
    bench.reach(a="LOST")
    bench.resubmit("a")
    bench.reach(a="COMPLETED")
    orders = bench.ordered(object)
    assert orders.index(CancelTasks(tasks=(("a", 1),))) == len(orders) - 2
