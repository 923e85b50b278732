"""How a plain mapping becomes a frozen spec of core, with every finding at once.

The common part of conditions, actions and rules: unknown fields, wrong types, patterns
that do not compile. What each kind makes of its fields is said where it is listed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.patterns import (
    Pattern,
    PatternRefused,
    compile_line_pattern,
)

Fields = dict[str, Any]

_POSITIVE: Final = ("timeout_seconds", "timeout", "cooldown_seconds", "max_attempts")
_NOT_NEGATIVE: Final = ("min_size", "tail_bytes", "quarantine_after", "keep")
_MAY_BE_EMPTY: Final = frozenset({"text"})
"""Required texts of which an empty one means something: a line without words."""
_MISSING: Final = frozenset(
    {"missing", "missing_argument", "missing_keyword_only_argument"}
)
_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_NO_MAPPING: Final = frozenset(
    {"model_type", "model_attributes_type", "dict_type", "dataclass_type"}
)
_UNSAID: Final = frozenset({"str", "int", "float", "bool", "none", "list", "tuple"})
"""Parts of a place that name a member of a union, not a key."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one `class_name` becomes a spec."""

    spec: Any
    """A dataclass of core."""
    also: tuple[str, ...] = ()
    """Fields of the config that the spec does not have."""
    hidden: tuple[str, ...] = ()
    """Fields of the spec that planning sets."""
    prepare: Callable[[Fields, Findings], None] = lambda fields, findings: None

    def accepted(self) -> tuple[str, ...]:
        """The fields that a mapping may have."""
        own = (f.name for f in dataclasses.fields(self.spec))
        held = {"kind", *self.hidden}
        return (*(name for name in own if name not in held), *self.also)


class Findings:
    """What is wrong with one mapping, collected."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[Problem] = []

    def add(self, message: str, field: str = "", hint: str = "") -> None:
        """One finding, at a field of the mapping."""
        where = f"{self.where}.{field}" if field else self.where
        self.problems.append(Problem(message, where=where, hint=hint))

    def inherit(self, error: SpecRefused) -> None:
        """The findings of something nested."""
        self.problems += error.problems

    def settle(self) -> None:
        """Raise what was found.

        Raises:
            SpecRefused: anything at all was found.
        """
        if self.problems:
            raise SpecRefused(tuple(self.problems))


# ------------------------------------------------------------------------ building
def read_mapping(value: object, where: str) -> Fields:
    """`value` as a mapping of one's own.

    Raises:
        SpecRefused: it is none.
    """
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    problem = Problem(f"is {value!r}, not a mapping", where=where, hint="")
    raise SpecRefused((problem,))


def build_spec(kind: Kind, fields: Fields, where: str) -> Any:
    """The spec of a kind, made of `fields`, which are used up.

    Raises:
        SpecRefused: with everything that is wrong with them.
    """
    findings = Findings(where)
    _refuse_unknown(kind, fields, findings)
    kind.prepare(fields, findings)
    _refuse_numbers(kind, fields, findings)
    try:
        made = _make_adapter(kind.spec).validate_python(fields)
    except ValidationError as error:
        known = {problem.where for problem in findings.problems}
        found = describe_errors(error, where)
        findings.problems += [p for p in found if p.where not in known]
        made = None
    _refuse_empty(kind, made, findings)
    _refuse_endless(made, findings)
    findings.settle()
    return made


@cache
def _make_adapter(spec: Any) -> TypeAdapter[Any]:
    return TypeAdapter(spec)


def _refuse_unknown(kind: Kind, fields: Fields, findings: Findings) -> None:
    accepted = kind.accepted()
    for name in [name for name in fields if name not in accepted]:
        del fields[name]
        hint = did_you_mean(name, accepted, "fields")
        findings.add("is no field here", name, hint)


def _refuse_numbers(kind: Kind, fields: Fields, findings: Findings) -> None:
    """Flags, which Python would count as 1 or 0, and numbers that are too small."""
    for name in _list_numbers(kind.spec):
        value = fields.get(name)
        if isinstance(value, bool):
            del fields[name]
            findings.add(f"is {str(value).lower()}, which is no number", name)
        elif isinstance(value, int | float):
            if name in _POSITIVE and value <= 0:
                findings.add(f"is {value}; it must be more than 0", name)
            elif name in _NOT_NEGATIVE and value < 0:
                findings.add(f"is {value}; it must not be less than 0", name)


@cache
def _list_numbers(spec: Any) -> tuple[str, ...]:
    """The fields of a spec that hold a number, or none at all."""
    hints = get_type_hints(spec)
    return tuple(name for name, hint in hints.items() if _is_number(hint))


def _is_number(hint: Any) -> bool:
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return set(kinds) <= {int, float, type(None)}


def _refuse_empty(kind: Kind, made: object, findings: Findings) -> None:
    """Texts that a spec cannot do without: an empty one is never what was meant."""
    known = {problem.where for problem in findings.problems}
    for field in dataclasses.fields(kind.spec):
        is_required = field.default is dataclasses.MISSING
        if not is_required or field.name in _MAY_BE_EMPTY:
            continue
        is_told = f"{findings.where}.{field.name}" in known
        if getattr(made, field.name, None) == "" and not is_told:
            findings.add("is empty", field.name)


def _refuse_endless(made: object, findings: Findings) -> None:
    """Numbers that are none, or have no end: no comparison or clock reaches them."""
    if not dataclasses.is_dataclass(made):
        return
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            hint = "leave it out where it has no limit"
            findings.add(f"is {value}, which is no number to reach", field.name, hint)


def compile_pattern(
    pattern: object, findings: Findings, field: str = "pattern"
) -> Pattern | None:
    """The pattern as a regex; None, with a finding, when it is none."""
    if not isinstance(pattern, str):
        return None  # the type is found wrong by the model
    if not pattern:
        findings.add("is empty and would match everything", field)
        return None
    try:
        return compile_line_pattern(pattern)
    except PatternRefused as error:
        findings.add(f"{pattern!r} {error.problem}", field, error.hint)
        return None


def move_alias(fields: Fields, findings: Findings, alias: str, name: str) -> None:
    """Give what is written under another name its own."""
    if alias not in fields:
        return
    given = fields.pop(alias)
    if fields.setdefault(name, given) != given and given is not None:
        hint = "keep one of the two"
        findings.add(f"`{name}` and `{alias}` are both given", hint=hint)


def parse_list(
    value: object, findings: Findings, field: str, parse: Callable[[object, str], Any]
) -> tuple[Any, ...]:
    """A list of nested things, each parsed at its own place."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        findings.add(f"is {value!r}, not a list", field)
        return ()
    made: list[Any] = []
    for at, item in enumerate(value):
        try:
            made.append(parse(item, f"{findings.where}.{field}.{at}"))
        except SpecRefused as error:
            findings.inherit(error)
    return tuple(made)


def flatten_texts(value: object) -> object:
    """One text or a list of texts (also of lists) as a flat list."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Sequence):
        return value
    flat: list[object] = []
    for item in value:
        nested = isinstance(item, Sequence) and not isinstance(item, str)
        flat += item if nested else [item]
    return flat


# ------------------------------------------------------------- pydantic's findings
def describe_errors(
    error: ValidationError,
    where: str,
    known: Mapping[tuple[str, ...], Iterable[str]] | None = None,
) -> list[Problem]:
    """One finding for each key; `known`: what keys there are, by the place above."""
    found: dict[str, Problem] = {}
    for item in error.errors(include_url=False):
        problem = _describe_error(dict(item), where, known or {})
        found.setdefault(problem.where, problem)
    return list(found.values())


def _describe_error(
    item: Mapping[str, Any], where: str, known: Mapping[tuple[str, ...], Iterable[str]]
) -> Problem:
    path = tuple(str(part) for part in item["loc"] if _is_key(part))
    place = ".".join(part for part in (where, *path) if part)
    kind, given = str(item["type"]), item.get("input")
    if kind in _MISSING:
        return Problem("is missing", where=place)
    if kind in _UNKNOWN:
        hint = did_you_mean(path[-1], known.get(path[:-1], ()), "keys")
        return Problem("is no key here", where=place, hint=hint)
    if kind == "literal_error":
        expected = str(item["ctx"]["expected"])
        return Problem(f"is {given!r}; it may be {expected}", where=place)
    if kind in _NO_MAPPING:
        return Problem(f"is {given!r}, not a mapping", where=place)
    wanted = str(item["msg"]).replace("Input should be ", "it should be ")
    wanted = wanted.removeprefix("Value error, ")
    return Problem(f"is {given!r}: {wanted}", where=place)


def _is_key(part: object) -> bool:
    if not isinstance(part, str):
        return True
    return part not in _UNSAID and "[" not in part
