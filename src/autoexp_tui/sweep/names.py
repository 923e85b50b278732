"""How values are spelled in names, and which names a job may have.

A name becomes a directory, a log's directory and a Slurm job name, so it must stay
below where it is put.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autoexp_tui.text.spelling import format_float

OURS: Final = frozenset({".autoexp", "provenance"})
"""Directories inside each output directory that are ours."""
_MOST_BYTES: Final = 255
"""Of one path component, on all common file systems."""


def format_in_name(value: object) -> str:
    """A value inside a text: floats the short way, the rest as OmegaConf does."""
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(format_in_name(item) for item in value)}]"
    if isinstance(value, Mapping):
        items = (f"{key}: {format_in_name(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    return str(value)


def find_fault_of_name(name: str) -> str:
    """What is wrong with a job's name; empty when nothing is."""
    if not name.strip():
        return "the name is empty"
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return "the name holds a control character"
    if "{" in name or "}" in name:
        return "the name holds braces, which mean references everywhere else"
    if name.startswith(("/", "~")):
        return "the name is a path from the root; it must stay below base_output_dir"
    parts = name.split("/")
    if ".." in parts:
        return "the name holds `..`; it must stay below base_output_dir"
    if any(part in {"", "."} for part in parts):
        return "the name has an empty part between slashes"
    if taken := [part for part in parts if part in OURS]:
        return f"the name holds `{taken[0]}`, where we keep our own files"
    if any(len(part.encode("utf-8", "replace")) > _MOST_BYTES for part in parts):
        return f"the name is longer than {_MOST_BYTES} bytes"
    return ""


def join_path(directory: str, name: str) -> str:
    """`directory/name`."""
    return f"{directory.rstrip('/')}/{name}" if directory else name
