"""The arguments of a job as words of its command line, checked by a schema.

Without a schema `key: value` is `--key value`; true is the bare flag, false and null
leave it out, a list gives the flag once and then every item. With one the program's own
spelling is known, and every argument is checked.

Values of a config as the words that argparse reads back as the same values.

A word that begins with a dash is an option to argparse unless it looks like a plain
negative number, so such a value is joined to its flag (`--x=-1e-05`). In a list there
is nothing to join it to: what cannot be said there is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast

from autoexp_tui.backends.argument_schema import (
    TAKES_VALUES,
    Action,
    Schema,
    format_choices,
    load_schema,
)
from autoexp_tui.backends.base import (
    WHERE,
    Config,
    Places,
    Refused,
    format_word,
    is_word_list,
    problem,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.text.did_you_mean import did_you_mean, find_nearest

Words: TypeAlias = tuple[str, ...]

_NEGATIVE: Final = re.compile(r"-\d+|-\d*\.\d+")
"""What argparse takes for a number and not for an option."""
_NOTHING: Final = object()
_SCALARS: Final = (bool, int, float, str)


def join_flag(flag: str, word: str, fromfile_chars: str = "") -> Words:
    """A flag and its one value, so that the value is never taken for an option."""
    is_option = word[:1] == "-" and not _NEGATIVE.fullmatch(word)
    if is_option or word.startswith(tuple(fromfile_chars)):
        return (f"{flag}={word}",)
    return (flag, word)


def render_value(value: object, actions: Sequence[Action], schema: Schema) -> Words:
    """The words that give a destination its value; raises Refused: no words do.

    An option that has the value needs none.
    """
    first = actions[0]
    default = schema.defaults.get(first.dest, _NOTHING)
    # By position a default stays: an argument behind it would take its place.
    if value is None or (first.options and _is_same(value, default)):
        return ()
    if isinstance(value, bool):
        found = _render_truth(value, actions, default)
        if found is not None:
            return found
    for action in actions:
        if action.action == "const" and _is_same(value, action.const):
            return (action.flag,)
    for action in actions:
        if action.action in (*TAKES_VALUES, "count"):
            return render_action(value, action, schema)
    raise _make_refusal(value, actions)


def render_action(value: object, action: Action, schema: Schema) -> Words:
    """The words for a value by one action, whatever its default; raises Refused."""
    if value is None:
        return ()
    if action.action == "count":
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return (action.flag,) * value
        hint = "0, 1, 2"
        raise Refused(f"is {value!r}; it counts how often the flag is given", hint)
    if action.action == "append":
        items = _check_list(value, action)
        return tuple(w for item in items for w in _render_once(item, action, schema))
    if action.action in TAKES_VALUES:
        return _render_once(value, action, schema)
    if not isinstance(value, bool):
        raise _make_refusal(value, [action])
    off = (action.off_flag,) if action.action == "boolean" else ()
    return (action.flag,) if value else off


def _render_truth(
    value: bool,  # noqa: FBT001 - the value of the argument
    actions: Sequence[Action],
    default: object,
) -> Words | None:
    """Words for true or false; None: none of the actions is a switch."""
    wanted = "true" if value else "false"
    for action in actions:
        if action.action == "boolean":
            return (action.flag if value else action.off_flag,)
        if action.action == wanted:
            return (action.flag,)
    switches = [one for one in actions if one.action in ("true", "false")]
    if not switches:
        return None
    is_on = switches[0].action == "false" if default is _NOTHING else bool(default)
    if value is is_on:
        return ()
    flags = _join_flags(switches)
    raise Refused(f"is {wanted}, which the program has no flag for", f"has {flags}")


def _make_refusal(value: object, actions: Sequence[Action]) -> Refused:
    flags = _join_flags(actions)
    consts = [one.const for one in actions if one.action == "const"]
    if consts:
        choices = format_choices(consts)
        return Refused(f"is {value!r}; it may be {choices}", f"flags: {flags}")
    if actions[0].action == "append_const":
        message = f"is {value!r}; {flags}: no config can add values by flags"
        return Refused(message, "null leaves it out")
    return Refused(f"is {value!r}; {flags} takes no value", "true or false")


def _join_flags(actions: Sequence[Action]) -> str:
    return ", ".join(one.flag for one in actions)


def _render_once(value: object, action: Action, schema: Schema) -> Words:
    nargs, by_flag = action.nargs, bool(action.options)
    if nargs not in (None, "?") or action.action == "extend":
        items, count = _check_list(value, action), 1 if nargs is None else nargs
        if isinstance(count, int) and len(items) != count:
            message = f"is a list of {len(items)}; {action.label} takes {count}"
            raise Refused(message)
        if nargs == "+" and not items:
            message = f"is an empty list; {action.label} takes one or more"
            raise Refused(message, "null leaves it out")
        words = tuple(_render_item(item, action, schema) for item in items)
        return (action.flag, *words) if by_flag else words
    if isinstance(value, list | tuple):
        hint = f"{action.flag} takes one; write it as one text"
        raise Refused(f"is a list of {len(value)}", hint)
    if nargs == "?" and by_flag and _is_same(value, action.const):
        return (action.flag,)
    word = _format_typed(value, action)
    if word == "--":
        raise Refused("is `--`, at which argparse stops to read options")
    if not by_flag:
        return (word,)
    return join_flag(action.flag, word, schema.fromfile_prefix_chars)


def _render_item(value: object, action: Action, schema: Schema) -> str:
    word = _format_typed(value, action)
    if isinstance(value, float) and word[:1] == "-" and not _NEGATIVE.fullmatch(word):
        word = format(Decimal(word), "f")
    is_number = _NEGATIVE.fullmatch(word)
    is_option = len(word) > 1 and word[0] in schema.prefix_chars and not is_number
    if word == "--" or (is_option and action.options):
        message = f"holds {word!r}, which argparse would take for an option"
        raise Refused(message, "in a list no item may begin with a dash")
    if word.startswith(tuple(schema.fromfile_prefix_chars)):
        raise Refused(f"holds {word!r}, which the program would read as a file")
    return word


def _check_list(value: object, action: Action) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    raise Refused(f"is {value!r}; {action.label} takes a list", f"[{value}]")


def _format_typed(value: object, action: Action) -> str:
    """One value as a word, judged by type and choices."""
    if isinstance(value, dict | list | tuple):
        raise Refused(f"is or holds {value!r}; an argument takes plain values")
    if action.type in _NUMBERS:
        word = _format_number(value, *_NUMBERS[action.type])
    elif action.type != "bool":
        word = format_word(value)
    elif isinstance(value, bool):  # `type=bool` calls all true but the empty text
        word = "True" if value else ""
    else:
        raise Refused(f"is {value!r}, neither true nor false")
    allowed = {str(choice) for choice in action.choices}
    if not allowed or word in allowed or value in action.choices:
        return word
    hint = did_you_mean(word, allowed, "choices") if find_nearest(word, allowed) else ""
    choices = format_choices(action.choices)
    raise Refused(f"is {value!r}; it may be {choices}", hint)


def _format_number(value: Any, kind: Callable[[Any], object], noun: str) -> str:
    if kind is int and isinstance(value, float) and value.is_integer():
        return str(int(value))
    is_other = isinstance(value, bool) or (kind is int and isinstance(value, float))
    with suppress(TypeError, ValueError, OverflowError):
        if not is_other:
            kind(value)
            return str(value)
    shown = format_word(value) if isinstance(value, bool) else repr(value)
    raise Refused(f"is {shown}, not {noun}")


_NUMBERS: Final[dict[str, tuple[Callable[[Any], object], str]]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
}


def _is_same(value: object, other: object) -> bool:
    """Equal, and of kinds that argparse does not tell apart: a truth is no number."""
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_is_same, value, other))
    if isinstance(value, bool) is not isinstance(other, bool):
        return False
    return type(value) in _SCALARS and type(other) in _SCALARS and value == other


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_NO_OTHERS: Final[Mapping[str, str]] = {}


class Arguments:
    """Checks and renders the arguments of one plan's jobs; reads each schema once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._schemas: dict[object, SchemaRenderer | Refused] = {}
        self._last: tuple[Config, Rendered] | None = None

    def check(self, backend: Config, key: str, args: object) -> Sequence[Problem]:
        """Everything wrong with `schema` and with the arguments at `key`."""
        found: list[Problem] = []
        schema = self._find_schema(backend, key)
        if isinstance(schema, Refused):
            found.append(problem("schema", schema.message, schema.hint))
        if args is not None and not isinstance(args, Mapping):
            hint = f"{key}: {{lr: 0.001}}"
            return [*found, problem(key, f"is {args!r}, not a mapping", hint)]
        if isinstance(schema, SchemaRenderer):
            return [*found, *self._render(schema, backend, args).problems]
        for name, value in (args or {}).items():
            # Most values are plain, and there are many of them in many jobs.
            if value.__class__ in _PLAIN:
                continue
            if isinstance(value, list | Mapping) and not is_word_list(value):
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
        false; `spellings`: flags that are not spelled like their keys.
        """
        schema = self._find_schema(backend, key)
        if isinstance(schema, SchemaRenderer):
            return self._render(schema, backend, args).words
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
                made = SchemaRenderer(load_schema(name, self._places), key)
            except Refused as error:
                self._schemas[name, key] = error
            else:
                self._schemas[name, key] = made
        return self._schemas[name, key]

    def _render(
        self, schema: SchemaRenderer, backend: Config, args: object
    ) -> Rendered:
        """Checked, then rendered: one job asks twice."""
        if self._last is None or self._last[0] is not backend:
            self._last = (backend, schema.render(cast(Config, args or {})))
        return self._last[1]


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
            if key in schema.by_alias:
                return Rendered(render_action(value, schema.by_alias[key], schema))
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
        for dest in schema.required:
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
        missing = ""
        for dest in self._positional:  # one after a gap would take its place
            if dest not in given:
                missing = missing or dest
            elif missing:
                message = f"goes by position, and {missing} before it is not given"
                yield self._make_problem(dest, message)
