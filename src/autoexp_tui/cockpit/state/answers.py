"""From an answered question to a command: what is typed is checked here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.commands import Command, Resubmit, Skip, Waive

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.questions import Choice

_UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PLAIN: Final = re.compile(r"^(\d+(?:\.\d+)?)\s*([smhd])$")
_CLOCK: Final = re.compile(r"^(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}))?$")


class AnswerError(ValueError):
    """What was typed cannot be meant; the message says why."""


def parse_time_limit(text: str) -> float:
    """Seconds of `90m`, `12h`, `2d`, `12:00:00` or `1-12:00:00`; raises AnswerError."""
    if plain := _PLAIN.match(text.strip()):
        seconds = float(plain[1]) * _UNITS[plain[2]]
    elif clock := _CLOCK.match(text.strip()):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        seconds = float(days * 86400 + hours * 3600 + minutes * 60 + rest)
    else:
        raise AnswerError("a limit reads 90m, 12h, 2d or 12:00:00")
    if seconds <= 0:
        raise AnswerError("a limit is more than nothing")
    return seconds


def parse_overrides(text: str) -> tuple[str, ...]:
    """The overrides in a line, quoted as in a shell; raises AnswerError."""
    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise AnswerError("a quote is not closed") from error
    if not found:
        raise AnswerError("no override was typed")
    for entry in found:
        if not entry.startswith("~") and not re.match(r"^[^=\s]+=", entry):
            raise AnswerError(f"{entry}: an override reads key=value")
    return found


def build_resubmit(jobs: Sequence[str], choice: Choice, text: str) -> Resubmit:
    """The command for an answered R; raises AnswerError."""
    nodes: tuple[str, ...] = ()
    if choice.id == "nodes" and not (nodes := tuple(text.replace(",", " ").split())):
        raise AnswerError("no node was typed")
    return Resubmit(
        jobs=tuple(jobs),
        from_checkpoint=choice.from_checkpoint and choice.id != "planned",
        overrides=parse_overrides(text) if choice.id == "overrides" else (),
        use_files=choice.use_files,
        exclude_nodes=nodes,
        time_limit_seconds=parse_time_limit(text) if choice.id == "limit" else None,
    )


def build_skip(jobs: Sequence[str], choice: Choice, text: str) -> Command:
    """The command for an answered X; raises AnswerError."""
    reason = text.strip()
    if not choice.id.startswith("waive:"):
        return Skip(jobs=tuple(jobs), reason=reason)
    if not reason:
        raise AnswerError("a waived condition needs a reason; it is kept")
    return Waive(job=jobs[0], condition=int(choice.id.split(":")[1]), reason=reason)
