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
from autoexp_tui.sweep.schema import shorten_text

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


Kind: TypeAlias = Literal["own", "sibling", "all", "base", "runtime"]
_HEADS: Final[tuple[tuple[str, Kind], ...]] = (
    ("sibling", "sibling"),
    ("all", "all"),
    ("base", "base"),
    ("parent", "base"),
    ("runtime", "runtime"),
)


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
