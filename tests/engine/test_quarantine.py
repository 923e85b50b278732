"""A checkpoint that runs crash on, seen through whole sessions on fakes."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.actions.restart import QuarantineCheckpoint, Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.events import events
from autoexp_tui.model.action import Action
from autoexp_tui.model.outputs import Checkpoint
from autoexp_tui.model.rules import (
    Checkpoints,
    LogEvent,
    Monitoring,
    StateEvent,
    Storm,
)
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

CRASH = RunScript(seconds=2.0, exit_code=1)
OK = RunScript(seconds=2.0)
OUT = "/out/a"


def saved(step: int) -> Checkpoint:
    return Checkpoint(path=f"{OUT}/iter_{step}", step=step)


def reaches(step: int, code: int = 1) -> RunScript:
    line = f"iteration {step} | loss: 2.5\n".encode()
    return RunScript(seconds=3.0, exit_code=code, writes=(Write(at=1.0, data=line),))


def restarting(after: int, **fields: Any) -> Plan:
    restart = Restart(
        quarantine_after=after, conditions=(MaxAttempts(max_attempts=9),), **fields
    )
    return on_crash(restart)


def on_crash(*actions: Action, log_events: tuple[LogEvent, ...] = ()) -> Plan:
    rules = Monitoring(
        state_events=(StateEvent(name="crashed", state="crash", actions=actions),),
        log_events=log_events,
        checkpoints=Checkpoints(glob="iter_*"),
        storm=Storm(failures=0),
    )
    return plan(job("a", output_dir=OUT), monitoring=rules)


def bench(the_plan: Plan, *attempts: RunScript, steps: tuple[int, ...]) -> Bench:
    one = Bench(the_plan, {"a": [[script] for script in attempts]})
    one.world.shelf.saved[OUT] = [saved(step) for step in steps]
    return one


def left(one: Bench) -> list[int | None]:
    return [checkpoint.step for checkpoint in one.world.shelf.saved[OUT]]


def begun(one: Bench) -> int:
    return len(one.executor.begun)


# --------------------------------------------------------------------------- strikes
def test_so_many_crashes_on_one_checkpoint_move_it_aside() -> None:
    one = bench(restarting(2), CRASH, CRASH, CRASH, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert one.world.shelf.aside == [f"{OUT}/iter_200.quarantined-1"]
    assert left(one) == [100]
    assert begun(one) == 4


def test_the_first_attempt_went_on_from_nothing_and_blames_nothing() -> None:
    one = bench(restarting(1), CRASH, OK, steps=(100,))
    one.until(one.is_("a", JobState.COMPLETED))
    assert not one.world.shelf.aside


def test_it_is_moved_before_the_next_attempt_starts() -> None:
    one = bench(restarting(1), CRASH, CRASH, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    happened = [record.event for record in one.world.session.records]
    kinds = [
        event.effect.kind if isinstance(event, events.EffectOrdered) else ""
        for event in happened
    ]
    (moved,) = (
        at
        for at, event in enumerate(happened)
        if isinstance(event, events.CheckpointQuarantined)
    )
    assert kinds[:moved].count("submit") == 2
    assert kinds[moved:].count("submit") == 1


def test_a_run_that_came_further_blames_nothing() -> None:
    further = reaches(250)
    one = bench(restarting(1), CRASH, further, further, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert not one.world.shelf.aside


def test_a_run_that_only_repeats_the_step_blames_its_checkpoint() -> None:
    one = bench(restarting(1), CRASH, reaches(200), OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert left(one) == [100]


def test_a_log_that_counts_something_else_blames_nothing() -> None:
    one = bench(restarting(1), CRASH, reaches(3), reaches(3), OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert not one.world.shelf.aside


def test_progress_in_between_begins_the_row_anew() -> None:
    one = bench(restarting(2), CRASH, CRASH, reaches(250), CRASH, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert not one.world.shelf.aside


def test_a_new_checkpoint_begins_the_row_anew() -> None:
    one = bench(restarting(2), CRASH, CRASH, CRASH, OK, steps=(100,))
    one.until(lambda: begun(one) == 2)
    one.world.shelf.saved[OUT].append(saved(200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert not one.world.shelf.aside


def test_one_after_the_other_is_moved_and_in_the_end_none_is_left() -> None:
    one = bench(restarting(1), *[CRASH] * 3, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert left(one) == []
    assert begun(one) == 4


def test_a_restart_from_the_beginning_looks_at_no_checkpoint() -> None:
    one = bench(restarting(1, from_checkpoint=False), CRASH, CRASH, OK, steps=(100,))
    one.until(one.is_("a", JobState.COMPLETED))
    assert not one.happened(events.CheckpointSeen)


def test_no_checkpoint_at_all_holds_nobody_up() -> None:
    one = bench(restarting(1), CRASH, CRASH, OK, steps=())
    one.until(one.is_("a", JobState.COMPLETED))
    assert not one.engine.state.warnings


def test_a_person_is_told_what_was_moved_and_why() -> None:
    one = bench(restarting(1), CRASH, CRASH, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    (warned,) = one.engine.state.warnings.values()
    text = sentence(warned.why, 0.0)
    assert f"{OUT}/iter_200 was moved" in text
    assert "since 1 attempt in a row" in text
    assert "goes on from iter_100" in text


def test_a_move_that_fails_is_told_and_the_job_goes_on() -> None:
    one = bench(restarting(1), CRASH, CRASH, OK, steps=(100, 200))
    one.world.shelf.problem = "read-only file system"
    one.until(one.is_("a", JobState.COMPLETED))
    (warned,) = one.engine.state.warnings.values()
    assert "read-only file system" in sentence(warned.why, 0.0)
    assert not one.happened(events.CheckpointQuarantined)


def test_what_the_log_told_of_it_is_told_of_the_one_before() -> None:
    says = RunScript(
        seconds=2.0,
        exit_code=1,
        writes=(Write(at=1.0, data=f"saved {OUT}/iter_200 at 200\n".encode()),),
    )
    tells = LogEvent(
        name="saved",
        pattern=r"saved (?P<path>\S+) at (?P<n>\d+)",
        pattern_type="regex",
        extract_groups={"checkpoint_path": "path", "checkpoint_iteration": "n"},
    )
    restart = Restart(quarantine_after=1, conditions=(MaxAttempts(max_attempts=9),))
    the_plan = on_crash(restart, log_events=(tells,))
    one = bench(the_plan, says, CRASH, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    assert one.job("a").metadata == {
        "checkpoint_path": f"{OUT}/iter_100",
        "checkpoint_iteration": "100",
    }


# ------------------------------------------------------------------------ as an action


def test_a_retry_that_waits_for_a_move_says_so() -> None:
    restart = Restart(conditions=(MaxAttempts(max_attempts=2),))
    one = bench(on_crash(QuarantineCheckpoint(), restart), CRASH, OK, steps=(100, 200))
    one.until(one.is_("a", JobState.COMPLETED))
    told = [record.event for record in one.world.session.records]
    reasons = [e.why for e in told if isinstance(e, events.WaitExplained)]
    assert [reason.code for reason in reasons] == ["held_by_look"]
    assert "checkpoint" in sentence(reasons[0], 0.0)
    assert left(one) == [100]


def test_as_many_are_kept_as_asked() -> None:
    one = bench(on_crash(QuarantineCheckpoint(keep=2)), CRASH, steps=(100, 200))
    one.run(10)
    assert left(one) == [100, 200]
    (warned,) = one.engine.state.warnings.values()
    assert "1 would be left, and 2 are to be kept" in sentence(warned.why, 0.0)


def test_a_log_line_moves_it_when_the_run_has_ended() -> None:
    seen = LogEvent(name="bad", pattern="corrupt", actions=(QuarantineCheckpoint(),))
    says = RunScript(
        seconds=20.0, exit_code=1, writes=(Write(at=1.0, data=b"corrupt\n"),)
    )
    one = bench(on_crash(Restart(), log_events=(seen,)), says, OK, steps=(100, 200))
    one.until(lambda: bool(one.job("a").deferred))
    one.run(5)
    assert left(one) == [100, 200]
    one.until(one.is_("a", JobState.COMPLETED))
    assert left(one) == [100]


# ------------------------------------------------------------------------- new engines
@pytest.mark.parametrize("cut", range(5, 60, 2))
def test_killed_at_any_event_exactly_one_is_moved(cut: int) -> None:
    one = bench(restarting(2), CRASH, CRASH, CRASH, OK, steps=(100, 200, 300))
    one.die_at(cut, lambda: one.job("a").ended)
    one.until(one.is_("a", JobState.COMPLETED))
    assert one.world.shelf.aside == [f"{OUT}/iter_300.quarantined-1"]
    assert begun(one) == 4
