"""The right to write one session: one owner, whatever dies, stops or loses the network.

Each engine links `lease/<epoch>.json`, one number above the highest; of any number that
try, one succeeds, and no file is overwritten. A higher number deposes (see
`journal`). A holder on this host is judged by its process, one elsewhere by its
heartbeat, the changing mtime of its file, against *this* process's monotonic clock."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.model.rules import LOCK_STALE_SECONDS, SHORTEST_LOCK_STALE_SECONDS
from autoexp_tui.model.wording import wakes
from autoexp_tui.storage.atomic import explaining, link_new, make_directory
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.trust import open_checked
from autoexp_tui.text.sanitize import clean

_NAME = re.compile(r"([1-9][0-9]*)\.json")
WAIT_STEP_SECONDS = 1.0
"""Between two looks while waiting for a lease."""
UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Of JSON that is not what we write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds, or held, the highest epoch."""

    epoch: int
    identity: Identity | None
    """None when its file does not read."""
    since: float
    """UTC by the holder's clock, for people."""
    released: bool
    mtime_ns: int
    stale_seconds: float = LOCK_STALE_SECONDS
    """Its heartbeat must have been seen still for so long before it counts as dead."""

    def __str__(self) -> str:
        if self.identity is None:
            return "an engine whose lease does not read"
        who = f"host {clean(self.identity.host)}, pid {self.identity.pid}"
        try:
            since = datetime.fromtimestamp(self.since, UTC)
        except (ValueError, OverflowError, OSError):
            return who
        return f"{who}, since {since.strftime('%Y-%m-%d %H:%M UTC')}"

    def describe(self) -> str:
        """Who it is, and whether it was stopped and can answer nothing."""
        pid = self.find_halted()
        stopped = (
            f", stopped by Ctrl-Z or SIGSTOP: {wakes(pid)} wakes it" if pid else ""
        )
        return f"{self}{stopped}"

    def find_halted(self) -> int:
        """Its pid when it was stopped by Ctrl-Z or SIGSTOP on this host; else 0."""
        one = None if self.released else self.identity
        return one.pid if one and one.is_halted(Identity.get_own()) else 0


class FileLease:
    """A held lease. Implements `ports.Lease`."""

    def __init__(self, session: SessionDir, epoch: int) -> None:
        self.session = session
        self.epoch = epoch
        self._path = session.lease / f"{epoch}.json"
        self._next = session.lease / f"{epoch + 1}.json"

    def is_held(self) -> bool:
        return not self._next.exists()

    def heartbeat(self) -> bool:
        """Touch one's own file; False when the session is another's. A disk that fails,
        or a session that was moved, says nothing of that: the journal meets the
        same."""
        try:
            os.utime(self._path)
            return self.is_held()
        except FileNotFoundError:
            return not self.session.lease.exists()
        except OSError:
            return True

    def release(self) -> None:
        mark = self.session.lease / f"{self.epoch}.released"
        link_new(mark, b"", durable=False)


class LeaseWatch:
    """Looks at a session's lease again and again; `now` is monotonic, `utc` the
    wall's."""

    def __init__(self, session: SessionDir, *, me: Identity | None = None) -> None:
        self._session = session
        self._me = me or Identity.get_own()
        self._seen: tuple[int, int] = (0, 0)
        self._seen_at = 0.0
        self._moved = False

    def find_holder(self) -> Holder | None:
        """Who holds the highest epoch; None before the first; raises
        EnvironmentFailed."""
        with explaining(self._session.lease, "read the lease"):
            epoch = find_highest_epoch(self._session)
            return _read_holder(self._session, epoch) if epoch else None

    def check_alive(self, holder: Holder | None, now: float) -> Alive:
        """Whether the holder's engine lives; UNKNOWN: it is elsewhere, and its
        heartbeat has neither moved nor been still for long enough while this object
        watched."""
        if holder is None or holder.released:
            return Alive.NO
        if holder.identity is not None:
            here = holder.identity.check_alive(self._me)
            if here is not Alive.UNKNOWN:
                return here
        seen = (holder.epoch, holder.mtime_ns)
        if self._seen != seen:
            self._moved = self._seen[0] == holder.epoch
            self._seen, self._seen_at = seen, now
        elif now - self._seen_at >= holder.stale_seconds:
            return Alive.NO
        return Alive.YES if self._moved else Alive.UNKNOWN

    def take_if_free(
        self,
        now: float,
        utc: float,
        stale_seconds: float | None = None,
        *,
        force: bool = False,
    ) -> FileLease | None:
        """Take the session; None while another may own it, unless by `force`: that one
        stops at its next write. `stale_seconds`: what the lease says of itself; None:
        as the former holder. Raises EnvironmentFailed."""
        self._session.require_own()
        modes = self._session.read_modes()
        make_directory(self._session.lease, modes.directory)
        holder = self.find_holder()
        if not force and self.check_alive(holder, now) is not Alive.NO:
            return None
        epoch = holder.epoch + 1 if holder else 1
        if stale_seconds is None:
            stale_seconds = holder.stale_seconds if holder else LOCK_STALE_SECONDS
        head = {"epoch": epoch, "since": utc, "stale_seconds": stale_seconds}
        data = json.dumps(head | asdict(self._me)).encode()
        if not link_new(self._session.lease / f"{epoch}.json", data, modes.file):
            return None  # another was faster
        return FileLease(self._session, epoch)


def find_engine(session: SessionDir) -> tuple[Holder | None, Alive]:
    """Who holds a session, and whether that engine lives; raises EnvironmentFailed."""
    watch = LeaseWatch(session)
    holder = watch.find_holder()
    return holder, watch.check_alive(holder, 0.0)


def take_lease(
    session: SessionDir,
    clock: Clock,
    *,
    wait: float = 0.0,
    me: Identity | None = None,
    stale_seconds: float | None = None,
    watch: LeaseWatch | None = None,
    pause: Callable[[float], None] = time.sleep,
    force: bool = False,
) -> FileLease:
    """Become the session's owner within `wait` seconds; a heartbeat that `watch` saw
    stand still counts. By `force` whoever owns it now. Raises SessionOwned or
    EnvironmentFailed."""
    watch = watch or LeaseWatch(session, me=me)
    deadline = clock.monotonic() + wait
    while True:
        now = clock.monotonic()
        lease = watch.take_if_free(now, clock.utc(), stale_seconds, force=force)
        if lease is not None:
            return lease
        if now >= deadline:
            holder = watch.find_holder()
            place = f"--state-dir {session.state_dir}"
            hint = (
                f"`autoexp-tui --session {session.id} {place}` watches it; "
                f"`autoexp-sessions stop {session.id} {place}` ends its engine and "
                "leaves its jobs running."
            )
            if watch.check_alive(holder, now) is Alive.UNKNOWN:
                still = holder.stale_seconds if holder else LOCK_STALE_SECONDS
                hint += (
                    " If that engine is dead, the session is free once its heartbeat "
                    f"has been seen still for {still:.0f} s."
                )
            who = holder.describe() if holder else "another engine"
            raise SessionOwned(f"session {session.id} is owned by {who}", hint=hint)
        pause(min(WAIT_STEP_SECONDS, deadline - now))


def find_highest_epoch(session: SessionDir) -> int:
    """The highest epoch that was ever taken, 0 for none; raises OSError."""
    try:
        names = os.listdir(session.lease)
    except FileNotFoundError:
        return 0
    found = (_NAME.fullmatch(name) for name in names)
    return max((int(match[1]) for match in found if match), default=0)


def _read_holder(session: SessionDir, epoch: int) -> Holder:
    # Opening asks a file server anew; a bare stat may answer from its cache.
    with open_checked(session.lease / f"{epoch}.json", "session") as file:
        data = file.read(65536)
        mtime_ns = os.fstat(file.fileno()).st_mtime_ns
    identity, since, stale_seconds = None, 0.0, float(LOCK_STALE_SECONDS)
    with suppress(*UNREADABLE):
        tree = json.loads(data)
        found = float(tree.get("stale_seconds", LOCK_STALE_SECONDS))
        since, identity = float(tree["since"]), Identity.from_json(tree)
        if found >= SHORTEST_LOCK_STALE_SECONDS:  # nan is none either
            stale_seconds = found
    return Holder(
        epoch=epoch,
        identity=identity,
        since=since,
        released=(session.lease / f"{epoch}.released").exists(),
        mtime_ns=mtime_ns,
        stale_seconds=stale_seconds,
    )
