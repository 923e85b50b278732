"""The engine goes on without its terminal: by an heir, or by going dark ourselves.

Leaving starts a detached process that takes the lease over at a commit boundary. When
the terminal itself is gone there is nobody to hand to in peace: the same process lets
go of its descriptors and goes on headless, under the same lease.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from autoexp_tui.cli.options import DEFAULT_STATE_DIR
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.lease import highest_epoch
from autoexp_tui.storage.session_dir import SessionDir

HEIR_SECONDS = 20.0
"""How long an heir may take to own the session."""
_STEP = 0.05


def start_heir(session: SessionDir, approve: frozenset[str], epoch: int) -> bool:
    """Start a detached engine for a session that was given back under `epoch`.

    True once it owns the session; False when it did not come up in time.

    Raises:
        EnvironmentFailed: the session is not the user's alone, or cannot be written.
    """
    session.require_own()
    command = [*_scope(), *heir_command(session, approve)]
    path = session.path / "heir.log"
    with explaining(path, "write"):
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    except OSError:
        return False
    finally:
        os.close(log)
    return _came_up(session, epoch, child)


def heir_command(session: SessionDir, approve: frozenset[str]) -> list[str]:
    """The command of a headless engine for the session."""
    chosen = "all" if "*" in approve else ",".join(sorted(approve)) or "none"
    return [
        sys.executable,
        "-P",  # a file of the user's that is called like a module must not be one
        "-m",
        "autoexp_tui.cli.monitor",
        "--session",
        session.id,
        "--state-dir",
        str(session.state_dir),
        "--approve",
        chosen,
        "--heir",
    ]


def _came_up(session: SessionDir, epoch: int, child: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + HEIR_SECONDS
    while time.monotonic() < deadline:
        if highest_epoch(session) > epoch:
            return True
        if child.poll() not in (None, 0):
            return False
        time.sleep(_STEP)
    return False


def _scope() -> Sequence[str]:
    """What keeps a process alive through a logout, where the machine offers it."""
    systemd_run = shutil.which("systemd-run")
    if systemd_run is None or "XDG_RUNTIME_DIR" not in os.environ:
        return []
    scope = [systemd_run, "--user", "--scope", "--quiet", "--collect", "--"]
    try:
        tried = subprocess.run(
            [*scope, "true"], capture_output=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return scope if tried.returncode == 0 else []


def go_dark() -> None:
    """Let go of the terminal: descriptors to /dev/null, hang-ups ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if null > 2:
        os.close(null)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    sys.stderr = sys.stdout


def come_back(session: SessionDir) -> str:
    """The command that attaches to the session again."""
    return f"autoexp-tui --session {session.id}{place(session.state_dir)}"


def place(state_dir: Path) -> str:
    """The option that a command needs to find `state_dir`; empty by default."""
    found_anyway = state_dir == Path(DEFAULT_STATE_DIR).absolute()
    return "" if found_anyway else f" --state-dir {shlex.quote(str(state_dir))}"


def place_of(directory: str) -> str:
    """The same for a session by its own directory, as a snapshot names it."""
    return place(Path(directory).parent) if directory else ""
