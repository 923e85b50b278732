"""One owner of a session, whatever dies, stops, or is out of sight."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.events.events import EngineStarted, SessionStarted
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Recorded
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.atomic import link_new
from autoexp_tui.storage.journal import read_session
from autoexp_tui.storage.journal_writer import FileJournal
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
from tests.model.builders import at

from .lease_racers import winners
from .races import engines_in, leave_dead_holder, race

ME = Identity.get_own()
ELSEWHERE = replace(ME, host="login2", machine="m2", boot="b2")
DEAD = replace(ME, started="1")
"""This pid, but of a process that started at another time."""


@pytest.fixture
def session(tmp_path: Path) -> SessionDir:
    made = SessionDir(tmp_path / "k7f2")
    made.make()
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def take(session: SessionDir, me: Identity = ME) -> FileLease:
    return take_lease(session, ManualClock(), me=me)


def beat(session: SessionDir, epoch: int, at: int) -> None:
    """Move an epoch's heartbeat, as its holder on another host would."""
    os.utime(session.lease / f"{epoch}.json", (at, at))


def test_who_has_watched_a_heartbeat_stand_need_not_wait_again(
    session: SessionDir, clock: ManualClock
) -> None:
    take(session, ELSEWHERE)
    watch = LeaseWatch(session, me=ME)
    assert watch.check_alive(watch.find_holder(), clock.monotonic()) is Alive.UNKNOWN
    clock.advance(601.0)
    with pytest.raises(SessionOwned):
        take_lease(session, clock, me=ME)
    assert take_lease(session, clock, watch=watch).epoch == 2


def test_the_refusal_names_the_owner_and_what_to_do(session: SessionDir) -> None:
    take(session)
    with pytest.raises(SessionOwned) as caught:
        take(session)
    text = str(caught.value)
    assert caught.value.exit_code == 4
    assert f"host {ME.host}, pid {ME.pid}, since 20" in text
    assert "autoexp-tui --session k7f2" in text
    assert "autoexp-sessions stop k7f2" in text
    assert "CONT" not in text


@pytest.mark.parametrize(
    ("former", "me"),
    [
        (DEAD, ME),
        (replace(ME, machine="m", boot="before"), replace(ME, machine="m")),
    ],
    ids=["its process ended", "before a reboot"],
)
def test_a_dead_engine_of_this_host_is_followed_at_once(
    session: SessionDir, former: Identity, me: Identity
) -> None:
    assert take(session, former).epoch == 1
    assert take(session, me).epoch == 2


def test_a_released_lease_is_free_at_once_wherever_it_was(
    session: SessionDir,
) -> None:
    held = take(session, ELSEWHERE)
    held.release()
    held.release()
    assert take(session).epoch == 2


def test_a_deposed_engine_is_on_record_and_frees_nothing(session: SessionDir) -> None:
    former = take(session, DEAD)
    record = (session.lease / "1.json").read_bytes()
    assert Identity.from_json(json.loads(record)) == DEAD
    assert json.loads(record)["epoch"] == 1
    take(session)
    assert (session.lease / "1.json").read_bytes() == record
    assert not former.is_held()
    former.release()
    with pytest.raises(SessionOwned):
        take(session)


HEARTBEATS: dict[str, tuple[Callable[[SessionDir], object], bool]] = {
    "a successor": (lambda session: take(session), False),
    "its file is gone": (lambda session: (session.lease / "1.json").unlink(), False),
    "the session is gone": (lambda session: session.path.rename("gone"), True),
}


@pytest.mark.parametrize("what", HEARTBEATS)
def test_a_heartbeat_says_when_the_lease_is_another_s(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.chdir(session.path.parent)
    held = take(session, DEAD)
    assert held.heartbeat()
    change, still = HEARTBEATS[what]
    change(session)
    assert held.heartbeat() is still


def test_a_heartbeat_moves_the_mtime_of_ones_own_file(session: SessionDir) -> None:
    held = take(session)
    beat(session, 1, 1000)
    held.heartbeat()
    assert (session.lease / "1.json").stat().st_mtime > 1000


def test_a_heartbeat_that_the_disk_refuses_is_not_a_loss(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = take(session)

    def stale(*_args: object) -> None:
        raise OSError("stale file handle")

    monkeypatch.setattr(os, "utime", stale)
    assert held.heartbeat()


def test_epochs_are_numbers_not_words(session: SessionDir) -> None:
    names = (
        "9.json 10.json 2.json x.json 11.released .tmp.json 1000000000.json 011.json"
    )
    for name in names.split():
        (session.lease / name).touch()
    assert find_highest_epoch(session) == 10


def test_a_lease_that_does_not_read_is_watched_not_taken(session: SessionDir) -> None:
    (session.lease / "1.json").write_bytes(b"?")
    with pytest.raises(SessionOwned, match="does not read"):
        take(session)


DEEP = b"[" * 60_000
UNREADABLE = {
    "empty": b"",
    "binary": b"\xff\0\x1b[31m",
    "deep": DEEP,
    "another tree": b'{"epoch": 1}',
    "a list": b"[1, 2]",
    "zeros": b"\0" * 200,
    "a number too large": json.dumps({**ME.as_json(), "since": 1}).encode()[:-2]
    + b"0" * 5000
    + b"}",
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_lease_with_rubbish_in_it_is_free_once_it_was_seen_still(
    session: SessionDir, clock: ManualClock, what: str
) -> None:
    (session.lease / "1.json").write_bytes(UNREADABLE[what])
    watch = LeaseWatch(session)
    assert watch.take_if_free(clock.monotonic(), 0.0) is None
    clock.advance(600)
    taken = watch.take_if_free(clock.monotonic(), 0.0)
    assert taken is not None
    assert taken.epoch == 2


def test_parts_of_an_engine_from_the_future_are_read(session: SessionDir) -> None:
    (session.lease / "900000.json").write_text(
        json.dumps({"epoch": 1, "since": 0.0, **DEAD.as_json()})
    )
    journal = FileJournal(session, take(session))
    records = _opening(journal)
    journal.append(records)
    assert list(read_session(session)) == records


def _opening(journal: FileJournal) -> list[Recorded]:
    draft = Draft(journal.load().state, at(2.0), 900_001)
    draft.emit(
        SessionStarted(
            session="s", name="n", engine_version="1", wrapper_version="1", plan_sha=""
        )
    )
    return draft.records


def test_a_lease_with_the_last_number_is_an_error_that_names_it(
    session: SessionDir,
) -> None:
    data = json.dumps({"epoch": 1, "since": 0.0, **DEAD.as_json()})
    (session.lease / "999999999.json").write_text(data)
    with pytest.raises(EnvironmentFailed, match=r"999999999\.json"):
        take(session)


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_takes_no_lease_is_an_error_with_a_remedy(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("autoexp_tui.storage.atomic.os.open", refuse)
    with pytest.raises(EnvironmentFailed) as caught:
        take(session)
    assert caught.value.hint
    assert find_highest_epoch(session) == 0


def test_a_holder_whose_name_would_steer_the_terminal_is_told_without(
    session: SessionDir,
) -> None:
    take(session, replace(ELSEWHERE, host="a\x1b[31mb"))
    with pytest.raises(SessionOwned, match="host ab, pid"):
        take(session)


@pytest.mark.parametrize("since", [1e300, -1e300, float("nan"), float("inf")])
def test_a_holder_since_no_possible_time_is_told_without_it(since: float) -> None:
    holder = Holder(epoch=1, identity=ME, since=since, released=False, mtime_ns=0)
    assert str(holder) == f"host {ME.host}, pid {ME.pid}"


def test_a_lease_that_cannot_be_listed_is_an_error_of_the_environment(
    session: SessionDir,
) -> None:
    session.lease.rmdir()
    session.lease.touch()
    with pytest.raises(EnvironmentFailed):
        take(session)


@pytest.mark.parametrize(
    "where", [ELSEWHERE, replace(ME, namespace="pid:[1]", pid=1)], ids=["host", "pids"]
)
def test_an_engine_elsewhere_is_not_judged_at_first_sight(
    session: SessionDir, where: Identity
) -> None:
    take(session, where)
    with pytest.raises(SessionOwned, match="600 s"):
        take(session)


@pytest.mark.parametrize("seconds", [600.0, 120.0])
def test_an_engine_elsewhere_is_free_when_its_heartbeat_stood_still_as_long_as_it_said(
    session: SessionDir, clock: ManualClock, seconds: float
) -> None:
    take_lease(session, clock, me=ELSEWHERE, stale_seconds=seconds)
    watch = LeaseWatch(session, me=ME)
    assert watch.take_if_free(clock.monotonic(), 0.0) is None
    clock.advance(seconds - 1)
    assert watch.take_if_free(clock.monotonic(), 0.0) is None
    assert watch.check_alive(watch.find_holder(), clock.monotonic()) is Alive.UNKNOWN
    clock.advance(1)
    assert watch.check_alive(watch.find_holder(), clock.monotonic()) is Alive.NO
    taken = watch.take_if_free(clock.monotonic(), 0.0)
    assert taken is not None
    assert taken.epoch == 2


def test_a_heartbeat_that_moves_starts_the_wait_anew(
    session: SessionDir, clock: ManualClock
) -> None:
    take(session, ELSEWHERE)
    watch = LeaseWatch(session)
    for moment in range(5):
        beat(session, 1, moment)
        assert watch.take_if_free(clock.monotonic(), 0.0) is None
        clock.advance(599)


def test_a_heartbeat_far_in_the_past_or_future_means_nothing(
    session: SessionDir, clock: ManualClock
) -> None:
    take(session, ELSEWHERE)
    for moment in (0, 2**33):
        beat(session, 1, moment)
        watch = LeaseWatch(session)
        assert watch.take_if_free(clock.monotonic(), 0.0) is None


def test_an_engine_elsewhere_lives_once_its_heartbeat_was_seen_moving(
    session: SessionDir, clock: ManualClock
) -> None:
    take(session, ELSEWHERE)
    watch = LeaseWatch(session)

    def look() -> Alive:
        return watch.check_alive(watch.find_holder(), clock.monotonic())

    seen = [look()]
    beat(session, 1, 1)
    seen += [look(), look()]
    clock.advance(600)
    seen += [look()]
    assert seen == [Alive.UNKNOWN, Alive.YES, Alive.YES, Alive.NO]


def test_a_successor_says_of_its_heartbeat_what_the_first_engine_said(
    session: SessionDir, clock: ManualClock
) -> None:
    take_lease(session, clock, me=ELSEWHERE, stale_seconds=7200.0)
    take_lease(session, clock, me=ME, wait=7300, pause=clock.advance)
    holder = LeaseWatch(session).find_holder()
    assert holder is not None
    assert (holder.epoch, holder.stale_seconds) == (2, 7200.0)


@pytest.mark.parametrize("said", ["5", "NaN", '"soon"', "null"])
def test_a_lease_that_says_an_impossible_time_is_not_taken_over_sooner(
    session: SessionDir, clock: ManualClock, said: str
) -> None:
    record = json.dumps({"since": 0.0, **ELSEWHERE.as_json()})
    data = f'{record[:-1]}, "stale_seconds": {said}}}'
    (session.lease / "1.json").write_text(data)
    watch = LeaseWatch(session, me=ME)
    assert watch.take_if_free(clock.monotonic(), 0.0) is None
    clock.advance(599)
    assert watch.take_if_free(clock.monotonic(), 0.0) is None


def test_waiting_ends_when_its_time_is_up(
    session: SessionDir, clock: ManualClock
) -> None:
    take(session, ELSEWHERE)
    start = clock.monotonic()
    with pytest.raises(SessionOwned):
        take_lease(session, clock, me=ME, wait=30, pause=clock.advance)
    assert clock.monotonic() - start == pytest.approx(30)


def test_whoever_is_faster_in_linking_wins(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(path: Path, data: bytes, _mode: int) -> bool:
        link_new(path, json.dumps({"since": 0.0, **ME.as_json()}).encode())
        return link_new(path, data)

    monkeypatch.setattr("autoexp_tui.storage.lease.link_new", second)
    with pytest.raises(SessionOwned):
        take(session)


def race_tracks(tmp_path: Path, races: int) -> list[Path]:
    """Session directories; in every second one a dead holder has the lease."""
    paths = [tmp_path / f"race{number}" for number in range(races)]
    for number, path in enumerate(paths):
        SessionDir(path).make()
        if number % 2:
            take(SessionDir(path), DEAD)
    return paths


@pytest.mark.parametrize("races", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_of_eight_racing_processes_one_wins(tmp_path: Path, races: int) -> None:
    assert winners(race_tracks(tmp_path, races)) == [1] * races


@pytest.fixture
def holder(session: SessionDir) -> Iterator[subprocess.Popen[str]]:
    """A process that owns the session and writes a record for each line it is told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.lease_racers", "hold", session.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert said(process) == "ready"
    yield process
    process.send_signal(signal.SIGCONT)
    process.kill()
    process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def succeed(session: SessionDir, lease: FileLease) -> FileJournal:
    """Seal the predecessor's part, as an engine that starts."""
    journal = FileJournal(session, lease)
    draft = Draft(journal.load().state, at(2.0), lease.epoch)
    draft.emit(
        EngineStarted(
            host="h",
            pid=1,
            sealed_part=journal.seal.part,
            sealed_bytes=journal.seal.bytes,
        )
    )
    journal.append(draft.records)
    return journal


def test_a_killed_engine_is_followed_at_once(
    session: SessionDir, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait()
    start = time.monotonic()
    succeed(session, take_lease(session, SystemClock())).close()
    assert time.monotonic() - start < 1.0
    assert isinstance(list(read_session(session))[-1].event, EngineStarted)


def test_a_killed_engine_that_nobody_reaped_is_dead(
    session: SessionDir, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert take(session).epoch == 2


def test_of_a_stopped_engine_it_is_told_what_wakes_it(
    session: SessionDir, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(SessionOwned, match=f"`kill -CONT {holder.pid}` wakes it"):
        take(session)


def test_an_engine_that_wakes_after_a_take_over_knows_and_does_no_harm(
    session: SessionDir, holder: subprocess.Popen[str], clock: ManualClock
) -> None:
    tell(holder, "counts")
    assert said(holder) == "written"
    holder.send_signal(signal.SIGSTOP)
    # For a host that cannot see the process, a still heartbeat is all there is.
    taken = take_lease(session, clock, me=ELSEWHERE, wait=601, pause=clock.advance)
    succeed(session, taken).close()
    before = list(read_session(session))
    holder.send_signal(signal.SIGCONT)
    tell(holder, "void")
    assert said(holder) == "deposed"
    assert list(read_session(session)) == before
    assert [getattr(record.event, "text", "") for record in before][1] == "counts"


@pytest.mark.parametrize(
    ("process", "alive"),
    [
        (ME, Alive.YES),
        (DEAD, Alive.NO),
        (replace(ME, pid=2**22 + 1), Alive.NO),
        (replace(ME, boot="b2", machine=""), Alive.UNKNOWN),
    ],
    ids=["this", "a reused pid", "a pid of nobody", "a host of the same name"],
)
def test_a_process_is_told_apart(process: Identity, alive: Alive) -> None:
    assert process.check_alive(ME) is alive


@pytest.mark.parametrize("tree", [{}, {"pid": "x"}, {**ME.as_json(), "pid": None}])
def test_what_is_no_identity_is_refused(tree: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="identity"):
        Identity.from_json(tree)


def test_races_of_whole_engines_have_one_engine_each(tmp_path: Path) -> None:
    for number in range(6):
        session = SessionDir(tmp_path / f"race{number}")
        session.make()
        if number % 2:
            leave_dead_holder(session)
        written, _ = race(session, 8)
        assert written == 1
        assert engines_in(session) == 1 + number % 2
