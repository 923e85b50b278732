"""Reasons as sentences: what a recorded `Why` says to a person. A code that is not in
`CODES` is printed plainly. Arguments come from outside and are cleaned; they are never
read as templates or markup."""

from __future__ import annotations

import functools
import math
import re
import string
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.sentences import CODES
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import (
    UNKNOWN,
    clock_time,
    count,
    duration,
    fit,
    format_number,
    ordinal,
    size,
)

if TYPE_CHECKING:
    from autoexp_tui.model.states import Why

Arg: TypeAlias = str | int | float

SHORT_COLUMNS: Final = 30
_ARG_LIMIT: Final = 240
_PATH_LIMIT: Final = 4096

CAUSES: Final[Mapping[str, str]] = {
    **{cause: cause.replace("_", " ") for cause in Cause},
    Cause.TIMEOUT: "time limit",
    Cause.NODE_FAIL: "node failure",
    Cause.NAN: "loss not a number",
    Cause.STALL: "no step",
    Cause.START_TIMEOUT: "waited too long",
    Cause.UPSTREAM: "what it needs ended",
    Cause.USER: "cancelled by a person",
    Cause.REJECTED: "refused by the executor",
    Cause.SUBMIT_ERROR: "could not be sent",
    Cause.DUPLICATE: "ran elsewhere",
    Cause.LOST: "no trace left",
    Cause.BUDGET: "budget spent",
}
STATES: Final[Mapping[str, str]] = {
    **{state: state.lower() for state in JobState},
    JobState.SUBMITTING: "being sent",
    JobState.SUBMIT_UNKNOWN: "in doubt",
}
_DONE_TO_IT: Final = frozenset({JobState.CANCELLED, JobState.SKIPPED, JobState.LOST})


def format_cause_of_end(cause: Cause, state: JobState) -> str:
    """What ended a job, in a few words; `state`: the one that it ended in."""
    skipped = (cause, state) == (Cause.USER, JobState.SKIPPED)
    return "skipped by a person" if skipped else CAUSES[cause]


_SAYS_IT_ITSELF: Final = frozenset({"cancel_condition", "cancelled_by_rule"})


def format_reason(why: Why, cause: Cause | None, now: float) -> str:
    """Why a job is where it is; a cancel condition is named, for its fact alone does
    not tell that it ended the job."""
    words = sentence(why, now)
    if cause is not Cause.CANCEL_CONDITION or why.code in _SAYS_IT_ITSELF:
        return words
    return f"{CAUSES[cause]}: {words}"


_KEYS: Final = re.compile(r"\. [A-Z] [a-z].*\.", re.DOTALL)
"""What a template says last of the cockpit's keys."""


def sentence(why: Why, now: float, *, keys: bool = True) -> str:
    """The whole reason; `keys`: whether a cockpit's keys may be the next step."""
    phrases = CODES.get(why.code)
    if phrases is None:
        return _plain(why)
    template = phrases.sentence
    if not keys and (found := _KEYS.search(template)) and found.end() == len(template):
        template = template[: found.start()]
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


_CLOSING: Final = ("?", "!", ".", "…")
_PARSE: Final = functools.cache(lambda span: tuple(string.Formatter().parse(span)))


def _render(template: str, args: Mapping[str, Arg], now: float | None) -> str:
    done = ""
    for at, span in enumerate(re.split(r"[\[\]]", template)):
        pieces, is_optional = _PARSE(span), at % 2
        names = (name for _, name, _, _ in pieces if name)
        if is_optional and any(args.get(name, "") == "" for name in names):
            continue
        for text, name, form, _ in pieces:
            # A full stop is left out after an argument that ends so.
            done += text[1:] if done.endswith(_CLOSING) and text[:1] == "." else text
            if name:
                value = args.get(name, "")
                done += UNKNOWN if value == "" else _FORMS[form or ""](value, now)
    return done


def _text(value: Arg, now: float | None = None, limit: int = _ARG_LIMIT) -> str:
    if isinstance(value, str):
        return clean(value, limit=limit)
    return format_number(value)


def _state(value: Arg, now: float | None) -> str:
    return STATES.get(str(value), _text(value).lower())


def _numeric(spell: Callable[[float], str]) -> Callable[[Arg, float | None], str]:
    return lambda value, _now: _text(value) if isinstance(value, str) else spell(value)


def _clock(value: Arg, now: float | None) -> str:
    return _text(value) if isinstance(value, str) else clock_time(value, now)


def _age(value: Arg, now: float | None) -> str:
    """How long ago a moment was; where nobody says what time it is, the moment."""
    if isinstance(value, str) or now is None:
        return _clock(value, now)
    return duration(now - value)


_WHO: Final = {"person": "a person", "cockpit": "a person", "script": "a script"}
_FORMS: Final[Mapping[str, Callable[[Arg, float | None], str]]] = {
    "": _text,
    "path": lambda value, now: _text(value, now, _PATH_LIMIT),
    # Enough to know a path by.
    "tail": lambda value, now: "/".join(_text(value).rstrip("/").split("/")[-2:]),
    "state": _state,
    # A verb after a job's name.
    "ended": lambda value, now: (
        f"{'was ' if value in _DONE_TO_IT else ''}{_state(value, now)}"
    ),
    "cause": lambda value, now: CAUSES.get(str(value), _text(value).replace("_", " ")),
    # What is no role is a name or a flag, as it is.
    "who": lambda value, now: _WHO.get(str(value), _text(value)),
    "name": lambda value, now: _text(value)[:1].upper() + _text(value)[1:],
    "clock": _clock,
    "age": _age,
    "duration": _numeric(duration),
    "size": _numeric(size),
    "count": _numeric(count),
    "ordinal": _numeric(
        lambda value: ordinal(int(value)) if math.isfinite(value) else UNKNOWN
    ),
}
