"""A session as others watch it: live.json, signs of life, and the watcher's eyes."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.model.commands import Order, Pause
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.state import JobRecord
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage import live_sink
from autoexp_tui.storage.atomic import write_atomic
from autoexp_tui.storage.inbox import FileInbox
from autoexp_tui.storage.json_codec import LiveDetail, encode_live
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.live_sink import (
    BEAT_SECONDS,
    LOOK_SECONDS,
    VIEWER_SECONDS,
    WRITE_SECONDS,
    FileLiveSink,
    FileSessionWatcher,
    LiveReader,
    ViewerHeartbeat,
    ViewerWatch,
)
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import job, plan
from tests.support.journal_contract import Writer, message

from .disk_session import DiskStore, failing


class StillSink(FileLiveSink):
    """A sink whose writing the test drives: no thread."""

    def publish(self, snapshot: object) -> None:
        assert isinstance(snapshot, Snapshot)
        self._newest = snapshot


@pytest.fixture
def sink(session: SessionDir, clock: ManualClock) -> StillSink:
    return StillSink(session, clock)


@pytest.fixture
def viewer(session: SessionDir) -> ViewerHeartbeat:
    made = ViewerHeartbeat(session, "v")
    assert made.beat()
    return made


def snapshot(seq: int = 1, **live: Live | None) -> Snapshot:
    specs = [job(name) for name in live]
    return Snapshot(
        seq=seq,
        t=1.0,
        session="k7f2",
        name="n",
        plan=plan(*specs),
        started_at=0.0,
        paused=None,
        engine=EngineView(role="live", epoch=3),
        jobs=tuple(JobRecord(spec=spec) for spec in specs),
        live=tuple(live.values()),
    )


# ------------------------------------------------------------- what the engine writes
def test_who_watches_gets_the_volatile_side_and_at_once(
    session: SessionDir, sink: StillSink, clock: ManualClock
) -> None:
    sink.publish(snapshot(7, a=Live(step=3, metrics={"loss": math.inf}), b=None))
    assert not sink.write_due()
    assert not session.live.exists()  # while nobody watches
    ViewerHeartbeat(session).beat()
    clock.advance(LOOK_SECONDS)
    assert sink.write_due()
    reader = LiveReader(session)
    detail = reader.read()
    assert detail is not None
    assert (detail.seq, detail.engine.epoch, list(detail.jobs)) == (7, 3, ["a"])
    assert detail.jobs["a"].metrics == {"loss": math.inf}
    assert reader.read() is detail
    clock.advance(WRITE_SECONDS)
    assert not sink.write_due()  # the same twice


@pytest.mark.usefixtures("viewer")
def test_at_most_two_are_written_in_a_second_and_a_full_disk_costs_one(
    sink: StillSink, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", failing())
        sink.publish(snapshot())
        assert not sink.write_due()
    clock.advance(WRITE_SECONDS)
    written = 0
    for _ in range(20):
        sink.publish(snapshot())
        written += sink.write_due()
        clock.advance(0.05)
    assert written == 2


@pytest.mark.usefixtures("viewer")
def test_the_thread_writes_what_is_published_until_it_is_closed(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = threading.Event()

    def write(path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        write_atomic(path, data, mode, durable=durable)
        written.set()

    monkeypatch.setattr(live_sink, "write_atomic", write)
    sink = FileLiveSink(session, SystemClock())
    sink.publish(snapshot(seq=9))
    assert written.wait(10)
    detail = LiveReader(session).read()
    assert detail is not None
    assert detail.seq == 9
    sink.close()
    assert not session.live.exists()
    closed = FileLiveSink(session, SystemClock())
    closed.close()
    closed.publish(snapshot())
    assert not any(thread.name == "live-sink" for thread in threading.enumerate())


def test_a_viewer_stays_while_it_beats_and_is_gone_when_it_stops_or_leaves(
    session: SessionDir, clock: ManualClock, viewer: ViewerHeartbeat
) -> None:
    watch = ViewerWatch(session.viewers)
    for moment in range(5):
        os.utime(session.viewers / "v", (moment, moment))
        assert watch.anybody(clock.monotonic())
        clock.advance(VIEWER_SECONDS - 1)
    clock.advance(1)
    assert not watch.anybody(clock.monotonic())
    viewer.beat()
    assert watch.anybody(clock.monotonic())
    viewer.close()
    assert not watch.anybody(clock.monotonic())
    for _ in range(2):
        ViewerHeartbeat(session).beat()
    assert len(list(session.viewers.iterdir())) == 2  # of one process
    for path in session.viewers.iterdir():
        path.unlink()
    session.viewers.rmdir()
    assert not watch.anybody(clock.monotonic())
    session.viewers.touch()
    assert not viewer.beat()  # cannot write, and knows


def test_detail_that_does_not_read_is_not_there(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (b"", b"{}", b"\xff", b'{"seq":1,"new_field":2}'):
        session.live.write_bytes(data)
        assert LiveReader(session).read() is None

    def refused(_path: Path) -> bytes:
        raise EnvironmentFailed("cannot read")

    monkeypatch.setattr(live_sink, "read_if_there", refused)  # a disk that fails
    assert LiveReader(session).read() is None


# ---------------------------------------------------------------- what a viewer reads
class Viewer(FileSessionWatcher):
    """Another process's eyes on the session of `store`."""

    def __init__(self, store: DiskStore, clock: ManualClock) -> None:
        super().__init__(store.session, clock)
        self.store, self.clock = store, clock

    def shows(self, seq: int | None = None) -> int | None:
        """The step that is shown, after the owner wrote it for record `seq`."""
        if seq is not None:
            engine, jobs = EngineView(role="live", epoch=1), {"a": Live(step=seq)}
            detail = LiveDetail(seq=seq, t=1.0, engine=engine, jobs=jobs)
            data = encode_live(detail) + b" " * seq
            self.store.session.live.write_bytes(data)
        live: Any = self.live()
        assert live is None or self.live() is live
        return live and live[1]["a"].step


@pytest.fixture
def eyes(store: DiskStore, clock: ManualClock) -> Iterator[Viewer]:
    made = Viewer(store, clock)
    yield made
    made.close()


def test_news_follow_what_was_loaded_until_it_counts_no_more(eyes: Viewer) -> None:
    assert eyes.news() is None
    writer = Writer(eyes.store)
    before = writer.begin()
    state, newest = eyes.load()
    added = writer.write(message("1"))
    assert (state.seq, list(newest)) == (len(before), before)
    assert eyes.news() == added
    os.truncate(eyes.store.part(), 10)
    assert eyes.news() is None


def test_detail_is_shown_until_its_owner_left(eyes: Viewer) -> None:
    lease = take_lease(eyes.store.session, eyes.clock)
    assert eyes.owner_alive()
    assert [eyes.shows(1), eyes.shows(), eyes.shows(2)] == [1, 1, 2]
    lease.release()
    assert not eyes.owner_alive()
    assert eyes.shows() is None


def test_detail_older_than_what_was_loaded_or_of_the_engine_before_is_of_the_past(
    eyes: Viewer,
) -> None:
    newest = len(Writer(eyes.store).begin())
    eyes.load()
    shown = [eyes.shows(newest + more) for more in (-1, 0, 9)]
    assert shown == [None, newest, newest + 9]
    Writer(eyes.store).begin()
    eyes.news()
    assert eyes.shows() is None


def test_commands_and_few_beats_leave_a_viewer_and_no_sign_of_life_stays(
    eyes: Viewer,
) -> None:
    order = Order(command_id="c1", command=Pause())
    eyes.leave(order)
    assert list(FileInbox(eyes.store.session).take()) == [order]
    eyes.beat()
    (file,) = eyes.store.session.viewers.iterdir()
    os.utime(file, (1, 1))
    eyes.beat()
    assert file.stat().st_mtime == 1
    eyes.clock.advance(BEAT_SECONDS)
    eyes.beat()
    assert file.stat().st_mtime > 1
    eyes.close()
    assert not file.exists()
