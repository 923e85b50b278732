"""What references stand for: attributes, config keys and metadata of jobs.

`Values` answers for one job, by asking a `World` for the others; the world may raise
to have another job resolved first. A value is typed; how it is put into a text (and
escaped, so that it is read as it is) is `substitution`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Final, TypeAlias, TypeVar

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import ConfigView
from autoexp_tui.sweep.families import Families, SiblingNotFound
from autoexp_tui.sweep.filters import find_interpolation_end, is_escaped
from autoexp_tui.sweep.points import (
    STAGE_KEYS,
    DeferredFilter,
    format_in_name,
    plain_key,
    shorten_text,
)
from autoexp_tui.text.did_you_mean import did_you_mean

_INSIDE: Final = re.compile(r"[A-Za-z_][\w\-./=+\[\], @:%~]*")
_OURS_WITHIN: Final = re.compile(
    r"\{(?=(?:sibling|all)[.\[]|(?:base|parent|aux|runtime)\.|[A-Za-z_][\w.]*\})"
)
_BASE: Final = re.compile(r"\$\{((?:base|parent)\.[\w.\-]+)\}")
_DOUBLED: Final = re.compile(r"\{\{\s*(sibling|all|base|parent|runtime|aux)[.\[]")
_ESCAPED: Final = re.compile(r"\$\{\s*(sibling|base|parent|aux)[.\[]")
"""References as other programs write them; here they would be plain text."""
_MOST_NESTED: Final = 8
_HINT: Final = "write {{ and }} for braces that are meant literally"


class NotAReference(ValueError):
    """Braces that hold no reference."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One `{...}`."""

    parts: tuple[str | Reference, ...]
    """What is inside the braces."""
    text: str
    """As written, braces and all."""


@dataclass(frozen=True, slots=True)
class Interpolation:
    """One whole `${...}`, with the references in it."""

    parts: tuple[str | Reference, ...]


Part: TypeAlias = str | Reference | Interpolation
_Piece = TypeVar("_Piece", Part, str | Reference)


@lru_cache(maxsize=4096)
def parse_template(text: str, *, base_is_a_key: bool = False) -> tuple[Part, ...]:
    """The pieces of `text` (`base_is_a_key`: `${base.x}` too); raises NotAReference."""
    return tuple(_join_literals(_Reader(text, ours=not base_is_a_key).read()))


class _Reader:
    def __init__(self, text: str, *, ours: bool) -> None:
        self._text = text
        self._ours = ours
        self._at = 0

    def read(self) -> Iterator[Part]:
        """The pieces of the whole text."""
        while (at := self._at) < len(self._text):
            if self._text.startswith(("{{", "}}"), at):
                if doubled := _DOUBLED.match(self._text, at):
                    raise NotAReference(
                        f"`{{{{{doubled[1]}...}}}}` is text, and would reach the "
                        f"command as it stands; write one brace: {{{doubled[1]}...}}"
                    )
                self._at += 2
                yield self._text[at]
            elif self._text.startswith("${", at):
                yield self._read_interpolation()
            elif self._text[at] == "{":
                yield self._read_reference(0)
            else:
                yield self._read_char()

    def _read_char(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _read_interpolation(self) -> Part:
        text, start = self._text, self._at
        end = find_interpolation_end(text, start)
        if end < 0 or is_escaped(text, start):
            if escaped := _ESCAPED.match(text, start):
                head = escaped[1]
                meant = "${aux...}" if head == "aux" else f"{{{head}...}}"
                raise NotAReference(
                    f"`\\${{{head}...}}` is text, and would reach the command as it "
                    f"stands; write {meant}"
                )
            self._at = end if end > 0 else start + 2
            return text[start : self._at]
        base = _BASE.match(text, start)
        if base and base.end() == end and self._ours:
            self._at = end
            return Reference((base[1],), base[0])
        return Interpolation(tuple(_join_literals(self._read_within(end))))

    def _read_within(self, end: int) -> Iterator[str | Reference]:
        while (at := self._at) < end:
            base = _BASE.match(self._text, at) if self._ours else None
            if base:
                self._at = base.end()
                yield Reference((base[1],), base[0])
            elif self._text[at - 1 : at] != "$" and _OURS_WITHIN.match(self._text, at):
                yield self._read_reference(0)
            else:
                yield self._read_char()

    def _read_reference(self, depth: int) -> Reference:
        text, start = self._text, self._at
        parts: list[str | Reference] = []
        self._at += 1
        while self._at < len(text) and text[self._at] != "}":
            if text[self._at] != "{":
                parts.append(self._read_char())
                continue
            if text[self._at - 1] == "$" or depth >= _MOST_NESTED:
                raise NotAReference(_refuse_text(text[start:]))
            parts.append(self._read_reference(depth + 1))
        if self._at >= len(text):
            shown = shorten_text(text[start:])
            raise NotAReference(f"`{shown}` does not close; {_HINT}")
        self._at += 1
        whole = text[start : self._at]
        filled = "".join(part if isinstance(part, str) else "x" for part in parts)
        if not _INSIDE.fullmatch(filled):
            raise NotAReference(_refuse_text(whole))
        return Reference(tuple(_join_literals(parts)), whole)


def _join_literals(parts: Iterable[_Piece]) -> Iterator[_Piece]:
    for is_text, group in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            yield "".join(map(str, group))
        else:
            yield from group


def _refuse_text(text: str) -> str:
    shown = shorten_text(text)
    if "${" in text:
        return f"`{shown}`: ${{...}} cannot stand inside {{...}}; write {{aux.x}}"
    return f"`{shown}` is no reference; {_HINT}"


_ADDRESS: Final = re.compile(r"(sibling|all|base|parent|runtime)(?=[.\[])\.?(.*)")


def parse_address(inside: str) -> tuple[str, str]:
    """Whom a reference asks (`own` when nobody else), and the rest of it."""
    if (found := _ADDRESS.fullmatch(inside)) is None:
        return "own", inside
    return "base" if found[1] == "parent" else found[1], found[2]


def split_pattern(
    rest: str, stages: Collection[str], known: Callable[[str], bool]
) -> tuple[str, str]:
    """(pattern, accessor) of `stable.output_dir`, `[lr=1].x`, `lr=1e-4.name`.

    The longest stage in `stages` wins; of `key=value`, the longest value with which
    some point is `known`. Raises NotAReference: it has no accessor.
    """
    if rest.startswith("["):
        pattern, _, accessor = rest.partition("]")
        pattern, accessor = f"{pattern}]", accessor.removeprefix(".")
    else:
        dots = [at for at, char in enumerate(rest) if char == "."]
        end = next((dot for dot in reversed(dots) if rest[:dot] in stages), None)
        if end is None:
            dots = [dot for dot in dots if dot > rest.find("=")]
            tried = reversed(dots) if "=" in rest else ()
            first = dots[0] if dots else len(rest)
            end = next((dot for dot in tried if known(rest[:dot])), first)
        pattern, accessor = rest[:end], rest[end + 1 :]
    if not pattern or not accessor:
        example = "{sibling.STAGE.output_dir}"
        raise NotAReference(f"`{rest}` does not say what of the job; as in {example}")
    return pattern, accessor


ATTRIBUTES: Final = (
    *("name", "output_dir", "log_dir", "log_path", "log_path_current"),
    *("script_path", "stage", "index", "family"),
)
"""What every job has, before its config and its metadata are asked."""
KNOWN_EARLY: Final = frozenset({"stage", "index", "family", *STAGE_KEYS})
"""Attributes that are known before anything is composed."""


class UnknownKey(ValueError):
    """A job has no such attribute, config key or metadata."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class DroppedJob(Exception):
    """A job that was asked for is not in the plan: its filter dropped it."""

    def __init__(self, mark: DeferredFilter, faults: Sequence[Problem] = ()) -> None:
        """`faults`: what is wrong with filters that had their turn before."""
        super().__init__(mark.text)
        self.mark = mark
        self.faults = faults

    @property
    def by(self) -> str:
        """The filter and its place."""
        return f"`{self.mark.text}` at {self.mark.where}"


@dataclass(frozen=True, slots=True)
class Runtime:
    """Metadata of a job, known only while it runs."""

    job: str
    key: str

    @property
    def text(self) -> str:
        """As it stands in resolved conditions, bound when they are evaluated."""
        return f"{{runtime.{self.job}.{self.key}}}"


@dataclass(frozen=True, slots=True)
class Several:
    """The values of all jobs of a stage, in index order."""

    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Own:
    """A key of the job itself, before its config is composed."""

    accessor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a job is called, and where it lies; no directories before it is named."""

    name: str
    output_dir: str = ""
    log_dir: str = ""
    script_path: str = ""
    stage: str
    index: int
    family: str

    def attribute(self, name: str) -> object:
        """The attribute; KeyError when it is none."""
        match name:
            case "project.name":
                return self.name
            case "log_path":
                return f"{self.log_dir}/slurm-%j.out"
            case "log_path_current":
                return f"{self.log_dir}/current.log"
        if name in STAGE_KEYS:
            return self.stage
        if name in ATTRIBUTES:
            return getattr(self, name)
        raise KeyError(name)


@dataclass(slots=True)
class World:
    """The jobs of a plan, and what all of them share."""

    families: Families
    metadata_keys: Collection[str]
    """What log rules extract."""
    find_job: Callable[[int], tuple[Identity, Callable[[], ConfigView]]]
    """Names of the job at a position, and its config; may raise to have it made first,
    or DroppedJob when the plan does not have it."""
    warnings: list[Problem]
    _values: dict[tuple[int, str], object] = field(default_factory=dict)

    def read(self, at: int, accessor: str) -> object:
        """One thing of a job, as `read_accessor` gives it; raises like `find_job`."""
        identity, view = self.find_job(at)
        if (at, accessor) not in self._values:
            found = read_accessor(identity, view, self.metadata_keys, accessor)
            self._values[at, accessor] = found
        return self._values[at, accessor]


@dataclass(slots=True)
class Values:
    """Answers the references of one job, and notes which jobs they read."""

    world: World
    at: int
    own: tuple[Identity, ConfigView] | None = None
    """The job itself, once it is composed."""
    read: set[int] = field(default_factory=set)
    """Positions of the other jobs that were asked."""
    prepare: Callable[[str], None] | None = None
    """Asked to finish, in a job being made, what one thing of it is made of."""

    def of(self, reference: Reference, *, early: bool = False) -> object:
        """Its value, Runtime, Several or Own; raises what `job_config.FAULTS` lists.

        `early`: as before the job itself is composed.
        """
        inside = (
            part if isinstance(part, str) else self._resolve_nested(part)
            for part in reference.parts
        )
        match parse_address("".join(inside)):
            case "own", rest:
                return self._resolve_own(rest, early=early)
            case "runtime", rest:
                return self._resolve_runtime(rest)
            case "all", rest:
                return self._resolve_all(rest)
            case "base", rest:
                return self._read_base(rest)
            case _, rest:
                pattern, accessor = self._split(rest)
        at = self.world.families.find(pattern, self.at)
        return self._read_named(pattern, at, accessor)

    def _resolve_nested(self, reference: Reference) -> str:
        value = self.of(reference, early=self.prepare is not None)
        if isinstance(value, Own):
            value = self._read_written(value.accessor)
        if isinstance(value, Several | Runtime):
            raise NotAReference(
                f"`{reference.text}` inside another reference gives no one value"
            )
        return format_in_name(value)

    def _read_written(self, accessor: str) -> object:
        """A value that is written in the point, without `${...}` or references."""
        found: object = None
        for key, value in self.world.families.points[self.at].parameters.items():
            plain = plain_key(key)
            if plain == accessor:
                found = value
                break
            if accessor.startswith(f"{plain}.") and isinstance(value, Mapping):
                found = value.get(accessor[len(plain) + 1 :])
                break
        if found is None or (isinstance(found, str) and "{" in found):
            raise NotAReference(
                f"{{{accessor}}} inside another reference: only values that are "
                "written in the same point can stand there"
            )
        return found

    def base_name(self) -> str:
        """The name of the job that `base` means; raises SiblingNotFound."""
        return str(self._read_base("name"))

    def _read_base(self, accessor: str) -> object:
        at = self.world.families.base(self.at, self._list_referred)
        return self._read_named("base", at, accessor)

    def _list_referred(self) -> Iterable[int]:
        point = self.world.families.points[self.at]
        for reference in list_references(point.parameters):
            match reference.parts:
                case (str(inside),) if parse_address(inside)[0] == "sibling":
                    with suppress(SiblingNotFound, NotAReference):
                        pattern, _ = self._split(parse_address(inside)[1])
                        yield self.world.families.find(pattern, self.at)

    def _split(self, rest: str) -> tuple[str, str]:
        families = self.world.families
        return split_pattern(rest, families.stages, families.knows)

    def _read_named(self, pattern: str, at: int, accessor: str) -> object:
        try:
            return self._read_other(at, accessor)
        except DroppedJob as dropped:
            message = f"No sibling found matching pattern: {pattern}"
            hint = f"it was removed by the filter {dropped.by}"
            raise SiblingNotFound(message, hint) from None

    def _read_other(self, at: int, accessor: str) -> object:
        value = self.world.read(at, accessor)
        self.read.add(at)
        return value

    def _resolve_all(self, rest: str) -> Several:
        pattern, accessor = self._split(rest)
        values: list[object] = []
        dropped: list[DroppedJob] = []
        for at in self.world.families.all_of(pattern):
            try:
                values.append(self._read_other(at, accessor))
            except DroppedJob as gone:
                dropped.append(gone)
        if values:
            return Several(tuple(values))
        filters = list(dict.fromkeys(one.by for one in dropped))
        removed = "it was" if len(dropped) == 1 else f"all {len(dropped)} were"
        noun = "filter" if len(filters) == 1 else "filters"
        raise SiblingNotFound(
            f"No job found matching pattern: {pattern}",
            f"{removed} removed by the {noun} {' and '.join(filters)}",
        )

    def _resolve_runtime(self, rest: str) -> Runtime:
        """`JOB.KEY` where both may hold dots; the jobs seen so far decide."""
        names = {self.world.find_job(at)[0].name for at in self.read}
        if self.own is not None:
            names.add(self.own[0].name)
        known = [name for name in names if rest.startswith(f"{name}.")]
        if known:
            name = max(known, key=len)
            return Runtime(name, rest[len(name) + 1 :])
        job, _, key = rest.rpartition(".")
        if not job:
            raise NotAReference(f"`runtime.{rest}` is not runtime.JOB.KEY")
        return Runtime(job, key)

    def _resolve_own(self, accessor: str, *, early: bool) -> object:
        families = self.world.families
        if accessor == "index":
            return families.points[self.at].index
        if accessor == "family":
            return families.family(self.at)
        if accessor in STAGE_KEYS:
            return families.points[self.at].stage
        if self.own is None or early:
            return Own(accessor)
        if self.prepare is not None:
            self.prepare(accessor)
        identity, view = self.own
        keys = self.world.metadata_keys
        found = read_accessor(identity, lambda: view, keys, accessor, whose="the job")
        if self.prepare is not None and isinstance(found, Runtime):
            raise NotAReference(
                f"`{{{accessor}}}` is known only while the job runs; "
                "conditions and actions can use it, parameters cannot"
            )
        return found


def read_accessor(
    identity: Identity,
    view_of_it: Callable[[], ConfigView],
    metadata_keys: Collection[str],
    accessor: str,
    *,
    whose: str = "",
) -> object:
    """One thing of one job: attribute, then config key, then metadata.

    `view_of_it` is asked only when the attributes do not answer. `whose`: what messages
    call the job; empty: by its stage, or its name. Raises UnknownKey, and CannotCompose
    where the key does not resolve.
    """
    if accessor.startswith("metadata."):
        return Runtime(identity.name, accessor.removeprefix("metadata."))
    try:
        return identity.attribute(accessor)
    except KeyError:
        view = view_of_it()
    if view.has(accessor):
        return view.select(accessor)
    paths = view.leaf_paths()
    ends = [path for path in paths if path.endswith(f".{accessor}")]
    if len(ends) == 1:
        return view.select(ends[0])
    if accessor in metadata_keys or accessor in _list_extracted(view):
        return Runtime(identity.name, accessor)
    whose = whose or identity.stage or identity.name
    if ends:
        message = f"{whose} has {len(ends)} keys that end in `{accessor}`"
        raise UnknownKey(message, f"write one whole: {', '.join(ends)}")
    candidates = [*ATTRIBUTES, *metadata_keys, *paths]
    tails = {path.rpartition(".")[2]: path for path in reversed(paths)}
    hint = did_you_mean(accessor, candidates, "there is")
    if "did you mean" not in hint and (near := tails.get(accessor.rpartition(".")[2])):
        hint = f"did you mean `{near}`?"
    message = f"{whose} has no attribute, config key or metadata `{accessor}`"
    raise UnknownKey(message, hint)


def _list_extracted(view: ConfigView) -> Iterator[str]:
    try:
        rules = view.raw("monitoring.log_events")
    except KeyError:
        return
    for rule in rules if isinstance(rules, list) else ():
        groups = rule.get("extract_groups") if isinstance(rule, Mapping) else None
        yield from groups if isinstance(groups, Mapping) else ()


def list_references(value: object) -> Iterator[Reference]:
    """Every reference in a value, nested ones apart; unreadable texts have none."""
    if isinstance(value, str):
        with suppress(NotAReference):
            for part in parse_template(value) if "{" in value else ():
                inner = part.parts if isinstance(part, Interpolation) else (part,)
                yield from (one for one in inner if isinstance(one, Reference))
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from list_references(item)


def is_reading_others(value: object) -> bool:
    """Whether a value refers to other jobs, or may."""
    return any(
        len(reference.parts) != 1
        or not isinstance(reference.parts[0], str)
        or parse_address(reference.parts[0])[0] != "own"
        for reference in list_references(value)
    )
