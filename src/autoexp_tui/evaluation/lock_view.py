"""`run.lock.json`: who owns a search and when it was last alive, for people and
programs that look at its directory. The session's lease is the lock."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.atomic import write_atomic
from autoexp_tui.storage.json_codec import encode

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import Lease

LOCK: Final = "run.lock.json"


@dataclass
class ShownLease:
    """Implements `engine.ports.Lease`: a lease that shows each heartbeat."""

    lease: Lease
    directory: Path
    """The search's; before it is made nothing is shown."""
    epoch: int = field(init=False)
    since: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.epoch = self.lease.epoch

    def heartbeat(self) -> bool:
        """See `engine.ports`. That it cannot be shown says nothing of the lease; the
        journal meets the same disk, and tells of it."""
        is_ours = self.lease.heartbeat()
        if is_ours and self.directory.is_dir():
            shown = {
                "pid": os.getpid(),
                "hostname": socket.gethostname(),
                "created_at": self.since,
                "last_heartbeat_at": time.time(),
                "epoch": self.epoch,
            }
            with suppress(EnvironmentFailed):
                write_atomic(self.directory / LOCK, encode(shown))
        return is_ours

    def release(self) -> None:
        """Its file goes with a clean end; a successor's stays."""
        if self.lease.heartbeat():
            with suppress(OSError):
                (self.directory / LOCK).unlink(missing_ok=True)
        self.lease.release()
