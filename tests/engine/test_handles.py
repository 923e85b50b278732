"""What a front end holds of an engine: its snapshots, and a handle that stays with the
session when its engine comes, goes, or is another's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autoexp_tui.engine import live, session_handle
from autoexp_tui.engine.ephemeral_state import Mailbox
from autoexp_tui.engine.handle import Listener
from autoexp_tui.engine.live import LiveHandle, make_plan_snapshot
from autoexp_tui.engine.session_handle import SessionHandle
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.events.session import EngineStopped
from autoexp_tui.model.commands import Order, Pause, Submit
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.snapshot import Role, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript
from tests.support.journal_contract import PLAN
from tests.support.scripted_handle import ScriptedHandle


def test_the_next_snapshot_shares_what_stayed_and_the_next_engine_shows_all() -> None:
    scripts = {"a": [[RunScript(seconds=5.0)]], "b": [[RunScript(seconds=500.0)]]}
    one = Bench(plan(job("a"), job("b", 1)), scripts)
    one.reach(a="RUNNING", b="RUNNING")
    one.run(1)
    before = one.snapshots[-1]
    one.reach(a="COMPLETED")
    after = one.snapshots[-1]
    assert [x is y for x, y in zip(before.jobs, after.jobs, strict=True)] == [
        False,
        True,
    ]
    publisher = SnapshotBuilder()
    state, view = one.engine.state, before.engine
    first, second = (publisher.build_snapshot(state, view, {}) for _ in range(2))
    for field in ("jobs", "live", "events", "warnings"):
        assert getattr(first, field) is getattr(second, field)
    assert SnapshotBuilder().build_snapshot(SessionState(), view, {}).open
    one.start()
    one.run(1)
    shown = [(each.state, len(each.attempts)) for each in one.snapshots[-1].jobs]
    assert shown == [("COMPLETED", 1), ("RUNNING", 1)]


def test_who_sleeps_wakes_for_what_waits_and_who_rests_does_not() -> None:
    full = Mailbox()
    full.add_order(Order(command_id="c", command=Pause()))
    begun = time.monotonic()
    full.sleep(30.0)
    assert time.monotonic() - begun < 10.0
    begun = time.monotonic()
    full.pause(0.05)
    assert time.monotonic() - begun >= 0.05
    first, seen = full.drain()
    full.add_order(Order(command_id="d", command=Pause()))
    full.put_back([(first, seen)])  # what was not taken comes first again
    assert [one.command_id for one in full.drain()[0]] == ["c", "d"]


class Rested(Exception):
    """The engine's thread waits, for so many seconds."""


def test_an_engine_that_cannot_write_rests_until_it_may_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rest(_: Mailbox, seconds: float) -> None:
        raise Rested(seconds)

    one = Bench(plan(job("a")), submit=False)
    monkeypatch.setattr(Mailbox, "pause", rest)
    one.engine._retry_at = one.clock.monotonic() + 4.0
    one.engine._unwritten = [*one.world.session.records]
    one.order(Pause())
    with pytest.raises(Rested) as rested:
        one.engine.run()
    assert rested.value.args == (4.0,)


def test_an_engine_ends_without_what_the_disk_refuses_when_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Bench(plan(job("a")), submit=False)
    written = [*one.world.session.records]
    monkeypatch.setattr(Mailbox, "pause", lambda *_: one.engine.stop_unwritten())
    one.engine._retry_at = one.clock.monotonic() + 4.0
    one.engine._unwritten = written[:1]
    one.engine.run()
    assert one.world.session.records == written


FIRST = replace(make_plan_snapshot(PLAN), session="k7f2")
"""What an engine publishes before it has read an order: all is planned."""


class Coming:
    """A session that comes into being when the test lets it; its engine carries orders
    out when it is told to."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.orders: list[Order] = []
        self.state = SimpleNamespace(commands={})
        self.order, self.run = self.orders.append, lambda: None
        self.may_begin = threading.Event()
        self.faults: list[str] = []
        self.handle = LiveHandle(
            plan=PLAN, start=cast("Any", self._start), log_fault=self.faults.append
        )
        self.problem = problem

    def _start(self, _plan: Plan, listener: Listener) -> Coming:
        assert self.may_begin.wait(20)
        if self.problem is not None:
            raise self.problem
        listener(FIRST)
        return self

    def begin(self) -> None:
        told = threading.Event()
        self.handle.subscribe(lambda _snapshot: told.set())
        self.may_begin.set()
        self.handle.close()
        assert told.is_set()

    def is_unanswered(self) -> bool:
        return self.handle.is_unanswered


def test_a_submit_is_unanswered_until_a_snapshot_tells_of_it() -> None:
    session = Coming()
    session.handle.send(Pause())  # a plan that nobody submitted answers nothing
    assert (session.handle.role, session.is_unanswered()) == ("plan", False)
    session.handle.send(Submit())
    session.begin()
    assert session.handle.snapshot() is FIRST
    assert session.is_unanswered()
    session.state.commands = {one.command_id: 1 for one in session.orders}
    assert session.is_unanswered()  # nobody has been told yet
    session.handle.publish(FIRST)
    assert not session.is_unanswered()
    session.handle.send(Pause())
    assert session.is_unanswered()
    stopped = replace(FIRST.engine, stopped=True)  # it answers nothing more
    session.handle.publish(replace(FIRST, engine=stopped))
    assert not session.is_unanswered()


@pytest.mark.parametrize(
    ("problem", "faults"),
    [(EnvironmentFailed("no room", "/state"), 0), (ValueError("no room"), 1)],
)
def test_a_session_that_cannot_be_made_leaves_the_plan_and_nothing_to_wait_for(
    problem: Exception, faults: int
) -> None:
    session = Coming(problem)
    session.handle.send(Submit())
    session.begin()
    assert (session.handle.role, session.is_unanswered()) == ("plan", False)
    assert "no room" in session.handle.snapshot().engine.holding
    assert len(session.faults) == faults


def test_who_leaves_does_not_wait_for_ever_for_a_disk_that_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "HELD_SECONDS", 0.01)
    let_go = threading.Event()
    engine = SimpleNamespace(
        run=let_go.wait, order=lambda _: None, stop_unwritten=let_go.set
    )
    handle = LiveHandle()
    handle.attach(cast("Any", engine))
    handle.subscribe(lambda _: None)
    engine.state = SimpleNamespace(commands={})
    holding = replace(FIRST.engine, holding="disk full")
    handle.publish(replace(FIRST, engine=holding))
    handle.close()
    assert let_go.is_set()


def test_a_plan_that_was_shown_before_this_one_is_refused() -> None:
    handle = Coming().handle
    handle.send(Submit(jobs=("a",), plan_id="the one before"))
    assert (handle.role, handle.is_unanswered) == ("plan", False)
    assert "planned again" in handle.snapshot().engine.holding


def shown(
    role: Role = "viewer",
    *,
    alive: bool = True,
    stopped: bool | None = None,
    over: bool = False,
) -> Snapshot:
    """`stopped`: it has, on request or not."""
    made = make_plan_snapshot(PLAN)
    view = replace(made.engine, role=role, owner_alive=alive, directory="/s/k7f2")
    made = replace(made, session="k7f2", open=not over)
    if stopped is None:
        return replace(made, engine=view)
    event = EngineStopped(reason="stopped", on_request=stopped)
    record = Recorded(seq=1, epoch=1, t=1.0, event_id="e", cause_id="", event=event)
    return replace(made, engine=replace(view, stopped=True), events=(record,))


DIED, AT_REST = shown(alive=False), shown(alive=False, over=True)
ENDED = tuple(replace(job, state=JobState.COMPLETED) for job in DIED.jobs)
TOLD_TO_STOP = shown(alive=False, stopped=True)
LEFT = shown(alive=False, stopped=False)


class Watch:
    """A session whose lease says what it is told to say, what the handle that stays
    with it passes on, and the handles that it holds one after the other."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = list(refusals)
        self.viewed: list[ScriptedHandle] = []
        self.owned: list[ScriptedHandle] = []
        self.passed: list[Snapshot] = []

    def follow(self, first: Snapshot) -> SessionHandle:
        self.first = ScriptedHandle(first)
        self.handle = SessionHandle(lambda: self.first, self)
        self.handle.open_now()
        self.handle.subscribe(self.passed.append)
        return self.handle

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

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + 5.0
        while not holds():
            assert time.monotonic() < deadline, "it never came"
            threading.Event().wait(0.005)

    def becomes(self, role: Role) -> None:
        self.until(lambda: self.handle.role == role)
        self.until(lambda: self.passed[-1:] and self.passed[-1].engine.role == role)

    def stays_a_watcher(self, seconds: float = 0.05) -> None:
        self.until(lambda: self.passed)
        time.sleep(seconds)
        assert (self.owned, self.handle.role) == ([], "viewer")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_handle, "HEIR_SECONDS", 0.0)
    monkeypatch.setattr(session_handle, "AGAIN_SECONDS", 0.01)


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    made.follow(shown("viewer"))
    yield made
    made.handle.close()


@pytest.mark.parametrize("gone", [DIED, LEFT, replace(DIED, jobs=ENDED)])
def test_an_engine_that_left_work_behind_is_succeeded(
    watch: Watch, gone: Snapshot
) -> None:
    watch.first.push(gone)
    watch.becomes("live")
    assert watch.first.closed
    watch.handle.send(Pause())
    assert [one.commands for one in watch.owned] == [[Pause()]]


@pytest.mark.parametrize("gone", [TOLD_TO_STOP, AT_REST])
def test_a_session_at_rest_has_no_successor_until_it_is_given_an_order(
    watch: Watch, gone: Snapshot
) -> None:
    watch.first.push(gone)
    watch.stays_a_watcher()
    watch.handle.send(Pause())
    watch.becomes("live")
    assert watch.first.commands == [Pause()]  # it lies in the inbox
    assert watch.first.closed


def test_of_several_the_slower_watch_whoever_was_faster(watch: Watch) -> None:
    watch.refusals = [SessionOwned("another was faster")]
    watch.first.push(DIED)
    watch.until(lambda: watch.viewed)
    watch.until(lambda: watch.handle.snapshot() is watch.viewed[0].snapshot())
    watch.stays_a_watcher(0.0)


def test_what_hinders_the_take_over_is_shown_and_it_is_tried_again(
    watch: Watch,
) -> None:
    full = EnvironmentFailed("cannot create: No space left on device", "/s/k7f2/lease")
    watch.refusals = [full]
    watch.first.push(DIED)
    watch.until(lambda: watch.viewed)
    watch.until(lambda: watch.passed[-1].engine.holding)
    problem = watch.passed[-1].engine.holding
    assert "cannot go on with this session" in problem
    assert "No space left" in problem
    watch.viewed[0].push(DIED)
    watch.becomes("live")
    assert watch.handle.snapshot().engine.holding == ""


def test_an_heir_comes_before_those_who_watch_but_not_before_who_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_handle, "HEIR_SECONDS", 60.0)
    watch = Watch()
    watch.follow(shown("viewer"))
    watch.first.push(LEFT)
    watch.first.push(shown("viewer"))  # the heir lives
    watch.stays_a_watcher(0.6)
    assert not watch.first.closed
    watch.first.push(TOLD_TO_STOP)
    watch.handle.send(Pause())
    watch.becomes("live")
    watch.handle.close()


def test_a_deposed_engine_becomes_a_watcher() -> None:
    watch = Watch()
    watch.follow(shown("live"))
    watch.first.push(shown("live", alive=False, stopped=False))
    watch.becomes("viewer")
    assert [one.engine.role for one in watch.passed] == ["viewer"]
    assert watch.viewed
    watch.handle.close()
