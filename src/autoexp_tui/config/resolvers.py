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
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final

from omegaconf import DictConfig, ListConfig, OmegaConf

from autoexp_tui.planning.overrides import quote
from autoexp_tui.storage.user_files import hash_keyed
from autoexp_tui.sweep.expression import MAX_TEXT, check_bounds_of, compile_expression
from autoexp_tui.sweep.points import format_in_name, shorten_text
from autoexp_tui.text.interpolations import (
    QUOTES,
    Unbalanced,
    find_end,
    find_whole,
    is_escaped,
    split_tokens,
)

OPEN: Final = "${oc.eval:"
MIXED: Final = re.compile(r"\b__\d+\b")
"""What stands for an operand beside a `_0` that was written by hand: numbered alike,
each of the two would silently have the other's value, so `oc.eval` refuses these."""
_BY_HAND: Final = re.compile(r"\b_\d+\b")
_WORD: Final = re.compile(r"\w")
_ESCAPABLE: Final = tuple("()[]{}:=, \t")
"""What a backslash may stand before, outside quotes, in OmegaConf's grammar."""
_OF_VALUES: Final = "'\"[]{}"
_PRIMITIVE: Final = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\$\{oc\.eval:""", re.DOTALL
)
"""A quoted string of an override, or where an expression begins."""


def rewrite(text: str) -> str:
    """`text` with every `${oc.eval:...}` in typed form, nested ones included."""
    if OPEN not in text:
        return text
    try:
        return _replace_all(text)
    except Unbalanced:
        return text


def rewrite_tree(value: object, written: dict[str, str] | None = None) -> object:
    """`rewrite` for every string in nested mappings and lists; keys stay. `written` is
    told what each text that changed looked like: typed form -> as written."""
    if isinstance(value, str):
        typed = rewrite(value) if OPEN in value else value
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
    """`rewrite` for a Hydra override `key=value`: the result is quoted for Hydra. In a
    list or a mapping, text around a bare `${...}` is refused by Hydra."""
    key, equals, value = text.partition("=")
    if OPEN not in value:
        return text
    try:
        is_open = value.lstrip()[0] in _OF_VALUES
        if is_open or any(token[0] in _OF_VALUES for token in split_tokens(value)):
            return key + equals + _replace_primitives(value)
        return key + equals + quote(_replace_all(value.strip()))
    except Unbalanced:
        return text


def _replace_primitives(value: str) -> str:
    out, at = "", 0
    while found := _PRIMITIVE.search(value, at):
        start, end = found.span()
        end = find_end(value, start) if found[0] == OPEN else end
        whole = value[start:end]
        plain = whole if found[0] == OPEN else unquote(whole)
        typed = quote(_replace_all(plain)) if OPEN in whole else whole
        out, at = out + value[at:start] + typed, end
    return out + value[at:]


def unquote(token: str) -> str:
    """The text of a quoted string; the inverse of `quote`."""
    mark, inner = token[0], token[1:-1]
    halved = re.sub(rf"(\\+){mark}", lambda m: "\\" * (len(m[1]) // 2) + mark, inner)
    body = halved.rstrip("\\")
    return body + "\\" * ((len(halved) - len(body)) // 2)


def _replace_all(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (found := text.find(OPEN, at)) >= 0:
        parts.append(text[at:found])
        at = found + len(OPEN)
        if is_escaped(text, found):
            parts.append(OPEN)
            continue
        end = find_end(text, found)
        parts.append(_format_expression(text[at : end - 1].strip()))
        at = end
    return "".join(parts) + text[at:]


def _format_expression(body: str) -> str:
    """One `${oc.eval:body}` in typed form."""
    if body and body[0] in QUOTES:
        end = find_end(body, 0)
        inner, rest = unquote(body[:end]), body[end:].lstrip()
        if rest.startswith(",") and "${" not in body[:end]:
            return f"{OPEN}{body[:end]}{_replace_all(rest)}}}"
        if not rest or (rest[0] == "," and _find_stem(inner) == "__"):
            body = inner + rest
    lifted, operands = _extract_operands(body)
    return OPEN + ",".join([quote(lifted), *operands]) + "}"


def _extract_operands(expression: str) -> tuple[str, list[str]]:
    """The expression with `_0`, `_1` ... for its operands, and the operands."""
    stem, out, tokens = _find_stem(expression), "", split_tokens(expression)
    operands: list[str] = []
    for at, token in enumerate(tokens):
        after = tokens[at + 1][0] if at + 1 < len(tokens) else ""
        if token == "\\" and after in _ESCAPABLE:
            continue  # OmegaConf's grammar asks for `\(` outside quotes; we do not
        operand = _read_operand(token)
        if operand is None:
            out += token
            continue
        if operand not in operands:
            operands.append(operand)
        # Kept apart from a neighbour that would melt into it (`2${k}`).
        left = " " if at and _WORD.match(tokens[at - 1][-1]) else ""
        right = " " if _WORD.match(after) else ""
        out += f"{left}{stem}{operands.index(operand)}{right}"
    return out, operands


def _find_stem(expression: str) -> str:
    """What names operands: `_`, or `__` beside a `_0` of a person's (`MIXED`)."""
    with suppress(Unbalanced):  # for the grammar's own complaint, if it is one
        own = (one if len(one) == 1 else " " for one in split_tokens(expression))
        return "__" if _BY_HAND.search("".join(own)) else "_"
    return "_"


def _read_operand(token: str) -> str | None:
    """What a token is as an argument; None: it is part of the expression. A quoted
    operand alone gives the operand; text around it makes OmegaConf concatenate, and the
    string as a whole is the argument."""
    return _replace_all(find_whole(token) or token) if "${" in token else None


PREFIX: Final = "ax."
_SPEC: Final = re.compile(r"[<>^]?[+]?0?\d{0,3},?(?:\.\d{1,2})?[dfeg%]?", re.ASCII)
"""The part of Python's format language that numbers in names want."""


def _make_helper(name: str, run: Callable[..., object]) -> Callable[..., object]:
    """A resolver of ours, which raises ValueError where values do not fit."""

    def helper(*values: object) -> object:
        plain = [*map(_to_plain, values)]  # what a value refers to has words of its own
        try:
            found = check_bounds_of(run(*plain))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from None
        return _make_list(found)

    return helper


def _check_number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{shorten_text(repr(value))} is no number")
    return value


def _round_down_to(value: Any, step: Any) -> object:
    return value // step * step


def _choose(condition: object, then: object, other: object) -> object:
    if not isinstance(condition, bool):
        raise TypeError(f"{shorten_text(repr(condition))} is neither true nor false")
    return then if condition else other


def _check_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Mapping | list | tuple):
        raise TypeError(f"{shorten_text(repr(value))} is no text")
    return format_in_name(value)


def _join(separator: object, value: object, *values: object) -> str:
    every = (value, *values)
    lists = (one if isinstance(one, list | tuple) else [one] for one in every)
    parts = [_check_text(item) for items in lists for item in items]
    mark = _check_text(separator)
    _check_length(sum(map(len, parts)) + len(mark) * len(parts))
    return mark.join(parts)


def _check_length(length: int) -> None:
    """Before the text is made."""
    if length > MAX_TEXT:
        raise ValueError(f"makes a text of more than {MAX_TEXT} characters")


def _split(value: object, separator: object = None) -> list[str]:
    mark = None if separator is None else _check_text(separator)
    return _check_text(value).split(mark)


def _replace(value: object, old: object, new: object) -> str:
    text, before, after = _check_text(value), _check_text(old), _check_text(new)
    if not before:
        raise ValueError("the text to replace is empty")
    _check_length(len(text) + text.count(before) * len(after))
    return text.replace(before, after)


def _format_number(value: object, spec: object) -> str:
    pattern = _check_text(spec)
    if not _SPEC.fullmatch(pattern):
        hint = "as in 08d, .3f, .2e, g or ,d"
        raise ValueError(
            f"{shorten_text(repr(pattern))} is no format for a number: {hint}"
        )
    return format(_check_number(value), pattern)


def _pad(value: object, width: object) -> str:
    return _format_number(value, f"0{width}d")


_TABLE: Final[Mapping[str, Callable[..., object]]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "down_to": _round_down_to,
    "if": _choose,
    "str": _check_text,
    "lower": lambda value: _check_text(value).lower(),
    "upper": lambda value: _check_text(value).upper(),
    "strip": lambda value: _check_text(value).strip(),
    "join": _join,
    "split": _split,
    "replace": _replace,
    "basename": lambda value: PurePosixPath(_check_text(value)).name,
    "dirname": lambda value: str(PurePosixPath(_check_text(value)).parent),
    "stem": lambda value: PurePosixPath(_check_text(value)).stem,
    "pad": _pad,
    "format": _format_number,
}
HELPERS: Final = {
    PREFIX + name: _make_helper(PREFIX + name, run) for name, run in _TABLE.items()
}
_NO_DEFAULT: Final = "\0no default"
PURE: Final = frozenset({"oc.env", "oc.eval", "now", *HELPERS})
"""Resolvers that give the same for the same arguments, all through a plan."""


@dataclass(slots=True)
class Environment:
    """The environment as it was once; constant within a plan."""

    _values: Mapping[str, str]
    _asked: set[str] = field(default_factory=set)

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
    """Make `oc.env`, `oc.eval`, `now`, `ax.*` ours; `now`: seconds since the epoch."""
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
