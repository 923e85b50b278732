"""A second user of this machine, for tests that run as root: uids without accounts."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ALICE, BOB = 61001, 61002
GROUP = 61010
"""Of both."""
SOURCES = Path(__file__).parents[2] / "src"


@cache
def interpreter() -> str:
    """A Python of this version that other users may run; empty: there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin"))
    return next((path for path in found if path and _runs(path)), "")


def _runs(path: str) -> bool:
    try:
        ran = subprocess.run(
            [path, "-c", "import autoexp_tui, hydra, yaml, textual"], user=BOB,
            group=BOB, extra_groups=[], env=_environment(Path("/nonexistent")), cwd="/",
            capture_output=True, check=False,
        )  # fmt: skip
    except OSError:
        return False
    return ran.returncode == 0


def _environment(home: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(SOURCES), *site.getsitepackages()]),
    }  # fmt: skip


def require_two_users() -> None:
    """Skip where there can be no second user."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    if not interpreter():
        pytest.skip("no Python here that another user may run")


@contextmanager
def common_place(name: str) -> Iterator[Path]:
    """A directory that everybody may enter, as / is."""
    require_two_users()
    place = Path("/tmp") / f"autoexp-{name}-{os.getpid()}"
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@dataclass(frozen=True)
class User:
    """Somebody who runs our commands."""

    uid: int
    home: Path
    groups: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, command: str, *words: str, cwd: Path, umask: int = 0o022
    ) -> subprocess.CompletedProcess[str]:
        """Run `autoexp-<command>` to its end."""
        module = f"autoexp_tui.cli.{command.replace('-', '_')}"
        return self.call([interpreter(), "-m", module, *words], cwd=cwd, umask=umask)

    def call(
        self, argv: Sequence[str], *, cwd: Path, umask: int = 0o022
    ) -> subprocess.CompletedProcess[str]:
        """Run any program."""
        return subprocess.run(
            argv, user=self.uid, group=self.uid, extra_groups=list(self.groups),
            env={**_environment(self.home), **self.environment}, cwd=cwd, umask=umask,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip


def user(uid: int, home: Path, *groups: int) -> User:
    """A user with a home of their own, and slots of their own."""
    home.mkdir(mode=0o700)
    os.chown(home, uid, uid)
    return User(uid, home, groups)


def give(path: Path, uid: int, gid: int = -1, mode: int | None = None) -> Path:
    """Hand a file, or a directory with all that is in it, to a user."""
    for one in (path, *(path.rglob("*") if path.is_dir() else ())):
        os.chown(one, uid, gid if gid >= 0 else uid, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)
    return path


CONFIG = {
    "project": {"name": "exp", "base_output_dir": "outputs"},
    "backend": {"class_name": "CommandBackend",
                "command": ["sh", "-c", "id -u >> ran"]},
}  # fmt: skip


def write_config(directory: Path, **changes: object) -> None:
    """`config/exp.yaml` of one job that leaves a line in `ran`."""
    place = directory / "config"
    place.mkdir()
    (place / "exp.yaml").write_text(json.dumps({**CONFIG, **changes}))
