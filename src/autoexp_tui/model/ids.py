"""How things are named: one hashing function, safe file names, tokens."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

_UNSAFE = re.compile(r"[^A-Za-z0-9._=+,@-]")
_MAX_NAME = 120
"""Bytes of a file name that stay readable; most file systems allow 255."""


def digest(*parts: object, length: int = 12) -> str:
    """Hex sha256 over `parts`, `length` characters; equal parts, equal digest."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def digest_question(name: str, title: str, lines: Iterable[str]) -> str:
    """What binds an answer to a question: to the lines of it that remain."""
    return digest(json.dumps([name, title, *lines]), length=32)


def event_id(session: str, epoch: int, seq: int) -> str:
    return f"{session}-{epoch}-{seq}"


def match_id(
    job: str, attempt: int, run: int, rule: str, offset: int, log: int = 0
) -> str:
    """The identity of a log match; `log`: how often the run's log began anew before."""
    parts = (job, attempt, run, rule, offset)
    return "m" + (digest(*parts, log) if log else digest(*parts))


def build_submission_token(session: str, tasks: tuple[tuple[str, int], ...]) -> str:
    return digest(session, *(f"{job}\x1e{attempt}" for job, attempt in tasks))


def format_filename(name: str) -> str:
    """`name` as one path component: readable where it can be, unique always."""
    clean = _UNSAFE.sub("_", name)
    if clean == name and len(clean) <= _MAX_NAME and clean not in {"", ".", ".."}:
        return clean
    return f"{clean[: _MAX_NAME - 13].strip('.') or 'job'}~{digest(name)}"
