"""Whole files or nothing, and disk errors as sentences. A crash leaves at most a
dot-file. The umask stays the user's own: a mode that it might take bits from is set
behind it, and only on what was just made."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.trust import Untrusted

if TYPE_CHECKING:
    from autoexp_tui.model.masking import Share

sync_data = getattr(os, "fdatasync", os.fsync)
"""Bytes and size of a file to the disk; macOS has only the slower fsync."""

Place: TypeAlias = Literal["state", "output", "logs"]
"""Whose place on disk it is, and hence how another one is chosen."""
_ELSEWHERE: Final[Mapping[Place, str]] = MappingProxyType(
    {
        "state": "choose another place with --state-dir",
        "output": "choose another project.base_output_dir",
        "logs": "choose another slurm.log_dir",
    }
)

_REMEDIES: Final = {
    errno.ENOSPC: "The disk is full: free some space there, or {elsewhere}.",
    errno.EDQUOT: "Your quota there is used up: free some space, or {elsewhere}.",
    errno.EROFS: "It is mounted read-only: {elsewhere}.",
    errno.EACCES: "Check who owns it and its mode (`ls -ld`), or {elsewhere}.",
    errno.EPERM: "Check who owns it and its mode (`ls -ld`), or {elsewhere}.",
    errno.ENOENT: "The directory is gone or was never made: check the path.",
    errno.ENOTDIR: "A part of the path is a file, not a directory: check the path, "
    "or {elsewhere}.",
    errno.EEXIST: "A file has the name of the directory: move it away, or {elsewhere}.",
    errno.EFBIG: "A limit on file sizes was reached (`ulimit -f`): raise it.",
    errno.ESTALE: "The file server forgot the file: check the mount, then try again.",
    errno.EIO: "The disk or the file server failed: check it, then try again.",
}
PASSING: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
"""Errors that time, a little room or a mended disk may end: try again."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True, slots=True)
class Modes:
    """Of what we make."""

    directory: int = 0o700
    file: int = 0o600


PRIVATE: Final = Modes()
MODES: Final[Mapping[Share, Modes]] = MappingProxyType(
    {
        "private": PRIVATE,
        "group": Modes(0o2750, 0o640),
        "group_write": Modes(0o2770, 0o660),
    }
)
"""The setgid bit gives the group of a directory to what is made in it."""
SESSION_MODES: Final[Mapping[Share, Modes]] = MappingProxyType(
    {**MODES, "group_write": MODES["group"]}
)
"""Of a session, in which nobody else ever writes."""


def explain(
    error: OSError, path: Path | str, doing: str, place: Place = "state"
) -> EnvironmentFailed:
    """`error` as a sentence. Without `doing`, what is not trusted is told for
    itself."""
    reason = error.strerror or str(error)
    if isinstance(error, Untrusted):
        problem = f"cannot {doing}: {reason}" if doing else reason
        return EnvironmentFailed(problem, str(error.filename), error.hint)
    remedy = find_remedy(error, place)
    return EnvironmentFailed(
        f"cannot {doing}: {reason}", str(path), remedy, error.errno in PASSING
    )


def find_remedy(error: OSError, place: Place) -> str:
    """The next step after a disk error, as a sentence; empty: none is known."""
    return _REMEDIES.get(error.errno or 0, "").format(elsewhere=_ELSEWHERE[place])


@contextmanager
def explaining(path: Path | str, doing: str, place: Place = "state") -> Iterator[None]:
    """Turn an OSError of the block into an EnvironmentFailed about `path`."""
    try:
        yield
    except OSError as error:
        raise explain(error, path, doing, place) from error


def write_atomic(
    path: Path,
    data: bytes,
    mode: int = 0o600,
    *,
    durable: bool = True,
    place: Place = "state",
) -> None:
    """Make `path` hold `data`, all or nothing; `durable` survives a power cut, by two
    syncs; raises EnvironmentFailed."""
    with (
        explaining(path, "write", place),
        _temporary(path, data, mode, durable=durable) as temporary,
    ):
        os.replace(temporary, path)
        if durable:
            sync_directory(path.parent)


def link_new(
    path: Path,
    data: bytes,
    mode: int = 0o600,
    *,
    durable: bool = True,
    place: Place = "state",
) -> bool:
    """Create `path` with `data`, whole at once; False when it exists: of any number
    that try, on NFS and Lustre too, one gets True; raises EnvironmentFailed."""
    with (
        explaining(path, "create", place),
        _temporary(path, data, mode, durable=durable) as temporary,
    ):
        created = True
        try:
            os.link(temporary, path)
        except FileExistsError:
            # NFS repeats a call whose answer was lost, and then finds its own work.
            created = temporary.stat().st_nlink > 1
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            problem = "this file system knows no hard links"
            hint = f"On a disk that does: {_ELSEWHERE[place]}."
            raise EnvironmentFailed(problem, str(path.parent), hint) from error
        if created and durable:
            sync_directory(path.parent)
    return created


def make_directory(path: Path, mode: int = 0o700, *, place: Place = "state") -> None:
    """Make `path` and its parents; what exists keeps its mode; raises
    EnvironmentFailed."""
    with explaining(path, "make the directory", place):
        make_private(path, mode)


def make_private(path: Path, mode: int = 0o700) -> None:
    # pathlib and os give the mode to the last directory alone.
    if path.is_dir():
        return
    missing = takewhile(lambda one: not os.path.lexists(one), path.parents)
    for one in reversed([path, *missing]):
        try:
            one.mkdir(mode)
        except FileExistsError:
            if not one.is_dir():
                raise
        else:
            if mode & 0o070:  # a umask has no say in it, and mkdir sets no group bit
                one.chmod(mode)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable; file systems without that are let be."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def open_with_mode(path: Path, flags: int, mode: int) -> int:
    """Open a file; a new one has `mode`, without the umask's say; raises OSError."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        if mode & 0o070 and not mode & 0o007 and not os.fstat(descriptor).st_size:
            os.fchmod(descriptor, mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write `data` at `offset`, as one call unless the system cuts it short."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


@contextmanager
def _temporary(path: Path, data: bytes, mode: int, *, durable: bool) -> Iterator[Path]:
    """A file beside `path` that holds `data`, and is gone after."""
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(6).hex()}.tmp")
    try:
        descriptor = open_with_mode(temporary, os.O_WRONLY | os.O_EXCL, mode)
        try:
            write_all(descriptor, data, 0)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield temporary
    finally:
        with suppress(OSError):  # a left-over dot-file harms nobody
            temporary.unlink()
