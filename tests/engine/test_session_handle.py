"""Staying with a session: going on when its engine is gone, watching when deposed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from autoexp_tui.engine.live import make_plan_snapshot
from autoexp_tui.engine.session_handle import SessionHandle
from autoexp_tui.events.session import EngineStopped
from autoexp_tui.model.commands import Pause
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.snapshot import Role, Snapshot
from autoexp_tui.model.states import JobState
from tests.support.journal_contract import PLAN
from tests.support.scripted_handle import ScriptedHandle


def shown(
    role: Role, *, alive: bool = True, stopped: bool = False, over: bool = False
) -> Snapshot:
    plan = make_plan_snapshot(PLAN)
    view = replace(
        plan.engine, role=role, owner_alive=alive, stopped=stopped, directory="/s/k7f2"
    )
    return replace(plan, session="k7f2", engine=view, open=not over)


def told_to_stop(snapshot: Snapshot, *, on_request: bool) -> Snapshot:
    event = EngineStopped(reason="stopped", on_request=on_request)
    record = Recorded(seq=1, epoch=1, t=1.0, event_id="e", cause_id="", event=event)
    return replace(snapshot, events=(record,))


class Ways:
    """A session whose lease says what it is told to say."""

    def __init__(self) -> None:
        self.refusals: list[Exception] = []
        self.viewed: list[ScriptedHandle] = []
        self.owned: list[ScriptedHandle] = []

    def view(self, directory: str) -> ScriptedHandle:
        assert directory == "/s/k7f2"
        self.viewed.append(ScriptedHandle(shown("viewer")))
        return self.viewed[-1]

    def own(self, directory: str) -> ScriptedHandle:
        assert directory == "/s/k7f2"
        if self.refusals:
            raise self.refusals.pop(0)
        self.owned.append(ScriptedHandle(shown("live")))
        return self.owned[-1]


@pytest.fixture
def ways() -> Ways:
    return Ways()


@pytest.fixture
def join(ways: Ways) -> Iterator[Callable[[ScriptedHandle], SessionHandle]]:
    made: list[SessionHandle] = []

    def joined(first: ScriptedHandle, heir_seconds: float = 0.0) -> SessionHandle:
        handle = SessionHandle(
            lambda: first, ways, heir_seconds=heir_seconds, again_seconds=0.01
        )
        handle.open_now()
        made.append(handle)
        return handle

    yield joined
    for handle in made:
        handle.close()


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 5.0
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        threading.Event().wait(0.005)


def watched(
    join: Callable[..., SessionHandle],
) -> tuple[ScriptedHandle, SessionHandle, list[Snapshot]]:
    """A session that is watched, its handle, and what that passes on."""
    first, passed = ScriptedHandle(shown("viewer")), list[Snapshot]()
    handle = join(first)
    handle.subscribe(passed.append)
    return first, handle, passed


def stays_a_watcher(ways: Ways, handle: SessionHandle, passed: list[Snapshot]) -> None:
    until(lambda: passed)
    time.sleep(0.05)
    assert (ways.owned, handle.role) == ([], "viewer")


def test_a_watcher_goes_on_when_the_engine_died(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    first, handle, seen = watched(join)
    first.push(shown("viewer", alive=False))
    until(lambda: handle.role == "live")
    until(lambda: seen[-1].engine.role == "live")
    assert first.closed
    handle.send(Pause())
    assert ways.owned[0].commands == [Pause()]


def test_of_several_the_slower_watch_whoever_was_faster(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    ways.refusals = [SessionOwned("another was faster")]
    first, handle, _ = watched(join)
    first.push(shown("viewer", alive=False))
    until(lambda: ways.viewed)
    until(lambda: handle.snapshot() is ways.viewed[0].snapshot())
    assert handle.role == "viewer"
    assert not ways.owned


def test_an_engine_that_was_told_to_stop_has_no_successor_by_itself(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    gone = shown("viewer", alive=False, stopped=True)
    first, handle, passed = watched(join)
    first.push(told_to_stop(gone, on_request=True))
    stays_a_watcher(ways, handle, passed)


def test_an_engine_that_left_without_an_heir_is_succeeded(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    gone = shown("viewer", alive=False, stopped=True)
    first, handle, _ = watched(join)
    first.push(told_to_stop(gone, on_request=False))
    until(lambda: handle.role == "live")
    assert len(ways.owned) == 1


def test_an_heir_comes_before_those_who_watch(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    gone = shown("viewer", alive=False, stopped=True)
    first = ScriptedHandle(shown("viewer"))
    handle = join(first, heir_seconds=60.0)
    first.push(told_to_stop(gone, on_request=False))
    first.push(shown("viewer"))  # the heir lives
    time.sleep(0.6)
    assert (ways.owned, handle.role) == ([], "viewer")
    assert not first.closed


def test_a_finished_session_needs_no_engine(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    first, handle, passed = watched(join)
    first.push(shown("viewer", alive=False, over=True))
    stays_a_watcher(ways, handle, passed)


def test_a_rule_s_plan_without_an_engine_is_taken_up_though_all_jobs_ended(
    join: Callable[..., SessionHandle],
) -> None:
    first, handle, _ = watched(join)
    gone = shown("viewer", alive=False)
    ended = [replace(job, state=JobState.COMPLETED) for job in gone.jobs]
    first.push(replace(gone, jobs=tuple(ended), open=True))
    until(lambda: handle.role == "live")


def resting(*, stopped: bool = False) -> Snapshot:
    """Without an engine: all has ended, or the engine was told to stop."""
    gone = shown("viewer", alive=False, stopped=stopped, over=not stopped)
    return told_to_stop(gone, on_request=True) if stopped else gone


@pytest.mark.parametrize("stopped", [False, True])
def test_an_order_to_a_session_at_rest_is_taken_up_by_who_gave_it(
    ways: Ways, join: Callable[..., SessionHandle], *, stopped: bool
) -> None:
    first = ScriptedHandle(resting(stopped=stopped))
    handle = join(first, heir_seconds=60.0)
    handle.send(Pause())
    until(lambda: handle.role == "live")
    assert first.commands == [Pause()]  # it lies in the inbox
    assert first.closed


def test_an_order_that_the_last_engine_carried_out_needs_no_other(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    first, handle, _ = watched(join)
    sent = handle.send(Pause())
    passed: list[Snapshot] = []
    handle.subscribe(passed.append)
    ended = told_to_stop(resting(), on_request=True)
    (record,) = ended.events
    first.push(replace(ended, events=(replace(record, command_id=sent),)))
    stays_a_watcher(ways, handle, passed)


def test_a_deposed_engine_becomes_a_watcher(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    first = ScriptedHandle(shown("live"))
    handle = join(first)
    passed: list[Snapshot] = []
    handle.subscribe(passed.append)
    first.push(shown("live", alive=False, stopped=True))
    until(lambda: handle.role == "viewer")
    until(lambda: passed)
    assert [one.engine.role for one in passed] == ["viewer"]
    assert ways.viewed


def test_what_hinders_the_take_over_is_shown_and_it_is_tried_again(
    ways: Ways, join: Callable[..., SessionHandle]
) -> None:
    full = EnvironmentFailed("cannot create: No space left on device", "/s/k7f2/lease")
    ways.refusals = [full]
    first, handle, _ = watched(join)
    held: list[str] = []
    handle.subscribe(lambda snapshot: held.append(snapshot.engine.holding))
    first.push(shown("viewer", alive=False))
    until(lambda: ways.viewed)
    until(lambda: any("cannot go on with this session" in text for text in held))
    assert "No space left" in held[-1]
    ways.viewed[0].push(shown("viewer", alive=False))
    until(lambda: handle.role == "live")
    assert handle.snapshot().engine.holding == ""
