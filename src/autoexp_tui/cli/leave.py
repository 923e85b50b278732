"""Leaving before the end: how to come back is said first, whatever else then happens.

The engine of this process ends at a commit boundary; what runs goes on. A second
interrupt does not wait for that: whatever is not synced was never sent, so nothing is
lost by it either.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, say

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import Snapshot

ANSWER_SECONDS = 20.0
"""How long who leaves waits for the answer to the last order."""
_SILENT_SECONDS = 1.0
_STEP_SECONDS = 0.02


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
    from autoexp_tui.cli.detach import place_of

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
    from autoexp_tui.cli.detach import place_of

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
