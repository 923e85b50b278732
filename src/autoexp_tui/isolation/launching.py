"""The command line of the launcher, which every kind of isolation ends with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from autoexp_tui.isolation.port import Isolation, Profile, Promise

LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_PLAIN_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_ACCELERATORS: Final = ("nvidia*", "dri", "kfd", "infiniband", "accel")
SHARED_MEMORY: Final = "/dev/shm"
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
    """`argv` behind the launcher, which gives up what Landlock's `abi` holds;
    `writable` and `devices`: given beside the profile's own, where they exist;
    `is_init`: the launcher is the first process of a namespace."""
    limits = profile.limits
    resources = {"FSIZE": limits.file_bytes, "NOFILE": limits.descriptors}
    plain = [f"/dev/{name}" for name in _PLAIN_DEVICES]
    spec = {
        "abi": abi,
        "writable": [*map(str, profile.list_writable()), *_keep_existing(writable)],
        "devices": _keep_existing([*plain, *list_accelerators(), *devices]),
        "readable": list(map(str, profile.list_readable())),
        "tcp": tcp if tcp is None else list(tcp),
        "env": {"HOME": str(profile.home), "TMPDIR": str(profile.tmp)},
        "limits": {key: n for key, n in resources.items() if n is not None},
        "is_init": is_init,
    }
    # -I and -S: neither variables nor site-packages have a say in what the launcher is.
    return (python.path, "-ISB", str(python.launcher), json.dumps(spec), *argv)


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
