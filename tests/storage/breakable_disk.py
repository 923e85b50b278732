"""A layer under the files of a test: writes below a directory fail when told.

What reads goes on; what would create, write, rename, link, sync or make a directory
raises the chosen error while the disk is broken. Each such call is counted, so that a
test can break the disk at the n-th write of a campaign.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_BY_PATH = ("replace", "link", "mkdir", "symlink")
_BY_DESCRIPTOR = ("pwrite", "write", "fsync")


class BreakableDisk:
    """Everything below `root` is on it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = str(root)
        self.code = 0
        """The error that writes raise; 0: the disk is well."""
        self.writes = 0
        """So many were tried."""
        self.break_at: tuple[int, int] | None = None
        """(number of a write, error): the disk breaks there."""
        self._real_open = os.open
        monkeypatch.setattr(os, "open", self._open)
        for name in _BY_PATH:
            monkeypatch.setattr(os, name, self._by_path(getattr(os, name)))
        for name in _BY_DESCRIPTOR:
            monkeypatch.setattr(os, name, self._by_descriptor(getattr(os, name)))
        sync = "autoexp_tui.storage.journal_writer.sync_data"
        monkeypatch.setattr(sync, self._by_descriptor(os.fsync))

    def _strike(self, path: str) -> None:
        if not path.startswith(self.root):
            return
        if self.break_at is not None and self.writes >= self.break_at[0]:
            self.code, self.break_at = self.break_at[1], None
        self.writes += 1
        if self.code:
            raise OSError(self.code, os.strerror(self.code), path)

    def _open(self, path: Any, flags: int, *args: Any, **named: Any) -> int:
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            self._strike(os.fspath(path))
        return self._real_open(path, flags, *args, **named)

    def _by_path(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **named: Any) -> Any:
            self._strike(os.fspath(path))
            return real(path, *args, **named)

        return call

    def _by_descriptor(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *args: Any, **named: Any) -> Any:
            self._strike(os.readlink(f"/proc/self/fd/{descriptor}"))
            return real(descriptor, *args, **named)

        return call
