"""Opens regular files to read, and nothing else: no pipe is waited for.

Opening a file, rather than asking for its state alone, also makes a network file
system tell its real size.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def opened(path: str) -> Iterator[int | None]:
    """A regular file to read; None when there is none.

    Raises:
        OSError: it is there, or may be, and cannot be read.
    """
    with looked_at(path) as (handle, _):
        yield handle


@contextmanager
def looked_at(path: str) -> Iterator[tuple[int | None, os.stat_result | None]]:
    """As `opened`, with its state."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield None, None
        return
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        yield handle, found
    finally:
        os.close(handle)
