"""An engine that Ctrl-Z or SIGSTOP keeps from running: who watches is told at once."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from autoexp_tui.engine.viewer import ViewerHandle
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.live_sink import FileSessionWatcher
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import describe
from autoexp_tui.testing.clock import ManualClock
from tests.cli.session_places import Place, held_by

ELSEWHERE = replace(Identity.get_own(), host="another", machine="m")


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def session(place: Place, engine: subprocess.Popen[bytes]) -> SessionDir:
    """A session that it took."""
    made = place.session("k7f2")
    held_by(made, engine.pid)
    return made


def stop(engine: subprocess.Popen[bytes]) -> None:
    engine.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, engine.pid, os.WSTOPPED | os.WNOWAIT)


def test_a_viewer_tells_of_it_as_soon_as_it_happens(
    session: SessionDir, engine: subprocess.Popen[bytes]
) -> None:
    clock = ManualClock()
    handle = ViewerHandle(FileSessionWatcher(session, clock), clock)
    told: queue.Queue[int] = queue.Queue()
    handle.subscribe(lambda snapshot: told.put(snapshot.engine.halted_pid))
    stop(engine)
    try:
        assert told.get(timeout=20) == engine.pid
    finally:
        handle.close()


def test_whether_an_engine_elsewhere_is_stopped_is_not_known(
    session: SessionDir, engine: subprocess.Popen[bytes]
) -> None:
    stop(engine)
    watch = LeaseWatch(session, me=ELSEWHERE)
    assert watch.find_halted(watch.find_holder()) == 0


def test_the_list_says_how_it_goes_on_and_programs_get_its_pid(
    place: Place, session: SessionDir, engine: subprocess.Popen[bytes]
) -> None:
    assert describe(session).halted_pid == 0
    stop(engine)
    told = f"its engine is stopped: `fg` in its terminal, or `kill -CONT {engine.pid}`"
    assert told in place.say("list")[1]
    listed = json.loads(place.say("list", "--json")[1])
    assert listed[0]["halted_pid"] == engine.pid
