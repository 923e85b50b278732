"""Trust at one door: what of a shared disk is read as ours, and what is written into.

*Read as ours*: judged at the thing itself, through a handle. It must be a regular file,
or a directory, bounded in size, owned by the user and writable by nobody else; no pipe
is waited for and no link followed. Directories above it are not judged. *Written into*:
the person's word is taken down to the directory that they named. Refused is one that
everybody may write to without the sticky bit, or that is somebody else's, unless we may
write to it through a group. Below it every component is the user's own, or with
`project.share` a group member's, and a link is the user's or root's. Where a file
system makes up owner and mode (CIFS, FUSE), that owner is us, and modes say nothing."""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:  # its patterns take time to compile
    from autoexp_tui.model.masking import Share

MOST_BYTES: Final = 512 << 20
"""Of a file that is read at once: more than any plan has."""
RECORD_BYTES: Final = 4 << 20
"""Of a record: an owner, a lease, a command that names 100,000 jobs one by one."""

_AWAY: Final = "Move it away, and bring back the file if there was one."
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NAME: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Untrusted(PermissionError):
    """What lies there is refused; `strerror` says why."""

    hint: str = ""


def build_refusal(path: Path | str, reason: str, hint: str = "") -> Untrusted:
    error = Untrusted(errno.EPERM, reason, str(path))
    error.hint = hint
    return error


Who: TypeAlias = "Literal['anybody', 'own', 'session'] | Share"
"""Whose a file may be: *anybody*'s, links followed; the user's *own*; a *session*'s, of
its directory's owner too (read, never run); a member's of the group."""


@contextmanager
def open_regular(
    path: Path | str,
) -> Iterator[tuple[int | None, os.stat_result | None]]:
    """A regular file of anybody's, links followed, and its state (of its real size,
    which opening makes a file server tell); None: there is none; raises OSError."""
    try:
        handle, found = _open_file(path, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        yield None, None
        return
    try:
        yield handle, found
    finally:
        os.close(handle)


def open_checked(path: Path | str, who: Who, most: int = RECORD_BYTES) -> BinaryIO:
    """A regular file that only `who` may have written; raises Untrusted, OSError."""
    handle, found = _open_file(path, follow=who == "anybody")
    try:
        if found.st_size > most:
            problem = f"it has {found.st_size} bytes, more than {most}"
            raise build_refusal(path, problem, _AWAY)
        _require_writer(path, who, found)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_checked(path: Path | str, who: Who, most: int = RECORD_BYTES) -> bytes:
    """All of `open_checked`; raises as that."""
    with open_checked(path, who, most) as file:
        return file.read(most)


def read_foreign(path: Path | str, most: int) -> bytes:
    """All of a regular file that foreign code wrote, when none of its processes is
    left: no link, with no second name, at most `most` bytes; raises Untrusted,
    OSError."""
    handle, found = _open_file(path, follow=False)
    with os.fdopen(handle, "rb") as file:
        if found.st_nlink != 1:
            raise build_refusal(path, "it has a second name")
        if found.st_size > most:
            problem = f"it has {found.st_size} bytes, more than {most}"
            raise build_refusal(path, problem)
        return file.read(most)


def _open_file(path: Path | str, *, follow: bool) -> tuple[int, os.stat_result]:
    try:
        handle = os.open(path, _READ | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        odd = {errno.ELOOP: "a symbolic link", errno.ENXIO: "a socket or a device"}
        if error.errno in odd:
            raise build_refusal(path, f"it is {odd[error.errno]}", _AWAY) from error
        raise
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a device")
        raise build_refusal(path, f"it is {kind}, not a regular file", _AWAY)
    return handle, found


def _require_writer(path: Path | str, who: Who, found: os.stat_result) -> None:
    home = os.path.dirname(path) or os.curdir
    trusted = who == "anybody"
    if who == "session" and found.st_uid != os.geteuid():
        trusted = os.stat(home).st_uid == found.st_uid  # another's, in that other's
    if who in ("group", "group_write"):
        others = stat.S_IWOTH if who == "group_write" else _OTHERS_WRITE
        ours = _is_members(found) or _is_mine(found.st_uid, home)
        trusted = ours and not found.st_mode & others
    if trusted:
        return
    if not _is_mine(found.st_uid, home):
        problem = f"it belongs to {format_user(found.st_uid)}, not to you"
        raise build_refusal(path, problem, "Ask them for it, or move it away.")
    if _is_open_to_others(found, home):
        mode = stat.S_IMODE(found.st_mode)
        hint = f"If nobody changed it: chmod go-w {path}"
        raise build_refusal(path, f"others may write to it (mode {mode:04o})", hint)


_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a regular file",
}


def find_session_user(path: Path | str) -> str:
    """The other user whose session it is; empty: our own; raises Untrusted, OSError."""
    found = _read_session(path)
    return "" if _is_mine(found.st_uid, path) else format_user(found.st_uid)


def require_own_session(path: Path | str) -> None:
    """Refuse a session that is not the user's alone; raises Untrusted, OSError."""
    found = _read_session(path)
    if not _is_mine(found.st_uid, path):
        place, name = os.path.split(path)
        owner = format_user(found.st_uid)
        problem = f"this session belongs to {owner}; what it runs would run as you"
        hint = (
            f"`autoexp-tui --session {name} --state-dir {place}` looks at it and runs "
            "nothing. To run the same, plan it from its config."
        )
        raise build_refusal(path, problem, hint)
    if _is_open_to_others(found, path):
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        problem = f"others may write to this session ({mode}), and change what it runs"
        hint = f"If nobody has: chmod -R go-w {path}"
        raise build_refusal(path, f"{problem} as you", hint)


def _read_session(path: Path | str) -> os.stat_result:
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a device")
        raise build_refusal(path, f"it is {kind}, not a session's directory", _AWAY)
    return found


_ELSEWHERE: Final = (
    "Choose another place; or, if whoever may write there may have your results: "
    "autoexp-sessions trust {path}"
)


def require_place(place: Path | str) -> None:
    """Refuse a directory that the user named, if others may meddle there; one that is
    not there is made by us. Raises Untrusted or OSError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        found = os.stat(place)
        if reason := _explain_place(place, found):
            _require_accepted(place, found, reason)


def require_below(
    place: Path | str, target: Path | str, share: Share = "private"
) -> None:
    """Refuse `target` when what leads from `place` to it is not the user's own, nor,
    when shared, a group member's; one elsewhere was named. Raises Untrusted or
    OSError."""
    inside = os.path.relpath(os.path.abspath(target), os.path.abspath(place))
    if inside.split(os.sep)[0] == os.pardir:
        require_place(target)
        return
    require_place(place)
    with suppress(FileNotFoundError, NotADirectoryError):
        here, handle = str(place), os.open(place, _NAME | os.O_DIRECTORY)
        try:
            owner = os.fstat(handle).st_uid
            for name in inside.split(os.sep):
                inner = _open_component(handle, here, name)
                os.close(handle)
                handle, here = inner, os.path.join(here, name)
                found = os.fstat(handle)
                if reason := _explain_component(here, found, owner, share):
                    _require_accepted(here, found, reason)
        finally:
            os.close(handle)


def require_logs(
    base: Path | str, log_dir: Path | str, share: Share = "private"
) -> None:
    """As `require_below`: below the outputs through them, else the parent was named."""
    inside = os.path.abspath(log_dir).startswith(os.path.abspath(base) + os.sep)
    require_below(base if inside else os.path.dirname(log_dir), log_dir, share)


def _open_component(handle: int, here: str, name: str) -> int:
    """Open a directory by the handle of the one above it, `here`; a link is judged."""
    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    is_link = stat.S_ISLNK(found.st_mode)
    if is_link and found.st_uid != 0 and not _is_mine(found.st_uid, here):
        path = os.path.join(here, name)
        problem = f"it is a link that {format_user(found.st_uid)} made"
        hint = _ELSEWHERE.format(path=os.path.realpath(path))
        raise build_refusal(path, problem, hint)
    follow = 0 if is_link else os.O_NOFOLLOW
    return os.open(name, _NAME | os.O_DIRECTORY | follow, dir_fd=handle)


def _explain_component(
    here: str, found: os.stat_result, owner: int, share: Share
) -> str:
    """Why a directory below a place of `owner` is refused; empty: it is not."""
    if opened := _explain_open(here, found):
        return opened
    trusted = found.st_uid == 0 or _is_mine(found.st_uid, here)
    # Who owns the place may put anything there; root was told to use it.
    root = os.geteuid() == 0 and found.st_uid == owner
    if trusted or root or (share != "private" and _is_members(found)):
        return ""
    return f"it belongs to {format_user(found.st_uid)}"


def _explain_place(place: Path | str, found: os.stat_result) -> str:
    """Why a directory that the user named is refused; empty: it is not."""
    if not stat.S_ISDIR(found.st_mode):
        return ""  # told where it is used
    if opened := _explain_open(place, found):
        return opened
    if found.st_uid == 0 or os.geteuid() == 0 or _is_mine(found.st_uid, place):
        return ""
    # Through a group of ours, or through an access list, whose mask is shown as such.
    grouped = found.st_mode & stat.S_IWGRP and not found.st_mode & stat.S_IWOTH
    if grouped and os.access(place, os.W_OK):
        return ""
    return f"it belongs to {format_user(found.st_uid)}"


def _explain_open(near: Path | str, found: os.stat_result) -> str:
    is_open = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    if not is_open or not _file_system(near).modes:
        return ""
    mode = stat.S_IMODE(found.st_mode)
    return f"everybody may write to it (mode {mode:04o}, without the sticky bit)"


def has_no_modes(place: Path | str) -> bool:
    """Whether a directory looks open to everybody only because modes are made up."""
    with suppress(OSError):
        found = os.stat(place)
        return bool(found.st_mode & _OTHERS_WRITE) and not _file_system(place).modes
    return False


@dataclass(frozen=True, slots=True)
class Accepted:
    """A directory whose odd owner or mode the user accepted."""

    path: str
    """As it really is, links resolved."""
    device: int
    inode: int
    owner: int


def get_accepted_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".config")
    return Path(base, "autoexp-tui", "trusted.json")


def build_accepted(place: Path | str, found: os.stat_result | None = None) -> Accepted:
    """The directory as it is recorded; raises OSError."""
    found = found or os.stat(place)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    path = os.path.realpath(place)
    return Accepted(path, found.st_dev, found.st_ino, found.st_uid)


def load_accepted() -> tuple[Accepted, ...]:
    """What the user accepted; nothing where that cannot be read; raises Untrusted."""
    try:
        tree: Any = json.loads(read_checked(get_accepted_file(), "own"))
        return tuple(Accepted(**entry) for entry in tree)
    except Untrusted:
        raise
    except (OSError, ValueError, TypeError):
        return ()


def encode_accepted(entries: tuple[Accepted, ...]) -> bytes:
    return json.dumps([asdict(entry) for entry in entries], indent=1).encode() + b"\n"


def _require_accepted(place: Path | str, found: os.stat_result, reason: str) -> None:
    accepted = build_accepted(place, found)
    if accepted not in load_accepted():
        raise build_refusal(place, reason, _ELSEWHERE.format(path=accepted.path))


def format_user(uid: int) -> str:
    """How people know a user: `alice`, or `user 1001`."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return f"user {uid}"


def _is_mine(uid: int, near: Path | str) -> bool:
    """Whether an owner is us, by the name that the file system near by gives us."""
    return uid == os.geteuid() or uid == _file_system(near).owner


def _is_members(found: os.stat_result) -> bool:
    """Whether a group of ours has it, and the owner is a member of that group."""
    if found.st_gid not in (os.getegid(), *os.getgroups()):
        return False
    try:
        owner = pwd.getpwuid(found.st_uid)
        return found.st_gid in os.getgrouplist(owner.pw_name, owner.pw_gid)
    except (KeyError, OSError):
        return False  # nobody here can tell


def _is_open_to_others(found: os.stat_result, near: Path | str) -> bool:
    if not found.st_mode & _OTHERS_WRITE:
        return False
    if not found.st_mode & stat.S_IWOTH:
        with suppress(KeyError, OSError):  # some systems make a group for each user
            me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(found.st_gid)
            alone = not set(group.gr_mem) - {me.pw_name}
            own = (group.gr_gid, group.gr_name) == (me.pw_gid, me.pw_name)
            if own and alone:
                return False
    return _file_system(near).modes


class _FileSystem(NamedTuple):
    owner: int
    """Of what we make."""
    modes: bool
    """Whether what we close to others reads back as closed."""


_PROBED: dict[int, _FileSystem] = {}


def _file_system(near: Path | str) -> _FileSystem:
    """What a file system makes of our owner and modes; asked only where it matters."""
    usual = _FileSystem(os.geteuid(), modes=True)
    with suppress(OSError):
        home = near if os.path.isdir(near) else os.path.dirname(near)
        device = os.stat(home).st_dev
        if device not in _PROBED:
            _PROBED[device] = _test_file_system(home)
        return _PROBED[device]
    return usual


def _test_file_system(directory: Path | str) -> _FileSystem:
    path = os.path.join(directory, f".autoexp-probe-{os.urandom(6).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
        os.unlink(path)
    return _FileSystem(found.st_uid, not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO))
