"""What waits for the engine's thread, and how that waits for it."""

from __future__ import annotations

import time

import pytest

from autoexp_tui.engine.ephemeral_state import Mailbox
from autoexp_tui.model.commands import Order, Pause
from tests.engine.bench import Bench
from tests.model.builders import job, plan


@pytest.fixture
def full() -> Mailbox:
    mailbox = Mailbox()
    mailbox.add_order(Order(command_id="c", command=Pause()))
    return mailbox


def test_who_sleeps_wakes_for_what_waits(full: Mailbox) -> None:
    begun = time.monotonic()
    full.sleep(30.0)
    assert time.monotonic() - begun < 10.0


def test_who_rests_does_so_whatever_waits(full: Mailbox) -> None:
    begun = time.monotonic()
    full.pause(0.05)
    assert time.monotonic() - begun >= 0.05
    assert full.drain()[0]


class Rested(Exception):
    """The engine's thread waits, for so many seconds."""


def test_an_engine_that_cannot_write_rests_until_it_may_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rest(_: Mailbox, seconds: float) -> None:
        raise Rested(seconds)

    one = Bench(plan(job("a", 0)), submit=False)
    monkeypatch.setattr(Mailbox, "pause", rest)
    one.engine._retry_at = one.clock.monotonic() + 4.0
    one.engine._unwritten = [*one.world.session.records]
    one.engine.order(Order(command_id="c", command=Pause()))
    with pytest.raises(Rested) as rested:
        one.engine.run()
    assert rested.value.args == (4.0,)
