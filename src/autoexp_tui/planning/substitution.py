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
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from autoexp_tui.planning.overrides import escape_dollars
from autoexp_tui.planning.ports import ConfigView
from autoexp_tui.planning.reference_syntax import (
    Interpolation,
    NotAReference,
    Reference,
    Template,
    parse_template,
)
from autoexp_tui.planning.references import ATTRIBUTES, Own, Runtime, Several, Values
from autoexp_tui.sweep.names import format_in_name

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
    def build_placeholder(self) -> str:
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


def _format_written(value: object) -> object:
    """A whole value as it is written; metadata as its reference."""
    return value.text if isinstance(value, Runtime) else escape_dollars(value)


def _format_literal(value: object) -> str:
    if isinstance(value, Runtime):
        return value.text
    return _Value(escape_dollars(format_in_name(value)))


# --------------------------------------------------------------- before composing
@dataclass(frozen=True, slots=True)
class Before:
    """Substitution in a job's parameters."""

    values: Values
    mount: Mount
    base_is_a_key: bool = False
    runtimes: list[Runtime] = field(default_factory=list)
    """The metadata that was met: it stays in the values, as `{runtime.JOB.KEY}`."""

    def value(self, value: object) -> object:
        """`value` with all but the job's own references replaced.

        Texts that read the job itself are Unfinished.

        Raises:
            NotAReference, SiblingNotFound, UnknownKey, CannotCompose: see `Values.of`.
        """
        return value if is_plain(value) else _replace_texts(value, self._text)

    def _text(self, text: str) -> object:
        if is_plain(text):
            return text
        template = parse_template(text, base_is_a_key=self.base_is_a_key)
        plain = template.plain
        if plain is not None:
            return plain
        if template.single is not None:
            return self._resolve_typed(template.single)
        return _join_pieces(self._resolve_piece(part) for part in template.parts)

    def _resolve_typed(self, reference: Reference) -> object:
        value = self._value(reference)
        if isinstance(value, Own):
            return Unfinished((value,))
        if isinstance(value, Several):
            return _Spread(tuple(map(_format_written, value.values)))
        return _format_written(value)

    def _resolve_piece(
        self, part: str | Reference | Interpolation
    ) -> str | Own | Several:
        if isinstance(part, str):
            return part
        if isinstance(part, Interpolation):
            return "".join(map(self._resolve_within, part.parts))
        value = self._value(part)
        return value if isinstance(value, Own | Several) else _format_literal(value)

    def _resolve_within(self, part: str | Reference) -> str:
        if isinstance(part, str):
            return part
        value = self._value(part)
        late = value.values if isinstance(value, Several) else (value,)
        if any(isinstance(item, Runtime) for item in late):
            raise NotAReference(
                f"`{part.text}` inside ${{...}} is known only while jobs run; "
                "set it as a parameter of its own, and read that"
            )
        if not isinstance(value, Own):
            return self.mount(
                list(value.values) if isinstance(value, Several) else value
            )
        if value.accessor in ATTRIBUTES and value.accessor != "name":
            raise NotAReference(
                f"`{part.text}` inside ${{...}} is not known yet; "
                "write it beside the ${...}, not in it"
            )
        return _format_interpolation(value.accessor)

    def _value(self, reference: Reference) -> object:
        value = self.values.of(reference)
        late = value.values if isinstance(value, Several) else (value,)
        self.runtimes.extend(item for item in late if isinstance(item, Runtime))
        return value


def build_placeholder(value: object) -> object:
    """A value as it is composed: Unfinished texts as their `${...}`."""
    if type(value) in _WHOLE:
        return value
    if isinstance(value, Unfinished):
        return value.build_placeholder
    if isinstance(value, Mapping):
        return {key: build_placeholder(item) for key, item in value.items()}
    if isinstance(value, list):
        return [build_placeholder(item) for item in value]
    return value


def list_unfinished(value: object) -> Iterable[Unfinished]:
    """The Unfinished texts of a value."""
    if type(value) in _WHOLE:
        return
    if isinstance(value, Unfinished):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from list_unfinished(item)
    elif isinstance(value, list):
        for item in value:
            yield from list_unfinished(item)


def finish_value(value: object, read: Callable[[str], object]) -> object:
    """A value with its Unfinished texts finished; `read` gives what they read.

    The result is as it would be written: literals escaped, `${...}` still in it.
    """
    if isinstance(value, Unfinished):
        return _finish_text(value, read)
    if isinstance(value, Mapping):
        return {key: finish_value(item, read) for key, item in value.items()}
    if isinstance(value, list):
        return [finish_value(item, read) for item in value]
    return value


def _finish_text(text: Unfinished, read: Callable[[str], object]) -> object:
    found = [
        piece if isinstance(piece, str) else _read_early(piece.accessor, read)
        for piece in text.pieces
    ]
    if len(found) == 1:
        return escape_dollars(found[0])
    pieces = [
        piece if isinstance(piece, str) else _format_literal(value)
        for piece, value in zip(text.pieces, found, strict=True)
    ]
    return _join_row(pieces)


def _read_early(accessor: str, read: Callable[[str], object]) -> object:
    value = read(accessor)
    if isinstance(value, Runtime):
        raise NotAReference(
            f"`{{{accessor}}}` is known only while the job runs; "
            "conditions and actions can use it, parameters cannot"
        )
    return value


# ---------------------------------------------------------------- after composing
@dataclass(frozen=True, slots=True)
class After:
    """Substitution in what is resolved for good: conditions and the name."""

    values: Values
    view: ConfigView
    mount: Mount
    base_is_a_key: bool = False

    def value(self, value: object) -> object:
        """`value` resolved: references, and `${...}` in the job's config.

        Metadata stays, as `{runtime.JOB.KEY}`.

        Raises:
            NotAReference, SiblingNotFound, UnknownKey, CannotCompose: see `Values.of`.
        """
        return value if is_plain(value) else _replace_texts(value, self._text)

    def spelled(self, text: str) -> str:
        """A text with everything in it spelled as in names."""
        parts = self._parse(text).parts
        return "".join(self._format_part(part) for part in parts)

    def runtime(self, text: str) -> Runtime | None:
        """The metadata that a whole text stands for; None when it does not."""
        if is_plain(text):
            return None
        single = self._parse(text).single
        value = self.values.of(single) if single is not None else None
        return value if isinstance(value, Runtime) else None

    def _parse(self, text: str) -> Template:
        return parse_template(text, base_is_a_key=self.base_is_a_key)

    def _text(self, text: str) -> object:
        if is_plain(text):
            return text
        template = self._parse(text)
        if template.single is not None:
            return _format_settled(self.values.of(template.single))
        found = _join_pieces(self._resolve_piece(part) for part in template.parts)
        if isinstance(found, _Spread):
            return _Spread(tuple(self._interpolate(item) for item in found.items))
        return self._interpolate(found)

    def _interpolate(self, value: object) -> object:
        if isinstance(value, str) and "${" in value:
            return self.view.interpolate(value)
        return value

    def _resolve_piece(self, part: str | Reference | Interpolation) -> str | Several:
        if isinstance(part, str):
            return part
        if isinstance(part, Interpolation):
            return self._mount_references(part)
        value = self.values.of(part)
        return value if isinstance(value, Several) else _format_literal(value)

    def _mount_references(self, part: Interpolation) -> str:
        return "".join(
            piece if isinstance(piece, str) else self._mount_value(piece)
            for piece in part.parts
        )

    def _mount_value(self, reference: Reference) -> str:
        value = self.values.of(reference)
        if isinstance(value, Runtime):
            raise NotAReference(
                f"`{reference.text}` inside ${{...}} is known only while jobs run"
            )
        return self.mount(list(value.values) if isinstance(value, Several) else value)

    def _format_part(self, part: str | Reference | Interpolation) -> str:
        if isinstance(part, Interpolation):
            return format_in_name(self.view.interpolate(self._mount_references(part)))
        if isinstance(part, str):
            return format_in_name(self._interpolate(part))
        value = self.values.of(part)
        if isinstance(value, Runtime | Several):
            raise NotAReference(f"`{part.text}` gives no one value for a name")
        return format_in_name(value)


def _format_settled(value: object) -> object:
    if isinstance(value, Several):
        return _Spread(tuple(_format_settled(item) for item in value.values))
    return value.text if isinstance(value, Runtime) else value
