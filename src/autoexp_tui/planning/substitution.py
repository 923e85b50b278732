"""Puts what references stand for into the values of a job.

Twice for each job. *Before* composing, in its parameters: other jobs are known, its
own config is not, so what reads the job itself is a `${...}` for the time being.
*After* composing those parameters are read once more, and conditions are resolved as
a whole, `${...}` included.

What is substituted is a literal: its `${` is escaped, so that no value of one job is
ever read as an expression by another. A value that is one reference keeps its type;
inside a text it is spelled as in names; a reference to all jobs of a stage makes a
list of texts. Inside `${...}` a value is mounted under `_refs` and named from there,
typed, instead of being written into the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from autoexp_tui.planning.overrides import escape_dollars
from autoexp_tui.planning.ports import ConfigView
from autoexp_tui.planning.references import (
    ATTRIBUTES,
    Interpolation,
    NotAReference,
    Own,
    Part,
    Reference,
    Runtime,
    Several,
    Values,
    parse_template,
)
from autoexp_tui.sweep.points import format_in_name

MOUNT: Final = "_refs"
"""Where values lie that an `${...}` of the job's config reads from other jobs."""

Mount: TypeAlias = Callable[[str, object], str]
"""Keeps a reference's value in the job's config; gives the `${...}` that reads it."""


@dataclass(frozen=True, slots=True)
class _Spread:
    items: tuple[object, ...]


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


def _format_interpolation(accessor: str) -> str:
    return f"${{{'project.name' if accessor == 'name' else accessor}}}"


@dataclass(frozen=True, slots=True)
class Substitution:
    """Puts values for references: in parameters, or (with a `view`) for good."""

    values: Values
    mount: Mount
    base_is_a_key: bool = False
    runtimes: list[Runtime] = field(default_factory=list)
    """The metadata that was met: it stays in the values, as `{runtime.JOB.KEY}`."""
    view: ConfigView | None = None
    """The job's config, once it is composed: `${...}` is resolved there."""
    own: list[str] = field(default_factory=list)
    """What was met of the job itself, before its config is known."""

    def value(self, value: object) -> object:
        """`value` with the references in it replaced; raises as `Values.of` does."""
        if is_plain(value):
            return value
        found = self._replace(value)
        return list(found.items) if isinstance(found, _Spread) else found

    def _replace(self, value: object) -> object:
        """`value` replaced; a text in it that became a list joins the list around."""
        if isinstance(value, str):
            return value if is_plain(value) else self._replace_text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if not isinstance(value, list | tuple):
            return value
        row: list[object] = []
        for found in map(self._replace, value):
            row += found.items if isinstance(found, _Spread) else (found,)
        return row

    def _replace_text(self, text: str) -> object:
        parts = self._parse(text)
        match parts:
            case (Reference() as only,):
                return self._wrap(self._read(only))
        row = [
            part if isinstance(part, str) else self._resolve_piece(part)
            for part in parts
        ]
        lists = [piece.values for piece in row if isinstance(piece, Several)]
        if len({len(values) for values in lists}) > 1:
            raise NotAReference(
                "two references to stages of different size in one text"
            )
        texts = [
            self._finish(
                _join_row(
                    [
                        _format_literal(piece.values[at])
                        if isinstance(piece, Several)
                        else piece
                        for piece in row
                    ]
                )
            )
            for at in range(len(lists[0]) if lists else 1)
        ]
        return _Spread(tuple(texts)) if lists else texts[0]

    def _parse(self, text: str) -> tuple[Part, ...]:
        return parse_template(text, base_is_a_key=self.base_is_a_key)

    def _wrap(self, value: object) -> object:
        """The value of a reference that is a whole text."""
        match value:
            case Several():
                return _Spread(tuple(map(self._wrap, value.values)))
            case Runtime():
                return value.text
            case Own():
                return self._place(value)
        return escape_dollars(value) if self.view is None else value

    def _finish(self, text: str) -> object:
        if self.view is not None and "${" in text:
            return self.view.interpolate(text)
        return text

    def _read(self, reference: Reference, *, early: bool = False) -> object:
        value = self.values.of(reference, early=early)
        late = value.values if isinstance(value, Several) else (value,)
        self.runtimes.extend(item for item in late if isinstance(item, Runtime))
        return value

    def _place(self, own: Own) -> str:
        self.own.append(own.accessor)
        return _format_interpolation(own.accessor)

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
        value = self._read(reference, early=self.view is None)
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
        one = list(value.values) if isinstance(value, Several) else value
        return self.mount(reference.text, one)

    def format_name(self, text: str) -> str:
        """A text with everything in it spelled as in names."""
        pieces: list[object] = []
        for part in self._parse(text):
            if isinstance(part, Interpolation):
                pieces.append(self._finish(self._mount_references(part)))
            elif isinstance(part, str):
                pieces.append(self._finish(part))
            else:
                value = self.values.of(part)
                if isinstance(value, Runtime | Several):
                    raise NotAReference(f"`{part.text}` gives no one value for a name")
                pieces.append(value)
        return "".join(map(format_in_name, pieces))

    def find_runtime(self, text: str) -> Runtime | None:
        """The metadata that a whole text stands for; None when it does not."""
        match () if is_plain(text) else self._parse(text):
            case (Reference() as only,):
                value = self.values.of(only)
                return value if isinstance(value, Runtime) else None
        return None
