"""What the words of a failed call mean: who should do what about it, and when.

The words are those of codex 0.169, Claude Code 2.1, OpenAI's and Anthropic's interfaces
and of common HTTP clients; what is not recognised is the agent's own error.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from autoexp_tui.model.agents import Outcome

_STATUS: Final = r"\b(?:status|error|http|code)\b\W{0,3}(?:code\W{0,3})?"
_CAUSES: Final = (
    (
        Outcome.RATE_LIMIT,
        rf"{_STATUS}429\b|\b429 too many|rate.?limit|too many requests|usage limit"
        r"|hit your limit|insufficient_quota|exceeded your current quota",
    ),
    (
        Outcome.AUTH_ERROR,
        rf"{_STATUS}40[13]\b|\b401 unauthorized|(?:incorrect|invalid|no) api key"
        r"|authentication_error|missing environment variable|not logged in"
        r"|run /login|oauth token has expired|permission_error",
    ),
    (
        Outcome.UNAVAILABLE,
        rf"{_STATUS}5\d\d\b|\b50[0234] (?:internal|bad|service|gateway)|overloaded"
        r"|high demand|service unavailable|stream disconnected|connection (?:error|re)"
        r"|error sending request|\b(?:econnre|enotfound|etimedout)|could not resolve"
        r"|name resolution|network is unreachable",
    ),
)
_EPOCH: Final = r"limit reached\|(\d{9,11})\b"
_AFTER: Final = (
    r"(?i)(?:(?:try again|retry|resets?)[ -](?:in|after):?|retry-after\W{1,3})\s*"
    r"((?:\d+(?:\.\d+)?\s*(?:ms|[dhms]\w*)?[\s,]*(?:and\s+)?)+)"
)
_PART: Final = r"(?i)(\d+(?:\.\d+)?)\s*(ms|milli|[dhms]|)"
_SECONDS: Final = {"ms": 1e-3, "milli": 1e-3, "d": 86400, "h": 3600, "m": 60, "s": 1}
_ISO: Final = r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
_CLOCK: Final = r"(?i)(?:try again at|resets?(?: at)?) (\d{1,2})(?::(\d\d))? ?([ap])m"
"""Patterns are compiled when a call failed: most do not."""
_MOST_SECONDS: Final = 31 * 86400.0


def find_cause(text: str) -> Outcome:
    """The outcome that a message of failure tells of."""
    found = (one for one, pattern in _CAUSES if re.search(pattern, text, re.I))
    return next(found, Outcome.AGENT_ERROR)


def find_resumption(text: str, now: datetime) -> float | None:
    """When, in seconds of Unix time, a rate limit is said to end; None: it is not, or
    not within a month. `now` has the time zone in which clock times are meant."""
    with suppress(ValueError):  # no such date
        found = _read_resumption(text, now)
        if found is not None and found <= now.timestamp() + _MOST_SECONDS:
            return found
    return None


def _read_resumption(text: str, now: datetime) -> float | None:
    if told := re.search(_EPOCH, text):
        return float(told[1])
    if told := re.search(_AFTER, text):
        parts = re.findall(_PART, told[1])
        seconds = sum(float(n) * _SECONDS[unit.lower() or "s"] for n, unit in parts)
        return now.timestamp() + seconds
    if told := re.search(_ISO, text):
        return datetime.fromisoformat(told[0]).timestamp()
    if told := re.search(_CLOCK, text):
        return _find_next(int(told[1]), int(told[2] or 0), told[3].lower(), now)
    return None


def _find_next(hour: int, minute: int, half: str, now: datetime) -> float | None:
    if not (1 <= hour <= 12 and minute < 60):
        return None
    hour = hour % 12 + (12 if half == "p" else 0)
    at = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (at if at > now else at + timedelta(days=1)).timestamp()
