"""Writes plain trees as YAML, shared parts of many trees once.

Block style, keys in their order; a list within a list is written as flow. PyYAML reads
the same tree back (YAML 1.1). Its own dumper takes five milliseconds for a config of
300 keys, which is too much for each of 10,000 jobs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from autoexp_tui.text.structural_cache import Fields, SharedTexts

_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./\-]*")
_WORDS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"}
)
_ESCAPED: Final = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff]"
)
"""What YAML does not take as it is, or takes for a line's end."""
_STEP: Final = "  "


class YamlWriter:
    """Writes trees of dicts, lists and scalars; see the module."""

    def __init__(self) -> None:
        self._texts = SharedTexts()

    def text(self, tree: Mapping[str, object]) -> str:
        """A whole document."""
        if not tree:
            return "{}\n"
        return self._block(tree if isinstance(tree, dict) else dict(tree), "")

    def _block(self, value: dict[Any, Any], indent: str) -> str:
        def fields(some: Mapping[Any, Any]) -> Fields:
            return {
                key: f"{indent}{scalar(key)}:{self._after(item, indent)}"
                for key, item in some.items()
            }

        return self._texts.text(value, indent, fields, _lines)

    def _after(self, item: Any, indent: str) -> str:
        """What follows a key and its colon."""
        if isinstance(item, dict) and item:
            return f"\n{self._block(item, indent + _STEP)}"
        if isinstance(item, list | tuple) and item:
            return "\n" + "".join(self._item(one, indent) for one in item)
        return f" {flow(item)}\n"

    def _item(self, item: Any, indent: str) -> str:
        if isinstance(item, dict) and item:
            return f"{indent}-\n{self._block(item, indent + _STEP)}"
        return f"{indent}- {flow(item)}\n"


def _lines(fields: Fields) -> str:
    return "".join(fields.values())


def flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        fields = (f"{scalar(key)}: {flow(item)}" for key, item in value.items())
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    return scalar(value)


def scalar(value: object) -> str:
    """A value that is neither a dict nor a list."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _real(value)
        case _:
            return _words(str(value))


def _real(value: float) -> str:
    """YAML 1.1 wants a point before an exponent."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _words(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
