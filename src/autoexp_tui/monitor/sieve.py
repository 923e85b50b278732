"""Which pieces of a log can hold anything of interest, asked of one engine at once.

Most pieces hold nothing of what the rules look for. One test for all of it, over
pieces of a few kibibytes, says so much faster than a look for each thing on its own.
A piece may be let through in vain, never be held back. The engine behind a test is
passed in: `by_re` is the plain one, and there are faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

Test: TypeAlias = Callable[[str], bool]
"""Whether a pattern occurs anywhere in a text."""
AnyTest: TypeAlias = Callable[[str | bytes], bool]
"""The same, and whether it may occur in bytes: of those that are no UTF-8 it may say
so though it does not."""
MakeTest: TypeAlias = Callable[[str], AnyTest]
"""A pattern -> its test. Only what is spelled alike everywhere: literals by `escaped`,
`[...]`, `(?:...)`, `(?i:...)`, `|`, `+`, `*`, `?`, `^`, `$`."""

PIECE: Final = 8 << 10
"""Bytes of a piece, about."""
BLOCK: Final = 64 << 10
"""Bytes that are tested as they are, about."""
_ASCII: Final = bytes(range(128)) + b"?" * 128


def by_re(pattern: str) -> AnyTest:
    """The test by Python's own regexes."""
    search = re.compile(pattern).search

    def test(text: str | bytes) -> bool:
        return search(as_text(text) if isinstance(text, bytes) else text) is not None

    return test


def as_text(data: bytes) -> str:
    """`data` as ASCII, character for byte: `?` for what is none."""
    return (data if data.isascii() else data.translate(_ASCII)).decode("ascii")


def escaped(text: str) -> str:
    """A literal as every engine spells it."""
    return "".join(map(_escape, text))


def _escape(char: str) -> str:
    if char.isalnum() or char in " _:;,/!@%<>=\"'`":
        return char
    return f"\\{char}" if "!" <= char <= "~" else f"\\x{ord(char):02x}"


class Sieve:
    """Lets pieces through that hold one of some literals."""

    def __init__(
        self,
        literals: Iterable[bytes],
        make_test: MakeTest = by_re,
        *,
        caseless: bool = False,
    ) -> None:
        """`caseless`: ASCII letters of either case; the literals are in lower case."""
        pattern = "|".join(escaped(as_text(literal)) for literal in literals)
        self.test = make_test(f"(?i:{pattern})" if caseless else pattern)
        self._is_plain = "?" not in pattern
        """Whether the literals are the same in bytes as in their `as_text`."""

    def seldom(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The same as `spans`, faster where next to nothing is let through: bytes are
        tested as they are, and made a text where that says so."""
        if len(data) <= PIECE:
            return self.spans(data, as_text(data))
        return self._in_blocks(data)

    def _in_blocks(self, data: bytes) -> Iterator[tuple[int, int]]:
        for start, stop in pieces(data, BLOCK):
            block = data[start:stop]
            if not self._is_plain or self.test(block):
                for begin, end in self.spans(block, as_text(block)):
                    yield start + begin, start + end

    def spans(self, data: bytes, text: str) -> Iterator[tuple[int, int]]:
        """(start, end) of what is let through: whole lines, in order.

        `text`: `as_text(data)`; `data` has no `\\r`.
        """
        if len(data) <= PIECE:
            if self.test(text):
                yield 0, len(data)
            return
        begin = end = 0
        for start, stop in pieces(data, PIECE):
            if self.test(text[start:stop]):
                if start != end:
                    if begin < end:
                        yield begin, end
                    begin = start
                end = stop
        if begin < end:
            yield begin, end


def pieces(data: bytes, size: int) -> Iterator[tuple[int, int]]:
    """(start, end) of pieces of whole lines, which together are `data`.

    `size`: bytes of a piece, about.
    """
    start = 0
    while start < len(data):
        stop = data.rfind(b"\n", start, start + size) + 1
        if not stop and len(data) - start > size:
            stop = data.find(b"\n", start + size) + 1
        if not stop or len(data) - stop < size // 8:
            stop = len(data)
        yield start, stop
        start = stop
