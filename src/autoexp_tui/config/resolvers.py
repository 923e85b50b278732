"""The resolvers of a config that are ours: `oc.env`, `oc.eval`, `now` and `ax.*`.

The same arguments give the same value all through a plan, so that templates may call
them; values are bounded as in `oc.eval`. What cannot be computed is a ValueError.

Turns `${oc.eval:EXPR}` into a form whose operands are typed arguments.

    ${oc.eval:int(${a}*0.2)}   ->   ${oc.eval:'int(_0*0.2)',${a}}

Text alone, before OmegaConf's or Hydra's grammar sees it: neither reads parentheses
outside quotes, and inside quotes OmegaConf would paste an operand's *text* into the
expression, so that a value could rewrite it. A text already in that form is left alone,
and one that is not well-formed is handed on, for the grammar's own complaint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from omegaconf import DictConfig, ListConfig, OmegaConf

from autoexp_tui.planning.overrides import quote
from autoexp_tui.storage.user_files import hash_keyed
from autoexp_tui.sweep.expression import (
    MAX_TEXT,
    check_bounds_of,
    compile_expression,
)
from autoexp_tui.sweep.points import format_in_name

OPEN: Final = "${oc.eval:"
MIXED: Final = re.compile(r"\b__\d+\b")
"""What stands for an operand beside a `_0` that was written by hand: numbered alike,
each of the two would silently have the other's value, so `oc.eval` refuses these."""
_BY_HAND: Final = re.compile(r"\b_\d+\b")
_QUOTES: Final = "'\""
_WORD: Final = re.compile(r"\w")
_ESCAPABLE: Final = tuple("()[]{}:=, \t")
"""What a backslash may stand before, outside quotes, in OmegaConf's grammar."""
_SEPARATORS: Final = {"[": ",", "{": ",:"}
"""What stands between the values of a list, and of a mapping."""
_AFTER_STRING: Final = ("", ",", ":", "]", "}", " ", "\t")


class _Unbalanced(ValueError):
    """A quote or a brace does not close."""


def rewrite(text: str) -> str:
    """`text` with every `${oc.eval:...}` in typed form, nested ones included."""
    if OPEN not in text:
        return text
    try:
        return _replace_all(text)
    except _Unbalanced:
        return text


def rewrite_tree(value: object, written: dict[str, str] | None = None) -> object:
    """`rewrite` for every string in nested mappings and lists; keys stay.

    `written` is told what each text that changed looked like: typed form -> as written.
    """
    if isinstance(value, str):
        typed = rewrite(value)
        if written is not None and typed != value:
            written.setdefault(typed, value)
        return typed
    if isinstance(value, dict):
        return {key: rewrite_tree(item, written) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rewrite_tree(item, written) for item in value]
    return value


@lru_cache(maxsize=1024)
def rewrite_override(text: str) -> str:
    """`rewrite` for a Hydra override `key=value`: the result is quoted for Hydra."""
    key, equals, value = text.partition("=")
    if OPEN not in value:
        return text
    try:
        return key + equals + "".join(_split_override(value))
    except _Unbalanced:
        return text


def unquote(token: str) -> str:
    """The text of a quoted string; the inverse of `quote`."""
    mark, inner = token[0], token[1:-1]
    halved = re.sub(rf"(\\+){mark}", lambda m: "\\" * (len(m[1]) // 2) + mark, inner)
    body = halved.rstrip("\\")
    return body + "\\" * ((len(halved) - len(body)) // 2)


def _is_escaped(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before `at`."""
    before = text[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def end_of_interpolation(text: str, start: int) -> int:
    """The index after the `}` that closes the `${` at `start`; -1: it does not."""
    try:
        return _find_brace_end(text, start)
    except _Unbalanced:
        return -1


def _find_brace_end(text: str, start: int) -> int:
    depth, at = 0, start
    while at < len(text):
        char = text[at]
        if char in _QUOTES:
            at = _find_string_end(text, at)
            continue
        depth += (char == "{") - (char == "}")
        at += 1
        if char == "}" and depth == 0:
            return at
    raise _Unbalanced(text)


def _find_string_end(text: str, start: int) -> int:
    """The index after the quote that closes the one at `start`."""
    mark, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text.startswith("${", at):
            at = _find_brace_end(text, at)
        elif text[at] == mark:
            return at + 1
        else:
            at += 1
    raise _Unbalanced(text)


def _replace_all(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (found := text.find(OPEN, at)) >= 0:
        parts.append(text[at:found])
        at = found + len(OPEN)
        if _is_escaped(text, found):
            parts.append(OPEN)
            continue
        end = _find_brace_end(text, found)
        parts.append(_format_expression(text[at : end - 1].strip()))
        at = end
    return "".join(parts) + text[at:]


def _format_expression(body: str) -> str:
    """One `${oc.eval:body}` in typed form."""
    if body and body[0] in _QUOTES:
        end = _find_string_end(body, 0)
        inner, rest = unquote(body[:end]), body[end:].lstrip()
        if rest.startswith(",") and "${" not in body[:end]:
            return f"{OPEN}{body[:end]}{_replace_all(rest)}}}"
        if not rest or (rest[0] == "," and _is_by_hand(inner)):
            body = inner + rest
    lifted, operands = _extract_operands(body)
    return OPEN + ",".join([quote(lifted), *operands]) + "}"


def _extract_operands(expression: str) -> tuple[str, list[str]]:
    """The expression with `_0`, `_1` ... for its operands, and the operands.

    `__0`, `__1` ... where a person has written `_0` (see `MIXED`).
    """
    stem = "__" if _is_by_hand(expression) else "_"
    out: list[str] = []
    operands: list[str] = []
    at = 0
    while at < len(expression):
        end = _find_token_end(expression, at)
        token = expression[at:end]
        if token == "\\" and expression[end : end + 1] in _ESCAPABLE:
            at = end  # OmegaConf's grammar asks for `\(` outside quotes; we do not
            continue
        operand = _read_operand(token)
        if operand is None:
            out.append(token)
        else:
            if operand not in operands:
                operands.append(operand)
            # Kept apart from a neighbour that would melt into it (`2${k}`).
            left = " " if _WORD.match(expression[:at][-1:]) else ""
            right = " " if _WORD.match(expression[end : end + 1]) else ""
            out.append(f"{left}{stem}{operands.index(operand)}{right}")
        at = end
    return "".join(out), operands


def _is_by_hand(expression: str) -> bool:
    """Whether `_0` and the like stand in an expression, strings and `${...}` apart."""
    own: list[str] = []
    at = 0
    with suppress(_Unbalanced):  # for the grammar's own complaint, if it is one
        while at < len(expression):
            end = _find_token_end(expression, at)
            own.append(expression[at] if end == at + 1 else " ")
            at = end
        return _BY_HAND.search("".join(own)) is not None
    return False


def _find_token_end(expression: str, at: int) -> int:
    if expression.startswith("${", at) and not _is_escaped(expression, at):
        return _find_brace_end(expression, at)
    if expression[at] in _QUOTES:
        return _find_string_end(expression, at)
    return at + 1


def _read_operand(token: str) -> str | None:
    """What a token is as an argument; None: it is part of the expression.

    A quoted operand alone gives the operand; text around it makes OmegaConf
    concatenate, and the string as a whole is the argument.
    """
    if token.startswith("${"):
        return _replace_all(token)
    if token[0] not in _QUOTES or "${" not in token:
        return None
    inner = token[1:-1]
    if inner.startswith("${") and _find_brace_end(inner, 0) == len(inner):
        return _replace_all(inner)
    return _replace_all(token)


def _split_override(value: str) -> list[str]:
    """The value's text, each primitive that holds an expression rewritten, quoted."""
    parts: list[str] = []
    primitive = ""
    depth = ""
    at = 0
    while at < len(value):
        end = _find_primitive_end(value, at)
        token, around = value[at:end], depth[-1:]
        if token in "[]{}" or (token in ",:" and token in _SEPARATORS.get(around, "")):
            parts += [_replace_in_primitive(primitive), token]
            primitive = ""
            depth = depth[:-1] if token in "]}" else depth + token.strip(",:")
        else:
            primitive += token
        at = end
    return [*parts, _replace_in_primitive(primitive)]


def _find_primitive_end(value: str, at: int) -> int:
    """`_find_token_end`, where a string ends as in Hydra: at a bare quote.

    One that was quoted without a thought of the quotes in its `${...}` is read whole.
    """
    if value[at] not in _QUOTES:
        return _find_token_end(value, at)
    mark, end = value[at], value.find(value[at], at + 1)
    while end >= 0 and _is_escaped(value, end):
        end = value.find(mark, end + 1)
    if end >= 0 and value[end + 1 : end + 2] in _AFTER_STRING:
        return end + 1
    return _find_string_end(value, at)


def _replace_in_primitive(text: str) -> str:
    if OPEN not in text:
        return text
    bare = text.strip()
    whole = bare[0] in _QUOTES and _find_primitive_end(bare, 0) == len(bare)
    return quote(_replace_all(unquote(bare) if whole else bare))


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
