"""Helpers for configs: `${ax.add:...}`, `${ax.pad:...}` and their like.

All in one table, with what each wants. They are pure (the same arguments give the same
value), so that templates may call them, and every value they make is bounded as in
`oc.eval`. What cannot be computed is a ValueError that names the helper and the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Final

from autoexp_tui.sweep.names import format_in_name
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
    pure: bool = True

    def __call__(self, *values: object) -> object:
        """The value.

        Raises:
            ValueError: too few or too many values, or values that do not fit.
        """
        if len(values) < self.fewest or (
            self.most is not None and len(values) > self.most
        ):
            raise ValueError(f"{self.name} takes {self._wants()}, not {len(values)}")
        try:
            found = check_bounds_of(self.run(*values))
        except ZeroDivisionError:
            raise ValueError(f"{self.name} divides by zero") from None
        except OverflowError:
            raise ValueError(f"{self.name} makes too large a number") from None
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        return list(found) if isinstance(found, tuple | set | frozenset) else found

    def _wants(self) -> str:
        if self.most is None:
            return f"{self.fewest} or more values"
        if self.most == self.fewest:
            return "one value" if self.most == 1 else f"{self.most} values"
        return f"{self.fewest} to {self.most} values"


# -------------------------------------------------------------------- arithmetic
def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit(f"{_shown(value)} is no number")
    return value


def _folded(sign: str, *values: object) -> object:
    total: object = _number(values[0])
    for value in values[1:]:
        total = check_bounds_of(_OPERATORS[sign](_number(total), _number(value)))
    return total


def _whole(rounded: Callable[[float], int], value: object) -> object:
    found = _number(value)
    if not math.isfinite(found):
        raise ValueError(f"{found} has no whole number near it")
    return rounded(found)


def _rounded_to(value: object, step: object) -> object:
    return _number(value) // _number(step) * _number(step)


def _chosen(condition: object, then: object, other: object) -> object:
    if not isinstance(condition, bool):
        raise _Unfit(f"{_shown(condition)} is neither true nor false")
    return then if condition else other


# -------------------------------------------------------------------------- texts
def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Mapping | list | tuple):
        raise _Unfit(f"{_shown(value)} is no text")
    return format_in_name(value)


def _joined(separator: object, *values: object) -> str:
    parts = [_text(item) for value in values for item in _items(value)]
    mark = _text(separator)
    if sum(map(len, parts)) + len(mark) * len(parts) > MAX_TEXT:
        raise ValueError(f"makes a text of more than {MAX_TEXT} characters")
    return mark.join(parts)


def _items(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        yield from value
    else:
        yield value


def _split(value: object, separator: object = None) -> list[str]:
    mark = None if separator is None else _text(separator)
    if mark == "":
        raise ValueError("the separator is empty")
    return _text(value).split(mark)


def _replaced(value: object, old: object, new: object) -> str:
    text, before, after = _text(value), _text(old), _text(new)
    if not before:
        raise ValueError("the text to replace is empty")
    if len(text) + text.count(before) * len(after) > MAX_TEXT:
        raise ValueError(f"makes a text of more than {MAX_TEXT} characters")
    return text.replace(before, after)


def _padded(value: object, width: object) -> str:
    found = _number(value)
    wide = _number(width)
    if not isinstance(found, int) or not isinstance(wide, int):
        raise _Unfit("pads whole numbers to a whole number of digits")
    if not 0 <= wide <= _MOST_WIDE:
        raise ValueError(f"pads to at most {_MOST_WIDE} digits")
    return f"{found:0{wide}d}"


def _formatted(value: object, spec: object) -> str:
    pattern = _text(spec)
    if not _SPEC.fullmatch(pattern):
        hint = "as in 08d, .3f, .2e, g or ,d"
        raise ValueError(f"{_shown(pattern)} is no format for a number: {hint}")
    return format(_number(value), pattern)


def _of_path(part: str, value: object) -> str:
    return str(getattr(PurePosixPath(_text(value)), part))


def _method(name: str, value: object) -> str:
    return str(getattr(_text(value), name)())


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# -------------------------------------------------------------------------- table
def _of_eval(name: str) -> Callable[..., object]:
    return FUNCTIONS[name][0]


HELPERS: Final[Mapping[str, Helper]] = {
    helper.name: helper
    for helper in (
        Helper("ax.add", partial(_folded, "+"), 2, None, "the sum of numbers"),
        Helper("ax.sub", partial(_folded, "-"), 2, 2, "the first less the second"),
        Helper("ax.mul", partial(_folded, "*"), 2, None, "the product of numbers"),
        Helper("ax.div", partial(_folded, "/"), 2, 2, "the quotient, a decimal number"),
        Helper("ax.floordiv", partial(_folded, "//"), 2, 2, "the quotient, whole"),
        Helper("ax.mod", partial(_folded, "%"), 2, 2, "what a division leaves"),
        Helper("ax.pow", partial(_folded, "**"), 2, 2, "the first to the second"),
        Helper("ax.min", _of_eval("min"), 1, None, "the least, of values or a list"),
        Helper("ax.max", _of_eval("max"), 1, None, "the greatest, likewise"),
        Helper("ax.sum", _of_eval("sum"), 1, None, "the sum, likewise"),
        Helper("ax.len", _of_eval("len"), 1, 1, "how long a text or a list is"),
        Helper("ax.abs", _of_eval("abs"), 1, 1, "a number without its sign"),
        Helper("ax.int", _of_eval("int"), 1, 1, "a number, or a text, as a whole one"),
        Helper("ax.float", _of_eval("float"), 1, 1, "likewise as a decimal one"),
        Helper("ax.round", _of_eval("round"), 1, 2, "rounded, to so many places"),
        Helper("ax.floor", partial(_whole, math.floor), 1, 1, "the next below, whole"),
        Helper("ax.ceil", partial(_whole, math.ceil), 1, 1, "the next above, whole"),
        Helper("ax.down_to", _rounded_to, 2, 2, "rounded down to a multiple"),
        Helper("ax.if", _chosen, 3, 3, "the second if the first is true, or the third"),
        Helper("ax.str", _text, 1, 1, "as text, numbers spelled as in names"),
        Helper("ax.lower", partial(_method, "lower"), 1, 1, "in small letters"),
        Helper("ax.upper", partial(_method, "upper"), 1, 1, "in capitals"),
        Helper("ax.strip", partial(_method, "strip"), 1, 1, "without space around it"),
        Helper("ax.join", _joined, 2, None, "values, or lists, with the first between"),
        Helper("ax.split", _split, 1, 2, "a list, cut at the second or at spaces"),
        Helper("ax.replace", _replaced, 3, 3, "with the second replaced by the third"),
        Helper("ax.basename", partial(_of_path, "name"), 1, 1, "a path's last part"),
        Helper("ax.dirname", partial(_of_path, "parent"), 1, 1, "what is before it"),
        Helper("ax.stem", partial(_of_path, "stem"), 1, 1, "it without its suffix"),
        Helper("ax.pad", _padded, 2, 2, "a whole number with zeros before it"),
        Helper("ax.format", _formatted, 2, 2, "a number by a format such as .3f"),
    )
}
"""Every helper, by name."""


def names() -> Sequence[str]:
    """The names of all helpers."""
    return tuple(HELPERS)
