"""The arguments of a job against the schema of its program: words, and findings.

Ten thousand jobs have much the same arguments. What one value of one argument comes to
is worked out once and remembered by key, type and value; a mapping that jobs share is
looked through once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.backends.argument_schema import Action, Alone, Schema
from autoexp_tui.backends.argument_words import Unsayable, Words, alone, words_of
from autoexp_tui.model.errors import Problem
from autoexp_tui.text.did_you_mean import did_you_mean, nearest

_MOST_VALUES: Final = 200_000
_MOST_MAPPINGS: Final = 128
_LISTS: Final = (list, tuple)


@dataclass(frozen=True, slots=True)
class Rendered:
    """What arguments come to on a command line."""

    words: Words = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Single:
    """What one argument comes to."""

    words: Words = ()
    problem: Problem | None = None
    dest: str = ""


class Checker:
    """Renders and checks arguments by one schema; see the module."""

    def __init__(self, schema: Schema, place: str) -> None:
        """`place`: the dotted key that the arguments stand at."""
        self.schema = schema
        self._place = place
        self._values: dict[object, _Single] = {}
        self._mappings: OrderedDict[int, tuple[object, Rendered]] = OrderedDict()
        self._by_position = tuple(
            action.dest for action in schema.actions if not action.options
        )
        self._doubtful = {*schema.by_alias, *(d for g in schema.alone for d in g.dests)}
        self._is_simple = not any(group.required for group in schema.alone)

    def rendered(self, args: Mapping[str, object]) -> Rendered:
        """Words and findings of one job's arguments."""
        known = self._mappings.get(id(args))
        if known is not None and known[0] is args:
            self._mappings.move_to_end(id(args))
            return known[1]
        found = self._looked_through(args)
        self._mappings[id(args)] = (args, found)
        if len(self._mappings) > _MOST_MAPPINGS:
            self._mappings.popitem(last=False)
        return found

    def besides(self, args: object, wrong: Sequence[Problem]) -> Sequence[Problem]:
        """What is wrong with arguments, beside what is known to be `wrong`."""
        if not wrong and (args is None or isinstance(args, Mapping)):
            return self.rendered(args or {}).problems
        if not isinstance(args, Mapping):
            return ()
        told = {problem.where for problem in wrong}
        rest = {k: v for k, v in args.items() if f"{self._place}.{k}" not in told}
        found = self._looked_through(rest).problems
        return [problem for problem in found if problem.where not in told]

    def _looked_through(self, args: Mapping[str, object]) -> Rendered:
        words: list[str] = []
        problems: list[Problem] = []
        places: dict[str, Words] = {}
        values = self._values
        for key, value in args.items():
            kind = value.__class__
            mark = (key, kind, _frozen(value) if kind in _LISTS else value)
            try:
                single = values[mark]
            except KeyError:
                single = self._remembered(mark, key, value)
            except TypeError:  # it holds what cannot be remembered
                single = self._single(key, value)
            if single.words:
                if single.dest in self._by_position:
                    places[single.dest] = single.words
                else:
                    words += single.words
            elif single.problem is not None:
                problems.append(single.problem)
        problems += self._about_all(args)
        problems += self._gaps(places)
        if places:
            in_order = (places.get(dest, ()) for dest in self._by_position)
            words += ["--", *(word for some in in_order for word in some)]
        return Rendered(tuple(words), tuple(problems))

    def _remembered(self, mark: object, key: str, value: object) -> _Single:
        if len(self._values) >= _MOST_VALUES:
            self._values.clear()
        found = self._values[mark] = self._single(key, value)
        return found

    # ------------------------------------------------------------------ one argument
    def _single(self, key: str, value: object) -> _Single:
        actions = self.schema.by_dest.get(key)
        alias = self.schema.by_alias.get(key) if actions is None else None
        try:
            if actions is not None:
                return _Single(words_of(value, actions, self.schema), None, key)
            if alias is not None:
                return _Single(alone(value, alias, self.schema), None, alias.dest)
        except Unsayable as error:
            return _Single((), self._problem(key, error.message, error.hint))
        return _Single((), self._unknown(key))

    def _unknown(self, key: str) -> Problem:
        dashed = key.replace("-", "_")
        known = (*self.schema.by_dest, *self.schema.by_alias)
        if dashed in known:
            hint = f"did you mean `{dashed}`?"
        elif nearest(key, known) is not None:
            hint = did_you_mean(key, known, "arguments")
        else:
            hint = f"none of its {len(self.schema.by_dest)} arguments is near"
        source = self.schema.source or "the program"
        return self._problem(key, f"is no argument of {source}", hint)

    def _problem(self, key: str, message: str, hint: str = "") -> Problem:
        return Problem(message, where=f"{self._place}.{key}", hint=hint)

    # ------------------------------------------------------------------ all together
    def _about_all(self, args: Mapping[str, object]) -> Iterator[Problem]:
        """What no single argument shows."""
        for dest in self.schema.required:
            if args.get(dest) is None and not self._given(dest, args):
                message = "is missing; the program does not start without it"
                yield self._problem(dest, message)
        if self._is_simple and self._doubtful.isdisjoint(args):
            return
        for alias, action in self._aliases(args):
            if args.get(action.dest) is not None and args.get(alias) is not None:
                message = f"is given as `{action.dest}` too"
                yield self._problem(alias, message, "leave one of them out")
        for group in self.schema.alone:
            yield from self._crowded(group, args)

    def _aliases(self, args: Mapping[str, object]) -> list[tuple[str, Action]]:
        aliases = self.schema.by_alias
        return [(key, aliases[key]) for key in args.keys() & aliases.keys()]

    def _given(self, dest: str, args: Mapping[str, object]) -> bool:
        """Whether a destination gets words of these arguments."""
        if args.get(dest) is not None and self._single(dest, args[dest]).words:
            return True
        return any(
            action.dest == dest and self._single(key, args[key]).words
            for key, action in self._aliases(args)
        )

    def _crowded(self, group: Alone, args: Mapping[str, object]) -> Iterator[Problem]:
        given = [dest for dest in group.dests if self._given(dest, args)]
        if len(given) > 1:
            others = ", ".join(given[:-1])
            yield self._problem(given[-1], f"does not go with {others}")
        if group.required and not given:
            listed = ", ".join(group.dests)
            message = f"one of {listed} is needed"
            yield Problem(message, where=self._place)

    def _gaps(self, places: Mapping[str, Words]) -> Iterator[Problem]:
        """An argument by position after one that is not there would take its place."""
        missing = ""
        for dest in self._by_position:
            if dest not in places:
                missing = missing or dest
            elif missing:
                message = f"goes by position, and {missing} before it is not given"
                yield self._problem(dest, message)


def _frozen(value: object) -> object:
    """A list as something that can be looked up, kinds of its items included."""
    if isinstance(value, _LISTS):
        return tuple((item.__class__, _frozen(item)) for item in value)
    return value
