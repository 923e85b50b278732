"""Writes plain trees as YAML. Block style, keys in their order; a list within a list is
written as flow. PyYAML reads the same tree back (YAML 1.1). Its own dumper takes five
milliseconds for a config of 300 keys, which is too much for each of 10,000 jobs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

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


def format_yaml(tree: Mapping[str, object]) -> str:
    """A tree of dicts, lists and scalars as a whole document."""
    return _format_block(tree, "") if tree else "{}\n"


def _format_block(value: Mapping[Any, Any], indent: str) -> str:
    lines: list[str] = []
    deeper = indent + _STEP
    for key, item in value.items():
        head = f"{indent}{format_scalar(key)}:"
        if isinstance(item, dict) and item:
            lines.append(f"{head}\n{_format_block(item, deeper)}")
        elif isinstance(item, list | tuple) and item:
            lines.append(f"{head}\n")
            lines += [
                f"{indent}-\n{_format_block(one, deeper)}"
                if isinstance(one, dict) and one
                else f"{indent}- {format_flow(one)}\n"
                for one in item
            ]
        else:
            lines.append(f"{head} {format_flow(item)}\n")
    return "".join(lines)


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
        case float() if not math.isfinite(value):
            return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
        case float():  # YAML 1.1 wants a point before an exponent
            text = repr(float(value))
            whole = "e" in text and "." not in text
            return text.replace("e", ".0e") if whole else text
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
