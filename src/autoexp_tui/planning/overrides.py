"""Values in Hydra's override grammar, spelled so that they read back equal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

BARE: Final = re.compile(r"(?!\.[0-9])[A-Za-z_/.][\w/.\-:@%+]*", re.ASCII)
"""Texts that need no quotes."""
_WORDS: Final = frozenset({"null", "true", "false", "nan", "inf"})
_KEY_TO_ESCAPE: Final = re.compile(r"([\\()\[\]{}:=, \t])")
_KEY_IN_ESCAPES: Final = re.compile(r"[A-Za-z_][\w/.\-\\()\[\]{}:=, \t]*", re.ASCII)


class CannotSpell(ValueError):
    """A value that no Hydra override can carry."""


def format_override(key: str, value: object) -> str:
    """`key=value` in Hydra's grammar, or `~key`; raises CannotSpell."""
    if key.startswith("~") and value is None:
        return key
    return f"{key}={format_value(value)}"


def format_value(value: object) -> str:
    """A value in Hydra's grammar; raises CannotSpell where that cannot write it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case str():
            return _format_text(value)
        case Mapping():
            items = [f"{_format_key(k)}:{format_value(v)}" for k, v in value.items()]
            return "{" + ",".join(items) + "}"
        case list() | tuple():
            return "[" + ",".join(format_value(item) for item in value) + "]"
    raise CannotSpell(f"{value!r} is a {type(value).__name__}; write it as text")


@lru_cache(maxsize=8192)
def _format_text(text: str) -> str:
    if BARE.fullmatch(text) and text.lower().lstrip("+") not in _WORDS:
        return text
    return quote(text)


def quote(text: str, mark: str = "") -> str:
    """`text` in quotes, by the rule that Hydra and OmegaConf share.

    A quote inside is escaped, and backslashes before a quote (the closing one too) are
    doubled; all other backslashes stay single. Without a `mark` it is the one that
    leaves least to escape.
    """
    mark = mark or ('"' if "'" in text and '"' not in text else "'")
    escaped = re.sub(rf"(\\*){mark}", lambda m: m[1] * 2 + "\\" + mark, text)
    tail = len(escaped) - len(escaped.rstrip("\\"))
    return mark + escaped + "\\" * tail + mark


def strip_quotes(text: str) -> str:
    """An override of one `{...}` without quotes: what is put in may be a number."""
    head, _, value = text.partition("=")
    return f"{head}={value[1:-1]}" if _ONE_REFERENCE.fullmatch(value) else text


_ONE_REFERENCE: Final = re.compile(r"""(['"])\{[^{}'"\\]+\}\1""")


def _format_key(key: object) -> str:
    if isinstance(key, bool | int):
        return str(key).lower()
    if isinstance(key, str) and (
        _KEY_IN_ESCAPES.fullmatch(key)
        and key == key.strip()
        and key.lower() not in _WORDS
    ):
        return _KEY_TO_ESCAPE.sub(r"\\\1", key)
    raise CannotSpell(f"Hydra cannot write the key {key!r} inside a value")


_DOLLARS: Final = re.compile(r"(\\*)\$\{")


def escape_dollars(value: object) -> object:
    """`value` with every `${` escaped, so that OmegaConf reads it as it is."""
    if isinstance(value, str):
        return _DOLLARS.sub(lambda m: m[1] * 2 + r"\${", value)
    if isinstance(value, Mapping):
        return {key: escape_dollars(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [escape_dollars(item) for item in value]
    return value


def read_override_key(text: str) -> str:
    """`a.b` of `++a.b=1`; the group's own path of `optim@train=adam`."""
    key = text.partition("=")[0].lstrip("+~")
    group, _, package = key.partition("@")
    return (package or group).replace("/", ".")
