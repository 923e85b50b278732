"""The text to learn: the source of the Python standard library itself.

Every machine that can run the trainer has it, so nothing is downloaded. Which files
are read, in which order, and which are held out depends on their names alone. Another
Python release is another text: the digest says which one, and losses on two texts are
not comparable.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autoexp_tui.demo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Bytes = npt.NDArray[np.uint8]

VOCABULARY = 128
"""Only ASCII text is read, so a byte has 128 values."""
TRAIN_BYTES = 1_500_000
HELDOUT_BYTES = 65_536
FILE_BYTES = 32_768
"""No file gives more than this, so that no single one dominates."""
HELDOUT_ONE_IN = 10
SEPARATOR = b"\0"
NOT_TEXT = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "__pycache__"}
)
"""Directories that some distributions leave out, or that hold no library."""


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Training and held-out text, split by file."""

    train: Bytes
    heldout: Bytes
    digest: str
    """sha256 over both parts, in hexadecimal, shortened to 16 characters."""


def read_corpus(root: Path | None = None) -> Corpus:
    """Read the `*.py` files below `root`, by default the standard library.

    Raises DemoError when there is too little text for both parts.
    """
    place = root or Path(sysconfig.get_path("stdlib"))
    train, heldout = _read_parts(place)
    if not train or not heldout:
        raise DemoError(f"no Python source text to learn from below {place}")
    return Corpus(_array(train), _array(heldout), _digest(train, heldout))


def _read_parts(root: Path) -> tuple[bytes, bytes]:
    names = sorted(_source_names(root), key=_name_hash)
    heldout = [name for name in names if _is_heldout(name)]
    train = [name for name in names if not _is_heldout(name)]
    return (
        _join(_texts(root, train), TRAIN_BYTES),
        _join(_texts(root, heldout), HELDOUT_BYTES),
    )


def _source_names(root: Path) -> Iterator[str]:
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if name not in NOT_TEXT]
        place = Path(directory).relative_to(root)
        for name in files:
            if name.endswith(".py"):
                yield (place / name).as_posix()


def _name_hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


def _is_heldout(name: str) -> bool:
    return _name_hash(name)[-1] % HELDOUT_ONE_IN == 0


def _texts(root: Path, names: Iterable[str]) -> Iterator[bytes]:
    for name in names:
        with (root / name).open("rb") as file:
            text = file.read(FILE_BYTES)
        if text.isascii():
            yield text


def _join(texts: Iterable[bytes], limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for text in texts:
        if size >= limit:
            break
        parts.append(text)
        size += len(text) + len(SEPARATOR)
    return SEPARATOR.join(parts)[:limit]


def _array(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


def _digest(train: bytes, heldout: bytes) -> str:
    return hashlib.sha256(train + SEPARATOR + heldout).hexdigest()[:16]


def batch(
    text: Bytes, context: int, size: int, seed: int, iteration: int
) -> tuple[Bytes, Bytes]:
    """The contexts (size, context) and next bytes (size,) of one iteration.

    A function of its arguments alone: the data order has no state beyond the seed and
    the iteration, which is what lets a resumed run see what it would have seen. The
    text must be longer than the context.
    """
    starts = len(text) - context
    # The iteration is the highest counter word: streams of neighbours never overlap.
    stream = np.random.Philox(key=seed, counter=[0, 0, 0, iteration])
    offsets = np.asarray(stream.random_raw(size)) % np.uint64(starts)
    windows = text[offsets.astype(np.int64)[:, None] + np.arange(context + 1)]
    return windows[:, :context], windows[:, context]
