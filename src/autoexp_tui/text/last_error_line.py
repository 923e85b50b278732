"""The line of a log that tells most about an end. Pure."""

from __future__ import annotations

import re

from autoexp_tui.text.sanitize import clean

_TELLING = re.compile(
    r"^\S*(?:Error|Exception|Interrupt)\b|\b(?:FATAL|fatal|error:|Error:|ERROR|"
    r"Killed|CANCELLED|Out of memory|oom_kill|Segmentation fault|No such file)"
)
OWN_LINE = "autoexp: exit record "
"""Begins a line that the wrapper wrote, not the command: it tells nothing of why."""
_LIMIT = 300
"""Characters of evidence that are kept."""


_NOT_A_NUMBER = re.compile(r"loss\W+[^|,]{0,12}\b(?:nan|inf)\b", re.IGNORECASE)


def nan_line(tail: str) -> str:
    """The first line of `tail` whose loss is no number, cleaned; empty for none."""
    for line in tail.splitlines():
        if _NOT_A_NUMBER.search(line):
            return clean(line).strip()[:_LIMIT]
    return ""


_SHORT_OF_MEMORY = re.compile(
    r"\boom[-_ ]kill|out-of-memory handler|exceeded (?:job |step )?memory limit|"
    r"Out of memory: Kill|Memory cgroup out of memory",
    re.IGNORECASE,
)
"""What the kernel and Slurm write of a process that was killed for memory."""


def memory_line(tail: str) -> str:
    """The last line of `tail` that tells of a kill for memory; empty for none."""
    lines = (line for line in reversed(tail.splitlines()))
    return next((line for line in lines if _SHORT_OF_MEMORY.search(line)), "")


def names_an_error(line: str) -> bool:
    """Whether a line tells of something that went wrong."""
    return _TELLING.search(line) is not None


def _is_the_commands(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(OWN_LINE)


def telling_line(tail: str) -> str:
    """The last line of `tail` that names an error, else its last line, cleaned."""
    lines = [line for line in tail.splitlines() if _is_the_commands(line)]
    telling = [line for line in lines if names_an_error(line)]
    chosen = telling[-1] if telling else (lines[-1] if lines else "")
    return clean(chosen).strip()[:_LIMIT]
