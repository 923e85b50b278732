"""Leaving before the end: how to come back is said, and the session is released.

The engine of this process ends at a commit boundary; what runs goes on. A second
interrupt does not wait for that: whatever is not synced was never sent, so nothing is
lost by it either. When the terminal itself is gone, the same process lets go of its
descriptors and goes on headless, under the same lease.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, handle_signals, say
from autoexp_tui.cli.options import name_session

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import Snapshot

ANSWER_SECONDS = 20.0
"""How long who leaves waits for the answer to the last order."""
_SILENT_SECONDS = 1.0
_STEP_SECONDS = 0.02


def name_shown(snapshot: Snapshot) -> str:
    """The session of a snapshot as a command line names it."""
    directory = snapshot.engine.directory
    return name_session(snapshot.session, Path(directory).parent if directory else None)


def detach(handle: EngineHandle, command: str) -> int:
    """Say how to go on by `command`, and release the session; the exit code."""
    text = format_interrupted(handle.snapshot(), command)
    if text:
        say(text)
    with end_at_once():
        handle.close()
    if not text:  # a session may have come into being meanwhile
        late = format_interrupted(handle.snapshot(), command)
        say(late or "interrupted; nothing was submitted")
    return ExitCode.INTERRUPTED


def format_interrupted(snapshot: Snapshot, command: str) -> str:
    """What goes on, and the command that resumes; empty without a session."""
    if not snapshot.session:
        return ""
    again = f"{command} --session {name_shown(snapshot)}"
    if snapshot.engine.role == "viewer" and snapshot.engine.owner_alive:
        return f"interrupted; the engine goes on. Watch it again with:\n  {again}"
    return (
        "interrupted; what runs goes on, nothing more is submitted until you resume:\n"
        f"  {again}"
    )


def format_farewell(snapshot: Snapshot) -> str:
    """What a cockpit says last that leaves no engine behind; empty: nothing to say."""
    engine = snapshot.engine
    if engine.role == "replay":
        return ""
    if not snapshot.session:
        return "Nothing was submitted." if snapshot.plan is not None else ""
    again = f"autoexp-tui --session {name_shown(snapshot)}"
    if not snapshot.open:
        return f"All jobs have ended. See them again: {again}"
    if engine.role == "viewer" and engine.owner_alive:
        return f"The engine goes on. Come back: {again}"
    return f"No engine runs this session now; what runs goes on. Come back: {again}"


def finish_orders(
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
    began, silent = monotonic(), True
    with suppress(KeyboardInterrupt):
        while handle.is_unanswered and not handle.snapshot().engine.holding:
            waited = monotonic() - began
            if waited >= seconds:
                break
            if waited >= _SILENT_SECONDS and silent:
                say("The last order is being written ...")
                silent = False
            pause(_STEP_SECONDS)
    return handle.snapshot()


def end_at_once() -> AbstractContextManager[None]:
    """In this block a further SIGINT or SIGTERM ends the process there and then."""
    return handle_signals({signal.SIGINT: _end, signal.SIGTERM: _end})


def _end(*_: object) -> None:
    sys.stderr.flush()
    os._exit(ExitCode.INTERRUPTED)


def release_terminal() -> None:
    """Let go of the terminal: descriptors to /dev/null, hang-ups ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if null > 2:
        os.close(null)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    sys.stderr = sys.stdout
