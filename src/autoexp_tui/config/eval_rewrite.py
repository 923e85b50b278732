"""Turns `${oc.eval:EXPR}` into a form whose operands are typed arguments.

    ${oc.eval:int(${a}*0.2)}   ->   ${oc.eval:'int(_0*0.2)',${a}}

Text alone, before OmegaConf's or Hydra's grammar sees it: neither reads parentheses
outside quotes, and inside quotes OmegaConf would paste an operand's *text* into the
expression, so that a value could rewrite it. A text already in that form is left alone,
and one that is not well-formed is handed on, for the grammar's own complaint.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Final

from autoexp_tui.planning.overrides import quote

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
