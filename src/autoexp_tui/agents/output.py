"""What a program prints, as it comes: bounded, and cut into lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

_READ_BYTES: Final = 1 << 20
_MOST_LINE_BYTES: Final = 32 << 20
"""A longer line is no event."""
_TAIL_BYTES: Final = 64 << 10
"""Of the end of a transcript that is too long, and of what a program said."""


class Transcript:
    """A bounded file of what was printed: its beginning and its end."""

    def __init__(self, path: Path, most: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(path, flags, 0o600), "wb")
        self._room = most
        self._tail = Tail(min(_TAIL_BYTES, most))

    def write(self, data: bytes) -> None:
        """Raises OSError."""
        self._file.write(data[: self._room])
        self._tail.add(data[self._room :])
        self._room -= min(self._room, len(data))
        self._file.flush()

    def close(self) -> None:
        with self._file:
            if dropped := self._tail.total - len(self._tail.data):
                self._file.write(f"\n[{dropped} bytes left out]\n".encode())
            self._file.write(self._tail.data)


@dataclass(slots=True)
class Tail:
    """The last bytes of what is added."""

    most: int = _TAIL_BYTES
    total: int = 0
    data: bytes = b""

    def add(self, more: bytes) -> None:
        self.total += len(more)
        self.data = (self.data + more[-self.most :])[-self.most :]

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace").strip()


@dataclass(slots=True)
class Lines:
    """Whole lines of a stream that comes in parts; those too long are dropped."""

    read: Callable[[bytes], None]
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._keep(line)
            self.flush()
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= _MOST_LINE_BYTES:
            self._parts.append(part)

    def flush(self) -> None:
        """The line so far is a whole one."""
        if 0 < self._size <= _MOST_LINE_BYTES:
            self.read(b"".join(self._parts))
        self._parts, self._size = [], 0


@dataclass(slots=True)
class Stream:
    """An output of a program."""

    pipe: IO[bytes]
    transcript: Transcript
    lines: Lines | None = None
    tail: Tail = field(default_factory=Tail)

    def read_more(self) -> bool:
        """Whether more may come; raises BlockingIOError: not yet."""
        data = os.read(self.pipe.fileno(), _READ_BYTES)
        self.transcript.write(data)
        self.tail.add(data)
        if self.lines:
            self.lines.add(data) if data else self.lines.flush()
        return bool(data)
