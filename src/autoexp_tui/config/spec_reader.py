"""How a plain mapping becomes a frozen spec, with every finding at once.

Pydantic reads the fields of the kind's own dataclass; what it does not know of them is
data and a function of the table in `specs`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import SHORTEST_LOCK_STALE_SECONDS
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.patterns import Pattern, PatternRefused, compile_line_pattern

Fields: TypeAlias = dict[str, Any]
Parse: TypeAlias = Callable[[object, str], Any]
"""What makes a spec of a value at a place."""

POSITIVE: Final = frozenset(
    {
        *("timeout_seconds", "timeout", "cooldown_seconds", "max_attempts"),
        *("poll_seconds", "stall_after_seconds", "quick_seconds", "divergence_percent"),
        *("eval_timeout_seconds", "heartbeat_seconds", "no_metric_seconds"),
        *("breaker_seconds", "gpu_hours", "wall_seconds", "idle_seconds", "steps"),
        *("output_bytes", "disk_bytes", "jobs"),
    }
)
_LEAST: Final[Mapping[str, float]] = {
    **dict.fromkeys(("min_size", "tail_bytes", "quarantine_after", "keep"), 0),
    **dict.fromkeys(("failures", "doomed_grace_seconds", "evidence_seconds"), 0),
    **dict.fromkeys(("eval_retries", "review_rounds", "max_file_bytes", "repeats"), 0),
    **dict.fromkeys(("weight", "tolerance", "k", "commit_epoch"), 0),
    **dict.fromkeys(("max_primary_loss", "max_risk_loss"), 0),
    **dict.fromkeys(("beam_width", "max_depth", "ideas_per_node", "min_rows"), 1),
    **dict.fromkeys(("max_total_idea_evals", "sweep_config_limit"), 1),
    **dict.fromkeys(("max_parallel_evals", "sweep_max_parallel"), 1),
    **dict.fromkeys(("llm_max_inflight", "llm_rate_limit", "max_disk_bytes"), 1),
    **dict.fromkeys(("gpus", "starve_after", "refill_below", "min_delta"), 0),
    **dict.fromkeys(("min_interval_seconds", "calls", "tokens", "money"), 0),
    **dict.fromkeys(("max_items", "attempts", "breaker_failures"), 1),
    **dict.fromkeys(("falsified_after", "rounds_without_gain"), 1),
    "context_bytes": 8192,
    "min_points": 2,
    "lock_stale_seconds": SHORTEST_LOCK_STALE_SECONDS,
}
"""Bounds of numbers in whatever spec has a field of that name."""
_MAY_BE_EMPTY: Final = frozenset({"text"})
"""Required texts of which an empty one means something: a line without words."""
_MISSING: Final = frozenset(
    {"missing", "missing_argument", "missing_keyword_only_argument"}
)
_UNSAID: Final = frozenset({"str", "int", "float", "bool", "none", "list", "tuple"})
"""Parts of a place that name a member of a union, not a key."""


@dataclass(slots=True)
class Findings:
    """What is wrong with one mapping, collected."""

    where: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, message: str, field: str = "", hint: str = "") -> None:
        """One finding, at a field of the mapping."""
        where = f"{self.where}.{field}" if field else self.where
        self.problems.append(Problem(message, where=where, hint=hint))

    def inherit(self, parse: Parse, value: object, field: str) -> Any:
        """What is parsed of a nested value; None where it is refused."""
        try:
            return parse(value, f"{self.where}.{field}")
        except SpecRefused as error:
            self.problems += error.problems
            return None

    def settle(self) -> None:
        """Raise what was found as `SpecRefused`, if anything was."""
        if self.problems:
            raise SpecRefused(tuple(self.problems))


Prepare: TypeAlias = Callable[[Fields, Findings], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """How a mapping becomes one spec."""

    spec: Any
    """A dataclass."""
    prepare: Prepare = lambda fields, findings: None
    """Makes of what a config writes what the spec has; says what is wrong with it."""
    also: tuple[str, ...] = ()
    """Fields of the config that the spec does not have."""
    hidden: tuple[str, ...] = ()
    """Fields of the spec that planning sets."""
    lists: Mapping[str, Parse] = field(default_factory=dict)
    """Fields that are lists of nested things."""
    parts: Mapping[str, Kind] = field(default_factory=dict)
    """Fields that are one nested thing; null is none."""

    def list_fields(self) -> Sequence[str]:
        """The fields that a mapping may have."""
        own = (one.name for one in dataclasses.fields(self.spec))
        return (*(n for n in own if n not in {"kind", *self.hidden}), *self.also)

    def parse(self, value: object, where: str) -> Any:
        """The spec that a mapping describes; SpecRefused tells all that is wrong."""
        return self.build(read_mapping(value, where), where)

    def build(self, fields: Fields, where: str) -> Any:
        """The spec made of `fields`, which are used up; as `parse`."""
        findings, made = Findings(where), None
        accepted = self.list_fields()
        for name in [name for name in fields if name not in accepted]:
            del fields[name]
            hint = did_you_mean(name, accepted, "keys")
            findings.add("is no key here", name, hint)
        for name, parse in self.lists.items():
            if name in fields:
                fields[name] = parse_list(fields[name], findings, name, parse)
        for name, part in self.parts.items():
            given = fields.pop(name, None)
            if given is not None:
                made = findings.inherit(part.parse, given, name)
                fields |= {} if made is None else {name: made}
        self.prepare(fields, findings)
        adapter, numbers = read_spec(self.spec)
        _refuse_numbers(numbers & fields.keys(), fields, findings)
        try:
            made = adapter.validate_python(fields)
            found = _check_made(made, where)
        except ValidationError as error:
            found = describe_errors(error, where)
        places = {problem.where for problem in findings.problems}
        findings.problems += [one for one in found if one.where not in places]
        if findings.problems:
            raise SpecRefused(tuple(findings.problems))
        return made


def to_plain(options: Any) -> dict[str, Any]:
    """A spec as a plan carries it: what JSON has a word for."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(options)))
    return plain


def read_mapping(value: object, where: str) -> Fields:
    """`value` as a mapping of one's own; raises SpecRefused where it is none."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    raise SpecRefused((Problem(f"is {value!r}, not a mapping", where=where),))


@cache
def read_spec(spec: Any) -> tuple[TypeAdapter[Any], Set[str]]:
    """Pydantic's reader of a dataclass, and the fields that hold numbers alone."""
    found = get_type_hints(spec).items()
    parts = {n: get_args(h) if get_origin(h) is UnionType else (h,) for n, h in found}
    numbers = {name for name in parts if {*parts[name]} <= {int, float, type(None)}}
    return TypeAdapter(spec), numbers


def _refuse_numbers(names: Set[str], fields: Fields, findings: Findings) -> None:
    """Flags, which Python would count as 1 or 0, and numbers that are too small."""
    for name in sorted(names):
        value = fields[name]
        if isinstance(value, bool):
            del fields[name]
            findings.add(f"is {str(value).lower()}, which is no number", name)
        elif isinstance(value, int | float):
            if name in POSITIVE and value <= 0:
                findings.add(f"is {value}; it must be more than 0", name)
            elif value < _LEAST.get(name, -math.inf):
                least = f"{_LEAST[name]:g}"
                findings.add(f"is {value}; it must not be less than {least}", name)


def _check_made(made: Any, where: str) -> list[Problem]:
    """Texts that a spec cannot do without, and numbers that no clock reaches."""
    found = []
    for one in dataclasses.fields(made):
        value, place = getattr(made, one.name), f"{where}.{one.name}"
        is_required = one.default is dataclasses.MISSING
        if value == "" and is_required and one.name not in _MAY_BE_EMPTY:
            found.append(Problem("is empty", where=place))
        if isinstance(value, float) and not math.isfinite(value):
            hint = "leave it out where it has no limit"
            message = f"is {value}, which is no number to reach"
            found.append(Problem(message, where=place, hint=hint))
    return found


def compile_pattern(pattern: object, findings: Findings) -> Pattern | None:
    """The pattern as a regex; None, with a finding, when it is none."""
    if not isinstance(pattern, str):
        return None  # the type is found wrong by the model
    if not pattern:
        findings.add("is empty and would match everything", "pattern")
        return None
    try:
        return compile_line_pattern(pattern)
    except PatternRefused as error:
        findings.add(f"{pattern!r} {error.problem}", "pattern", error.hint)
        return None


def refuse_text(fields: Fields, findings: Findings, *names: str) -> None:
    """Commands are lists of words: a text would ask for a shell."""
    for name in names:
        if isinstance(fields.get(name), str):
            hint = 'write its words as a list: ["test", "-f", "x"]; no shell is used'
            findings.add("is text, not a list", name, hint)
            fields[name] = [fields[name]]


def move_alias(fields: Fields, findings: Findings, alias: str, name: str) -> None:
    """Give what is written under another name its own."""
    if alias in fields:
        given = fields.pop(alias)
        if fields.setdefault(name, given) != given and given is not None:
            hint = "keep one of the two"
            findings.add(f"`{name}` and `{alias}` are both given", hint=hint)


def require_one(
    fields: Fields, findings: Findings, names: tuple[str, str], hint: str = ""
) -> None:
    """A finding where not exactly one of two fields is given."""
    given = [name for name in names if fields.get(name) not in (None, "")]
    if len(given) != 1:
        findings.add(f"needs exactly one of {' and '.join(names)}", hint=hint)


def parse_list(
    value: object, findings: Findings, field: str, parse: Parse
) -> tuple[Any, ...]:
    """A list of nested things, each parsed at its own place."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        findings.add(f"is {value!r}, not a list", field)
        return ()
    places = enumerate(value)
    made = [findings.inherit(parse, item, f"{field}.{at}") for at, item in places]
    return tuple(one for one in made if one is not None)


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


def describe_errors(error: ValidationError, where: str) -> list[Problem]:
    """One finding for each key."""
    found: dict[str, Problem] = {}
    for item in error.errors(include_url=False):
        problem = _describe_error(dict(item), where)
        found.setdefault(problem.where, problem)
    return list(found.values())


def _describe_error(item: Mapping[str, Any], where: str) -> Problem:
    path = tuple(
        str(part)
        for part in item["loc"]
        if not isinstance(part, str) or (part not in _UNSAID and "[" not in part)
    )
    place = ".".join(part for part in (where, *path) if part)
    kind, given = str(item["type"]), item.get("input")
    if kind in _MISSING:
        return Problem("is missing", where=place)
    if kind == "literal_error":
        expected = str(item["ctx"]["expected"])
        return Problem(f"is {given!r}; it may be {expected}", where=place)
    wanted = str(item["msg"]).replace("Input should be ", "it should be ")
    wanted = wanted.removeprefix("Value error, ")
    return Problem(f"is {given!r}: {wanted}", where=place)
