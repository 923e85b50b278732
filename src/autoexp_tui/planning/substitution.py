"""Puts what references stand for into the values of a job.

Twice for each job. *Before* composing, in its parameters: other jobs are known, its
own config is not, so a value that reads the job itself is left unfinished, with
`${...}` in its place for the time being. *After* composing: unfinished values are
finished, and conditions are resolved as a whole, `${...}` included.

What is substituted is a literal: its `${` is escaped, so that no value of one job is
ever read as an expression by another. A value that is one reference keeps its type;
inside a text it is spelled as in names; a reference to all jobs of a stage makes a
list of texts. Inside `${...}` a value is mounted under `_refs` and named from there,
typed, instead of being written into the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from autoexp_tui.planning.overrides import escape_dollars
from autoexp_tui.planning.ports import ConfigView
from autoexp_tui.planning.reference_syntax import (
    Interpolation,
    NotAReference,
    Part,
    Reference,
    Template,
    parse_template,
)
from autoexp_tui.planning.references import ATTRIBUTES, Own, Runtime, Several, Values
from autoexp_tui.sweep.points import format_in_name

MOUNT: Final = "_refs"
"""Where values lie that an `${...}` of the job's config reads from other jobs."""

_WHOLE: Final = frozenset({str, int, float, bool, type(None)})
"""What has nothing inside it; told by the type, which is quicker than by the kind."""

Pieces: TypeAlias = Sequence[str | Own]
Mount: TypeAlias = Callable[[object], str]
"""Keeps a value in the job's config and gives the `${...}` that reads it."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A text that reads the job itself, and waits for its config."""

    pieces: Pieces

    @property
    def placeholder(self) -> str:
        """What stands in its place while the config is composed."""
        return "".join(
            piece if isinstance(piece, str) else _format_interpolation(piece.accessor)
            for piece in self.pieces
        )

    @property
    def accessors(self) -> Sequence[str]:
        """What it reads of the job."""
        return [piece.accessor for piece in self.pieces if isinstance(piece, Own)]


@dataclass(frozen=True, slots=True)
class _Spread:
    """A text that became a list, and joins a list around it."""

    items: tuple[object, ...]


def _format_interpolation(accessor: str) -> str:
    return f"${{{'project.name' if accessor == 'name' else accessor}}}"


def is_plain(value: object) -> bool:
    """Whether a value has no braces anywhere, and so needs no reading."""
    if isinstance(value, str):
        return "{" not in value and "}}" not in value
    if type(value) in _WHOLE:
        return True
    if isinstance(value, Mapping):
        return all(is_plain(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(is_plain(item) for item in value)
    return True


# ------------------------------------------------------------------ walking values
def _replace_texts(value: object, on_text: Callable[[str], object]) -> object:
    """`value` with each text replaced; a text that became a list joins its list."""
    found = _replace_in(value, on_text)
    return list(found.items) if isinstance(found, _Spread) else found


def _replace_in(value: object, on_text: Callable[[str], object]) -> object:
    if isinstance(value, str):
        return on_text(value)
    if isinstance(value, Mapping):
        return {key: _replace_texts(item, on_text) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(_expand_spreads(_replace_in(item, on_text) for item in value))
    return value


def _expand_spreads(items: Iterable[object]) -> Iterable[object]:
    for item in items:
        if isinstance(item, _Spread):
            yield from item.items
        else:
            yield item


def _join_pieces(pieces: Iterable[str | Own | Several]) -> object:
    """A text, an Unfinished one, or a list of either when a Several is in it."""
    row = list(pieces)
    lists = [piece.values for piece in row if isinstance(piece, Several)]
    if not lists:
        return _join_row([piece for piece in row if not isinstance(piece, Several)])
    if len({len(values) for values in lists}) > 1:
        raise NotAReference("two references to stages of different size in one text")
    return _Spread(
        tuple(_join_row(_select_row(row, at)) for at in range(len(lists[0])))
    )


def _select_row(row: Sequence[str | Own | Several], at: int) -> Pieces:
    """The pieces with the `at`-th value of each list."""
    return [
        _format_literal(piece.values[at]) if isinstance(piece, Several) else piece
        for piece in row
    ]


def _join_row(pieces: Pieces) -> str | Unfinished:
    apart = _escape_joints(pieces)
    texts = [piece for piece in apart if isinstance(piece, str)]
    return "".join(texts) if len(texts) == len(apart) else Unfinished(tuple(apart))


class _Value(str):
    """The text of a substituted value, told apart from what was written."""

    __slots__ = ()


def _escape_joints(pieces: Pieces) -> Sequence[str | Own]:
    """The pieces, escaped where two of them would make a `${` or hide one."""
    apart = list(pieces)
    for at, (piece, after) in enumerate(pairwise(pieces)):
        if not isinstance(piece, str) or not isinstance(after, str):
            continue
        if isinstance(piece, _Value) and after.startswith("${"):
            tail = len(piece) - len(piece.rstrip("\\"))
            apart[at] = piece + "\\" * tail
        elif isinstance(after, _Value) and after.startswith("{") and piece[-1:] == "$":
            apart[at] = piece[:-1] + "\\$"
    return apart


def _format_literal(value: object) -> str:
    if isinstance(value, Runtime):
        return value.text
    return _Value(escape_dollars(format_in_name(value)))


# -------------------------------------------------------------------- substituting
@dataclass(frozen=True, slots=True)
class _Substitution:
    """What is alike in both."""

    values: Values
    mount: Mount
    base_is_a_key: bool = False

    def value(self, value: object) -> object:
        """`value` with the references in it replaced; see the class.

        Raises:
            NotAReference, SiblingNotFound, UnknownKey, CannotCompose: see `Values.of`.
        """
        return value if is_plain(value) else _replace_texts(value, self._replace)

    def _replace(self, text: str) -> object:
        if is_plain(text):
            return text
        template = self._parse(text)
        if template.single is not None:
            return self._wrap(self._read(template.single))
        return self._finish(_join_pieces(map(self._resolve_piece, template.parts)))

    def _parse(self, text: str) -> Template:
        return parse_template(text, base_is_a_key=self.base_is_a_key)

    def _wrap(self, value: object) -> object:
        """The value of a reference that is a whole text."""
        if isinstance(value, Several):
            return _Spread(tuple(map(self._wrap, value.values)))
        return value.text if isinstance(value, Runtime) else value

    def _finish(self, found: object) -> object:
        """What became of a text of several pieces."""
        return found

    def _read(self, reference: Reference) -> object:
        return self.values.of(reference)

    def _resolve_piece(self, part: Part) -> str | Own | Several:
        if isinstance(part, str):
            return part
        if isinstance(part, Interpolation):
            return self._mount_references(part)
        value = self._read(part)
        return value if isinstance(value, Own | Several) else _format_literal(value)

    def _mount_references(self, part: Interpolation) -> str:
        return "".join(
            piece if isinstance(piece, str) else self._mount_value(piece)
            for piece in part.parts
        )

    def _mount_value(self, reference: Reference) -> str:
        value = self._read(reference)
        late = value.values if isinstance(value, Several) else (value,)
        if any(isinstance(one, Runtime) for one in late):
            raise NotAReference(
                f"`{reference.text}` inside ${{...}} is known only while jobs run; "
                "set it as a parameter of its own, and read that"
            )
        if isinstance(value, Own):
            if value.accessor in ATTRIBUTES and value.accessor != "name":
                raise NotAReference(
                    f"`{reference.text}` inside ${{...}} is not known yet; "
                    "write it beside the ${...}, not in it"
                )
            return _format_interpolation(value.accessor)
        return self.mount(list(value.values) if isinstance(value, Several) else value)


@dataclass(frozen=True, slots=True)
class Before(_Substitution):
    """Substitution in a job's parameters: what reads the job itself is Unfinished."""

    runtimes: list[Runtime] = field(default_factory=list)
    """The metadata that was met: it stays in the values, as `{runtime.JOB.KEY}`."""

    def _read(self, reference: Reference) -> object:
        value = self.values.of(reference)
        late = value.values if isinstance(value, Several) else (value,)
        self.runtimes.extend(item for item in late if isinstance(item, Runtime))
        return value

    def _wrap(self, value: object) -> object:
        if isinstance(value, Own):
            return Unfinished((value,))
        if isinstance(value, Several):
            return _Spread(tuple(map(self._wrap, value.values)))
        return value.text if isinstance(value, Runtime) else escape_dollars(value)


def _map_unfinished(value: object, change: Callable[[Unfinished], object]) -> object:
    if type(value) in _WHOLE:
        return value
    if isinstance(value, Unfinished):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_unfinished(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_unfinished(item, change) for item in value]
    return value


def build_placeholder(value: object) -> object:
    """A value as it is composed: Unfinished texts as their `${...}`."""
    return _map_unfinished(value, lambda one: one.placeholder)


def list_unfinished(value: object) -> Sequence[Unfinished]:
    """The Unfinished texts of a value."""
    found: list[Unfinished] = []
    _map_unfinished(value, found.append)
    return found


def finish_value(value: object, read: Callable[[str], object]) -> object:
    """A value with its Unfinished texts finished; `read` gives what they read.

    The result is as it would be written: literals escaped, `${...}` still in it.
    """

    def finish(text: Unfinished) -> object:
        found = [
            piece if isinstance(piece, str) else _read_early(piece.accessor, read)
            for piece in text.pieces
        ]
        if len(found) == 1:
            return escape_dollars(found[0])
        pairs = zip(text.pieces, found, strict=True)
        return _join_row(
            [
                piece if isinstance(piece, str) else _format_literal(value)
                for piece, value in pairs
            ]
        )

    return _map_unfinished(value, finish)


def _read_early(accessor: str, read: Callable[[str], object]) -> object:
    value = read(accessor)
    if isinstance(value, Runtime):
        raise NotAReference(
            f"`{{{accessor}}}` is known only while the job runs; "
            "conditions and actions can use it, parameters cannot"
        )
    return value


@dataclass(frozen=True, slots=True)
class After(_Substitution):
    """Substitution in what is resolved for good, conditions and the name: `${...}` is
    resolved in the job's config, too, and metadata stays, as `{runtime.JOB.KEY}`.
    """

    _: KW_ONLY
    view: ConfigView

    def _finish(self, found: object) -> object:
        if isinstance(found, _Spread):
            return _Spread(tuple(map(self._interpolate, found.items)))
        return self._interpolate(found)

    def _interpolate(self, value: object) -> object:
        if isinstance(value, str) and "${" in value:
            return self.view.interpolate(value)
        return value

    def format_name(self, text: str) -> str:
        """A text with everything in it spelled as in names."""
        return "".join(map(self._format_part, self._parse(text).parts))

    def find_runtime(self, text: str) -> Runtime | None:
        """The metadata that a whole text stands for; None when it does not."""
        single = None if is_plain(text) else self._parse(text).single
        value = self.values.of(single) if single is not None else None
        return value if isinstance(value, Runtime) else None

    def _format_part(self, part: Part) -> str:
        if isinstance(part, Interpolation):
            return format_in_name(self.view.interpolate(self._mount_references(part)))
        if isinstance(part, str):
            return format_in_name(self._interpolate(part))
        value = self.values.of(part)
        if isinstance(value, Runtime | Several):
            raise NotAReference(f"`{part.text}` gives no one value for a name")
        return format_in_name(value)
