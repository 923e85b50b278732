"""The line of a log that tells most about an end. Pure."""

from __future__ import annotations

import re

from autoexp_tui.core.clean import clean

_TELLING = re.compile(
    r"^\S*(?:Error|Exception|Interrupt)\b|\b(?:FATAL|fatal|error:|Error:|ERROR|"
    r"Killed|CANCELLED|Out of memory|oom_kill|Segmentation fault|No such file)"
)
_LIMIT = 300
"""Characters of evidence that are kept."""


def telling_line(tail: str) -> str:
    """The last line of `tail` that names an error, else its last line, cleaned."""
    lines = [line for line in tail.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    chosen = telling[-1] if telling else (lines[-1] if lines else "")
    return clean(chosen.strip())[:_LIMIT]
