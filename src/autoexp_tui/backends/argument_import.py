"""Imports the arguments of a program: its schema, as two files.

Importing a training program may print, hang, start threads, want a GPU, or end Python:
it happens in a child that may be killed. What comes back is the plain JSON of
`argument_probe`, cleaned of everything that could steer a terminal. A program that did
not change gives the same files again, byte for byte.
"""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from autoexp_tui.backends import argument_probe
from autoexp_tui.backends.arguments import TAKES_VALUES, VERSION, decode_schema
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.planning.overrides import MISSING, escape_dollars
from autoexp_tui.probes import yaml_text
from autoexp_tui.probes.bounded_command import run_bounded
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean

LIMIT_SECONDS: Final = 120.0
"""Importing a large framework from a network disk takes long."""
_WIDTH: Final = 88
_ELSEWHERE: Final = (
    "--python PATH names an interpreter that has it; --path DIR adds a directory, such "
    "as a checkout"
)
_FORMS: Final = (
    "a function that returns an argparse parser, takes one and adds to it, or parses "
    "the command line"
)
_RUN: Final = """\
import sys
path = sys.argv.pop(1)
with open(path, encoding="utf-8") as file:
    exec(compile(file.read(), path, "exec"))
"""
"""Run as a file, our modules beside it would hide the program's of the same name."""
_QUIETLY: Final = {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
"""An import is to take no GPU, and to leave nothing in the program's directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Whose arguments, and how to get at them."""

    target: str
    """`pkg.mod:function`, or `path/to/file.py:function`."""
    verb: str = ""
    python: str = ""
    """The interpreter; empty: the one that runs us."""
    paths: tuple[str, ...] = ()
    """Further directories to import from."""
    limit_seconds: float = LIMIT_SECONDS


def fetch_schema(source: Source) -> dict[str, Any]:
    """The schema of a program's arguments, as its file holds it. Raises UsageError: the
    target is none, stands for no parser, or for an empty one; EnvironmentFailed: its
    module cannot be imported here, or took too long."""
    module, colon, attribute = source.target.rpartition(":")
    if not (colon and module and attribute):
        message = f"{source.target!r} names no function"
        hint = "MODULE:FUNCTION or FILE.py:FUNCTION, such as my.train:get_parser"
        raise UsageError(message, hint=hint)
    answer = _request_answer(source)
    if "schema" not in answer:
        message = clean(str(answer.get("error") or "it gave no parser"), limit=1000)
        if "missing" in answer:
            raise EnvironmentFailed(message, source.target, _ELSEWHERE)
        hint = clean(str(answer.get("hint") or "")) or _FORMS
        if "among" in answer:
            names = [clean(str(name)) for name in answer["among"]]
            hint = did_you_mean(str(answer.get("near")), names, "names")
        raise UsageError(message, source.target, hint)
    found = _clean_texts(answer["schema"])
    if not found["arguments"]:
        raise UsageError("its parser has no arguments", source.target, _FORMS)
    shown = f"{source.target} {source.verb}".rstrip()
    return {"autoexp_schema": VERSION, "source": shown, **found}


def _request_answer(source: Source) -> Mapping[str, Any]:
    """What the child says; it and all that it started are gone afterwards."""
    script = str(Path(argument_probe.__file__).absolute())
    with tempfile.TemporaryDirectory(prefix="autoexp-args-") as place:
        path = Path(place, "answer.json")
        request = {
            "target": source.target,
            "verb": source.verb,
            "paths": source.paths,
            "prog": source.target.rpartition(":")[0],
            "answer": str(path),
        }
        python = source.python or sys.executable
        words = [python, "-c", _RUN, script, json.dumps(request)]
        ran = run_bounded(words, source.limit_seconds, env=_QUIETLY)
        with suppress(OSError, ValueError):
            answer = json.loads(path.read_bytes())
            if isinstance(answer, dict):
                return answer
    lines = [*filter(None, (clean(one).strip() for one in ran.detail.splitlines()))]
    own = lines[ran.exit_code is None :]
    said = f"it said: {own[-1][:400]}" if own else "it said nothing"
    if ran.exit_code is not None:
        message = f"the import ended without an answer; {said}"
        raise EnvironmentFailed(message, source.target, _ELSEWHERE)
    if ran.detail.startswith("cannot start"):
        message = f"cannot be started: {lines[0].partition(': ')[2]}"
        raise EnvironmentFailed(message, python, _ELSEWHERE)
    message = f"the import took longer than {source.limit_seconds:g} s"
    raise EnvironmentFailed(message, source.target, f"--timeout SECONDS; {said}")


def _clean_texts(value: Any, key: str = "") -> Any:
    """Plain values with harmless texts; spellings of values stay as they are."""
    if isinstance(value, dict):
        return {str(name): _clean_texts(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean_texts(item) for item in value]
    return " ".join(clean(str(value)).split()) if key in ("help", "group") else value


def format_schema(data: Mapping[str, Any]) -> str:
    """The schema's file: an argument a line, so that differences are seen."""
    fields: list[str] = []
    for key, value in data.items():
        items: list[str] = []
        if isinstance(value, list):
            items = [_dump(item) for item in value]
        elif isinstance(value, dict):
            items = [f"{_dump(name)}: {_dump(item)}" for name, item in value.items()]
        text = _dump(value)
        if items:
            inner = ",\n    ".join(items)
            text = f"{text[0]}\n    {inner}\n  {text[-1]}"
        fields.append(f"  {_dump(key)}: {text}")
    inner = ",\n".join(fields)
    return f"{{\n{inner}\n}}\n"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def format_group(data: Mapping[str, Any], name: str) -> str:
    """The config group: each argument with its default, commented with its help."""
    schema = decode_schema(data)
    dests, defaults = schema.by_dest, schema.defaults
    lines = [*_wrap_comment(f"The {len(dests)} arguments of {schema.source}")]
    lines += [line.format(name=name) for line in _GROUP_HEAD]
    for group, members in groupby(dests, key=lambda dest: dests[dest][0].group):
        lines += ["", f"# {'-' * 20} {group or 'arguments'}"]
        for dest in members:
            lines.append("")
            for action in dests[dest]:
                usage = ", ".join(action.options) or dest
                if action.choices:
                    usage += f" {{{', '.join(map(str, action.choices))}}}"
                elif action.action in TAKES_VALUES:
                    usage += f" {action.type.upper()}"
                lines += [*_wrap_comment(action.help), *_wrap_comment(usage)]
            value = defaults.get(dest)
            if value is None and dest in schema.required_keys:
                text = f"{MISSING} # needed"
            elif value == MISSING:  # OmegaConf would take it for a missing value
                text = "null # the program's own default is three question marks"
            elif dest not in defaults:
                text = "null # the program's own default is no plain value"
            else:
                text = yaml_text.format_flow(escape_dollars(value))
            lines.append(f"{yaml_text.format_scalar(dest)}: {text}")
    return "\n".join(lines) + "\n"


_GROUP_HEAD: Final = (
    "#",
    "# Each has the program's own default; one that is left so is not put on the",
    "# command line. Written by autoexp-import-args: keep values of your own in",
    "# the experiment. A backend's file takes it, and the schema, by",
    "#",
    "#   defaults:",
    "#     - /args@args: {name} # Megatron's: /args@megatron: {name}",
    "#   schema: {name}",
)


def _wrap_comment(text: str) -> Sequence[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
