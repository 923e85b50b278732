"""Logs cut at line ends, as readers get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise


def cut(
    lines: Sequence[bytes], after: Iterable[int], offset: int = 0
) -> Iterator[tuple[bytes, int]]:
    """Chunks, cut after these many lines, and where each begins."""
    borders = {0, len(lines), *(at for at in after if at < len(lines))}
    for begin, end in pairwise(sorted(borders)):
        chunk = b"".join(lines[begin:end])
        yield chunk, offset
        offset += len(chunk)
