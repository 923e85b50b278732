"""The two profiles: of an agent, which has its login and may connect to where its model
is, and of an evaluation, which has neither. Both write their own directories alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import autoexp_tui
from autoexp_tui.isolation.port import Network, Profile

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
    **limits: int,
) -> Profile:
    """An agent's: it writes its worktree and, below `private`, a HOME and a TMPDIR of
    its own; reads the system, this Python, `program` (what the agent's command is) and
    `readable`; its `logins` read-only; TCP to port 443, of whatever host."""
    paths = (*list_program_paths(program), *readable) if program else readable
    return _make_profile((worktree,), private, (*paths, *logins), (443,), **limits)


def make_evaluation_profile(
    worktree: Path,
    private: Path,
    output: Path,
    *,
    readable: Sequence[Path] = (),
    **limits: int,
) -> Profile:
    """A candidate's: as of an agent, with the directory `output` for its results, and
    without a login and a network."""
    own = (worktree, output)
    return _make_profile(own, private, readable, "none", **limits)


def _make_profile(
    writable: Sequence[Path],
    private: Path,
    readable: Sequence[Path],
    network: Network,
    **limits: int,
) -> Profile:
    paths = (*list_system_paths(), *list_interpreter_paths(), *readable)
    return Profile(
        tuple(map(_make_absolute, writable)),
        _make_absolute(private / "home"),
        _make_absolute(private / "tmp"),
        tuple(map(_make_absolute, paths)),
        network,
        **limits,
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
    own = map(os.environ.get, ("VIRTUAL_ENV", "CONDA_PREFIX"))
    yield from map(Path, filter(None, own))
    yield Path(autoexp_tui.__file__).parents[1]  # an import lists it


def find_executable(name: str, environ: Mapping[str, str]) -> Path | None:
    """A program by its path, or by its name in PATH; None: it is not there."""
    # Not by shutil: each step of a search would load what it knows of archives.
    places = [] if "/" in name else os.get_exec_path(environ)
    paths = [os.path.join(place, name) for place in places] or [name]
    found = (one for one in paths if os.path.isfile(one) and os.access(one, os.X_OK))
    return next(map(Path, found), None)


def list_program_paths(program: Path) -> Iterator[Path]:
    """A program, the links it is reached by, and what each of these lives of."""
    while True:
        yield program
        yield from _list_homes(program)
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / os.readlink(program)))


def _list_homes(program: Path) -> Iterator[Path]:
    """Of one that npm installed, the prefix that its node lies in; of a shim (pyenv and
    the like), what it leads to; of what lies in the `bin` of a Python, all of that. A
    person's home is none, nor is what that lies in."""
    parts = program.parts
    if "node_modules" in parts:  # PREFIX/lib/node_modules/...
        yield Path(*parts[: parts.index("node_modules") - 1])
    root, home = program.parent.parent, Path.home()
    if root in (home, *home.parents):
        return
    is_python = (root / "pyvenv.cfg").exists() or any(root.glob("lib/python3*/os.py"))
    if is_python or program.parent.name == "shims":
        yield root
    if is_python and not program.name.startswith("python"):  # its first line names it
        yield from list_program_paths(root / "bin" / "python")
