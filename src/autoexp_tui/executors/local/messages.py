"""What a start on this machine is, in words a person could type: for Events.

The supervisor between us and a command is our own affair; what is told is what it
runs, in which directory, on which host. Environments are left out: they hold secrets.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.text.sanitize import clean

MOST_TOLD: Final = 20
"""Commands of one submission that are spelled out; the journal keeps them all."""
LONGEST: Final = 2000
"""Characters of one command."""


def spelled(tasks: Sequence[Task], host: str) -> str:
    """The commands of a submission, a line each, as a shell would take them.

    Lines after the first begin with `$ `, as the first one will.
    """
    lines = [_spelled(task, host) for task in tasks[:MOST_TOLD]]
    rest = len(tasks) - len(lines)
    more = f"\nand {rest} more on {clean(host)}" if rest > 0 else ""
    return "\n$ ".join(lines) + more


def _spelled(task: Task, host: str) -> str:
    cwd = os.path.abspath(task.cwd or os.curdir)
    command = clean(shlex.join(task.command), limit=LONGEST)
    return f"cd {clean(shlex.quote(cwd))} && {command}  # on {clean(host)}"
