"""The kinds of isolation, and which one a command gets: the strongest that works here,
never a weaker one in silence. All but the container's end with the launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from autoexp_tui.isolation.launcher import read_abi
from autoexp_tui.isolation.port import FILES, Isolation, Profile, Promise
from autoexp_tui.isolation.profiles import find_executable
from autoexp_tui.model.errors import UsageError

Wanted: TypeAlias = Literal["require", "prefer", "none"]
"""`require`: refuse where files cannot be fenced. `prefer`: the strongest that there
is, which may be none, and that is told. `none`: none."""
LAUNCHER: Final = Path(__file__).with_name("launcher.py")
REMEDY: Final = (
    "Install bubblewrap (apt-get install bubblewrap; it needs user namespaces: "
    "sysctl user.max_user_namespaces), or use a kernel from 6.2 with Landlock"
)
_PLAIN_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_ACCELERATORS: Final = ("nvidia*", "dri", "kfd", "infiniband", "accel")
_SHARED_MEMORY: Final = "/dev/shm"
"""Python's multiprocessing and loaders of data do not work without."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python that runs the launcher."""

    path: str = sys.executable
    prefixes: tuple[Path, ...] = (Path(sys.prefix), Path(sys.base_prefix))
    """Where it lies, its library included."""
    launcher: Path = LAUNCHER


def list_accelerators() -> list[str]:
    """Device files of GPUs and fast networks that are there."""
    found = {path for glob in _ACCELERATORS for path in Path("/dev").glob(glob)}
    return sorted(map(str, found))


def build_command(
    argv: Sequence[str],
    profile: Profile,
    python: Interpreter,
    *,
    abi: int = 0,
    tcp: Sequence[int] | None = None,
    writable: Sequence[str] = (),
    devices: Sequence[str] = (),
    is_init: bool = False,
) -> tuple[str, ...]:
    """`argv` behind the launcher, which gives up what Landlock's `abi` holds; the rest
    is of its spec, `writable` and `devices` beside what all get."""
    plain = [f"/dev/{name}" for name in _PLAIN_DEVICES]
    spec: dict[str, Iterable[object]] = {
        "abi": [abi],
        "writable": [*profile.list_writable(), *_keep_existing(writable)],
        "devices": _keep_existing([*plain, *list_accelerators(), *devices]),
        "readable": profile.list_readable(),
        "tcp": () if tcp is None else tcp or [0],
        "env": [f"HOME={profile.home}", f"TMPDIR={profile.tmp}"],
        "limits": [f"FSIZE={profile.file_bytes}", f"NOFILE={profile.descriptors}"],
        "is_init": [1] if is_init else (),
    }
    words = (f"{key}={value}" for key, values in spec.items() for value in values)
    # -I and -S: neither variables nor site-packages have a say in what the launcher is.
    return (python.path, "-ISB", str(python.launcher), *words, "--", *argv)


def _keep_existing(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if os.path.exists(path)]


@dataclass(frozen=True)
class NoIsolation(Isolation):
    """Sets HOME, TMPDIR and limits, and promises nothing."""

    name = "none"
    promises = frozenset[Promise]()
    python: Interpreter = field(default_factory=Interpreter)

    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        return build_command(argv, profile, self.python)


# ---------------------------------------------------------------------------- Landlock
_SINCE: Final = MappingProxyType(
    {
        Promise.READS: 1,  # Linux 5.13
        Promise.MEMORY: 1,
        Promise.LIMITS: 1,
        Promise.WRITES: 3,  # 6.2; before it files outside can be emptied: truncate(2)
        Promise.TCP: 4,  # 6.7
        Promise.SIGNALS: 6,  # 6.12
    }
)
"""The first ABI that holds a promise. Landlock knows no modes, times or UDP; Unix
sockets with a name only from an ABI that we have not tried yet."""


@dataclass(frozen=True)
class Landlock(Isolation):
    """The kernel takes rights from a process and all that it starts, for good. The
    launcher alone; needs no program and no right."""

    name = "landlock"
    abi: int
    python: Interpreter = field(default_factory=Interpreter)

    @property
    def promises(self) -> frozenset[Promise]:
        return _list_held(self.abi)

    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        return build_command(
            argv,
            profile,
            self.python,
            abi=self.abi,
            tcp=() if profile.network == "none" else _list_ports(profile),
            writable=(_SHARED_MEMORY,),
        )


def _list_held(abi: int) -> frozenset[Promise]:
    return frozenset(one for one, since in _SINCE.items() if abi >= since)


def _list_ports(profile: Profile) -> tuple[int, ...] | None:
    """The only ports for TCP; None: they are not fenced."""
    return profile.network if isinstance(profile.network, tuple) else None


# -------------------------------------------------------------------------- bubblewrap
_HELD: Final = frozenset(Promise) - {Promise.TCP, Promise.SOCKETS}
_ABSTRACT_SOCKETS_ABI: Final = 6
"""Abstract sockets belong to the network, which a command may have been given."""
_DEAF: Final = ("/bin/sh", "-c", 'trap "" TERM INT USR1 USR2; exec "$@"', "sh")
_FENCE: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-cgroup-try", "--cap-drop", "ALL", "--die-with-parent"),
    "--as-pid-1",
)
_MADE: Final = frozenset(map(Path, ("/proc", "/dev", "/tmp")))
_PROBE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Bubblewrap(Isolation):
    """The command gets a file system, processes and, where it has no network, a
    loopback of its own. Inside, the launcher gives up by Landlock what is left.

    bwrap's own process passes no signals on, and ends its command with SIGKILL when it
    is ended. So it ignores those that ask to end; the command, in the same process
    group, gets them, and the launcher makes it hear them again. The launcher is the
    first process inside: bwrap's own would not wait until the kernel has ended all
    others."""

    name = "bwrap"
    program: str
    abi: int
    """Of Landlock inside; 0: none."""
    python: Interpreter = field(default_factory=Interpreter)

    @property
    def promises(self) -> frozenset[Promise]:
        sockets = {Promise.SOCKETS} if self.abi >= _ABSTRACT_SOCKETS_ABI else set()
        return _HELD | _list_held(self.abi) | sockets

    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        inside = build_command(
            argv,
            profile,
            self.python,
            abi=self.abi,
            tcp=_list_ports(profile),
            writable=(_SHARED_MEMORY, "/tmp"),
            devices=("/dev/pts", "/dev/ptmx"),
            is_init=True,
        )
        net = ("--unshare-net",) if profile.network == "none" else ()
        own = (*self.python.prefixes, self.python.launcher)
        readable = (*profile.list_readable(), *own)
        mounts = list_mounts(readable, profile.list_writable())
        return (*_DEAF, self.program, *_FENCE, *net, *mounts, "--", *inside)


def list_mounts(readable: Sequence[Path], writable: Sequence[Path]) -> Iterator[str]:
    """The options for a file system of these paths and no others. A mount point that
    foreign code could have made a link of would lead astray: /tmp is a new one."""
    yield from ("--tmpfs", "/tmp")
    read, write = (dict.fromkeys(_spell_both(paths)) for paths in (readable, writable))
    wanted = {**dict.fromkeys(read, "--ro-bind-try"), **dict.fromkeys(write, "--bind")}
    for path in sorted(wanted, key=lambda one: (len(one.parts), one)):
        real = Path(os.path.realpath(path))
        above = next((one for one in path.parents if one in wanted), None)
        if path != real and above is None:
            yield from ("--symlink", str(real), str(path))
        elif path == real and (above is None or wanted[above] != wanted[path]):
            yield from (wanted[path], str(path), str(path))
    yield from ("--proc", "/proc", "--dev", "/dev")
    # Whoever writes to a terminal could type into it.
    yield from ("--dev-bind", "/dev/null", "/dev/tty")
    for device in list_accelerators():
        yield from ("--dev-bind-try", device, device)
    yield from ("--remount-ro", "/")


def _spell_both(paths: Sequence[Path]) -> Iterator[Path]:
    """Each path as it was named, and without links; not those that are made anew."""
    for path in paths:
        for one in (path, Path(os.path.realpath(path))):
            if one not in _MADE:
                yield one


# --------------------------------------------------------------------------- container
_PROGRAMS: Final = frozenset({"apptainer", "singularity"})
_VERBS: Final = frozenset({"exec", "run"})


@dataclass(frozen=True)
class Container(Isolation):
    """Adds the flags that keep files apart to an `apptainer exec` or `run`. Unproved,
    so nothing is promised."""

    name = "container"
    promises = frozenset[Promise]()

    def wrap(self, argv: Sequence[str], profile: Profile) -> tuple[str, ...]:
        """As of the port; raises ValueError for a command without such a verb."""
        verb = find_verb(argv)
        if verb is None:
            raise ValueError(f"no apptainer exec or run: {' '.join(argv[:3])}")
        return (*argv[: verb + 1], *_list_flags(profile), *argv[verb + 1 :])

    def summarize(self) -> str:
        return f"{self.name}: unproved, nothing is promised"


def find_verb(argv: Sequence[str]) -> int | None:
    """Where the verb of an `apptainer exec` or `run` stands; None: it is none."""
    verb = next((n for n, word in enumerate(argv) if word in _VERBS), 0)
    return verb if {PurePath(word).name for word in argv[:verb]} & _PROGRAMS else None


def _list_flags(profile: Profile) -> Iterator[str]:
    """Flags for a container that sees its image and the profile's paths alone."""
    yield from ("--containall", "--no-privs")
    if profile.network == "none":
        yield from ("--net", "--network", "none")
    for path in profile.list_readable():
        if path.exists():
            yield from ("--bind", f"{path}:{path}:ro")
    for path in profile.list_writable():
        yield from ("--bind", f"{path}:{path}")
    yield from ("--env", f"TMPDIR={profile.tmp}", "--home", str(profile.home))


# -------------------------------------------------------------------------- the choice
def probe_isolation() -> Iterator[Bubblewrap | Landlock]:
    """What works on this machine, the strongest first; `none` is not among them."""
    abi, program = read_abi(), find_executable("bwrap", os.environ)
    if program and _try_bubblewrap(str(program)):
        yield Bubblewrap(str(program), abi)
    if abi:
        yield Landlock(abi)


def _try_bubblewrap(program: str) -> bool:
    tried = (program, *_FENCE, "--unshare-net", "--ro-bind", "/", "/")
    command = (*tried, "--proc", "/proc", "--dev", "/dev", "true")
    try:
        run = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0


def choose_isolation(
    wanted: Wanted,
    found: Sequence[Isolation] | None = None,
    command: Sequence[str] = (),
) -> Isolation:
    """The isolation for a command. `found`: what works here; None: it is probed. Raises
    UsageError when it is required and there is none."""
    if wanted == "none":
        return NoIsolation()
    if find_verb(command) is not None:
        found = (Container(),)
    candidates = tuple(probe_isolation()) if found is None else found
    chosen = max(candidates, key=lambda one: len(one.promises), default=NoIsolation())
    if wanted == "require" and not chosen.promises >= FILES:
        here = f"the best here is {chosen.summarize()}"
        raise UsageError(
            f"isolation is required, and none that fences files works here ({here})",
            "agents.isolation=require",
            f"{REMEDY}; or agents.isolation=prefer runs all the same, and says what is "
            "not promised.",
        )
    return chosen
