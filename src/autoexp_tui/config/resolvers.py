"""The resolvers of a config that are ours: `oc.env`, `oc.eval`, `now` and `ax.*`.

The same arguments give the same value all through a plan, so that templates may call
them; values are bounded as in `oc.eval`. What cannot be computed is a ValueError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from omegaconf import DictConfig, ListConfig, OmegaConf

from autoexp_tui.config.eval_rewrite import MIXED
from autoexp_tui.storage.user_files import hash_keyed
from autoexp_tui.sweep.expression import (
    MAX_TEXT,
    check_bounds_of,
    compile_expression,
)
from autoexp_tui.sweep.points import format_in_name

PREFIX: Final = "ax."
_SPEC: Final = re.compile(r"[<>^]?[+]?0?\d{0,3},?(?:\.\d{1,2})?[dfeg%]?", re.ASCII)
"""The part of Python's format language that numbers in names want."""
_MOST_WIDE: Final = 200


class _Unfit(ValueError):
    """A value of another kind than the helper wants."""


@dataclass(frozen=True, slots=True)
class Helper:
    """One resolver of ours; called, it raises ValueError where values do not fit."""

    name: str
    run: Callable[..., object]
    fewest: int
    most: int | None
    """None: as many values as one likes."""

    def __call__(self, *values: object) -> object:
        """The value."""
        given, most = len(values), math.inf if self.most is None else self.most
        if not self.fewest <= given <= most:
            wanted = f"{self.fewest} to {most} values"
            if self.most is None:
                wanted = f"{self.fewest} or more values"
            elif most == self.fewest:
                wanted = "one value" if most == 1 else f"{most} values"
            raise ValueError(f"{self.name} takes {wanted}, not {given}")
        plain = [*map(_to_plain, values)]  # what a value refers to has words of its own
        try:
            found = check_bounds_of(self.run(*plain))
        except ZeroDivisionError:
            raise ValueError(f"{self.name} divides by zero") from None
        except OverflowError:
            raise ValueError(f"{self.name} makes too large a number") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name}: {error}") from None
        return _make_list(found)


def _check_number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit(f"{_format_value(value)} is no number")
    return value


def _round_down_to(value: object, step: object) -> object:
    return _check_number(value) // _check_number(step) * _check_number(step)


def _choose(condition: object, then: object, other: object) -> object:
    if not isinstance(condition, bool):
        raise _Unfit(f"{_format_value(condition)} is neither true nor false")
    return then if condition else other


def _check_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Mapping | list | tuple):
        raise _Unfit(f"{_format_value(value)} is no text")
    return format_in_name(value)


def _join(separator: object, *values: object) -> str:
    lists = (value if isinstance(value, list | tuple) else [value] for value in values)
    parts = [_check_text(item) for items in lists for item in items]
    mark = _check_text(separator)
    if sum(map(len, parts)) + len(mark) * len(parts) > MAX_TEXT:
        raise ValueError(f"makes a text of more than {MAX_TEXT} characters")
    return mark.join(parts)


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
    found, wide = _check_number(value), _check_number(width)
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


def _format_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_TABLE: Final[tuple[tuple[str, Callable[..., object], int, int | None], ...]] = (
    ("floor", lambda value: math.floor(_check_number(value)), 1, 1),
    ("ceil", lambda value: math.ceil(_check_number(value)), 1, 1),
    ("down_to", _round_down_to, 2, 2),
    ("if", _choose, 3, 3),
    ("str", _check_text, 1, 1),
    ("lower", lambda value: _check_text(value).lower(), 1, 1),
    ("upper", lambda value: _check_text(value).upper(), 1, 1),
    ("strip", lambda value: _check_text(value).strip(), 1, 1),
    ("join", _join, 2, None),
    ("split", _split, 1, 2),
    ("replace", _replace, 3, 3),
    ("basename", _get_path_part("name"), 1, 1),
    ("dirname", _get_path_part("parent"), 1, 1),
    ("stem", _get_path_part("stem"), 1, 1),
    ("pad", _pad, 2, 2),
    ("format", _format_number, 2, 2),
)
HELPERS: Final[Mapping[str, Helper]] = {
    PREFIX + name: Helper(PREFIX + name, run, fewest, most)
    for name, run, fewest, most in _TABLE
}
_NO_DEFAULT: Final = "\0no default"
PURE: Final = frozenset({"oc.env", "oc.eval", "now", *HELPERS})
"""Resolvers that give the same for the same arguments, all through a plan."""


class Environment:
    """The environment as it was once; constant within a plan."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._asked: set[str] = set()

    def read(self, name: str, default: object = _NO_DEFAULT) -> str | None:
        """The variable's text, as `oc.env` gives it; LookupError without any."""
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
    resolvers: dict[str, Callable[..., object]] = {
        "oc.env": environment.read,
        "oc.eval": evaluate,
        "now": moment.strftime,
        **HELPERS,
    }
    for name, resolver in resolvers.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def evaluate(expression: object, *operands: object) -> object:
    """The value of an expression over `_0`, `_1` ...; ValueError where it has none."""
    text = str(expression)
    if MIXED.search(text):
        shown = MIXED.sub("${...}", text)
        raise ValueError(
            f"oc.eval `{shown}`: `_0` goes with no ${{...}} in one expression; quote "
            "the expression alone, and give its arguments after it: "
            "${oc.eval:'_0 + 1',${key}}"
        )
    names = {f"_{at}": _to_plain(value) for at, value in enumerate(operands)}
    try:
        value = compile_expression(text).evaluate(names)
    except (ValueError, ArithmeticError, TypeError, LookupError) as error:
        given = ", ".join(f"{name} = {value!r}" for name, value in names.items())
        shown = f"`{expression}`" + (f" with {given}" if given else "")
        raise ValueError(f"oc.eval {shown}: {error}") from None
    return _make_list(value)


def _make_list(value: object) -> object:
    """A config knows lists alone."""
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _to_plain(value: object) -> object:
    if isinstance(value, DictConfig | ListConfig):
        return OmegaConf.to_container(value, resolve=True)
    return value
