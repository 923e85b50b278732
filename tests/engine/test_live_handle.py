"""From a plan to a session of this process: what was sent is not overlooked."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any, cast

from autoexp_tui.engine.handle import Listener
from autoexp_tui.engine.live import LiveHandle, make_plan_snapshot
from autoexp_tui.events.session import CommandRefused
from autoexp_tui.model.commands import Order, Pause, Submit
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import Plan
from tests.support.journal_contract import PLAN

FIRST = replace(make_plan_snapshot(PLAN), session="k7f2")
"""What an engine publishes before it has read an order: all is planned."""


@dataclass
class State:
    commands: dict[str, int] = field(default_factory=dict)


@dataclass
class Engine:
    """Takes orders, and carries them out when it is told to."""

    orders: list[Order] = field(default_factory=list)
    state: State = field(default_factory=State)

    def order(self, order: Order) -> None:
        self.orders.append(order)

    def run(self) -> None:
        """Its steps are the test's."""

    def carry_out(self) -> None:
        self.state.commands.update({one.command_id: 1 for one in self.orders})


class Session:
    """A session that comes into being when the test lets it."""

    def __init__(self, problem: EnvironmentFailed | None = None) -> None:
        self.engine = Engine()
        self.may_begin = threading.Event()
        self.handle = LiveHandle(plan=PLAN, start=cast("Any", self._start))
        self._problem = problem

    def _start(self, _plan: Plan, listener: Listener) -> Engine:
        assert self.may_begin.wait(20)
        if self._problem is not None:
            raise self._problem
        listener(FIRST)
        return self.engine

    def begin(self) -> None:
        told = threading.Event()
        self.handle.subscribe(lambda _snapshot: told.set())
        self.may_begin.set()
        self.handle.close()
        assert told.is_set()


def test_a_plan_is_no_plan_any_more_once_it_was_submitted() -> None:
    handle = Session().handle
    before = handle.role
    handle.send(Submit())
    assert (before, handle.role) == ("plan", "live")


def test_a_submit_is_unanswered_until_a_snapshot_tells_of_it() -> None:
    session = Session()
    session.handle.send(Submit())
    session.begin()
    assert session.handle.snapshot() is FIRST
    assert session.handle.is_unanswered
    session.engine.carry_out()
    assert session.handle.is_unanswered  # nobody has been told yet
    session.handle.publish(FIRST)
    assert not session.handle.is_unanswered


def test_an_order_to_a_plan_that_nobody_submitted_is_not_waited_for() -> None:
    handle = Session().handle
    handle.send(Pause())
    assert not handle.is_unanswered


def test_a_session_that_cannot_be_made_leaves_the_plan_and_nothing_to_wait_for() -> (
    None
):
    session = Session(EnvironmentFailed("the disk is full", "/state"))
    session.handle.send(Submit())
    session.begin()
    assert session.handle.role == "plan"
    assert not session.handle.is_unanswered
    assert "the disk is full" in session.handle.snapshot().engine.holding


def test_an_engine_that_has_stopped_answers_nothing_more() -> None:
    session = Session()
    session.handle.send(Submit())
    session.begin()
    session.handle.send(Pause())
    stopped = replace(FIRST.engine, stopped=True)
    session.handle.publish(replace(FIRST, engine=stopped))
    assert not session.handle.is_unanswered


def test_a_plan_that_was_shown_before_this_one_is_refused() -> None:
    session = Session()
    sent = session.handle.send(Submit(jobs=("a",), plan_id="the one before"))
    (told,) = session.handle.snapshot().events
    assert (told.command_id, session.handle.role) == (sent, "plan")
    assert isinstance(told.event, CommandRefused)
    assert told.event.why.code == "other_plan"
    assert not session.handle.is_unanswered
