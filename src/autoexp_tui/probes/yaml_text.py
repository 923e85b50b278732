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
        return self._write_block(tree if isinstance(tree, dict) else dict(tree), "")

    def _write_block(self, value: dict[Any, Any], indent: str) -> str:
        def write_fields(some: Mapping[Any, Any]) -> Fields:
            return {
                key: f"{indent}{format_scalar(key)}:{self._after(item, indent)}"
                for key, item in some.items()
            }

        return self._texts.text(value, indent, write_fields, _join_lines)

    def _after(self, item: Any, indent: str) -> str:
        """What follows a key and its colon."""
        if isinstance(item, dict) and item:
            return f"\n{self._write_block(item, indent + _STEP)}"
        if isinstance(item, list | tuple) and item:
            return "\n" + "".join(self._write_item(one, indent) for one in item)
        return f" {format_flow(item)}\n"

    def _write_item(self, item: Any, indent: str) -> str:
        if isinstance(item, dict) and item:
            return f"{indent}-\n{self._write_block(item, indent + _STEP)}"
        return f"{indent}- {format_flow(item)}\n"


def _join_lines(fields: Fields) -> str:
    return "".join(fields.values())


def format_flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        fields = (
            f"{format_scalar(key)}: {format_flow(item)}" for key, item in value.items()
        )
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_flow, value))}]"
    return format_scalar(value)


def format_scalar(value: object) -> str:
    """A value that is neither a dict nor a list."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _format_real(value)
        case _:
            return _format_text(str(value))


def _format_real(value: float) -> str:
    """YAML 1.1 wants a point before an exponent."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _format_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
