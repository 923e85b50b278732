"""Texts with `{...}` references in them, read into pieces.

`${...}` is the job's own config and belongs to OmegaConf; `{...}` is ours; `{{` and
`}}` are literal braces. References nest. Inside a `${...}` only what looks like one of
ours is a reference, since OmegaConf has mappings in braces there; and `${base.KEY}` is
`{base.KEY}`. What a reference stands for is `references`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal, TypeAlias, TypeVar

from autoexp_tui.sweep.interpolation_scanner import find_interpolation_end, is_escaped

_INSIDE: Final = re.compile(r"[A-Za-z_][\w\-./=+\[\], @:%~]*")
_OURS_WITHIN: Final = re.compile(
    r"\{(?=(?:sibling|all)[.\[]|(?:base|parent|aux|runtime)\.|[A-Za-z_][\w.]*\})"
)
_BASE: Final = re.compile(r"\$\{((?:base|parent)\.[\w.\-]+)\}")
_MOST_NESTED: Final = 8


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


@dataclass(frozen=True, slots=True)
class Template:
    """A text in pieces."""

    parts: tuple[Part, ...]

    @property
    def single(self) -> Reference | None:
        """The reference that is the whole text, when one is."""
        match self.parts:
            case (Reference() as only,):
                return only
        return None

    @property
    def references(self) -> Iterator[Reference]:
        """All references, those inside `${...}` too; nested ones are not listed."""
        for part in self.parts:
            if isinstance(part, Reference):
                yield part
            elif isinstance(part, Interpolation):
                yield from (inner for inner in part.parts if not isinstance(inner, str))


@lru_cache(maxsize=4096)
def parse_template(text: str, *, base_is_a_key: bool = False) -> Template:
    """The pieces of `text`.

    `base_is_a_key`: the config has a key `base` of its own, so `${base.x}` is its.

    Raises:
        NotAReference: braces hold none, or do not close.
    """
    return Template(tuple(_Reader(text, ours=not base_is_a_key).parts()))


class _Reader:
    def __init__(self, text: str, *, ours: bool) -> None:
        self._text = text
        self._ours = ours
        self._at = 0

    def parts(self) -> Iterator[Part]:
        """The pieces of the whole text; neighbouring literals are one."""
        return _join_literals(self._read_all())

    def _read_all(self) -> Iterator[Part]:
        while self._at < len(self._text):
            yield self._read_next()

    def _read_next(self) -> Part:
        text, at = self._text, self._at
        if text.startswith(("{{", "}}"), at):
            if doubled := _DOUBLED.match(text, at):
                raise NotAReference(_refuse_doubled(doubled[1]))
            self._at += 2
            return text[at]
        if text.startswith("${", at):
            return self._read_interpolation()
        return self._read_reference(0) if text[at] == "{" else self._read_char()

    def _read_char(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _read_interpolation(self) -> Part:
        text, start = self._text, self._at
        end = find_interpolation_end(text, start)
        if end < 0 or is_escaped(text, start):
            if escaped := _ESCAPED.match(text, start):
                raise NotAReference(_refuse_escaped(escaped[1]))
            self._at = end if end > 0 else start + 2
            return text[start : self._at]
        base = _BASE.match(text, start)
        if base and base.end() == end and self._ours:
            self._at = end
            return Reference((base[1],), base[0])
        return Interpolation(tuple(_join_literals(self._read_within(end))))

    def _read_within(self, end: int) -> Iterator[str | Reference]:
        """The pieces of an interpolation that ends before `end`."""
        while self._at < end:
            base = _BASE.match(self._text, self._at) if self._ours else None
            if base:
                self._at = base.end()
                yield Reference((base[1],), base[0])
            elif self._text[self._at - 1 : self._at] != "$" and _OURS_WITHIN.match(
                self._text, self._at
            ):
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
            raise NotAReference(f"`{_shorten(text[start:])}` does not close; {_HINT}")
        self._at += 1
        found = Reference(tuple(_join_literals(parts)), text[start : self._at])
        _check(found)
        return found


_Piece = TypeVar("_Piece", Part, str | Reference)


def _join_literals(parts: Iterable[_Piece]) -> Iterator[_Piece]:
    """The pieces, neighbouring literals as one."""
    for is_text, group in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            yield "".join(map(str, group))
        else:
            yield from group


_DOUBLED: Final = re.compile(r"\{\{\s*(sibling|all|base|parent|runtime|aux)[.\[]")
_ESCAPED: Final = re.compile(r"\$\{\s*(sibling|base|parent|aux)[.\[]")
"""References as other programs write them; here they would be plain text."""


def _refuse_doubled(head: str) -> str:
    return (
        f"`{{{{{head}...}}}}` is text, and would reach the command as it stands; "
        f"write one brace: {{{head}...}}"
    )


def _refuse_escaped(head: str) -> str:
    meant = "${aux...}" if head == "aux" else f"{{{head}...}}"
    return (
        f"`\\${{{head}...}}` is text, and would reach the command as it stands; "
        f"write {meant}"
    )


_HINT: Final = "write {{ and }} for braces that are meant literally"


def _check(reference: Reference) -> None:
    """Refuse what cannot be a reference whatever the nested ones give."""
    filled = "".join(p if isinstance(p, str) else "x" for p in reference.parts)
    if not _INSIDE.fullmatch(filled):
        raise NotAReference(_refuse_text(reference.text))


def _refuse_text(text: str) -> str:
    if "${" in text:
        return (
            f"`{_shorten(text)}`: ${{...}} cannot stand inside {{...}}; write {{aux.x}}"
        )
    return f"`{_shorten(text)}` is no reference; {_HINT}"


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


# --------------------------------------------------------------------- addresses
Kind: TypeAlias = Literal["own", "sibling", "all", "base", "runtime"]


@dataclass(frozen=True, slots=True)
class Address:
    """Whose value a reference wants, and the rest of it."""

    kind: Kind
    rest: str


def parse_address(inside: str) -> Address:
    """What stands inside the braces, by whom it asks."""
    for head, kind in _HEADS:
        if inside.startswith((f"{head}.", f"{head}[")):
            return Address(kind, inside[len(head) :].removeprefix("."))
    return Address("own", inside)


_HEADS: Final[tuple[tuple[str, Kind], ...]] = (
    ("sibling", "sibling"),
    ("all", "all"),
    ("base", "base"),
    ("parent", "base"),
    ("runtime", "runtime"),
)


def split_pattern(
    rest: str, stages: Collection[str], known: Callable[[str], bool]
) -> tuple[str, str]:
    """(pattern, accessor) of `stable.output_dir`, `[lr=1].x`, `lr=1e-4.name`.

    The longest stage in `stages` wins; of `key=value`, the longest value with which
    some point is `known`.

    Raises:
        NotAReference: it has no accessor.
    """
    pattern, accessor = _split(rest, stages, known)
    if not pattern or not accessor:
        example = "{sibling.STAGE.output_dir}"
        raise NotAReference(f"`{rest}` does not say what of the job; as in {example}")
    return pattern, accessor


def _split(
    rest: str, stages: Collection[str], known: Callable[[str], bool]
) -> tuple[str, str]:
    if rest.startswith("["):
        pattern, _, accessor = rest.partition("]")
        return f"{pattern}]", accessor.removeprefix(".")
    dots = [at for at, char in enumerate(rest) if char == "."]
    for dot in reversed(dots):
        if rest[:dot] in stages:
            return rest[:dot], rest[dot + 1 :]
    if "=" in rest:
        return _split_value(rest, known)
    pattern, _, accessor = rest.partition(".")
    return pattern, accessor


def _split_value(rest: str, known: Callable[[str], bool]) -> tuple[str, str]:
    after = rest.index("=")
    dots = [at for at, char in enumerate(rest) if char == "." and at > after]
    for dot in reversed(dots):
        if known(rest[:dot]):
            return rest[:dot], rest[dot + 1 :]
    first = dots[0] if dots else len(rest)
    return rest[:first], rest[first + 1 :]
