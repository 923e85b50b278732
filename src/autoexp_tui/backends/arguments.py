"""The arguments of a job as words of its command line, checked by a schema.

Without a schema `key: value` is `--key value`; true is the bare flag, false and null
leave it out, a list gives the flag once and then every item. With one the program's own
spelling is known, and every argument is checked. A schema is what a program's argparse
parser tells, in a file `NAME.schema.json` that `autoexp-import-args` writes. An
*action* is one `add_argument`; several may set the same destination, such as `--fp8`
and `--no-fp8`. Nothing here imports the program.

A word that begins with a dash is an option to argparse unless it looks like a plain
negative number, so such a value is joined to its flag (`--x=-1e-05`). In a list there
is nothing to join it to. What argparse itself does not read back from the words, with
type and choices of the argument, is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NoReturn, TypeAlias, cast

from autoexp_tui.backends.base import (
    WHERE,
    Config,
    Places,
    Refused,
    check_mapping,
    format_word,
    is_word_list,
    problem,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.text.did_you_mean import did_you_mean, find_nearest

VERSION: Final = 1
SUFFIX: Final = ".schema.json"
FOLDER: Final = "args"
_MAKE_ONE: Final = (
    f"`autoexp-import-args MODULE:FUNCTION --name NAME` writes config/args/NAME{SUFFIX}"
)

TAKES_VALUES: Final = frozenset({"store", "append", "extend", "other"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One `add_argument`."""

    dest: str
    options: Sequence[str] = ()
    """Spellings as they stand on a command line; none: it goes by position."""
    action: str = "store"
    """store, true, false, const, count, append, append_const, extend, boolean, other"""
    nargs: str | int | None = None
    type: str = "str"
    """int, float, str, bool, or the name of a function of the program's."""
    choices: Sequence[object] = ()
    const: object = None
    required: bool = False
    group: str = ""
    help: str = ""

    @property
    def flag(self) -> str:
        """The spelling that is used: the first long one."""
        return _first_long(self.options)

    @property
    def off_flag(self) -> str:
        """Of a `boolean`, the spelling that turns it off."""
        return _first_long([o for o in self.options if self.turns_off(o)])

    @property
    def label(self) -> str:
        return self.flag or self.dest

    def turns_off(self, option: str) -> bool:
        return self.action == "boolean" and option.startswith("--no-")


def _first_long(options: Sequence[str]) -> str:
    long_ones = [option for option in options if option[:2] == option[:1] * 2]
    return next(iter((*long_ones, *options)), "")


@dataclass(frozen=True, slots=True)
class ExclusiveGroup:
    """Destinations of which one may be given."""

    dests: Sequence[str]
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Schema:
    """All arguments of a program."""

    actions: tuple[Action, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    """By destination; one that is no plain value is not there."""
    exclusive: tuple[ExclusiveGroup, ...] = ()
    source: str = ""

    @cached_property
    def by_dest(self) -> Mapping[str, Sequence[Action]]:
        """The actions that set a destination."""
        found: dict[str, list[Action]] = {}
        for action in self.actions:
            found.setdefault(action.dest, []).append(action)
        return found

    @cached_property
    def by_alias(self) -> Mapping[str, Action]:
        """Other spellings of keys: options without their dashes, `_` for `-`."""
        found: dict[str, Action] = {}
        for action in self.actions:
            for option in action.options:
                key = option.lstrip("-").replace("-", "_")
                if key not in self.by_dest and not action.turns_off(option):
                    found.setdefault(key, action)
        return found

    @cached_property
    def required_keys(self) -> Sequence[str]:
        """Destinations without which the program does not start."""
        return tuple(dict.fromkeys(a.dest for a in self.actions if a.required))


def load_schema(name: str, places: Places) -> Schema:
    """The schema that a config names: a name (of `args/` of a root), or a path. Raises
    Refused: it is not there, or cannot be read."""
    folders = [os.path.join(root, FOLDER) for root in places.config_dirs]
    if "/" in name or name.endswith(".json"):
        roots = (*places.config_dirs, places.cwd)
        paths = [os.path.join(root, os.path.expanduser(name)) for root in roots]
    else:
        paths = [os.path.join(folder, name + SUFFIX) for folder in folders]
    path = next(filter(os.path.isfile, paths), None)
    if path is None:
        files = (f for one in folders if os.path.isdir(one) for f in os.listdir(one))
        known = sorted({f.removesuffix(SUFFIX) for f in files if f.endswith(SUFFIX)})
        hint = did_you_mean(name, known, "schemas") if known else _MAKE_ONE
        raise Refused(f"there is no schema `{name}`", hint)
    try:
        with open(path, encoding="utf-8") as file:
            return decode_schema(json.load(file))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} is no schema of arguments: {error!r}"
        raise Refused(message, "write it again: autoexp-import-args") from None


def decode_schema(data: Any) -> Schema:
    """A schema from its JSON; raises ValueError, KeyError, TypeError or
    AttributeError."""
    if not isinstance(data, dict) or "autoexp_schema" not in data:
        raise ValueError("it has no `autoexp_schema`")
    fields = dict(data)
    version = fields.pop("autoexp_schema")
    if version != VERSION:
        raise ValueError(f"its version is {version!r}, not {VERSION}")
    for name in ("prefix_chars", "fromfile_prefix_chars"):  # of earlier versions
        fields.pop(name, None)
    actions = tuple(Action(**item) for item in fields.pop("arguments"))
    groups = tuple(ExclusiveGroup(**item) for item in fields.pop("exclusive", ()))
    return Schema(actions=actions, exclusive=groups, **fields)


Words: TypeAlias = tuple[str, ...]

_NEGATIVE: Final = re.compile(r"-\d+|-\d*\.\d+")
"""What argparse takes for a number and not for an option."""
_NOTHING: Final = object()
_SCALARS: Final = (bool, int, float, str)
_KINDS: Final[Mapping[str, Callable[[str], object]]] = {
    "int": int,
    "float": float,
    "bool": bool,
}
"""What argparse makes of a word; a type of the program's own is left to it."""


def join_flag(flag: str, word: str) -> Words:
    """A flag and its one value, so that the value is never taken for an option."""
    is_option = word[:1] == "-" and not _NEGATIVE.fullmatch(word)
    return (f"{flag}={word}",) if is_option else (flag, word)


def render_value(
    value: object, actions: Sequence[Action], schema: Schema, *, is_flag: bool = False
) -> Words:
    """The words that give a destination its value; raises Refused: no words do.
    `is_flag`: the key was a flag's own name, so that true gives it."""
    first = actions[0]
    default = _NOTHING if is_flag else schema.defaults.get(first.dest, _NOTHING)
    # By position a default stays: an argument behind it would take its place.
    if value is None or (first.options and _is_same(value, default)):
        return ()
    for action in actions:
        if _turns_on(value, action, is_flag=is_flag):
            return (action.flag,)
        if action.action == "boolean" and value is False:
            return (action.off_flag,)
        if action.action == "count" and type(value) is int and value >= 0:
            return (action.flag,) * value
    switches = [one for one in actions if one.action in ("true", "false")]
    if switches and isinstance(value, bool):
        is_on = not is_flag and switches[0].action == "false"
        if value is (is_on if default is _NOTHING else bool(default)):
            return ()
    for action in actions:
        if action.action in TAKES_VALUES:
            return _render_values(value, action)
    message = f"is {_show(value)}, which the program has no flag for"
    raise Refused(message, f"has {', '.join(one.flag for one in actions)}")


def _turns_on(value: object, action: Action, *, is_flag: bool) -> bool:
    """Whether the bare flag gives the value."""
    if is_flag or action.action in ("true", "boolean"):
        return value is True and action.action not in ("count", "append_const")
    wanted = False if action.action == "false" else action.const
    return action.action in ("false", "const") and _is_same(value, wanted)


def _render_values(value: object, action: Action) -> Words:
    """The words of what takes values, as argparse reads them back."""
    is_list = isinstance(value, list | tuple) and action.action == "append"
    each: Sequence[object] = cast("Sequence[object]", value) if is_list else [value]
    words = [word for item in each for word in _render_once(item, action)]
    kind = _KINDS.get(action.type, str)
    how: dict[str, Any] = {"type": kind, "nargs": action.nargs}
    if action.nargs == "?":
        how["const"] = action.const
    if action.action in ("append", "extend"):
        how["action"] = action.action
    if action.choices:
        how["choices"] = [kind(str(choice)) for choice in action.choices]
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument(*(action.options or ("value",)), **how)
    try:
        _, rest = parser.parse_known_args(words if action.options else ["--", *words])
    except ValueError as error:
        hint = str(error).partition(": ")[2]
        if action.choices:
            hint = did_you_mean(str(value), map(str, action.choices), "choices")
        raise _refuse(value, action, hint) from None
    if rest:
        raise _refuse(value, action, "in a list no item may begin with a dash")
    return tuple(words)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Instead of an end of the process."""
        raise ValueError(message)


def _refuse(value: object, action: Action, hint: str) -> Refused:
    return Refused(f"is {_show(value)}, which {action.label} does not take", hint)


def _show(value: object) -> str:
    return format_word(value) if isinstance(value, bool) else repr(value)


def _render_once(value: object, action: Action) -> Words:
    if isinstance(value, list | tuple):
        words = [_format_item(item, action, in_list=True) for item in value]
        return (action.flag, *words) if action.options else tuple(words)
    if action.nargs == "?" and action.options and _is_same(value, action.const):
        return (action.flag,)
    word = _format_item(value, action)
    if word == "--":
        raise _refuse(value, action, "argparse reads no option after it")
    if not action.options:
        return (word,)
    return join_flag(action.flag, word)


def _format_item(value: object, action: Action, *, in_list: bool = False) -> str:
    if action.type == "bool" and isinstance(value, bool):
        return "True" if value else ""  # all is true to it but the empty text
    if action.type == "bool" or isinstance(value, dict | list | tuple):
        raise _refuse(value, action, "")
    if action.type == "int" and isinstance(value, float) and value.is_integer():
        return str(int(value))
    word = format_word(value)
    if in_list and isinstance(value, float) and "e" in word:
        return format(Decimal(word), "f")
    return word


def _is_same(value: object, other: object) -> bool:
    """Equal, and of kinds that argparse does not tell apart: a truth is no number."""
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_is_same, value, other))
    if isinstance(value, bool) is not isinstance(other, bool):
        return False
    return type(value) in _SCALARS and type(other) in _SCALARS and value == other


_NO_OTHERS: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class Arguments:
    """Checks and renders the arguments of one plan's jobs; reads each schema once."""

    _places: Places
    _schemas: dict[object, SchemaRenderer | Refused] = field(default_factory=dict)

    def check(self, backend: Config, key: str, args: object) -> Sequence[Problem]:
        """Everything wrong with `schema` and with the arguments at `key`."""
        found: list[Problem] = []
        schema = self._find_schema(backend, key)
        if isinstance(schema, Refused):
            found.append(problem("schema", schema.message, schema.hint))
        if wrong := check_mapping(args, key, f"{key}: {{lr: 0.001}}"):
            return [*found, *wrong]
        given = cast(Config, args or {})
        if isinstance(schema, SchemaRenderer):
            return [*found, *schema.render(given).problems]
        for name, value in given.items():
            if isinstance(value, list | dict) and not is_word_list(value):
                message = "is a mapping or a nested list; flags take plain values"
                found.append(problem(f"{key}.{name}", message))
        return found

    def words(
        self,
        backend: Config,
        key: str,
        args: object,
        *,
        dashes: bool = True,
        off: Mapping[str, str] = _NO_OTHERS,
        spellings: Mapping[str, str] = _NO_OTHERS,
    ) -> Sequence[str]:
        """The words of all arguments, in their order; asked when nothing is wrong.
        Without a schema, `dashes`: for the underscores of keys; `off`: what to say for
        false; `spellings`: flags that are not spelled like their keys."""
        schema = self._find_schema(backend, key)
        if isinstance(schema, SchemaRenderer):
            return schema.render(cast(Config, args or {})).words
        words: list[str] = []
        for name, value in cast(Config, args or {}).items():
            flag = name.replace("_", "-") if dashes else name
            flag = spellings.get(name) or f"--{flag}"
            if value is None or value is False:
                words += [off[name]] if value is False and name in off else []
            elif value is True:
                words += [] if name in off else [flag]
            elif isinstance(value, list | tuple):
                words += [flag, *map(format_word, value)]
            else:
                words += join_flag(flag, format_word(value))
        return words

    def _find_schema(
        self, backend: Config, key: str
    ) -> SchemaRenderer | Refused | None:
        name = backend.get("schema")
        if name is None:
            return None
        if not isinstance(name, str) or not name:
            return Refused(f"is {name!r}, not a name")
        if (name, key) not in self._schemas:
            try:
                schema = load_schema(name, self._places)
                self._schemas[name, key] = SchemaRenderer(schema, key)
            except Refused as error:
                self._schemas[name, key] = error
        return self._schemas[name, key]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What one argument, or all of a job, come to on a command line."""

    words: Words = ()
    problems: tuple[Problem, ...] = ()


class SchemaRenderer:
    """Renders and checks arguments by one schema; each value is worked out once."""

    def __init__(self, schema: Schema, place: str) -> None:
        self._schema = schema
        self._place = place
        self._values: dict[tuple[str, str], Rendered] = {}
        self._positional = tuple(a.dest for a in schema.actions if not a.options)

    def render(self, args: Mapping[str, object]) -> Rendered:
        words: list[str] = []
        problems: list[Problem] = []
        given: dict[str, Words] = {}
        aliases = self._schema.by_alias
        for key, value in args.items():
            known = (key, repr(value))  # 1, True and 1.0 are told apart
            if known not in self._values:
                self._values[known] = self._render_new(key, value)
            found = self._values[known]
            problems += found.problems
            if found.words:
                given[aliases[key].dest if key in aliases else key] = found.words
                words += () if key in self._positional else found.words
        problems += self._check_together(args, given)
        places = [given.get(dest, ()) for dest in self._positional]
        if any(places):
            words += ["--", *(word for some in places for word in some)]
        return Rendered(tuple(words), tuple(problems))

    def _render_new(self, key: str, value: object) -> Rendered:
        schema = self._schema
        try:
            if key in schema.by_dest:
                return Rendered(render_value(value, schema.by_dest[key], schema))
            if action := schema.by_alias.get(key):
                words = render_value(value, [action], schema, is_flag=True)
                return Rendered(words)
        except Refused as error:
            return Rendered((), (self._make_problem(key, error.message, error.hint),))
        known = (*schema.by_dest, *schema.by_alias)
        plain = key.replace("-", "_")
        if plain in known:
            hint = f"did you mean `{plain}`?"
        elif find_nearest(key, known) is not None:
            hint = did_you_mean(key, known, "arguments")
        else:
            hint = f"none of its {len(schema.by_dest)} arguments is near"
        message = f"is no argument of {schema.source or 'the program'}"
        return Rendered((), (self._make_problem(key, message, hint),))

    def _make_problem(self, key: str, message: str, hint: str = "") -> Problem:
        return problem(f"{self._place}.{key}", message, hint)

    def _check_together(
        self, args: Mapping[str, object], given: Mapping[str, Words]
    ) -> Iterator[Problem]:
        """What no single argument shows; `given`: destinations that have words."""
        schema = self._schema
        for dest in schema.required_keys:
            if args.get(dest) is None and dest not in given:
                message = "is missing; the program does not start without it"
                yield self._make_problem(dest, message)
        for alias in args.keys() & schema.by_alias.keys():
            dest = schema.by_alias[alias].dest
            if args.get(dest) is not None and args[alias] is not None:
                message = f"is given as `{dest}` too"
                yield self._make_problem(alias, message, "leave one of them out")
        for group in schema.exclusive:
            crowd = [dest for dest in group.dests if dest in given]
            if len(crowd) > 1:
                message = f"does not go with {', '.join(crowd[:-1])}"
                yield self._make_problem(crowd[-1], message)
            if group.required and not crowd:
                message = f"one of {', '.join(group.dests)} is needed"
                yield Problem(message, where=f"{WHERE}.{self._place}")
