"""autoexp-import-args MODULE:FUNCTION: a program's arguments as a config group.

Writes NAME.yaml, every argument with its default and its help, and NAME.schema.json, by
which plans refuse unknown and mistyped arguments (`schema: NAME` in a backend). The
function returns an argparse parser, takes one and adds to it, or parses the command
line; it is called in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from autoexp_tui.backends.argument_import import (
    Source,
    compare_schemas,
    fetch_schema,
    format_group,
    format_schema,
)
from autoexp_tui.backends.argument_schema import SUFFIX, decode_schema
from autoexp_tui.cli.diagnostics import ExitCode, exit_with
from autoexp_tui.cli.options import JSON, build_parser, option
from autoexp_tui.model.errors import UsageError
from autoexp_tui.storage.atomic import explaining, write_atomic

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_SHOWN = 40
"""Differences that are listed before the rest is only counted."""


def _parse_seconds(text: str) -> float:
    """A span of time as an option gives it: above 0, and with an end."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"invalid seconds value: {text!r}")
    return value


_FLAGS = (
    (
        ["target"],
        {"metavar": "MODULE:FUNCTION", "nargs": "?", "help": "or FILE.py:FUNCTION"},
    ),
    option("--name", "of the group and the schema (the module's)", "NAME"),
    option(
        "--output-dir",
        "where to write (config/args, where schemas are looked for)",
        "DIR",
        default="config/args",
    ),
    option("--verb", "of the program's sub-commands, this one", "VERB"),
    option("--python", "the interpreter to import with", "PATH"),
    option(
        "--path",
        "a further directory to import from; may be given again",
        "DIR",
        action="append",
        default=[],
    ),
    option(
        "--timeout",
        "for the import (120)",
        "SECONDS",
        type=_parse_seconds,
        default=120.0,
    ),
    option("--force", "write over files that would change"),
    JSON,
)


def main(argv: Sequence[str]) -> int:
    """Ask the program, and write the two files."""
    args = build_parser("autoexp-import-args", __doc__, _FLAGS).parse_args(argv)
    if args.target is None:
        hint = "autoexp-import-args MODULE:FUNCTION, such as my.train:get_parser"
        raise UsageError("no function given", hint=hint)
    name = _check_name(args.name or _name_module(args.target))
    data = fetch_schema(
        Source(
            target=args.target,
            verb=args.verb,
            python=args.python,
            paths=tuple(args.path),
            limit_seconds=args.timeout,
        )
    )
    files = _Files(Path(args.output_dir), name)
    changes = files.find_changes(data)
    written = files.write(data, changes, force=args.force)
    count = len({item["dest"] for item in data["arguments"]})
    if args.json:
        report = {
            "version": 1,
            "name": name,
            "arguments": count,
            "written": [str(path) for path in written],
            "changes": list(changes or ()),
        }
        print(json.dumps(report))
    else:
        _print_report(files, count, changes, written)
    return ExitCode.OK


def _name_module(target: str) -> str:
    """The module's own name: `arguments` of `megatron.training.arguments:f`."""
    module = target.rpartition(":")[0] or target
    return Path(module).stem if module.endswith(".py") else module.rpartition(".")[2]


def _check_name(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    hint = "Letters, digits, _ and - can; it becomes a file, and a choice of `args`."
    raise UsageError(f"{name!r} cannot name a group", "--name", hint)


@dataclass(frozen=True)
class _Files:
    """The two files of a group, and what lies there already."""

    place: Path
    name: str

    @property
    def group(self) -> Path:
        return self.place / f"{self.name}.yaml"

    @property
    def schema(self) -> Path:
        return self.place / f"{self.name}{SUFFIX}"

    def find_changes(self, data: Mapping[str, Any]) -> list[str] | None:
        """What differs from the schema that is there; None: there is none."""
        old = self._read_schema()
        return None if old is None else compare_schemas(old, data)

    def write(
        self, data: Mapping[str, Any], changes: Sequence[str] | None, *, force: bool
    ) -> list[Path]:
        """Write what is new; the paths of it.

        Raises:
            UsageError: a file would change, and `force` is not given.
            EnvironmentFailed: the disk does not let us.
        """
        texts = {self.group: format_group(data, self.name)}
        texts[self.schema] = format_schema(data)
        new = {path: text for path, text in texts.items() if _read(path) != text}
        if not force:
            if changes == [] and _read(self.group) is not None:
                return []  # the program is as it was; the group may have been edited
            self._check_overwriting(new, changes)
        with explaining(self.place, "make the directory of arguments"):
            self.place.mkdir(parents=True, exist_ok=True)
        for path, text in new.items():
            with explaining(path, "write the arguments"):
                write_atomic(path, text.encode(), mode=0o644)
        return list(new)

    def _check_overwriting(
        self, new: Iterable[Path], changes: Sequence[str] | None
    ) -> None:
        there = [path.name for path in new if os.path.lexists(path)]
        if not there:
            return
        lines = "".join(f"\n    {line}" for line in _limit_lines(changes or ()))
        edited = " The group was edited by hand." if self._is_edited() else ""
        raise UsageError(
            f"{' and '.join(there)} would change; nothing was written.{edited}{lines}",
            str(self.place),
            "--force writes it; --name NAME writes another.",
        )

    def _is_edited(self) -> bool:
        """Whether the group is not what its own schema gives."""
        old, text = self._read_schema(), _read(self.group)
        return old is None or text not in (None, format_group(old, self.name))

    def _read_schema(self) -> dict[str, Any] | None:
        try:
            data: dict[str, Any] = json.loads(_read(self.schema) or "")
            decode_schema(data)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return data


def _read(path: Path) -> str | None:
    """A file's text; None: there is none, or it is no text."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _print_report(
    files: _Files, count: int, changes: Sequence[str] | None, written: Sequence[Path]
) -> None:
    noun = "argument" if count == 1 else "arguments"
    for line in _limit_lines(changes or ()):
        print(line)
    if not written:
        print(f"nothing changed: {files.schema} holds its {count} {noun}")
        return
    print(f"wrote {' and '.join(map(str, written))}: {count} {noun}")
    if changes is None:
        print(f"  a backend checks them with `schema: {files.name}`")


def _limit_lines(lines: Sequence[str]) -> list[str]:
    rest = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"and {rest} more"] if rest > 0 else [])]


entry = partial(exit_with, main)

if __name__ == "__main__":
    entry()
