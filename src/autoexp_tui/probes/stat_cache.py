"""What one batch of looks at the file system has seen: each path is asked once."""

from __future__ import annotations

import os
from contextlib import ExitStack

from autoexp_tui.storage.trust import open_regular


class OpenFile:
    """A file that several readers read alike: the same bytes are fetched once."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._parts: dict[tuple[int, int], bytes] = {}
        self.stat = os.fstat(handle)

    def pread(self, length: int, offset: int) -> bytes:
        """As `os.pread`; only the newest part is kept."""
        part = self._parts.get((length, offset))
        if part is None:
            part = os.pread(self._handle, length, offset)
            self._parts = {(length, offset): part}
        return part


class Glance:
    """Stats, listings and the newest open file of one batch, for one thread."""

    def __init__(self) -> None:
        self._newest = ExitStack()
        self._file: tuple[str, OpenFile | None] = ("", None)
        self._stats: dict[str, os.stat_result | OSError | None] = {}
        self._names: dict[str, list[str] | OSError] = {}

    def stat(self, path: str) -> os.stat_result | None:
        """As `os.stat`; None when there is nothing; raises OSError."""
        if path not in self._stats:
            try:
                self._stats[path] = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                self._stats[path] = None
            except OSError as error:
                self._stats[path] = error
        found = self._stats[path]
        if isinstance(found, OSError):
            raise found
        return found

    def list_names(self, directory: str) -> list[str]:
        """What is in a directory, sorted; nothing when there is none."""
        if directory not in self._names:
            try:
                self._names[directory] = sorted(os.listdir(directory or os.curdir))
            except (FileNotFoundError, NotADirectoryError):
                self._names[directory] = []
            except OSError as error:
                self._names[directory] = error
        found = self._names[directory]
        if isinstance(found, OSError):
            raise found
        return found

    def open(self, path: str) -> OpenFile | None:
        """A regular file, open until another one is asked for; None: there is none."""
        if path != self._file[0]:
            self.close()
            handle, _ = self._newest.enter_context(open_regular(path))
            self._file = (path, None if handle is None else OpenFile(handle))
        return self._file[1]

    def close(self) -> None:
        self._file = ("", None)
        self._newest.close()
