"""The resolvers of a config that are ours: `oc.env`, `oc.eval`, `now` and `ax.*`.

Registered for the whole process, which belongs to planning. `oc.env` answers from one
reading of the environment and remembers what was asked; `now` is one moment for all
jobs of a plan; `oc.eval` is `plan`'s safe evaluator over typed operands (see
`eval_rewrite`); `ax.*` are helpers, all in one table with what each wants. They are
pure (the same arguments give the same value), so that templates may call them, and
every value they make is bounded as in `oc.eval`. What cannot be computed is a
ValueError that names the helper and the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from omegaconf import DictConfig, ListConfig, OmegaConf

from autoexp_tui.config.eval_rewrite import MIXED
from autoexp_tui.storage.user_files import hash_keyed
from autoexp_tui.sweep.expression import compile_expression
from autoexp_tui.sweep.points import format_in_name
from autoexp_tui.sweep.safe_arithmetic import (
    ARITHMETIC,
    FUNCTIONS,
    MAX_TEXT,
    check_bounds_of,
)

PREFIX: Final = "ax."
_SPEC: Final = re.compile(r"[<>^]?[+]?0?\d{0,3},?(?:\.\d{1,2})?[dfeg%]?", re.ASCII)
"""The part of Python's format language that numbers in names want."""
_MOST_WIDE: Final = 200
_OPERATORS: Final = dict(ARITHMETIC.values())


class _Unfit(ValueError):
    """A value of another kind than the helper wants."""


@dataclass(frozen=True, slots=True)
class Helper:
    """One resolver of ours."""

    name: str
    run: Callable[..., object]
    fewest: int
    most: int | None
    """None: as many values as one likes."""
    says: str
    """What it gives, for the documentation."""

    def __call__(self, *values: object) -> object:
        """The value.

        Raises:
            ValueError: too few or too many values, or values that do not fit.
        """
        if len(values) < self.fewest or (
            self.most is not None and len(values) > self.most
        ):
            raise ValueError(
                f"{self.name} takes {self._describe_wanted()}, not {len(values)}"
            )
        try:
            found = check_bounds_of(self.run(*values))
        except ZeroDivisionError:
            raise ValueError(f"{self.name} divides by zero") from None
        except OverflowError:
            raise ValueError(f"{self.name} makes too large a number") from None
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        return list(found) if isinstance(found, tuple | set | frozenset) else found

    def _describe_wanted(self) -> str:
        if self.most is None:
            return f"{self.fewest} or more values"
        if self.most == self.fewest:
            return "one value" if self.most == 1 else f"{self.most} values"
        return f"{self.fewest} to {self.most} values"


# -------------------------------------------------------------------- arithmetic
def _check_number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit(f"{_format_value(value)} is no number")
    return value


def _fold(sign: str) -> Callable[..., object]:
    def fold(first: object, *values: object) -> object:
        total: object = _check_number(first)
        for value in values:
            numbers = _check_number(total), _check_number(value)
            total = check_bounds_of(_OPERATORS[sign](*numbers))
        return total

    return fold


def _round_whole(rounded: Callable[[float], int]) -> Callable[..., object]:
    def round_number(value: object) -> object:
        found = _check_number(value)
        if not math.isfinite(found):
            raise ValueError(f"{found} has no whole number near it")
        return rounded(found)

    return round_number


def _round_down_to(value: object, step: object) -> object:
    return _check_number(value) // _check_number(step) * _check_number(step)


def _choose(condition: object, then: object, other: object) -> object:
    if not isinstance(condition, bool):
        raise _Unfit(f"{_format_value(condition)} is neither true nor false")
    return then if condition else other


# -------------------------------------------------------------------------- texts
def _check_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Mapping | list | tuple):
        raise _Unfit(f"{_format_value(value)} is no text")
    return format_in_name(value)


def _join(separator: object, *values: object) -> str:
    parts = [_check_text(item) for value in values for item in _list_items(value)]
    mark = _check_text(separator)
    if sum(map(len, parts)) + len(mark) * len(parts) > MAX_TEXT:
        raise ValueError(f"makes a text of more than {MAX_TEXT} characters")
    return mark.join(parts)


def _list_items(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        yield from value
    else:
        yield value


def _split(value: object, separator: object = None) -> list[str]:
    mark = None if separator is None else _check_text(separator)
    if mark == "":
        raise ValueError("the separator is empty")
    return _check_text(value).split(mark)


def _replace(value: object, old: object, new: object) -> str:
    text, before, after = _check_text(value), _check_text(old), _check_text(new)
    if not before:
        raise ValueError("the text to replace is empty")
    if len(text) + text.count(before) * len(after) > MAX_TEXT:
        raise ValueError(f"makes a text of more than {MAX_TEXT} characters")
    return text.replace(before, after)


def _pad(value: object, width: object) -> str:
    found = _check_number(value)
    wide = _check_number(width)
    if not isinstance(found, int) or not isinstance(wide, int):
        raise _Unfit("pads whole numbers to a whole number of digits")
    if not 0 <= wide <= _MOST_WIDE:
        raise ValueError(f"pads to at most {_MOST_WIDE} digits")
    return f"{found:0{wide}d}"


def _format_number(value: object, spec: object) -> str:
    pattern = _check_text(spec)
    if not _SPEC.fullmatch(pattern):
        hint = "as in 08d, .3f, .2e, g or ,d"
        raise ValueError(f"{_format_value(pattern)} is no format for a number: {hint}")
    return format(_check_number(value), pattern)


def _get_path_part(part: str) -> Callable[..., object]:
    return lambda value: str(getattr(PurePosixPath(_check_text(value)), part))


def _call_method(name: str) -> Callable[..., object]:
    return lambda value: getattr(_check_text(value), name)()


def _format_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# -------------------------------------------------------------------------- table
_Row: TypeAlias = tuple[str, Callable[..., object], int, int | None, str]
_TABLE: Final[tuple[_Row, ...]] = (
    ("add", _fold("+"), 2, None, "the sum of numbers"),
    ("sub", _fold("-"), 2, 2, "the first less the second"),
    ("mul", _fold("*"), 2, None, "the product of numbers"),
    ("div", _fold("/"), 2, 2, "the quotient, a decimal number"),
    ("floordiv", _fold("//"), 2, 2, "the quotient, whole"),
    ("mod", _fold("%"), 2, 2, "what a division leaves"),
    ("pow", _fold("**"), 2, 2, "the first to the second"),
    ("min", FUNCTIONS["min"][0], 1, None, "the least, of values or a list"),
    ("max", FUNCTIONS["max"][0], 1, None, "the greatest, likewise"),
    ("sum", FUNCTIONS["sum"][0], 1, None, "the sum, likewise"),
    ("len", FUNCTIONS["len"][0], 1, 1, "how long a text or a list is"),
    ("abs", FUNCTIONS["abs"][0], 1, 1, "a number without its sign"),
    ("int", FUNCTIONS["int"][0], 1, 1, "a number, or a text, as a whole one"),
    ("float", FUNCTIONS["float"][0], 1, 1, "likewise as a decimal one"),
    ("round", FUNCTIONS["round"][0], 1, 2, "rounded, to so many places"),
    ("floor", _round_whole(math.floor), 1, 1, "the next below, whole"),
    ("ceil", _round_whole(math.ceil), 1, 1, "the next above, whole"),
    ("down_to", _round_down_to, 2, 2, "rounded down to a multiple"),
    ("if", _choose, 3, 3, "the second if the first is true, or the third"),
    ("str", _check_text, 1, 1, "as text, numbers spelled as in names"),
    ("lower", _call_method("lower"), 1, 1, "in small letters"),
    ("upper", _call_method("upper"), 1, 1, "in capitals"),
    ("strip", _call_method("strip"), 1, 1, "without space around it"),
    ("join", _join, 2, None, "values, or lists, with the first between"),
    ("split", _split, 1, 2, "a list, cut at the second or at spaces"),
    ("replace", _replace, 3, 3, "with the second replaced by the third"),
    ("basename", _get_path_part("name"), 1, 1, "a path's last part"),
    ("dirname", _get_path_part("parent"), 1, 1, "what is before it"),
    ("stem", _get_path_part("stem"), 1, 1, "it without its suffix"),
    ("pad", _pad, 2, 2, "a whole number with zeros before it"),
    ("format", _format_number, 2, 2, "a number by a format such as .3f"),
)
HELPERS: Final[Mapping[str, Helper]] = {
    PREFIX + name: Helper(PREFIX + name, run, fewest, most, says)
    for name, run, fewest, most, says in _TABLE
}
"""Every helper, by name."""


def names() -> Sequence[str]:
    """The names of all helpers."""
    return tuple(HELPERS)


_NO_DEFAULT: Final = "\0no default"
PURE: Final = frozenset({"oc.env", "oc.eval", "now", *HELPERS})
"""Resolvers that give the same for the same arguments, all through a plan."""


class Environment:
    """The environment as it was once; constant within a plan."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._asked: set[str] = set()

    def read(self, name: str, default: object = _NO_DEFAULT) -> str | None:
        """The variable's text, as `oc.env` gives it.

        Raises:
            LookupError: it is not set and there is no default.
        """
        self._asked.add(name)
        if name in self._values:
            return self._values[name]
        if default == _NO_DEFAULT:
            message = f"the environment variable {name} is not set: export {name}=..."
            raise LookupError(message)
        return None if default is None else str(default)

    def digests(self) -> dict[str, str]:
        """Names that were asked for -> keyed digest of the value; empty: not set."""
        return {
            name: hash_keyed(self._values[name]) if name in self._values else ""
            for name in sorted(self._asked)
        }


def register_resolvers(environment: Environment, now: float) -> None:
    """Make `oc.env`, `oc.eval`, `now` and `ax.*` ours for this process.

    `now`: UTC, seconds since the epoch; `${now:...}` shows it in local time.
    """
    moment = datetime.fromtimestamp(now).astimezone()
    OmegaConf.register_new_resolver("oc.env", environment.read, replace=True)
    OmegaConf.register_new_resolver("oc.eval", evaluate, replace=True)
    OmegaConf.register_new_resolver("now", moment.strftime, replace=True)
    for name, helper in HELPERS.items():
        OmegaConf.register_new_resolver(
            name, partial(_call_helper, helper), replace=True
        )


def _call_helper(helper: Helper, *values: object) -> object:
    return helper(*map(_to_plain, values))


def evaluate(expression: object, *operands: object) -> object:
    """The value of an expression over `_0`, `_1` ...

    Raises:
        ValueError: the expression is refused or fails; it is named with its operands.
    """
    _refuse_mixed(str(expression))
    names = {f"_{at}": _to_plain(value) for at, value in enumerate(operands)}
    try:
        value = compile_expression(str(expression)).evaluate(names)
    except (ValueError, ArithmeticError, TypeError, LookupError) as error:
        given = ", ".join(f"{name} = {value!r}" for name, value in names.items())
        shown = f"`{expression}`" + (f" with {given}" if given else "")
        raise ValueError(f"oc.eval {shown}: {error}") from None
    # A config knows lists alone.
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _refuse_mixed(expression: str) -> None:
    """A `_0` that was written by hand means arguments, and none were told apart."""
    if MIXED.search(expression):
        shown = MIXED.sub("${...}", expression)
        raise ValueError(
            f"oc.eval `{shown}`: `_0` goes with no ${{...}} in one expression; quote "
            "the expression alone, and give its arguments after it: "
            "${oc.eval:'_0 + 1',${key}}"
        )


def _to_plain(value: object) -> object:
    if isinstance(value, DictConfig | ListConfig):
        return OmegaConf.to_container(value, resolve=True)
    return value
