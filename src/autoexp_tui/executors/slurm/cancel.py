"""What an answer of scancel means."""

from __future__ import annotations

from typing import Final

from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.text import complaint, nothing_to_cancel

TO_RUNNING: Final = ("--state=RUNNING", "--batch", "--signal=TERM")
"""Without the state it tries a minute and more to signal a job that waits."""


def is_done(ran: Ran) -> bool:
    """Whether a cancel has nothing left to do: what has ended needs none."""
    return ran.ok or (not ran.missing and nothing_to_cancel(ran.stderr))


def is_told(ran: Ran) -> bool:
    """Whether a signal is on its way: of an array's tasks scancel waits for the end."""
    return not ran.missing and not ran.stderr.strip()


def failure(ran: Ran) -> str:
    """Why a cancel came to nothing."""
    if ran.missing or ran.timed_out:
        return ran.missing or f"{ran.arguments[0]} did not answer"
    return complaint(ran.stderr)
