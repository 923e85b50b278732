"""The two profiles: of an agent, which has its login and may connect to where its model
is, and of an evaluation, which has neither. Both write their own directories alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import autoexp_tui
from autoexp_tui.isolation.port import Limits, Network, Profile

AGENT_PORTS: Final = (443,)
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc", "/opt", "/nix/store", "/gnu/store", "/proc", "/sys"),
)
_LINKED: Final = ("/etc/resolv.conf", "/etc/localtime")
"""Files of the system that are often links to elsewhere."""


def make_agent_profile(
    worktree: Path,
    private: Path,
    *,
    program: Path | None = None,
    logins: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    ports: tuple[int, ...] = AGENT_PORTS,
    limits: Limits | None = None,
) -> Profile:
    """An agent's: it writes its worktree and, below `private`, a HOME and a TMPDIR of
    its own; reads the system, this Python, `program` (what the agent's command is) and
    `readable`; its `logins` read-only; TCP to `ports`."""
    paths = (*list_program_paths(program), *readable) if program else readable
    return _make_profile(
        "agent", (worktree,), private, paths, logins, network=ports, limits=limits
    )


def make_evaluation_profile(
    worktree: Path,
    private: Path,
    output: Path,
    *,
    readable: Sequence[Path] = (),
    network: Network = "none",
    limits: Limits | None = None,
) -> Profile:
    """A candidate's: as of an agent, with the directory `output` for its results, and
    without a login."""
    own = (worktree, output)
    return _make_profile(
        "evaluation", own, private, readable, (), network=network, limits=limits
    )


def _make_profile(
    name: str,
    writable: Sequence[Path],
    private: Path,
    readable: Sequence[Path],
    logins: Sequence[Path],
    *,
    network: Network,
    limits: Limits | None,
) -> Profile:
    paths = (*list_system_paths(), *list_interpreter_paths(), *readable)
    return Profile(
        name,
        tuple(map(_make_absolute, writable)),
        _make_absolute(private / "home"),
        _make_absolute(private / "tmp"),
        tuple(map(_make_absolute, paths)),
        tuple(map(_make_absolute, logins)),
        network,
        limits or Limits(),
    )


def _make_absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def list_system_paths() -> Iterator[Path]:
    """What every program may read: the system's own, without anybody's home."""
    yield from map(Path, _SYSTEM)
    yield from (Path(os.path.realpath(path)) for path in _LINKED)


def list_interpreter_paths() -> Iterator[Path]:
    """This Python, its environment, a conda environment, and our package."""
    yield from map(Path, dict.fromkeys((sys.prefix, sys.base_prefix)))
    yield from (Path(os.environ[k]) for k in _ENVIRONMENTS if os.environ.get(k))
    yield Path(autoexp_tui.__file__).parents[1]  # an import lists it


_ENVIRONMENTS: Final = ("VIRTUAL_ENV", "CONDA_PREFIX")


def list_program_paths(program: Path) -> Iterator[Path]:
    """A program, the links it is reached by, and, of one that npm installed, the prefix
    that its node lies in."""
    while True:
        yield program
        parts = program.parts
        if "node_modules" in parts:  # PREFIX/lib/node_modules/...
            yield Path(*parts[: parts.index("node_modules") - 1])
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / os.readlink(program)))


def prepare_profile(profile: Profile, user_home: Path | None = None) -> None:
    """Make HOME and TMPDIR, and link the logins into HOME at the place that they have
    in `user_home`; what is there stays; raises OSError."""
    above = user_home or Path.home()
    for place in (profile.home, profile.tmp):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    for login in profile.logins:
        if login.is_relative_to(above):
            link = profile.home / login.relative_to(above)
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(link):
                link.symlink_to(login)


def find_exposed(profile: Profile, hidden: Sequence[Path]) -> tuple[Path, ...]:
    """Those of `hidden` that the profile would let the command read: rights are given
    to whole directories, and nothing in one can be left out."""
    given = (*profile.list_writable(), *profile.list_readable())
    open_paths = [Path(os.path.realpath(path)) for path in given]
    return tuple(
        path
        for path in hidden
        if any(Path(os.path.realpath(path)).is_relative_to(one) for one in open_paths)
    )


def measure_disk(profile: Profile) -> int:
    """Bytes that its writable directories take on disk, links not followed; what
    vanishes meanwhile or cannot be read counts nothing."""
    todo = [str(path) for path in profile.list_writable()]
    total = 0
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except OSError:
            continue
    return total
