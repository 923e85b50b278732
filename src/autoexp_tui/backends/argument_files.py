"""The two files that an import writes: a config group, and the schema.

Both follow from the schema alone, byte for byte, so that a program whose arguments did
not change gives the same files again. Nothing here touches the disk.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from autoexp_tui.backends.argument_schema import (
    TAKES_VALUES,
    Action,
    Schema,
    decoded,
    listed_choices,
)
from autoexp_tui.planning.overrides import literal
from autoexp_tui.probes import yaml_text

_WIDTH: Final = 88
_MISSING: Final = "???"


def schema_text(data: Mapping[str, Any]) -> str:
    """The schema's file: an argument a line, so that differences are seen."""
    head = {k: v for k, v in data.items() if k not in (*_LISTS, "defaults")}
    lines = [f"  {_json(key)}: {_json(value)}," for key, value in head.items()]
    for key in _LISTS:
        items = [f"    {_json(item)}" for item in data.get(key, ())]
        lines += [f"  {_json(key)}: [", ",\n".join(items), "  ],"]
    defaults = data.get("defaults", {})
    fields = [f"    {_json(dest)}: {_json(value)}" for dest, value in defaults.items()]
    body = ",\n".join(fields)
    lines += ['  "defaults": {', body, "  }"]
    text = "\n".join(line for line in lines if line)
    return f"{{\n{text}\n}}\n"


_LISTS: Final = ("arguments", "exclusive")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def group_text(data: Mapping[str, Any], name: str) -> str:
    """The config group: each argument with its default, commented with its help."""
    schema = decoded(data)
    dests = list(schema.by_dest)
    lines = [*_head(schema, name, len(dests))]
    by_group = groupby(dests, key=lambda dest: schema.by_dest[dest][0].group)
    for group, members in by_group:
        lines += ["", f"# {'-' * 20} {group or 'arguments'}"]
        for dest in members:
            lines += _entry(dest, schema)
    return "\n".join(lines) + "\n"


def _head(schema: Schema, name: str, count: int) -> Iterator[str]:
    yield from _comment(f"The {count} arguments of {schema.source}")
    yield "#"
    yield "# Each has the program's own default; one that is left so is not put on the"
    yield "# command line. Written by autoexp-import-args: keep values of your own in"
    yield "# the experiment. A backend's file takes it, and the schema, by"
    yield "#"
    yield "#   defaults:"
    yield f"#     - /args@args: {name} # Megatron's: /args@megatron: {name}"
    yield f"#   schema: {name}"


def _entry(dest: str, schema: Schema) -> Iterator[str]:
    yield ""
    for action in schema.by_dest[dest]:
        if action.help:
            yield from _comment(action.help)
        yield from _comment(usage(action))
    value, remark = _default(dest, schema)
    yield f"{yaml_text.scalar(dest)}: {value}{remark}"


def _comment(text: str) -> Sequence[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _default(dest: str, schema: Schema) -> tuple[str, str]:
    """The value as YAML, and what is to be said about it."""
    value = schema.defaults.get(dest)
    if value is None and dest in schema.required:
        return _MISSING, " # needed"
    if value == _MISSING:  # OmegaConf would take it for a missing value
        return "null", " # the program's own default is three question marks"
    if dest not in schema.defaults:
        return "null", " # the program's own default is no plain value"
    return yaml_text.flow(literal(value)), ""


def usage(action: Action) -> str:
    """How an argument stands on a command line: `--betas FLOAT ...`."""
    name = ", ".join(action.options) or f"{action.dest} (by position)"
    if action.action not in TAKES_VALUES:
        return {
            "count": f"{name} (a number: how often)",
            "append_const": f"{name} (true, or a list of {action.const!r})",
            "false": f"{name} (for false)",
            "const": f"{name} (for {action.const!r})",
        }.get(action.action, name)
    kind = action.type.upper()
    if action.choices:
        kind = "{" + listed_choices(action.choices, 24) + "}"
    again = " (a list: again for each)" if action.action == "append" else ""
    return f"{name} {_repeated(kind, action.nargs)}{again}"


def _repeated(kind: str, nargs: str | int | None) -> str:
    if isinstance(nargs, int):
        return " ".join([kind] * nargs)
    some = f"[{kind} ...]"
    many = {"?": f"[{kind}]", "*": some, "...": some, "+": f"{kind} ..."}
    return many.get(str(nargs), kind)


# ------------------------------------------------------------------------- differences
def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two schemas, a line for each; empty: nothing did."""
    before, after = _by_dest(old), _by_dest(new)
    lines = [f"+ {dest}" for dest in after if dest not in before]
    lines += [f"- {dest}" for dest in before if dest not in after]
    for dest in after:
        if dest in before:
            lines += _changed(dest, before[dest], after[dest])
    for key in ("source", "exclusive", "prefix_chars", "fromfile_prefix_chars"):
        if old.get(key) != new.get(key):
            lines.append(f"~ {key}: {_shown(old.get(key))} -> {_shown(new.get(key))}")
    return lines


def _by_dest(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The facts of each destination, by what they are called."""
    found: dict[str, dict[str, Any]] = {}
    for item in data.get("arguments", ()):
        facts = found.setdefault(item["dest"], {})
        for key, value in item.items():
            facts.setdefault(key, []).append(value)
    for dest, value in data.get("defaults", {}).items():
        found.setdefault(dest, {})["default"] = [value]
    return found


def _changed(
    dest: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if key == "help":
            yield f"~ {dest}: its help"
        else:
            yield f"~ {dest}: {key} {_of_one(old)} -> {_of_one(new)}"


def _of_one(values: Sequence[object] | None) -> str:
    if values is None:
        return "nothing"
    return _shown(values[0] if len(values) == 1 else values)


def _shown(value: object) -> str:
    text = _json(value)
    return text if len(text) <= 60 else text[:57] + "..."
