"""The storm breaker, seen through whole runs on fakes."""

from __future__ import annotations

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.rules import Monitoring, StateEvent, Storm
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

CRASH = RunScript(seconds=2.0, exit_code=1)
LATE = RunScript(seconds=60.0, exit_code=1)
OK = RunScript(seconds=2.0)


def jobs(number: int, **rules: object) -> Plan:
    """One stage, with a storm at three failures within 20 s."""
    storm = Storm(**{"failures": 3, "quick_seconds": 20.0, **rules})  # type: ignore[arg-type]
    return plan(
        *(job(f"j{n}", n, stage="train") for n in range(number)),
        monitoring=Monitoring(storm=storm),
    )


def bench(the_plan: Plan, *scripts: RunScript, **fields: object) -> Bench:
    """Job after job, the n-th with the n-th script."""
    by_name = {f"j{n}": [[script]] * 9 for n, script in enumerate(scripts)}
    return Bench(the_plan, by_name, slots=1, **fields)  # type: ignore[arg-type]


def begun(one: Bench) -> int:
    return len(one.executor.begun)


# ------------------------------------------------------------------------- the count
def test_quick_failures_in_a_row_pause_submission() -> None:
    one = bench(jobs(6), *[CRASH] * 6)
    one.run(60)
    assert begun(one) == 3
    assert one.engine.state.paused is not None
    assert one.engine.state.paused.code == "storm"


def test_the_pause_is_of_the_same_commit_as_the_failure() -> None:
    one = bench(jobs(4), *[CRASH] * 4)
    one.run(30)
    records = one.world.session.records
    at = next(
        n
        for n, record in enumerate(records)
        if isinstance(record.event, events.SubmissionPaused)
    )
    ended = max(
        n
        for n, record in enumerate(records[:at])
        if isinstance(record.event, events.AttemptEnded)
    )
    assert all(record.more for record in records[ended:at])


def test_the_warning_says_where_how_many_the_last_words_and_what_to_do() -> None:
    says = RunScript(seconds=2.0, cause=Cause.OUT_OF_MEMORY, exit_code=1)
    one = bench(jobs(4), says, says, says, OK)
    one.run(30)
    (warned,) = one.engine.state.warnings.values()
    text = sentence(warned.why, 0.0)
    assert warned.severity == "error"
    assert "3 quick failures in a row in stage train, the last of j2" in text
    assert "P resumes" in text


def test_a_success_in_between_breaks_the_row() -> None:
    one = bench(jobs(6), CRASH, CRASH, OK, CRASH, CRASH, OK)
    one.run(60)
    assert begun(one) == 6
    assert one.engine.state.paused is None


def test_a_failure_after_a_long_run_breaks_the_row() -> None:
    one = bench(jobs(6), CRASH, CRASH, LATE, CRASH, CRASH, OK)
    one.run(120)
    assert begun(one) == 6


def test_zero_failures_turn_it_off() -> None:
    one = bench(jobs(6, failures=0), *[CRASH] * 6)
    one.run(60)
    assert begun(one) == 6
    assert not one.engine.state.streaks


def test_what_a_person_ends_does_not_count() -> None:
    one = bench(jobs(5), *[RunScript(seconds=30.0)] * 5)
    for n in range(4):
        one.until(one.is_(f"j{n}", JobState.RUNNING))
        one.order(commands.Kill(jobs=(f"j{n}",)))
        one.until(one.is_(f"j{n}", JobState.CANCELLED))
    assert one.engine.state.paused is None


def test_restarts_count_and_are_held_back() -> None:
    again = StateEvent(
        name="again",
        state="crash",
        actions=(Restart(conditions=(MaxAttempts(max_attempts=9),)),),
    )
    rules = Monitoring(state_events=(again,), storm=Storm(failures=3))
    one = bench(plan(job("j0", stage="train"), monitoring=rules), CRASH)
    one.run(60)
    assert begun(one) == 3
    held = one.job("j0")
    assert held.state is JobState.RETRYING
    assert held.why is not None
    assert held.why.code == "held_by_storm"
    assert one.engine.state.paused is not None
    assert held.why.arg("at") == one.engine.state.paused.arg("at") != ""


def test_failures_that_follow_in_a_storm_pause_nothing_twice() -> None:
    crashes = {f"j{n}": [[RunScript(seconds=2.0 + n, exit_code=1)]] for n in range(6)}
    one = Bench(jobs(6), crashes)
    one.run(30)
    assert all(job.ended for job in one.engine.state.jobs.values())
    assert len(one.happened(events.SubmissionPaused)) == 1


def test_stages_are_counted_each_for_itself() -> None:
    rules = Monitoring(storm=Storm(failures=3, per=("stage",)))
    stages = ("a", "b", "a", "b", "a", "b")
    specs = (job(f"j{n}", n, stage=stage) for n, stage in enumerate(stages))
    one = bench(plan(*specs, monitoring=rules), *[CRASH] * 6)
    one.run(60)
    assert begun(one) == 5
    assert one.engine.state.paused is not None
    assert one.engine.state.paused.arg("what") == "in stage a"


def test_the_whole_session_is_counted_too() -> None:
    rules = Monitoring(storm=Storm(failures=3))
    specs = (job(f"j{n}", n, stage=f"s{n}") for n in range(5))
    one = bench(plan(*specs, monitoring=rules), *[CRASH] * 5)
    one.run(60)
    assert begun(one) == 3


# ------------------------------------------------------------------ people, new engines
def test_resume_releases_and_the_count_starts_anew() -> None:
    one = bench(jobs(9), *[CRASH] * 9)
    one.run(30)
    one.order(commands.Resume())
    one.run(30)
    assert begun(one) == 6
    assert list(one.engine.state.warnings) == ["storm"]


def test_resume_clears_the_warning() -> None:
    one = bench(jobs(5), CRASH, CRASH, CRASH, OK, OK)
    one.run(30)
    one.order(commands.Resume())
    one.run(30)
    assert begun(one) == 5
    assert not one.engine.state.warnings


@pytest.mark.parametrize("cut", range(5, 50, 3))
def test_killed_at_any_event_the_row_ends_the_same(cut: int) -> None:
    one = bench(jobs(5), *[CRASH] * 5)
    one.die_at(cut, lambda: one.engine.state.paused)
    one.run(90)
    assert begun(one) == 3
    assert len(one.happened(events.SubmissionPaused)) == 1


# ------------------------------------------------------------------------------ nodes
def on(node: str) -> RunScript:
    return RunScript(seconds=2.0, exit_code=1, node=node)


def test_a_bad_node_is_named() -> None:
    one = bench(jobs(5), *[on("n7")] * 5, has_nodes=True)
    one.run(30)
    paused = one.engine.state.paused
    assert paused is not None
    assert paused.arg("what") == "on node n7"


def test_one_machine_is_not_blamed_for_what_all_jobs_have_in_common() -> None:
    one = bench(jobs(5), *[on("laptop")] * 5)
    one.run(30)
    paused = one.engine.state.paused
    assert paused is not None
    assert paused.arg("what") == "in stage train"


def test_a_bad_node_is_left_out_instead_of_a_pause_where_asked() -> None:
    scripts = [on("n7")] * 3 + [OK] * 2
    one = bench(jobs(5, action="exclude_node"), *scripts, has_nodes=True)
    one.run(60)
    assert one.engine.state.paused is None
    assert one.engine.state.excluded_nodes == ("n7",)
    last = one.executor.copies[-1].task
    assert last.resources.options["exclude"] == "n7"
    assert "storm:n7" in one.engine.state.warnings


def test_failures_everywhere_pause_although_nodes_may_be_left_out() -> None:
    scripts = [on(f"n{n}") for n in range(5)]
    one = bench(jobs(5, action="exclude_node"), *scripts, has_nodes=True)
    one.run(60)
    assert begun(one) == 3
    assert one.engine.state.excluded_nodes == ()


def test_after_three_nodes_it_is_not_the_nodes() -> None:
    scripts = [on(f"n{n // 3}") for n in range(15)]
    one = bench(jobs(15, action="exclude_node"), *scripts, has_nodes=True)
    one.run(120)
    assert one.engine.state.excluded_nodes == ("n0", "n1", "n2")
    assert begun(one) == 12
    assert one.engine.state.paused is not None


def test_what_was_queued_on_a_node_left_out_counts_no_more() -> None:
    rules = jobs(9, action="exclude_node")
    one = Bench(rules, {f"j{n}": [[on("n7")]] for n in range(9)}, has_nodes=True)
    one.run(60)
    assert one.engine.state.excluded_nodes == ("n7",)
    assert one.engine.state.paused is None
