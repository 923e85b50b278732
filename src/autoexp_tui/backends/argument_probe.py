"""Reads the arguments of a program's argparse parser, in a process of their own.

Run by any Python from 3.8 on, so also by that of a container or a virtual
environment where we are not installed: it imports the standard library and the program,
nothing of ours. It has to see our temporary directory (`TMPDIR`), where the answer
goes. It may be killed at any moment.

Its one argument is a JSON object: target, verb, paths, prog, and the file for the
answer, one line of JSON.

The target is `pkg.mod:function` or `path/to/file.py:function`: a function that returns
a parser, takes one and adds to it, or parses the command line itself (it is stopped
there); or a parser.
"""

import argparse
import contextlib
import enum
import importlib
import inspect
import json
import math
import os
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:  # annotations are never evaluated
    from collections.abc import Callable
    from typing import Any

    Record = dict[str, Any]

KINDS = {
    "_StoreAction": "store",
    "_StoreConstAction": "const",
    "_StoreTrueAction": "true",
    "_StoreFalseAction": "false",
    "_AppendAction": "append",
    "_AppendConstAction": "append_const",
    "_CountAction": "count",
    "_ExtendAction": "extend",
    "BooleanOptionalAction": "boolean",
}
SILENT = ("_HelpAction", "_VersionAction")
PLAIN = (int, float, str, bool)
HIDDEN = object()


class Refused(Exception):
    """No parser can be had; says why, and the next step."""

    def __init__(self, message: str, **more: "Any") -> None:
        super().__init__(message)
        self.answer = {"error": message, **more}


class Caught(BaseException):
    """A program parsed its command line; here is the parser that it did it with."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def find_parser(request: "Record") -> argparse.ArgumentParser:
    """The parser that the target stands for, or that of one of its sub-commands."""
    target = load_target(str(request["target"]), list(request.get("paths", ())))
    parser = build_parser(target, str(request.get("prog", "program")))
    verb = str(request.get("verb") or "")
    for action in parser._actions if verb else ():
        if isinstance(action, argparse._SubParsersAction):
            if verb in action.choices:
                chosen: argparse.ArgumentParser = action.choices[verb]
                return chosen
            message = f"there is no sub-command `{verb}`"
            raise Refused(message, near=verb, among=list(action.choices))
    if verb:
        raise Refused("it has no sub-commands", hint="leave --verb out")
    return parser


def load_target(target: str, paths: "list[str]") -> "Any":
    """What `module:attribute` names."""
    module_name, _, attribute = target.rpartition(":")
    sys.path[:0] = [os.path.abspath(path) for path in paths]
    module = load_module(module_name)
    found: Any = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            known = [one for one in dir(found) if not one.startswith("_")]
            message = f"{module_name} has no `{attribute}`"
            raise Refused(message, near=attribute, among=known)
        found = getattr(found, name)
    return found


def load_module(name: str) -> "Any":
    path = os.path.abspath(name)
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(name)
    if not os.path.isfile(path):
        raise Refused(f"there is no file {name}")
    sys.path.insert(0, os.path.dirname(path))
    return importlib.import_module(os.path.splitext(os.path.basename(path))[0])


def build_parser(target: "Any", prog: str) -> argparse.ArgumentParser:
    """The parser that a function returns, fills, or parses with."""
    if isinstance(target, argparse.ArgumentParser):
        return target
    if not callable(target):
        raise Refused(f"it is a {type(target).__name__}, neither function nor parser")
    given = argparse.ArgumentParser(prog=prog, allow_abbrev=False)
    count = get_positions(target)
    if count > 1:
        raise Refused(f"it takes {count} arguments; a parser is all that it is given")

    def stop_parsing(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise Caught(parser)

    argparse.ArgumentParser.parse_known_args = stop_parsing  # type: ignore[assignment,method-assign]
    try:
        found = target(*[given] * count)
    except Caught as stopped:
        return stopped.parser
    if isinstance(found, argparse.ArgumentParser):
        return found
    if count == 1 and (found is None or isinstance(found, argparse._ArgumentGroup)):
        return given
    raise Refused(f"it gave back a {type(found).__name__}, not a parser")


def get_positions(function: "Callable[..., object]") -> int:
    """Arguments that a function cannot do without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    needed = [one for one in parameters if one.default is one.empty]
    return len([one for one in needed if one.kind <= one.POSITIONAL_OR_KEYWORD])


def extract_schema(parser: argparse.ArgumentParser) -> "Record":
    """The schema of a parser: plain values only, in the parser's order."""
    groups = {
        id(action): group.title or ""
        for group in parser._action_groups
        for action in group._group_actions
    }
    actions = [a for a in parser._actions if type(a).__name__ not in SILENT]
    if parser.prefix_chars != "-":
        raise Refused(f"its options begin with one of {parser.prefix_chars!r}, not -")
    verbs = [a for a in actions if isinstance(a, argparse._SubParsersAction)]
    if verbs:
        among = ", ".join(verbs[0].choices)
        raise Refused(f"it has sub-commands: {among}", hint="name one: --verb VERB")
    defaults = {}
    for action in actions:
        value = parser.get_default(action.dest)
        if isinstance(value, str) and value != argparse.SUPPRESS:
            with contextlib.suppress(Exception):  # as the parser makes it
                value = parser._get_value(action, value)
        value = to_plain(value)
        if value is not HIDDEN and action.dest not in defaults:
            defaults[action.dest] = value
    return {
        "arguments": [
            extract_action(parser, a, groups.get(id(a), "")) for a in actions
        ],
        "defaults": defaults,
        "exclusive": [
            {
                "dests": list(dict.fromkeys(a.dest for a in group._group_actions)),
                "required": bool(group.required),
            }
            for group in parser._mutually_exclusive_groups
            if group._group_actions
        ],
    }


def extract_action(
    parser: argparse.ArgumentParser, action: argparse.Action, group: str
) -> "Record":
    found: Record = {"dest": action.dest, "options": list(action.option_strings)}
    # A program's own kind of action is a switch where it takes no value.
    other = "true" if action.nargs == 0 else "other"
    found["action"] = KINDS.get(type(action).__name__, other)
    if action.nargs not in (None, 0):
        found["nargs"] = action.nargs
    if action.type is not None:
        kind: Any = action.type
        name = str(getattr(kind, "__name__", type(kind).__name__))
        shadows = kind not in PLAIN and name in ("int", "float", "str", "bool")
        found["type"] = f"{name}()" if shadows else name
    if action.choices is not None:
        plain = [(choice, to_plain(choice)) for choice in action.choices]
        found["choices"] = [
            format_choice(choice, action.type) if value is HIDDEN else value
            for choice, value in plain
        ]
    const = to_plain(action.const)
    if const is not None and const is not HIDDEN:
        found["const"] = const
    if is_required(action, parser):
        found["required"] = True
    if group:
        found["group"] = group
    text = "" if action.help == argparse.SUPPRESS else action.help or ""
    found["help"] = text
    if text:  # its `%(default)s` filled in
        with contextlib.suppress(Exception):
            found["help"] = parser._get_formatter()._expand_help(action)
    return found


def is_required(action: argparse.Action, parser: argparse.ArgumentParser) -> bool:
    """Whether the program asks for it: of what is left of a line nothing need be."""
    if action.nargs == argparse.REMAINDER:
        return False
    given_elsewhere = parser.get_default(action.dest) is not None
    return bool(action.required) and not (action.option_strings and given_elsewhere)


def format_choice(choice: "Any", kind: "Any") -> str:
    """The text that a program's own type makes this very choice of."""
    if not isinstance(choice, enum.Enum):
        return str(choice)
    for text in (choice.name, str(choice.value), str(choice)):
        with contextlib.suppress(Exception):
            if kind is not None and kind(text) == choice:
                return text
    return choice.name


def to_plain(value: "Any") -> "Any":
    """A value as JSON has it; HIDDEN: it is none of those."""
    if value is argparse.SUPPRESS or value == argparse.SUPPRESS:
        return HIDDEN
    if value is None or type(value) in PLAIN:
        is_endless = isinstance(value, float) and not math.isfinite(value)
        return HIDDEN if is_endless else value
    if isinstance(value, (list, tuple)):
        items = [to_plain(item) for item in value]
        return HIDDEN if HIDDEN in items else items
    return HIDDEN


def build_answer(request: "Record") -> "Record":
    try:
        return {"schema": extract_schema(find_parser(request))}
    except Refused as error:
        return error.answer
    except ModuleNotFoundError as error:
        return {"error": f"cannot be imported: {error}", "missing": error.name or ""}
    except SystemExit as error:
        return {"error": f"it ended Python with {error.code!r}"}
    except BaseException as error:  # noqa: BLE001 - a program may raise anything
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        return {"error": f"it failed: {text}{where}"}


def main() -> None:
    request = json.loads(sys.argv[1])
    sys.argv = [str(request.get("prog", "program"))]
    found = build_answer(request)
    with open(request["answer"], "w", encoding="utf-8") as out:
        json.dump(found, out)
    sys.stdout.flush()
    os._exit(0)  # threads and exit handlers of the program are not waited for


if __name__ == "__main__":
    main()
