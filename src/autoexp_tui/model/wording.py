"""Reasons as sentences: what a recorded `Why` says to a person.

`CODES` is the closed registry of every code that anybody records; a code that is not
in it is printed plainly, never hidden. Arguments come from outside and are cleaned;
they are never read as templates or markup. Pure: the present is an argument.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.sentences import CODES, Phrases
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import (
    UNKNOWN,
    clock_time,
    count,
    count_columns,
    duration,
    fit,
    format_float,
    format_number,
    ordinal,
    plural,
    size,
)

if TYPE_CHECKING:
    from autoexp_tui.model.states import Why

__all__ = [
    "CAUSES",
    "CODES",
    "SHORT_COLUMNS",
    "STATES",
    "Phrases",
    "clock_time",
    "count",
    "count_columns",
    "duration",
    "fit",
    "format_cause_of_end",
    "format_float",
    "format_number",
    "ordinal",
    "plural",
    "sentence",
    "short",
    "size",
]

Arg: TypeAlias = str | int | float

SHORT_COLUMNS: Final = 30
"""Columns of a short form where nobody says how much room there is."""
_ARG_LIMIT: Final = 240
"""Characters of one argument in a sentence."""
_PATH_LIMIT: Final = 4096
"""The same of a path: all that a path may have."""

CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        Cause.EXIT_CODE: "exit code",
        Cause.SIGNAL: "signal",
        Cause.TIMEOUT: "time limit",
        Cause.OUT_OF_MEMORY: "out of memory",
        Cause.NODE_FAIL: "node failure",
        Cause.PREEMPTED: "preempted",
        Cause.NAN: "loss not a number",
        Cause.STALL: "no step",
        Cause.KILL_CRITERION: "kill criterion",
        Cause.CANCEL_CONDITION: "cancel condition",
        Cause.START_TIMEOUT: "waited too long",
        Cause.UPSTREAM: "what it needs ended",
        Cause.USER: "cancelled by a person",
        Cause.REJECTED: "refused by the executor",
        Cause.SUBMIT_ERROR: "could not be sent",
        Cause.DUPLICATE: "ran elsewhere",
        Cause.LOST: "no trace left",
        Cause.BUDGET: "budget spent",
        Cause.APPROVAL_REFUSED: "approval refused",
    }
)
"""Each cause in a few words."""

STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        JobState.PLANNED: "planned",
        JobState.HELD: "held",
        JobState.WAITING: "waiting",
        JobState.SUBMITTING: "being sent",
        JobState.SUBMIT_UNKNOWN: "in doubt",
        JobState.QUEUED: "queued",
        JobState.RUNNING: "running",
        JobState.SUSPENDED: "suspended",
        JobState.RETRYING: "retrying",
        JobState.COMPLETED: "completed",
        JobState.FAILED: "failed",
        JobState.CANCELLED: "cancelled",
        JobState.SKIPPED: "skipped",
        JobState.LOST: "lost",
    }
)
"""Each state in a word or two."""
_ENDS: Final = MappingProxyType({(Cause.USER, JobState.SKIPPED): "skipped by a person"})
"""Causes that mean something else for one end state."""
_DONE_TO_IT: Final = frozenset({JobState.CANCELLED, JobState.SKIPPED, JobState.LOST})


def format_cause_of_end(cause: Cause, state: JobState) -> str:
    """What ended a job, in a few words; `state`: the one that it ended in."""
    return _ENDS.get((cause, state), CAUSES[cause])


_SAYS_IT_ITSELF: Final = frozenset({"cancel_condition", "cancelled_by_rule"})


def format_reason(why: Why, cause: Cause | None, now: float) -> str:
    """Why a job is where it is; a cancel condition is named, for its fact alone (`the
    log says ...`) does not tell that it ended the job.
    """
    words = sentence(why, now)
    if cause is not Cause.CANCEL_CONDITION or why.code in _SAYS_IT_ITSELF:
        return words
    return f"{CAUSES[cause]}: {words}"


_KEYS: Final = re.compile(r"\. [A-Z] [a-z].*\.", re.DOTALL)
"""What a template says last of the cockpit's keys."""


def sentence(why: Why, now: float, *, keys: bool = True) -> str:
    """The whole reason: facts, numbers, and the next step where there is one.

    Args:
        why: a recorded reason.
        now: the present, UTC seconds; other days' times carry their date.
        keys: whether there is a cockpit whose keys are the next step.
    """
    phrases = CODES.get(why.code)
    if phrases is None:
        return _plain(why)
    template = phrases.sentence
    if not keys and (said := _KEYS.search(template)) and said.end() == len(template):
        template = template[: said.start()]
    return mask_text(_render(template, dict(why.args), now))


def short(why: Why, cells: int = SHORT_COLUMNS) -> str:
    """The reason in at most `cells` columns, without times relative to the present."""
    phrases = CODES.get(why.code)
    if phrases is None:
        return fit(_plain(why), cells)
    return fit(mask_text(_render(phrases.short, dict(why.args), None)), cells)


def wakes(pid: int) -> str:
    """What lets a process go on that Ctrl-Z or SIGSTOP stopped."""
    return f"`fg` in its terminal, or `kill -CONT {pid}`"


def _plain(why: Why) -> str:
    code = clean(why.code, limit=_ARG_LIMIT)
    args = ", ".join(f"{clean(name)}={_text(arg)}" for name, arg in why.args)
    return f"{code} ({args})" if args else code


# -------------------------------------------------------------------- templates
@dataclass(frozen=True, slots=True)
class _Piece:
    """Literal text, or an argument with its form."""

    text: str = ""
    name: str = ""
    form: str = ""


_Span: TypeAlias = tuple[bool, tuple[_Piece, ...]]
"""(may be left out, its pieces)."""

_CLOSING: Final = ("?", "!", ".", "…")
_TOKEN: Final = re.compile(r"\[|\]|\{(\w+)(?::([a-z]+))?\}|[^\[\]{]+|\{")


@functools.cache
def _compile_template(template: str) -> tuple[_Span, ...]:
    spans: list[_Span] = []
    pieces: list[_Piece] = []
    for match in _TOKEN.finditer(template):
        if match[0] in ("[", "]"):
            spans.append((match[0] == "]", tuple(pieces)))
            pieces = []
        elif match[1]:
            pieces.append(_Piece(name=match[1], form=match[2] or ""))
        else:
            pieces.append(_Piece(text=match[0]))
    return (*spans, (False, tuple(pieces)))


def _render(template: str, args: Mapping[str, Arg], now: float | None) -> str:
    said = ""
    for optional, pieces in _compile_template(template):
        if not (optional and _lacks(pieces, args)):
            for piece in pieces:
                said = _join_texts(said, _piece(piece, args, now))
    return said


def _join_texts(said: str, more: str) -> str:
    """Text after text; a full stop is left out after an argument that ends so."""
    closed = said.endswith(_CLOSING) and more[:1] == "."
    return said + (more[1:] if closed else more)


def _lacks(pieces: tuple[_Piece, ...], args: Mapping[str, Arg]) -> bool:
    return any(piece.name and args.get(piece.name, "") == "" for piece in pieces)


def _piece(piece: _Piece, args: Mapping[str, Arg], now: float | None) -> str:
    if not piece.name:
        return piece.text
    value = args.get(piece.name, "")
    if value == "":
        return UNKNOWN
    return _FORMS[piece.form](value, now)


# ------------------------------------------------------------------------ forms
def _text(value: Arg, now: float | None = None) -> str:
    if isinstance(value, str):
        return clean(value, limit=_ARG_LIMIT)
    return format_number(value)


def _path(value: Arg, now: float | None) -> str:
    """A path as a whole."""
    return (
        clean(value, limit=_PATH_LIMIT)
        if isinstance(value, str)
        else format_number(value)
    )


def _tail(value: Arg, now: float | None) -> str:
    """The last two parts of a path: enough to know it by."""
    return "/".join(_text(value).rstrip("/").split("/")[-2:])


def _state(value: Arg, now: float | None) -> str:
    return STATES.get(str(value), _text(value).lower())


def _format_ended(value: Arg, now: float | None) -> str:
    """A state as a verb after a job's name."""
    return f"was {_state(value, now)}" if value in _DONE_TO_IT else _state(value, now)


def _cause(value: Arg, now: float | None) -> str:
    return CAUSES.get(str(value), _text(value).replace("_", " "))


_WHO: Final = {"person": "a person", "cockpit": "a person", "script": "a script"}


def _who(value: Arg, now: float | None) -> str:
    """Who gave a command; what is no role is a name or a flag, as it is."""
    return _WHO.get(str(value), _text(value))


def _name(value: Arg, now: float | None) -> str:
    """A name at the start of a sentence."""
    text = _text(value)
    return text[:1].upper() + text[1:]


def _numeric(spell: Callable[[float], str]) -> Callable[[Arg, float | None], str]:
    def form(value: Arg, now: float | None) -> str:
        return _text(value) if isinstance(value, str) else spell(value)

    return form


def _clock(value: Arg, now: float | None) -> str:
    return _text(value) if isinstance(value, str) else clock_time(value, now)


def _age(value: Arg, now: float | None) -> str:
    """How long ago a moment was; where nobody says what time it is, the moment."""
    if isinstance(value, str) or now is None:
        return _clock(value, now)
    return duration(now - value)


def _ordinal(value: float) -> str:
    return ordinal(int(value)) if math.isfinite(value) else UNKNOWN


_FORMS: Final[Mapping[str, Callable[[Arg, float | None], str]]] = MappingProxyType(
    {
        "": _text,
        "path": _path,
        "tail": _tail,
        "state": _state,
        "ended": _format_ended,
        "cause": _cause,
        "who": _who,
        "name": _name,
        "clock": _clock,
        "age": _age,
        "duration": _numeric(duration),
        "size": _numeric(size),
        "count": _numeric(count),
        "ordinal": _numeric(_ordinal),
    }
)
