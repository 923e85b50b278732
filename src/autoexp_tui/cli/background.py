"""The engine that stays behind when a screen or a command leaves a session.

It is a process of its own, detached from the terminal, that takes the lease over and
goes on until nothing moves any more.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import exit_with, freeze_garbage, wait_until
from autoexp_tui.cli.options import name_session, parse_options
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.storage.session_dir import SessionDir

START_SECONDS = 20.0
"""How long a background engine may take to own the session."""
WAIT_SECONDS = 15.0
"""How long it waits for the one before it to release the session."""


def start_background(session: SessionDir, approve: frozenset[str], epoch: int) -> None:
    """Start a detached engine for a session that was given back under `epoch`, and
    return once it owns the session; raises EnvironmentFailed where none came up, or the
    session is not the user's alone, or cannot be written."""
    from autoexp_tui.storage.atomic import explaining
    from autoexp_tui.storage.lease import find_highest_epoch
    from autoexp_tui.storage.trust import MOST_BYTES, open_checked

    session.require_own()
    # What keeps a process alive through a logout, where the machine offers it.
    scope: Sequence[str] = []
    systemd_run = shutil.which("systemd-run")
    if systemd_run is not None and "XDG_RUNTIME_DIR" in os.environ:
        words = [systemd_run, "--user", "--scope", "--quiet", "--collect", "--"]
        with suppress(OSError, subprocess.SubprocessError):
            run = [*words, "true"]
            subprocess.run(run, capture_output=True, timeout=5, check=True)
            scope = words
    path = session.path / "heir.log"
    with explaining(path, "write"):
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(log) as file, explaining(path, "start an engine"):
        child = subprocess.Popen(
            [*scope, *build_command(session, approve)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )

    # Until it has failed, or owns the session.
    wait_until(
        lambda: child.poll() or find_highest_epoch(session) > epoch, START_SECONDS
    )
    if not child.poll() and find_highest_epoch(session) > epoch:
        return
    output = b""
    with suppress(OSError), open_checked(path, "session", MOST_BYTES) as written:
        output = written.read(MOST_BYTES)
    last = [clean(line) for line in output.decode(errors="replace").split("\n")[-4:]]
    where = name_session(session.path)
    raise EnvironmentFailed(
        "no engine came up; what runs goes on",
        str(path),
        "\n".join(
            [*filter(None, last), f"Start one: autoexp-sessions restart {where}"]
        ),
    )


def build_command(session: SessionDir, approve: frozenset[str]) -> list[str]:
    """The command of a headless engine for the session."""
    chosen = "all" if "*" in approve else ",".join(sorted(approve)) or "none"
    words = ("--session", session.id, "--state-dir", str(session.state_dir))
    # -P: a file of the user's that is called like a module must not be one.
    return [sys.executable, "-P", "-m", __name__, *words, "--approve", chosen]


def main(argv: Sequence[str]) -> int:
    """In the background: take a session over from an engine that leaves, and go on.

    Stays while jobs may move, so that they can be approved, and a storm's pause ended,
    from elsewhere.
    """
    options, _ = parse_options("autoexp-monitor", __doc__, argv, overrides=False)
    from autoexp_tui.cli.headless import watch_detached
    from autoexp_tui.cli.open import SessionOpener, find_session

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    session = find_session(options)
    handle = SessionOpener(options).own(str(session.path), wait=WAIT_SECONDS)
    freeze_garbage()
    return watch_detached(handle)


if __name__ == "__main__":
    exit_with(main)
