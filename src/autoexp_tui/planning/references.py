"""What references stand for, and how they are put into the values of a job.

Twice for each job: *before* composing in its parameters, where what reads the job
itself is a `${...}` for the time being; *after* composing in those parameters again and
in conditions. A `World` answers for other jobs, and may raise to have one made first.

What is substituted is a literal: its `${` is escaped, so that no value of one job is
ever read as an expression by another. Inside `${...}` a value is mounted under `_refs`
and named from there, typed, instead of being written into the expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby, pairwise
from typing import Any, Final, TypeAlias, TypeVar

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.overrides import escape_dollars
from autoexp_tui.planning.ports import ConfigView
from autoexp_tui.sweep.families import Families, SiblingNotFound
from autoexp_tui.sweep.points import (
    STAGE_KEYS,
    SweepFilter,
    format_in_name,
    plain_key,
    shorten_text,
)
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.interpolations import Unbalanced, find_end, is_escaped
from autoexp_tui.text.plain_tree import flatten

_INSIDE: Final = re.compile(r"[A-Za-z_][\w\-./=+\[\], @:%~]*")
_WITHIN: Final = (
    r"(?<!\$)\{(?=(?:sibling|all)[.\[]|(?:base|parent|aux|runtime)\.|[A-Za-z_][\w.]*\})"
)
_OURS_WITHIN: Final = re.compile(_WITHIN)
_OURS_OR_BASE: Final = re.compile(rf"{_WITHIN}|\$\{{((?:base|parent)\.[\w.\-]+)\}}")
_FOREIGN: Final = re.compile(
    r"(?:\{\{|\$\{)\s*(sibling|all|base|parent|runtime|aux)[.\[]"
)
"""References as other programs write them; here they would be plain text."""
_MOST_NESTED: Final = 8
_HINT: Final = "write {{ and }} for braces that are meant literally"


class NotAReference(ValueError):
    """Braces that hold no reference, or one to what a job does not have."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Reference:
    """One `{...}`."""

    parts: tuple[str | Reference, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Interpolation:
    """One whole `${...}`, with the references in it."""

    parts: tuple[str | Reference, ...]


Part: TypeAlias = str | Reference | Interpolation
_Piece = TypeVar("_Piece", Part, str | Reference)


@lru_cache(maxsize=4096)
def parse_template(text: str, *, base_is_a_key: bool = False) -> tuple[Part, ...]:
    """The pieces of `text` (`base_is_a_key`: `${base.x}` too); raises NotAReference."""
    within = _OURS_WITHIN if base_is_a_key else _OURS_OR_BASE
    pieces: list[Part] = []
    at = 0
    while at < len(text):
        piece: Part = text[at]
        end = at + 1
        if text.startswith(("{{", "}}"), at):
            _refuse_foreign(text, at)
            end = at + 2
        elif text.startswith("${", at):
            end = at + 2
            with suppress(Unbalanced):
                end = find_end(text, at)
            if end > at + 2 and not is_escaped(text, at):
                piece = _read_interpolation(text, at, end, within)
            else:
                _refuse_foreign(text, at)
                piece = text[at:end]
        elif piece == "{":
            piece, end = _read_reference(text, at)
        pieces.append(piece)
        at = end
    return _join_literals(pieces)


def _refuse_foreign(text: str, at: int) -> None:
    if found := _FOREIGN.match(text, at):
        shown = f"\\${{{found[1]}...}}" if text[at] == "$" else f"{{{{{found[1]}...}}}}"
        raise NotAReference(
            f"`{shown}` is text, and would reach the command as it stands; "
            f"write {{{found[1]}...}}"
        )


def _read_interpolation(
    text: str, at: int, end: int, within: re.Pattern[str]
) -> Interpolation | Reference:
    pieces: list[str | Reference] = []
    while found := within.search(text, at, end):
        pieces.append(text[at : found.start()])
        if text[found.start()] == "$":
            piece, at = Reference((found[1],), found[0]), found.end()
        else:
            piece, at = _read_reference(text, found.start())
        pieces.append(piece)
    match _join_literals([*pieces, text[at:end]]):
        case (Reference() as base,):
            return base
        case parts:
            return Interpolation(parts)


def _read_reference(text: str, start: int, depth: int = 0) -> tuple[Reference, int]:
    parts: list[str | Reference] = []
    at = start + 1
    while at < len(text) and text[at] != "}":
        piece: str | Reference = text[at]
        end = at + 1
        if piece == "{":
            if text[at - 1] == "$" or depth >= _MOST_NESTED:
                raise NotAReference(_refuse_text(text[start:]))
            piece, end = _read_reference(text, at, depth + 1)
        parts.append(piece)
        at = end
    if at >= len(text):
        raise NotAReference(f"`{shorten_text(text[start:])}` does not close; {_HINT}")
    whole = text[start : at + 1]
    filled = "".join(part if isinstance(part, str) else "x" for part in parts)
    if not _INSIDE.fullmatch(filled):
        raise NotAReference(_refuse_text(whole))
    return Reference(_join_literals(parts), whole), at + 1


def _join_literals(parts: Iterable[_Piece]) -> tuple[_Piece, ...]:
    joined: list[Any] = []
    for is_text, group in groupby(filter(None, parts), lambda p: isinstance(p, str)):
        found = list(group)
        joined += ["".join(map(str, found))] if is_text else found
    return tuple(joined)


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
        len(one.parts) != 1 or parse_address(str(one.parts[0]))[0] != "own"
        for one in list_references(value)
    )


ATTRIBUTES: Final = (
    *("name", "output_dir", "log_dir", "log_path", "log_path_current"),
    *("script_path", "stage", "index", "family"),
)
"""What every job has, before its config and its metadata are asked."""


class DroppedJob(Exception):
    """A job that was asked for is not in the plan: its filter dropped it."""

    def __init__(self, mark: SweepFilter, faults: Sequence[Problem] = ()) -> None:
        """`faults`: what is wrong with filters that had their turn before."""
        super().__init__(f"removed by {mark}")
        self.mark = mark
        self.faults = faults


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
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Own:
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
    families: Families
    metadata_keys: Collection[str]
    find_job: Callable[[int], tuple[Identity, Callable[[], ConfigView]]]
    """Names of the job at a position, and its config; may raise to have it made first,
    or DroppedJob when the plan does not have it."""
    warnings: list[Problem]
    base_is_a_key: bool = False
    """The config has a `base` of its own, which `${base.x}` reads."""
    _values: dict[tuple[int, str], object] = field(default_factory=dict)

    def read(self, at: int, accessor: str) -> object:
        """One thing of a job, as `read_accessor` gives it; raises like `find_job`."""
        identity, view = self.find_job(at)
        if (at, accessor) not in self._values:
            found = read_accessor(identity, view, self.metadata_keys, accessor)
            self._values[at, accessor] = found
        return self._values[at, accessor]


def read_accessor(
    identity: Identity,
    view_of_it: Callable[[], ConfigView],
    metadata_keys: Collection[str],
    accessor: str,
) -> object:
    """One thing of one job: attribute, then config key, then metadata.

    `view_of_it` is asked only when the attributes do not answer. Raises NotAReference;
    CannotCompose where the key does not resolve.
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
    whose = identity.stage or identity.name
    if ends:
        message = f"{whose} has {len(ends)} keys that end in `{accessor}`"
        raise NotAReference(message, f"write one whole: {', '.join(ends)}")
    candidates = [*ATTRIBUTES, *metadata_keys, *paths]
    message = f"{whose} has no attribute, config key or metadata `{accessor}`"
    raise NotAReference(message, did_you_mean(accessor, candidates, "there is"))


def _list_extracted(view: ConfigView) -> Iterator[str]:
    try:
        rules = view.raw("monitoring.log_events")
    except KeyError:
        return
    for rule in rules if isinstance(rules, list) else ():
        groups = rule.get("extract_groups") if isinstance(rule, Mapping) else None
        yield from groups if isinstance(groups, Mapping) else ()


MOUNT: Final = "_refs"
"""Where values lie that an `${...}` of the job's config reads from other jobs."""


class _Value(str):
    """The text of a substituted value, told apart from what was written."""

    __slots__ = ()


def is_plain(value: object) -> bool:
    """Whether a value has no braces anywhere, and so needs no reading."""
    if isinstance(value, str):
        return "{" not in value and "}}" not in value
    if isinstance(value, Mapping):
        return all(is_plain(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(is_plain(item) for item in value)
    return True


def _join_row(pieces: Sequence[str]) -> str:
    """A text, escaped where two pieces would make a `${` or hide one."""
    apart = list(pieces)
    for at, (piece, after) in enumerate(pairwise(pieces)):
        if isinstance(piece, _Value) and after.startswith("${"):
            tail = len(piece) - len(piece.rstrip("\\"))
            apart[at] = piece + "\\" * tail
        elif isinstance(after, _Value) and after.startswith("{") and piece[-1:] == "$":
            apart[at] = piece[:-1] + "\\$"
    return "".join(apart)


def _format_literal(value: object) -> str:
    if isinstance(value, Runtime):
        return value.text
    return _Value(escape_dollars(format_in_name(value)))


def _spell_own(own: Own) -> str:
    return f"${{{'project.name' if own.accessor == 'name' else own.accessor}}}"


@dataclass(slots=True)
class Substitution:
    """Puts values for the references of one job, and notes which jobs they read."""

    world: World
    at: int
    mount: Callable[[str, object], str]
    """Keeps a reference's value in the job's config; gives the `${...}` that reads
    it."""
    own: tuple[Identity, ConfigView] | None = None
    is_final: bool = False
    """Whether `${...}` is resolved, in its config."""
    read: set[int] = field(default_factory=set)
    prepare: Callable[[str], None] | None = None
    """Asked to finish, in a job being made, what one thing of it is made of."""
    runtimes: list[Runtime] = field(default_factory=list)
    """The metadata that was met: it stays in the values, as `{runtime.JOB.KEY}`."""
    is_unfinished: bool = False
    """Something of the job itself was met, before its config is known."""

    def value(self, value: object) -> object:
        """`value` with the references in it replaced; raises as `find` does."""
        if is_plain(value):
            return value
        found = self._replace(value)
        return list(found.values) if isinstance(found, Several) else found

    def _replace(self, value: object) -> object:
        """`value` replaced; a text in it that became several joins the list around."""
        if isinstance(value, str):
            return value if is_plain(value) else self._replace_text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if not isinstance(value, list | tuple):
            return value
        row: list[object] = []
        for found in map(self._replace, value):
            row += found.values if isinstance(found, Several) else (found,)
        return row

    def _replace_text(self, text: str) -> object:
        parts = parse_template(text, base_is_a_key=self.world.base_is_a_key)
        match parts:
            case (Reference() as only,):
                return self._finish_value(self._read(only))
        row = [
            part if isinstance(part, str) else self._resolve_piece(part)
            for part in parts
        ]
        sizes = {len(piece.values) for piece in row if isinstance(piece, Several)}
        if len(sizes) > 1:
            raise NotAReference(
                "two references to stages of different size in one text"
            )
        texts = [
            self._finish_text(
                _join_row(
                    [
                        _format_literal(piece.values[at])
                        if isinstance(piece, Several)
                        else piece
                        for piece in row
                    ]
                )
            )
            for at in range(max(sizes, default=1))
        ]
        return Several(tuple(texts)) if sizes else texts[0]

    def _finish_value(self, value: object) -> object:
        """The value of a reference that is a whole text."""
        match value:
            case Several():
                return Several(tuple(map(self._finish_value, value.values)))
            case Runtime():
                return value.text
            case Own():
                return self._place(value)
        return value if self.is_final else escape_dollars(value)

    def _finish_text(self, text: str) -> object:
        if self.is_final and self.own is not None and "${" in text:
            return self.own[1].interpolate(text)
        return text

    def _read(self, reference: Reference) -> object:
        value = self.find(reference)
        late = value.values if isinstance(value, Several) else (value,)
        self.runtimes += (item for item in late if isinstance(item, Runtime))
        return value

    def _place(self, own: Own) -> str:
        self.is_unfinished = True
        return _spell_own(own)

    def _resolve_piece(self, part: Reference | Interpolation) -> str | Several:
        if isinstance(part, Interpolation):
            return self._mount_references(part)
        value = self._read(part)
        if isinstance(value, Several):
            return value
        return self._place(value) if isinstance(value, Own) else _format_literal(value)

    def _mount_references(self, part: Interpolation) -> str:
        return "".join(
            piece if isinstance(piece, str) else self._mount_value(piece)
            for piece in part.parts
        )

    def _mount_value(self, reference: Reference) -> str:
        value = self.find(reference, early=not self.is_final)
        late = value.values if isinstance(value, Several) else (value,)
        is_late = any(isinstance(one, Runtime) for one in late)
        if isinstance(value, Own):
            is_late = value.accessor in ATTRIBUTES and value.accessor != "name"
            if not is_late:
                return _spell_own(value)
        if is_late:
            raise NotAReference(
                f"`{reference.text}` inside ${{...}} is not known yet; write it beside "
                "the ${...}, or set it as a parameter of its own, and read that"
            )
        mounted = list(late) if isinstance(value, Several) else value
        return self.mount(reference.text, mounted)

    def format_name(self, text: str) -> str:
        """A text with everything in it spelled as in names."""
        pieces: list[object] = []
        for part in parse_template(text, base_is_a_key=self.world.base_is_a_key):
            if isinstance(part, Interpolation):
                pieces.append(self._finish_text(self._mount_references(part)))
            elif isinstance(part, str):
                pieces.append(self._finish_text(part))
            else:
                pieces.append(self._find_one(part, "for a name"))
        return "".join(map(format_in_name, pieces))

    def find_runtime(self, text: str) -> Runtime | None:
        """The metadata that a whole text stands for; None when it does not."""
        match parse_template(text, base_is_a_key=self.world.base_is_a_key):
            case (Reference() as only,):
                value = self.find(only)
                return value if isinstance(value, Runtime) else None
        return None

    def find(self, reference: Reference, *, early: bool = False) -> object:
        """Its value, Runtime, Several or Own; raises what `job_config.FAULTS` lists.

        `early`: as before the job itself is composed.
        """
        inside = (
            part if isinstance(part, str) else self._resolve_nested(part)
            for part in reference.parts
        )
        families = self.world.families
        match parse_address("".join(inside)):
            case "own", rest:
                return self._find_own(rest, early=early)
            case "runtime", rest:
                return self._name_runtime(rest)
            case "base", accessor:
                pattern = "base"
                at = families.base(self.at, self._list_referred)
            case kind, rest:
                pattern, accessor = self._split(rest)
                if kind == "all":
                    return self._find_all(pattern, accessor)
                at = families.find(pattern, self.at)
        try:
            return self._read_other(at, accessor)
        except DroppedJob as dropped:
            message = f"No sibling found matching pattern: {pattern}"
            raise SiblingNotFound(message, f"it was {dropped}") from None

    def _find_one(
        self, reference: Reference, where: str, *, early: bool = False
    ) -> object:
        value = self.find(reference, early=early)
        if isinstance(value, Several | Runtime):
            raise NotAReference(f"`{reference.text}` gives no one value {where}")
        return value

    def _resolve_nested(self, reference: Reference) -> str:
        early = self.prepare is not None
        value = self._find_one(reference, "inside another reference", early=early)
        if isinstance(value, Own):  # a value that is written in the point will do
            parameters = self.world.families.points[self.at].parameters.items()
            leaves = (flatten(plain_key(key), one) for key, one in parameters)
            value = dict(chain.from_iterable(leaves)).get(value.accessor)
            if value is None or (isinstance(value, str) and "{" in value):
                raise NotAReference(
                    f"{reference.text} inside another reference: only values that are "
                    "written in the same point can stand there"
                )
        return format_in_name(value)

    def _list_referred(self) -> Iterator[int]:
        """The siblings that the job names."""
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

    def _read_other(self, at: int, accessor: str) -> object:
        value = self.world.read(at, accessor)
        self.read.add(at)
        return value

    def _find_all(self, pattern: str, accessor: str) -> Several:
        values: list[object] = []
        dropped: dict[str, None] = {}
        for at in self.world.families.all_of(pattern):
            try:
                values.append(self._read_other(at, accessor))
            except DroppedJob as gone:
                dropped[str(gone)] = None
        if not values:
            message = f"No job found matching pattern: {pattern}"
            raise SiblingNotFound(message, ", or ".join(dropped))
        return Several(tuple(values))

    def _name_runtime(self, rest: str) -> Runtime:
        """`JOB.KEY` where both may hold dots; the jobs seen so far decide."""
        names = {self.world.find_job(at)[0].name for at in self.read}
        names |= {self.own[0].name} if self.own is not None else set()
        known = [name for name in names if rest.startswith(f"{name}.")]
        job = max(known, key=len, default=rest.rpartition(".")[0])
        if not job:
            raise NotAReference(f"`runtime.{rest}` is not runtime.JOB.KEY")
        return Runtime(job, rest[len(job) + 1 :])

    def _find_own(self, accessor: str, *, early: bool) -> object:
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
        found = read_accessor(identity, lambda: view, keys, accessor)
        if self.prepare is not None and isinstance(found, Runtime):
            raise NotAReference(
                f"`{{{accessor}}}` is known only while the job runs; "
                "conditions and actions can use it, parameters cannot"
            )
        return found
