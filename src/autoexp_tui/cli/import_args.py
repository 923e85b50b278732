"""autoexp-import-args MODULE:FUNCTION: a program's arguments as a config group.

Writes NAME.yaml, every argument with its default and its help, and NAME.schema.json, by
which plans refuse unknown and mistyped arguments (`schema: NAME` in a backend). The
function returns an argparse parser, takes one and adds to it, or parses the command
line; it is called in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from autoexp_tui.backends.argument_import import (
    Source,
    fetch_schema,
    format_group,
    format_schema,
)
from autoexp_tui.backends.arguments import SUFFIX
from autoexp_tui.cli.diagnostics import ExitCode, make_entry
from autoexp_tui.cli.options import JSON, build_parser, option
from autoexp_tui.model.errors import UsageError
from autoexp_tui.storage.atomic import explaining, write_atomic
from autoexp_tui.text.spelling import plural

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_SHOWN = 40
"""Lines of a difference that are shown before the rest is only counted."""


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
    option("--timeout", "for the import (120)", "SECONDS", type=float, default=120.0),
    option("--force", "write over files that would change"),
    JSON,
)


def main(argv: Sequence[str]) -> int:
    """Ask the program, and write the two files; raises UsageError or
    EnvironmentFailed."""
    args = build_parser("autoexp-import-args", __doc__, _FLAGS).parse_args(argv)
    if args.target is None:
        hint = "autoexp-import-args MODULE:FUNCTION, such as my.train:get_parser"
        raise UsageError("no function given", hint=hint)
    module = args.target.rpartition(":")[0] or args.target
    own = Path(module).stem if module.endswith(".py") else module.rpartition(".")[2]
    name = args.name or own
    if not _NAME.fullmatch(name):
        hint = (
            "Letters, digits, _ and - can; it becomes a file, and a choice of `args`."
        )
        raise UsageError(f"{name!r} cannot name a group", "--name", hint)
    data = fetch_schema(
        Source(
            target=args.target,
            verb=args.verb,
            python=args.python,
            paths=tuple(args.path),
            limit_seconds=args.timeout,
        )
    )
    place = Path(args.output_dir)
    group, schema = place / f"{name}.yaml", place / f"{name}{SUFFIX}"
    texts = {group: format_group(data, name), schema: format_schema(data)}
    old, new = _read(schema), texts[schema].splitlines()
    lines = unified_diff((old or "").splitlines(), new, lineterm="", n=0)
    changes = [line for line in [*lines][2:] if old and not line.startswith("@@")]
    rest = len(changes) - _SHOWN  # an argument each
    shown = [*changes[:_SHOWN], *([f"and {rest} more"] if rest > 0 else [])]
    written = [path for path, text in texts.items() if _read(path) != text]
    there = [path.name for path in written if os.path.lexists(path)]
    if there and not args.force:
        if changes or None in map(_read, texts):
            raise UsageError(
                "\n    ".join([f"{' and '.join(there)} would change", *shown]),
                str(place),
                "Nothing was written. --force writes it; --name NAME writes another.",
            )
        written = []  # the program is as it was, and the group was edited
    with explaining(place, "write the arguments"):
        place.mkdir(parents=True, exist_ok=True)
        for path in written:
            write_atomic(path, texts[path].encode(), mode=0o644)
    count = len({item["dest"] for item in data["arguments"]})
    if args.json:
        report = {"version": 1, "name": name, "arguments": count, "changes": changes}
        print(json.dumps(report | {"written": [str(path) for path in written]}))
        return ExitCode.OK
    arguments = plural(count, "argument")
    end = f"wrote {' and '.join(map(str, written))}: {arguments}"
    if not written:
        end = f"nothing changed: {schema} holds its {arguments}"
    elif old is None:
        end += f"\n  a backend checks them with `schema: {name}`"
    print("\n".join([*shown, end]))
    return ExitCode.OK


def _read(path: Path) -> str | None:
    """A file's text; None: there is none, or it is no text."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


entry = make_entry(main, __name__)
