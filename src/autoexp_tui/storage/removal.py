"""Removes what foreign code left, below a directory that we made. It is reached from a
handle of that directory, name by name, and no link is followed: whatever lies there
when, nothing outside of it is touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Final

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_below(root: Path, inside: str | PurePath) -> bool:
    """Remove the file, link or tree at `inside` (names, without `..`) below `root`,
    however deep and whatever its modes; False: it is not there. What is left after a
    failure goes with the next call. Raises OSError; ValueError for another path."""
    names = PurePath(inside).parts
    if not names or ".." in names or PurePath(inside).is_absolute():
        raise ValueError(f"not a path below a directory: {inside}")
    handle = os.open(root, _DIRECTORY)
    try:
        for name in names[:-1]:
            inner = os.open(name, _DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = inner
        _remove(names[-1], handle)
    except FileNotFoundError:
        return False
    finally:
        os.close(handle)
    return True


def _remove(name: str, parent: int) -> None:
    if not _is_directory(name, parent):
        os.unlink(name, dir_fd=parent)
        return
    with _open_writable(name, parent) as top:
        _empty(top)
    os.rmdir(name, dir_fd=parent)


def _empty(top: int) -> None:
    """Inner directories are moved to the top and emptied there, so that no depth of
    them takes handles, paths or a stack."""
    while found := os.listdir(top):
        for name in found:
            if not _is_directory(name, top):
                os.unlink(name, dir_fd=top)
                continue
            with _open_writable(name, top) as inner:
                _raise_entries(inner, top)
            os.rmdir(name, dir_fd=top)


def _raise_entries(inner: int, top: int) -> None:
    for name in os.listdir(inner):
        if _is_directory(name, inner):
            with _open_writable(name, inner):  # to move one, it must be writable
                raised = f".removed-{os.urandom(8).hex()}"
                os.rename(name, raised, src_dir_fd=inner, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=inner)


def _is_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


@contextmanager
def _open_writable(name: str, parent: int) -> Iterator[int]:
    """A directory by its handle, made our own to read, write and enter."""
    try:
        handle = os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        # By a path handle, which needs no right to read: chmod would follow a link.
        path_handle = os.open(name, _DIRECTORY | os.O_PATH, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{path_handle}", stat.S_IRWXU)
        finally:
            os.close(path_handle)
        handle = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        mode = os.fstat(handle).st_mode
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(handle, stat.S_IMODE(mode) | stat.S_IRWXU)
        yield handle
    finally:
        os.close(handle)
