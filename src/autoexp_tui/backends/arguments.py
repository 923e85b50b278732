"""The arguments of a job as words of its command line, checked by a schema.

Without a schema `key: value` is `--key value`; true is the bare flag, false and null
leave it out, a list gives the flag once and then every item. With one the program's own
spelling is known, and every argument is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from autoexp_tui.backends.argument_schema import Schema, load_schema
from autoexp_tui.backends.argument_words import (
    Words,
    join_flag,
    render_action,
    render_value,
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
