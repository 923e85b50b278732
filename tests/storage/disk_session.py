"""A session on a real disk, with an engine as small as the journal's contract needs."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.model.event import Recorded
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.atomic import sync_data
from autoexp_tui.storage.journal import encode_record, load_state, read_session
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import FileLease
from autoexp_tui.storage.live_sink import JournalFollower
from autoexp_tui.storage.session_dir import SessionDir

SYNC = "autoexp_tui.storage.journal_writer.sync_data"


def failing(code: int = errno.ENOSPC) -> Callable[..., Any]:
    """A call that the system refuses."""

    def call(*_args: object, **_named: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class Died(BaseException):
    """Stands for the end of the process at this very point."""


def die(*_args: object, **_named: object) -> None:
    """What a call does that the process does not survive."""
    raise Died


def tear(share: float) -> Callable[[int, bytes, int], None]:
    """A write that dies when only a part of the bytes is out."""

    def write(descriptor: int, data: bytes, offset: int) -> None:
        os.pwrite(descriptor, data[: int(len(data) * share)], offset)
        raise Died

    return write


KILLS: dict[str, tuple[str, object]] = {
    "no part yet": ("os.open", die),
    "part made, not durable": ("sync_directory", die),
    "part made, no link": ("FileJournal._show_current", die),
    "part empty": ("write_all", die),
    "seal torn": ("write_all", tear(0.5)),
    "seal whole, second event torn": ("write_all", tear(0.99)),
    "seal written, not synced": ("sync_data", die),
}
"""The steps at which a part begins, and what of `journal_writer` to replace there."""


@dataclass(eq=False)
class FixedLease(FileLease):
    """A lease that a test takes away by hand."""

    epoch: int
    ours: bool = True

    def is_held(self) -> bool:
        return self.ours

    def heartbeat(self) -> bool:
        return self.ours

    def release(self) -> None:
        self.ours = False


class DiskStore:
    """`journal_contract.Store` on a directory."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.session = SessionDir(path)
        self.session.make()
        self.patch = patch
        self.faults: list[str] = []
        self._leases: list[FixedLease] = []

    def acquire(self) -> tuple[FileLease, FileJournal]:
        for former in self._leases:
            former.ours = False
        lease = FixedLease(len(self._leases) + 1)
        self._leases.append(lease)
        return lease, FileJournal(self.session, lease, log_fault=self.faults.append)

    def load(self) -> SessionState:
        return load_state(self.session).state

    def records(self) -> list[Recorded]:
        return list(read_session(self.session))

    def follow(self) -> JournalFollower:
        return JournalFollower(self.session, load_state(self.session))

    def part(self, epoch: int = 1, segment: int = 0) -> Path:
        return self.session.get_part(epoch, segment)

    def add(self, *written: bytes | Recorded) -> None:
        """More at the end of the first part, by whoever it is."""
        with self.part().open("ab") as file:
            for one in written:
                file.write(encode_record(one) if isinstance(one, Recorded) else one)

    def refuse(self) -> None:
        """The next sync fails, after the bytes were written."""

        def refused(_descriptor: int) -> None:
            self.patch.setattr(SYNC, sync_data)
            failing()()

        self.patch.setattr(SYNC, refused)
