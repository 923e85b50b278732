"""A checkpoint that runs crash on, seen through whole sessions on fakes."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.actions.kinds import QuarantineCheckpoint, Restart
from autoexp_tui.events import events
from autoexp_tui.model.outputs import Checkpoint
from autoexp_tui.model.rules import Action, Checkpoints, LogEvent, Monitoring, Storm
from tests.engine.bench import Bench, alone
from tests.engine.parts import CRASH, again, finds, on_end, says, writes
from tests.support.fake_script import RunScript

OK = RunScript(seconds=2.0)
OUT = "/out/a"


def reaches(step: int) -> RunScript:
    line = says(1.0, f"iteration {step} | loss: 2.5")
    return writes(line, seconds=3.0, exit_code=1)


def on_crash(
    *runs: RunScript,
    do: tuple[Action, ...],
    log: tuple[LogEvent, ...] = (),
    steps: tuple[int, ...] = (100, 200),
) -> Bench:
    """A job that has saved these steps crashes, and then runs well."""
    rules = Monitoring(
        state_events=(on_end("crash", *do),),
        log_events=log,
        checkpoints=Checkpoints(glob="iter_*"),
        storm=Storm(failures=0),
    )
    one = alone(*runs, OK, rules=rules)
    saved = [Checkpoint(path=f"{OUT}/iter_{step}", step=step) for step in steps]
    one.world.shelf.saved[OUT] = saved
    return one


def crashing(
    after: int, *runs: RunScript, steps: tuple[int, ...] = (100, 200)
) -> Bench:
    """A checkpoint is put aside after so many crashes on it."""
    return on_crash(*runs, do=(again(quarantine_after=after),), steps=steps)


def completed(one: Bench) -> Bench:
    one.reach(a="COMPLETED")
    return one


def left(one: Bench) -> list[int | None]:
    return [checkpoint.step for checkpoint in one.world.shelf.saved[OUT]]


def told(one: Bench) -> str:
    return one.words(one.warning().why)


BOTH = (100, 200)
CRASHES: dict[str, tuple[int, list[RunScript], tuple[int, ...], list[int]]] = {
    "so many crashes on one": (2, [CRASH] * 3, BOTH, [100]),
    "the first attempt went on from nothing": (1, [CRASH], (100,), [100]),
    "a run that came further": (1, [CRASH, reaches(250), reaches(250)], BOTH, [*BOTH]),
    "a run that only repeats the step": (1, [CRASH, reaches(200)], BOTH, [100]),
    "a log that counts something else":
        (1, [CRASH, reaches(3), reaches(3)], BOTH, [*BOTH]),
    "progress in between begins the row anew":
        (2, [CRASH, CRASH, reaches(250), CRASH], BOTH, [*BOTH]),
    "one after the other, and in the end none is left": (1, [CRASH] * 3, BOTH, []),
    "no checkpoint at all": (1, [CRASH] * 2, (), []),
}  # fmt: skip


@pytest.mark.parametrize("case", CRASHES)
def test_so_many_crashes_on_one_checkpoint_move_it_aside(case: str) -> None:
    after, runs, steps, stay = CRASHES[case]
    one = completed(crashing(after, *runs, steps=steps))
    assert left(one) == stay
    assert one.world.shelf.aside == [
        f"{OUT}/iter_{step}.quarantined-1"
        for step in reversed(steps)
        if step not in stay
    ]
    assert len(one.executor.begun) == len(runs) + 1
    assert bool(one.warned()) is (left(one) != list(steps))


def test_it_is_moved_before_the_next_attempt_starts_and_a_person_is_told_why() -> None:
    one = completed(crashing(1, CRASH, CRASH))
    happened: list[Any] = [record.event for record in one.world.session.records]
    moved = [type(event) for event in happened].index(events.CheckpointQuarantined)
    submits = [
        at < moved
        for at, event in enumerate(happened)
        if isinstance(event, events.EffectOrdered) and event.effect.kind == "submit"
    ]
    assert submits == [True, True, False]
    assert f"{OUT}/iter_200 was moved" in told(one)
    assert "since 1 attempt in a row" in told(one)
    assert "goes on from iter_100" in told(one)


def test_a_move_that_fails_is_told_and_the_job_goes_on() -> None:
    one = crashing(1, CRASH, CRASH)
    one.world.shelf.problem = "read-only file system"
    completed(one)
    assert "read-only file system" in told(one)
    assert not one.happened(events.CheckpointQuarantined)


def test_what_the_log_told_of_it_is_told_of_the_one_before() -> None:
    pattern = r"saved (?P<p>\S+) at (?P<n>\d+)"
    tells = finds("saved", pattern, checkpoint_path="p", checkpoint_iteration="n")
    saves = writes(says(1.0, f"saved {OUT}/iter_200 at 200"), seconds=2.0, exit_code=1)
    do = (again(quarantine_after=1),)
    one = completed(on_crash(saves, CRASH, do=do, log=(tells,)))
    assert one.job("a").metadata == {
        "checkpoint_path": f"{OUT}/iter_100",
        "checkpoint_iteration": "100",
    }


def test_as_many_are_kept_as_asked() -> None:
    one = on_crash(CRASH, do=(QuarantineCheckpoint(keep=2),))
    one.run(10)
    assert left(one) == [100, 200]
    assert "1 would be left, and 2 are to be kept" in told(one)


def test_a_log_line_moves_it_when_the_run_has_ended() -> None:
    seen = finds("bad", "corrupt", QuarantineCheckpoint())
    corrupt = writes(says(1.0, "corrupt"), seconds=20.0, exit_code=1)
    one = on_crash(corrupt, do=(Restart(),), log=(seen,))
    one.until(lambda: bool(one.job("a").deferred))
    one.run(5)
    assert left(one) == [100, 200]
    assert left(completed(one)) == [100]


@pytest.mark.parametrize("cut", range(5, 60, 2))
def test_killed_at_any_event_exactly_one_is_moved(cut: int) -> None:
    one = crashing(2, *[CRASH] * 3, steps=(100, 200, 300))
    one.die_at(cut, lambda: one.job("a").ended)
    completed(one)
    assert one.world.shelf.aside == [f"{OUT}/iter_300.quarantined-1"]
    assert len(one.executor.begun) == 4
