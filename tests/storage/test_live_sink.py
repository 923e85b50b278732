"""live.json: written for who watches, at most twice a second, and never in the way."""

from __future__ import annotations

import errno
import math
import os
import threading
from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage import live_sink
from autoexp_tui.storage.atomic import write_atomic
from autoexp_tui.storage.live_sink import (
    LOOK_SECONDS,
    VIEWER_SECONDS,
    WRITE_SECONDS,
    FileLiveSink,
    LiveReader,
    ViewerHeartbeat,
    ViewerWatch,
)
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock


@pytest.fixture
def session(tmp_path: Path) -> SessionDir:
    made = SessionDir(tmp_path / "k7f2")
    made.make()
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


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
    specs = [
        JobSpec(name=name, index=0, command=("x",), output_dir="/o", log_dir="/l")
        for name in live
    ]
    return Snapshot(
        seq=seq,
        t=1.0,
        session="k7f2",
        name="n",
        plan=Plan(plan_id="p", name="n", state_dir="/s", jobs=tuple(specs)),
        started_at=0.0,
        paused=None,
        engine=EngineView(role="live", epoch=3),
        jobs=tuple(JobRecord(spec=spec) for spec in specs),
        live=tuple(live.values()),
    )


def read_seq(session: SessionDir) -> int | None:
    detail = LiveReader(session).read()
    return detail.seq if detail else None


def test_nothing_is_written_while_nobody_watches(
    session: SessionDir, sink: StillSink
) -> None:
    sink.publish(snapshot())
    assert not sink.write_due()
    assert not session.live.exists()


def test_a_watcher_gets_the_volatile_side(
    session: SessionDir, sink: StillSink, viewer: ViewerHeartbeat
) -> None:
    sink.publish(snapshot(seq=7, a=Live(step=3, metrics={"loss": math.inf}), b=None))
    assert sink.write_due()
    detail = LiveReader(session).read()
    assert detail is not None
    assert (detail.seq, detail.engine.epoch) == (7, 3)
    assert list(detail.jobs) == ["a"]
    assert detail.jobs["a"].metrics == {"loss": math.inf}


def test_at_most_two_are_written_in_a_second(
    sink: StillSink, viewer: ViewerHeartbeat, clock: ManualClock
) -> None:
    written = 0
    for _ in range(20):
        sink.publish(snapshot())
        written += sink.write_due()
        clock.advance(0.05)
    assert written == 2


def test_the_same_snapshot_is_not_written_twice(
    sink: StillSink, viewer: ViewerHeartbeat, clock: ManualClock
) -> None:
    sink.publish(snapshot())
    sink.write_due()
    clock.advance(WRITE_SECONDS)
    assert not sink.write_due()


def test_who_comes_late_is_shown_the_present(
    session: SessionDir, sink: StillSink, clock: ManualClock
) -> None:
    sink.publish(snapshot(seq=5))
    sink.write_due()
    ViewerHeartbeat(session).beat()
    clock.advance(LOOK_SECONDS)
    sink.write_due()
    assert read_seq(session) == 5


def test_a_viewer_that_stopped_beating_is_gone(
    session: SessionDir, clock: ManualClock, viewer: ViewerHeartbeat
) -> None:
    watch = ViewerWatch(session.viewers)
    assert watch.anybody(clock.monotonic())
    clock.advance(VIEWER_SECONDS)
    assert not watch.anybody(clock.monotonic())


def test_a_viewer_that_beats_stays(
    session: SessionDir, clock: ManualClock, viewer: ViewerHeartbeat
) -> None:
    watch = ViewerWatch(session.viewers)
    for moment in range(5):
        os.utime(session.viewers / "v", (moment, moment))
        assert watch.anybody(clock.monotonic())
        clock.advance(VIEWER_SECONDS - 1)


def test_a_viewer_that_left_is_gone_at_once(
    session: SessionDir, clock: ManualClock, viewer: ViewerHeartbeat
) -> None:
    watch = ViewerWatch(session.viewers)
    assert watch.anybody(clock.monotonic())
    viewer.close()
    assert not watch.anybody(clock.monotonic())


def test_without_a_directory_of_viewers_nobody_watches(tmp_path: Path) -> None:
    assert not ViewerWatch(tmp_path / "none").anybody(0.0)


def test_a_full_disk_costs_the_detail_alone(
    sink: StillSink,
    viewer: ViewerHeartbeat,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", full)
        sink.publish(snapshot())
        assert not sink.write_due()
    clock.advance(WRITE_SECONDS)
    sink.publish(snapshot())
    assert sink.write_due()


def test_the_thread_writes_what_is_published(
    session: SessionDir,
    viewer: ViewerHeartbeat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = threading.Event()

    def write(path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        write_atomic(path, data, mode, durable=durable)
        written.set()

    monkeypatch.setattr(live_sink, "write_atomic", write)
    sink = FileLiveSink(session, SystemClock())
    sink.publish(snapshot(seq=9))
    assert written.wait(10)
    assert read_seq(session) == 9
    sink.close()
    assert not session.live.exists()


def test_a_sink_that_was_closed_starts_no_thread(session: SessionDir) -> None:
    sink = FileLiveSink(session, SystemClock())
    sink.close()
    sink.publish(snapshot())
    assert not any(thread.name == "live-sink" for thread in threading.enumerate())


def test_a_viewer_that_cannot_write_knows(session: SessionDir) -> None:
    session.viewers.rmdir()
    session.viewers.touch()
    assert not ViewerHeartbeat(session).beat()


def test_viewers_of_one_process_are_two_viewers(session: SessionDir) -> None:
    ViewerHeartbeat(session).beat()
    ViewerHeartbeat(session).beat()
    assert len(list(session.viewers.iterdir())) == 2


def test_detail_that_has_not_changed_is_the_same_object(
    session: SessionDir, sink: StillSink, viewer: ViewerHeartbeat
) -> None:
    sink.publish(snapshot())
    sink.write_due()
    reader = LiveReader(session)
    assert reader.read() is reader.read()


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"seq":1,"new_field":2}'])
def test_detail_that_does_not_read_is_not_there(
    session: SessionDir, data: bytes
) -> None:
    session.live.write_bytes(data)
    assert LiveReader(session).read() is None


def test_a_disk_that_fails_means_no_detail(
    session: SessionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.live.write_bytes(b"{}")

    def failing(_path: Path) -> bytes:
        raise EnvironmentFailed("cannot read")

    monkeypatch.setattr(live_sink, "read_if_there", failing)
    assert LiveReader(session).read() is None
