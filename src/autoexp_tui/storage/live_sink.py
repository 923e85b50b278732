"""A session as other processes watch it: live.json, heartbeats, the watcher's eyes. The
engine hands over snapshots and never waits; a thread writes two a second, and nothing
while no viewer's heartbeat (the mtime of a file) moves by its own clock."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.commands import Order
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.snapshot import LiveDetail, Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.inbox import leave
from autoexp_tui.storage.journal import (
    NO_PART,
    Loaded,
    Part,
    Position,
    find_chain,
    load_state,
    read_part,
)
from autoexp_tui.storage.json_codec import Unencodable, decode, encode_live
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir, read_if_there

WRITE_SECONDS = 0.5
"""At least this long between two writes."""
LOOK_SECONDS = 2.0
"""Between two looks for viewers while there is none."""
VIEWER_SECONDS = 10.0
"""A viewer whose heartbeat stood still this long is gone."""
BEAT_SECONDS = 3.0
"""How often a viewer should beat."""


def build_detail(snapshot: Snapshot) -> LiveDetail:
    pairs = zip(snapshot.jobs, snapshot.live, strict=True)
    return LiveDetail(
        seq=snapshot.seq,
        t=snapshot.t,
        engine=snapshot.engine,
        jobs={job.name: live for job, live in pairs if live is not None},
    )


class FileLiveSink:
    """Implements `ports.LiveSink`; a disk that refuses costs but the detail."""

    def __init__(self, session: SessionDir, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._newest: Snapshot | None = None
        self._written: Snapshot | None = None
        self._due_at = 0.0
        self._beats: set[tuple[str, int]] = set()
        """Heartbeats as last seen, and when one moved."""
        self._moved_at = float("-inf")
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def publish(self, snapshot: Snapshot) -> None:
        self._newest = snapshot
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._run, name="live-sink", daemon=True
            )
            self._thread.start()

    def write_due(self) -> bool:
        """Write the newest snapshot if it is time and somebody watches."""
        now, snapshot = self._clock.monotonic(), self._newest
        if snapshot is None or snapshot is self._written or now < self._due_at:
            return False
        watched = self.is_watched(now)
        self._due_at = now + (WRITE_SECONDS if watched else LOOK_SECONDS)
        if not watched:
            return False  # kept: who comes next sees the present at once
        self._written = snapshot
        try:
            data = encode_live(build_detail(snapshot))
            mode = self._session.read_modes().file
            write_atomic(self._session.live, data, mode, durable=False)
        except (EnvironmentFailed, Unencodable):
            return False
        return True

    def is_watched(self, now: float) -> bool:
        """Whether a heartbeat moved of late; one seen for the first time did."""
        found: set[tuple[str, int]] = set()
        with suppress(OSError), os.scandir(self._session.viewers) as entries:
            found |= {(entry.name, entry.stat().st_mtime_ns) for entry in entries}
        if found - self._beats:
            self._moved_at = now
        self._beats = found
        return bool(found) and now - self._moved_at < VIEWER_SECONDS

    def close(self) -> None:
        """End the thread, and take away what is then of the past."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        with suppress(OSError):  # a viewer knows by the lease that nobody writes it
            self._session.live.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._closed.wait(WRITE_SECONDS / 2):
            self.write_due()


class JournalFollower:
    """Goes on where `load_state` ended."""

    def __init__(self, session: SessionDir, loaded: Loaded) -> None:
        self._session = session
        self._position = loaded.position
        self._last = loaded.events[-1] if loaded.events else None

    def poll(self) -> Sequence[Recorded] | None:
        """The records since the last look; None: what was read does not all count, so
        load anew. Idle, it costs one listing and one stat. Raises JournalDamaged."""
        found: list[Recorded] = []
        rest = self._find_rest()
        if rest is None or not all(self._read_news(part, found) for part in rest):
            return None
        return found

    def _find_rest(self) -> Sequence[Part] | None:
        """The parts that may hold something new; None when ours counts no more."""
        at = self._position
        own = self._session.get_part(*at.part)
        with explaining(self._session.path, "follow the journal"):
            newest = max(self._session.list_parts(), default=NO_PART)
            if newest == at.part:
                same = newest == NO_PART or own.stat().st_size == at.offset
                return () if same else (Part(id=newest, path=own),)
        chain = find_chain(self._session)
        if at.part == NO_PART:
            return chain
        for index, part in enumerate(chain):
            if part.id == at.part:
                kept = part.length is None or part.length >= at.offset
                return chain[index:] if kept else None
        return None

    def _read_news(self, part: Part, found: list[Recorded]) -> bool:
        """Read what is new in `part`; False when it does not follow."""
        at = self._position
        same = part.id == at.part
        if not same:
            self._position = at = replace(at, part=part.id, start=0, offset=0)
        try:
            if same and self._last is not None:  # does it still stand where it stood
                again = next(read_part(part, offset=at.start), None)
                if again != (self._last, at.start, at.offset):
                    return False
            for record, start, end in read_part(part, offset=at.offset):
                if record.seq != self._position.seq + 1:
                    return False
                self._position = Position(
                    part=part.id, start=start, offset=end, seq=record.seq
                )
                self._last = record
                found.append(record)
        except JournalDamaged:
            return False
        return True


class FileSessionWatcher:
    """Implements `ports.SessionWatcher`. One thread uses it, `leave` apart."""

    def __init__(
        self,
        session: SessionDir,
        clock: Clock,
        *,
        lease: LeaseWatch | None = None,
    ) -> None:
        """`lease` is whose eyes look at the lease, when they have looked before."""
        self._session = session
        self._clock = clock
        self._follower: JournalFollower | None = None
        self._lease = lease or LeaseWatch(session)
        self._heartbeat = session.viewers / f"{os.getpid()}-{uuid4().hex[:8]}"
        self._beat_due = float("-inf")
        self._alive = True
        self._halted_pid = 0
        self._stamp: tuple[int, int, int] | None = None
        self._detail: LiveDetail | None = None
        """What live.json held when it had that stamp."""
        self._loaded = self._epoch = 0
        """The newest record of the last load, and the newest engine's epoch."""

    def load(self) -> tuple[SessionState, Sequence[Recorded]]:
        loaded = load_state(self._session)
        self._follower = JournalFollower(self._session, loaded)
        self._loaded, self._epoch = loaded.state.seq, loaded.state.epoch
        return loaded.state, loaded.events

    def news(self) -> Sequence[Recorded] | None:
        if self._follower is None:
            return None
        news = self._follower.poll()
        if news:
            self._epoch = news[-1].epoch
        return news

    def live(self) -> LiveDetail | None:
        """The owner's detail, the same again while it is; None while it writes none, or
        what lies there is older than the journal that was loaded: it is left lying when
        the last viewer goes, and when its engine dies."""
        try:
            status = self._session.live.stat()
        except OSError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._stamp, self._detail = stamp, None
            with suppress(EnvironmentFailed, JournalDamaged):
                data = read_if_there(self._session.live) or b""
                self._detail = decode(LiveDetail, data, "live.json", finite=False)
        detail = self._detail
        if not detail or detail.seq < self._loaded or detail.engine.epoch < self._epoch:
            return None
        return detail if self._alive else None

    def owner_alive(self) -> bool:
        holder = self._lease.find_holder()
        alive = self._lease.check_alive(holder, self._clock.monotonic())
        self._alive = alive is not Alive.NO
        self._halted_pid = holder.find_halted() if holder else 0
        return self._alive

    def halted_pid(self) -> int:
        return self._halted_pid

    def leave(self, order: Order) -> None:
        leave(self._session, order, self._clock.utc())

    def beat(self) -> bool:
        """Show the owner that somebody watches, every few seconds at most; False where
        that is not ours to write: there is no live detail then."""
        now = self._clock.monotonic()
        if now >= self._beat_due:
            try:
                if self._session.find_user():
                    return False
                make_directory(self._heartbeat.parent)
                self._heartbeat.touch(0o600)
            except (OSError, EnvironmentFailed):
                return False
            self._beat_due = now + BEAT_SECONDS
        return True

    def close(self) -> None:
        with suppress(OSError):  # it goes stale by itself
            self._heartbeat.unlink(missing_ok=True)
