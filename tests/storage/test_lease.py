"""One owner of a session, whatever dies, stops, or is out of sight."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from autoexp_tui.events.events import EngineStarted
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import read_session
from autoexp_tui.storage.lease import (
    FileLease,
    Holder,
    LeaseWatch,
    find_highest_epoch,
    take_lease,
)
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock
from tests.support.journal_contract import Writer

from .disk_session import failing
from .races import Leased, leave_dead_holder, race_once

ME = Identity.get_own()
ELSEWHERE = replace(ME, host="login2", machine="m2", boot="b2")
DEAD = replace(ME, started="1")
"""This pid, but of a process that started at another time."""


def take(session: SessionDir, me: Identity = ME) -> FileLease:
    return take_lease(session, ManualClock(), me=me)


def beat(session: SessionDir, epoch: int, at: int) -> None:
    """Move an epoch's heartbeat, as its holder on another host would."""
    os.utime(session.lease / f"{epoch}.json", (at, at))


class Watch:
    """Who looks at a lease, by a clock."""

    def __init__(self, session: SessionDir, clock: ManualClock) -> None:
        self.watch, self.clock = LeaseWatch(session, me=ME), clock

    def look(self) -> Alive:
        return self.watch.check_alive(self.watch.find_holder(), self.clock.monotonic())

    def take(self) -> int:
        """The epoch that it took; 0: none is free."""
        taken = self.watch.take_if_free(self.clock.monotonic(), 0.0)
        return taken.epoch if taken else 0


@pytest.fixture
def watch(session: SessionDir, clock: ManualClock) -> Watch:
    return Watch(session, clock)


# ----------------------------------------------------------------- an engine here
@pytest.mark.parametrize(
    ("former", "me"),
    [(DEAD, ME), (replace(ME, machine="m", boot="before"), replace(ME, machine="m"))],
    ids=["its process ended", "before a reboot"],
)
def test_a_dead_engine_of_this_host_is_followed_and_frees_nothing(
    session: SessionDir, former: Identity, me: Identity
) -> None:
    held = take(session, former)
    record = (session.lease / "1.json").read_bytes()
    assert Identity.from_json(json.loads(record)) == former
    assert (held.epoch, json.loads(record)["epoch"], held.is_held()) == (1, 1, True)
    heir = take(session, me)
    assert (heir.epoch, held.is_held()) == (2, False)
    assert (session.lease / "1.json").read_bytes() == record
    held.release()
    with pytest.raises(SessionOwned, match="autoexp-sessions stop k7f2") as caught:
        take(session, me)
    assert caught.value.exit_code == 4
    assert f"host {me.host}, pid {me.pid}, since 20" in str(caught.value)
    for _ in range(2):
        heir.release()
    assert take(session, ELSEWHERE).epoch == 3  # a released one is free at once


def test_a_heartbeat_says_when_the_lease_is_another_s(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = take(session, DEAD)
    beat(session, 1, 1000)
    assert held.heartbeat()
    assert (session.lease / "1.json").stat().st_mtime > 1000
    with monkeypatch.context() as broken:
        broken.setattr(os, "utime", failing(errno.ESTALE))
        assert held.heartbeat()  # no loss
    session.path.rename(session.path.with_name("gone"))
    assert held.heartbeat()  # the session is gone
    session.path.with_name("gone").rename(session.path)
    take(session)
    assert not held.heartbeat()  # a successor
    (session.lease / "2.json").unlink()
    (session.lease / "1.json").unlink()
    assert not held.heartbeat()  # its file is gone


LARGE = json.dumps({**asdict(ME), "since": 1}).encode()[:-1] + b"0" * 5000 + b"}"


def test_force_takes_a_living_engines_session_and_that_one_sees_it(
    session: SessionDir,
) -> None:
    old = take_lease(session, SystemClock())
    with pytest.raises(SessionOwned):
        take_lease(session, SystemClock())
    new = take_lease(session, SystemClock(), force=True)
    assert (new.epoch, new.is_held(), old.heartbeat()) == (old.epoch + 1, True, False)


@pytest.mark.parametrize(
    "data",
    [b"\xff\0\x1b[31m", b"[" * 60_000, b'{"epoch": 1}', b"[1, 2]", LARGE],
    ids=["binary", "deep", "another tree", "a list", "a large number"],
)
def test_a_lease_with_rubbish_in_it_is_free_once_it_was_seen_still(
    session: SessionDir, watch: Watch, data: bytes
) -> None:
    (session.lease / "1.json").write_bytes(data)
    with pytest.raises(SessionOwned, match="does not read"):
        take(session)
    assert watch.take() == 0
    watch.clock.advance(600)
    assert watch.take() == 2


def test_an_engine_from_the_future_is_followed(session: SessionDir) -> None:
    for name in ("9", "10", "2", "x", "011", ".tmp"):
        (session.lease / f"{name}.json").touch()
    (session.lease / "11.released").touch()
    assert find_highest_epoch(session) == 10  # numbers, not words
    dead = json.dumps({"epoch": 1, "since": 0.0, **asdict(DEAD)})
    (session.lease / "999999999.json").write_text(dead)
    store = Leased(session.path, take(session))
    records = Writer(store).begin()
    assert store.records() == records
    assert {record.epoch for record in records} == {1_000_000_000}


def test_a_disk_that_takes_no_lease_is_an_error_with_a_remedy(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("autoexp_tui.storage.atomic.os.open", failing(errno.EROFS))
        with pytest.raises(EnvironmentFailed, match="read-only"):
            take(session)
    assert find_highest_epoch(session) == 0
    session.lease.rmdir()
    session.lease.touch()
    with pytest.raises(EnvironmentFailed):
        take(session)


@pytest.mark.parametrize("since", [1e300, -1e300, float("nan"), float("inf")])
def test_a_holder_since_no_possible_time_is_told_without_it(since: float) -> None:
    odd = replace(ME, host="a\x1b[31mb")  # nor what would steer the terminal
    holder = Holder(epoch=1, identity=odd, since=since, released=False, mtime_ns=0)
    assert str(holder) == f"host ab, pid {ME.pid}"


# -------------------------------------------------------------- an engine elsewhere
@pytest.mark.parametrize(
    "where", [ELSEWHERE, replace(ME, namespace="pid:[1]", pid=1)], ids=["host", "pids"]
)
def test_an_engine_elsewhere_is_not_judged_at_first_sight(
    session: SessionDir, clock: ManualClock, where: Identity
) -> None:
    take(session, where)
    for moment in (0, 2**33):  # however old its heartbeat is by its own clock
        beat(session, 1, moment)
        with pytest.raises(SessionOwned, match="600 s"):
            take(session)
    start = clock.monotonic()
    with pytest.raises(SessionOwned):
        take_lease(session, clock, me=ME, wait=30, pause=clock.advance)
    assert clock.monotonic() - start == pytest.approx(30)


@pytest.mark.parametrize("seconds", [600.0, 120.0])
def test_an_engine_elsewhere_is_free_when_its_heartbeat_stood_still_as_long_as_it_said(
    session: SessionDir, watch: Watch, seconds: float
) -> None:
    take_lease(session, watch.clock, me=ELSEWHERE, stale_seconds=seconds)
    assert watch.take() == 0
    watch.clock.advance(seconds - 1)
    assert (watch.take(), watch.look()) == (0, Alive.UNKNOWN)
    watch.clock.advance(1)
    assert (watch.look(), watch.take()) == (Alive.NO, 2)
    successor = watch.watch.find_holder()
    assert successor is not None
    assert (successor.epoch, successor.stale_seconds) == (2, seconds)  # says the same


def test_an_engine_elsewhere_lives_as_long_as_its_heartbeat_is_seen_moving(
    session: SessionDir, watch: Watch
) -> None:
    take(session, ELSEWHERE)
    seen = [watch.look()]
    for moment in range(3):
        beat(session, 1, moment)
        assert watch.take() == 0
        seen += [watch.look()]
        watch.clock.advance(599)
    seen += [watch.look()]
    watch.clock.advance(1)
    assert [*seen, watch.look()] == [Alive.UNKNOWN, *[Alive.YES] * 4, Alive.NO]
    with pytest.raises(SessionOwned):  # who has not watched it
        take(session)
    assert take_lease(session, watch.clock, watch=watch.watch).epoch == 2


def test_a_lease_that_says_an_impossible_time_is_not_taken_over_sooner(
    session: SessionDir, watch: Watch
) -> None:
    record = json.dumps({"since": 0.0, **asdict(ELSEWHERE)})
    for said in ("5", "NaN", '"soon"', "null"):
        data = f'{record[:-1]}, "stale_seconds": {said}}}'
        (session.lease / "1.json").write_text(data)
        assert watch.take() == 0
        watch.clock.advance(599)
        assert watch.take() == 0


# --------------------------------------------------------------------- processes
MANY = int(os.environ.get("RACES", "100"))


@pytest.mark.parametrize("races", [4, pytest.param(MANY, marks=pytest.mark.slow)])
def test_of_eight_racing_processes_one_wins(tmp_path: Path, races: int) -> None:
    found = [race_once(tmp_path / "k7f2", 8, dead=bool(n % 2)) for n in range(races)]
    assert found == [(1, 1)] * races


def test_a_killed_engine_is_followed_at_once(session: SessionDir) -> None:
    killed, start = leave_dead_holder(session.path), time.monotonic()
    Writer(Leased(session.path, take_lease(session, SystemClock()))).begin()
    assert time.monotonic() - start < 1.0
    assert isinstance(list(read_session(session))[-1].event, EngineStarted)
    os.waitpid(killed, 0)


def test_an_engine_that_wakes_after_a_take_over_knows_and_does_no_harm(
    session: SessionDir, clock: ManualClock
) -> None:
    words = [sys.executable, "-m", "tests.storage.races", str(session.path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as holder:

        def answer(told: str = "") -> str:
            assert holder.stdin
            assert holder.stdout
            holder.stdin.write(told)
            holder.stdin.flush()
            return holder.stdout.readline().strip()

        assert [answer(), answer("counts\n")] == ["ready", "written"]
        holder.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(SessionOwned, match=f"`kill -CONT {holder.pid}` wakes it"):
            take(session)
        # For a host that cannot see the process, a still heartbeat is all there is.
        taken = take_lease(session, clock, me=ELSEWHERE, wait=601, pause=clock.advance)
        Writer(Leased(session.path, taken)).begin()
        before = list(read_session(session))
        holder.send_signal(signal.SIGCONT)
        assert answer("void\n") == "deposed"
    assert list(read_session(session)) == before
    assert [getattr(record.event, "text", "") for record in before][2] == "counts"


def test_a_process_is_told_apart() -> None:
    assert ME.check_alive(ME) is Alive.YES
    assert DEAD.check_alive(ME) is Alive.NO  # its pid is another's now
    assert replace(ME, pid=2**22 + 1).check_alive(ME) is Alive.NO
    namesake = replace(ME, boot="b2", machine="")
    assert namesake.check_alive(ME) is Alive.UNKNOWN
    for tree in ({}, {"pid": "x"}, {**asdict(ME), "pid": None}):
        with pytest.raises(ValueError, match="identity"):
            Identity.from_json(tree)
