"""A session as others watch it: live.json, signs of life, and the watcher's eyes."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.snapshot import EngineView, Live, LiveDetail, Snapshot
from autoexp_tui.model.state import JobRecord
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage import live_sink
from autoexp_tui.storage.json_codec import encode_live
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.live_sink import (
    BEAT_SECONDS,
    LOOK_SECONDS,
    VIEWER_SECONDS,
    WRITE_SECONDS,
    FileLiveSink,
    FileSessionWatcher,
)
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import job, plan
from tests.support.journal_contract import Writer, message

from .disk_session import DiskStore, failing


class StillSink(FileLiveSink):
    """A sink whose writing the test drives: no thread."""

    def publish(self, snapshot: Snapshot) -> None:
        self._newest = snapshot


@pytest.fixture
def sink(session: SessionDir, clock: ManualClock) -> StillSink:
    return StillSink(session, clock)


@pytest.fixture
def viewer(session: SessionDir, clock: ManualClock) -> FileSessionWatcher:
    made = FileSessionWatcher(session, clock)
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
def test_who_watches_gets_the_volatile_side_at_once_and_at_most_twice_a_second(
    session: SessionDir,
    sink: StillSink,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink.publish(snapshot(7, a=Live(step=3, metrics={"loss": math.inf}), b=None))
    assert not sink.write_due()
    assert not session.live.exists()  # while nobody watches
    viewer = FileSessionWatcher(session, clock)
    viewer.beat()
    clock.advance(LOOK_SECONDS)
    assert sink.write_due()
    detail = viewer.live()
    assert detail is not None
    assert (detail.seq, detail.engine.epoch, list(detail.jobs)) == (7, 3, ["a"])
    assert detail.jobs["a"].metrics == {"loss": math.inf}
    clock.advance(WRITE_SECONDS)
    assert not sink.write_due()  # the same twice
    with monkeypatch.context() as broken:  # a full disk costs one
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


def test_the_thread_writes_what_is_published_until_it_is_closed(
    session: SessionDir, viewer: FileSessionWatcher
) -> None:
    sink, until = FileLiveSink(session, SystemClock()), time.monotonic() + 10
    sink.publish(snapshot(seq=9))
    while (detail := viewer.live()) is None:
        assert time.monotonic() < until
    assert detail.seq == 9
    sink.close()
    assert not session.live.exists()
    closed = FileLiveSink(session, SystemClock())
    closed.close()
    closed.publish(snapshot())
    assert not any(thread.name == "live-sink" for thread in threading.enumerate())


def test_a_viewer_stays_while_it_beats_and_is_gone_when_it_stops_or_leaves(
    session: SessionDir,
    clock: ManualClock,
    viewer: FileSessionWatcher,
    sink: StillSink,
) -> None:
    (beat,) = session.viewers.iterdir()
    for moment in range(5):
        os.utime(beat, (moment, moment))
        assert sink.is_watched(clock.monotonic())
        clock.advance(VIEWER_SECONDS - 1)
    clock.advance(1)
    assert not sink.is_watched(clock.monotonic())
    viewer.beat()
    assert sink.is_watched(clock.monotonic())
    os.utime(beat, (1, 1))
    viewer.beat()  # too soon
    assert beat.stat().st_mtime == 1
    viewer.close()
    assert not sink.is_watched(clock.monotonic())
    for _ in range(2):
        FileSessionWatcher(session, clock).beat()
    assert len(list(session.viewers.iterdir())) == 2  # of one process
    for path in session.viewers.iterdir():
        path.unlink()
    session.viewers.rmdir()
    assert not sink.is_watched(clock.monotonic())
    session.viewers.touch()
    clock.advance(BEAT_SECONDS)
    assert not viewer.beat()  # cannot write, and knows


def test_detail_that_does_not_read_is_not_there(
    session: SessionDir, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (b"", b"{}", b"\xff", b'{"seq":1,"new_field":2}'):
        session.live.write_bytes(data)
        assert FileSessionWatcher(session, clock).live() is None

    def refused(_path: Path) -> bytes:
        raise EnvironmentFailed("cannot read")

    monkeypatch.setattr(live_sink, "read_if_there", refused)  # a disk that fails
    assert FileSessionWatcher(session, clock).live() is None


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
        shown = self.live()
        assert self.live() is shown
        return shown.jobs["a"].step if shown else None


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


def test_detail_is_shown_until_its_owner_left_or_the_journal_went_on(
    eyes: Viewer,
) -> None:
    lease = take_lease(eyes.store.session, eyes.clock)
    assert eyes.owner_alive()
    assert [eyes.shows(1), eyes.shows(), eyes.shows(2)] == [1, 1, 2]
    newest = len(Writer(eyes.store).begin())
    eyes.load()
    shown = [eyes.shows(newest + more) for more in (-1, 0, 9)]
    assert shown == [None, newest, newest + 9]
    lease.release()
    assert not eyes.owner_alive()
    assert eyes.shows() is None
    take_lease(eyes.store.session, eyes.clock)
    assert eyes.owner_alive()
    assert eyes.shows() == newest + 9
    Writer(eyes.store).begin()
    eyes.news()
    assert eyes.shows() is None  # of the engine before
