"""Gives up rights, then becomes the command: the last step before foreign code.

Started as `python launcher.py SPEC... -- COMMAND...`, on whatever machine the command
runs, so it imports the standard library alone, of that what starts fast (json alone
takes as long as Python itself), and keeps to what Python 3.6 understands. `SPEC` is
words `key=value`, of which several may have one key:

    abi       of Landlock, whose rights are given up; 0: none. A kernel that knows less
              was promised more than it holds: nothing is started
    writable  a directory or file that the command may change
    devices   a device file, or directory of them, that it may read, write and control
    readable  what it may read and run; one that is not there is left out
    tcp       a port it may connect to, 0 for none; without the key TCP stays as it is
    env       a variable to set, `NAME=value`
    limits    `NAME=number`, of a resource without RLIMIT_
    is_init   it is the first process of a namespace: the command becomes its child,
              and once that has ended the kernel ends all others

Everything but that is inherited: directory, variables, standard streams. Other open
files are closed. What fails before the command starts is told on stderr, and ends with
a status of sysexits.h: EX_UNAVAILABLE for the fence, 126 and 127 as of shells for the
command itself.

Landlock: linux/landlock.h, Documentation/userspace-api/landlock.rst.
"""

import _signal as signal  # type: ignore[import-not-found]  # without its enums
import ctypes
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # annotations are never evaluated
    from typing import NoReturn

    Spec = dict[str, list[str]]

EX_UNAVAILABLE, CANNOT_RUN, NOT_FOUND = 69, 126, 127
LIBC = ctypes.CDLL(None, use_errno=True)
RESTORED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
"""Signals that whoever is around the command ignores, and Python itself."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""System calls; their numbers are the same on all architectures but Alpha."""
_VERSION_FLAG, _PATH_BENEATH, _NET_PORT = 1, 1, 2
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 23, 24, 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK, TRUNCATE, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a rule on a file may name; a kernel refuses others."""
READING = EXECUTE | READ_FILE | READ_DIR
DEVICES = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV
TCP_RIGHTS = BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPES = 3
"""Abstract Unix sockets and signals."""
NEWEST_ABI = 6
"""What later ones add is not asked for."""


def list_rights(abi: int) -> int:
    """All rights over files that a kernel of this ABI can take."""
    bits = 13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16
    return (1 << bits) - 1


def read_abi() -> int:
    """The newest ABI that this kernel and we know; 0: no Landlock here."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return min(_call(_CREATE_RULESET, None, 0, _VERSION_FLAG), NEWEST_ABI)
    except (OSError, AttributeError):  # a kernel without, switched off, or filtered
        return 0


def restrict(spec: "Spec", abi: int) -> None:
    """Give up for good what the spec does not name; raises OSError."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if not abi:
        return
    if os.geteuid() == 0:
        _drop_capabilities()
    rights = list_rights(abi)
    fences_tcp = abi >= 4 and "tcp" in spec
    parts = [rights]
    parts += [BIND_TCP | CONNECT_TCP if fences_tcp else 0] * (abi >= 4)
    parts += [SCOPES] * (abi >= 6)
    attributes = struct.pack(f"={len(parts)}Q", *parts)
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    for path in spec["writable"]:
        _allow_path(ruleset, path, rights & ~(IOCTL_DEV | MAKE_CHAR | MAKE_BLOCK))
    for path in spec["devices"]:
        _allow_path(ruleset, path, rights & DEVICES)
    for path in filter(os.path.exists, spec["readable"]):
        _allow_path(ruleset, path, READING)
    for port in filter(None, map(int, spec["tcp"])) if fences_tcp else ():
        _call(_ADD_RULE, ruleset, _NET_PORT, struct.pack("=QQ", CONNECT_TCP, port), 0)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _drop_capabilities() -> None:
    """Take from root what no rule on paths stops: modules, devices, other users."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for number in range(last + 1):
        if _prctl(_PR_CAPBSET_READ, number):
            _prctl(_PR_CAPBSET_DROP, number)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= FILE_RIGHTS
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


def _call(number: int, *arguments: "int | bytes | None") -> int:
    words = (ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
    return _check(LIBC.syscall(ctypes.c_long(number), *words))


def _prctl(option: int, value: int) -> int:
    return _check(LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def close_files() -> None:
    """All but the standard streams."""
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2:
                os.close(number)
        except OSError:  # the list's own is closed already
            continue


def limit(resources: "dict[str, int]") -> None:
    """Set soft and hard limits; one that is lower already stays. No core is dumped."""
    for name, number in dict(resources, CORE=0).items():
        kind = getattr(resource, "RLIMIT_" + name)
        _, hard = resource.getrlimit(kind)
        most = number if hard == resource.RLIM_INFINITY else min(number, hard)
        resource.setrlimit(kind, (most, most))


def execute_as_init(command: "list[str]") -> "NoReturn":
    """Run the command, and reap whoever is orphaned, until it has ended."""
    child = os.fork()
    if not child:
        execute(command)
    done, status = os.wait()
    while done != child:
        done, status = os.wait()
    code = os.WEXITSTATUS(status)
    sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else code)


def execute(command: "list[str]") -> "NoReturn":
    """Become the command."""
    for number in RESTORED:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        places = os.environ.get("PATH", os.defpath).split(os.pathsep)
        if not any(os.path.exists(os.path.join(one, command[0])) for one in places):
            _fail(f"cannot run {command[0]}: there is no such program", NOT_FOUND)
        _fail(f"cannot run {command[0]}: {error.strerror}", CANNOT_RUN)


def _fail(reason: str, status: int) -> "NoReturn":
    text = f"isolation: {reason}\n"
    sys.stderr.write(text.encode("ascii", "backslashreplace").decode("ascii"))
    sys.exit(status)


def main(arguments: "list[str]") -> "NoReturn":
    end = arguments.index("--")
    spec: Spec = {"writable": [], "devices": [], "readable": []}
    for word in arguments[:end]:
        key, _, value = word.partition("=")
        spec.setdefault(key, []).append(value)
    wanted, abi = int(spec["abi"][0]), read_abi()
    if abi < wanted:
        promised = f"Landlock ABI {wanted} was promised, this kernel knows {abi}"
        _fail(f"{promised}: nothing was started", EX_UNAVAILABLE)
    try:
        close_files()
        os.environ.update(word.partition("=")[::2] for word in spec["env"])
        limits = (word.partition("=")[::2] for word in spec["limits"])
        limit({name: int(number) for name, number in limits})
        restrict(spec, wanted)
    except (OSError, ValueError) as error:
        _fail(f"{error}: nothing was started", EX_UNAVAILABLE)
    (execute_as_init if "is_init" in spec else execute)(arguments[end + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
