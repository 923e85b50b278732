"""Leaving before the end: how to come back is said, and the engine goes on.

The engine of this process ends at a commit boundary; what runs goes on. A second
interrupt does not wait for that: whatever is not synced was never sent, so nothing is
lost by it either.

A screen that is left starts a detached process that takes the lease over. When the
terminal itself is gone there is nobody to hand to in peace: the same process lets go of
its descriptors and goes on headless, under the same lease.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, say
from autoexp_tui.cli.options import DEFAULT_STATE_DIR

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.storage.session_dir import SessionDir

ANSWER_SECONDS = 20.0
"""How long who leaves waits for the answer to the last order."""
_SILENT_SECONDS = 1.0
_STEP_SECONDS = 0.02
HEIR_SECONDS = 20.0
"""How long an heir may take to own the session."""
_STEP = 0.05


def leave(handle: EngineHandle, command: str) -> int:
    """Say how to go on by `command`, and let go of the session; the exit code."""
    told = resume_words(handle.snapshot(), command)
    if told:
        say(told)
    with ending_at_once():
        handle.close()
    if not told:  # a session may have come into being meanwhile
        late = resume_words(handle.snapshot(), command)
        say(late or "interrupted; nothing was submitted")
    return ExitCode.INTERRUPTED


def resume_words(snapshot: Snapshot, command: str) -> str:
    """What goes on, and the command that resumes; empty without a session."""
    if not snapshot.session:
        return ""
    engine = snapshot.engine
    again = f"{command} --session {snapshot.session}{place_of(engine.directory)}"
    if engine.role == "viewer" and engine.owner_alive:
        return f"interrupted; the engine goes on. Watch it again with:\n  {again}"
    return (
        "interrupted; what runs goes on, nothing more is submitted until you resume:\n"
        f"  {again}"
    )


def parting_words(snapshot: Snapshot) -> str:
    """What a cockpit says last that needs no heir; empty: there is nothing to say."""
    engine = snapshot.engine
    if engine.role == "replay":
        return ""
    if not snapshot.session:
        return "Nothing was submitted." if snapshot.plan is not None else ""
    again = f"autoexp-tui --session {snapshot.session}{place_of(engine.directory)}"
    if not snapshot.open:
        return f"All jobs have ended. See them again: {again}"
    if engine.role == "viewer" and engine.owner_alive:
        return f"The engine goes on. Come back: {again}"
    return f"No engine runs this session now; what runs goes on. Come back: {again}"


def answered(
    handle: EngineHandle,
    *,
    seconds: float = ANSWER_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """The state once the engine of this process has told of all that was sent to it.

    Who leaves right behind an order leaves a campaign that goes on, not one at rest.
    Not waited for: an engine that cannot write, or needs more than `seconds`; Ctrl-C
    ends the waiting.
    """
    began, told = monotonic(), False
    with suppress(KeyboardInterrupt):
        while handle.unanswered and not handle.snapshot().engine.holding:
            waited = monotonic() - began
            if waited >= seconds:
                break
            if waited >= _SILENT_SECONDS and not told:
                say("The last order is being written ...")
                told = True
            pause(_STEP_SECONDS)
    return handle.snapshot()


@contextmanager
def ending_at_once() -> Iterator[None]:
    """In this block a further SIGINT or SIGTERM ends the process there and then."""
    old = {
        number: signal.signal(number, _end)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _end(*_: object) -> None:
    sys.stderr.flush()
    os._exit(ExitCode.INTERRUPTED)


# ------------------------------------------------------------------- the engine goes on
def start_heir(session: SessionDir, approve: frozenset[str], epoch: int) -> bool:
    """Start a detached engine for a session that was given back under `epoch`.

    True once it owns the session; False when it did not come up in time.

    Raises:
        EnvironmentFailed: the session is not the user's alone, or cannot be written.
    """
    from autoexp_tui.storage.atomic import explaining

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
    from autoexp_tui.storage.lease import highest_epoch

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
