"""A journal's records kept small in memory, for a replay that goes anywhere in it.

Blocks of lines, compressed: about a tenth of what the journal takes on disk, and
nothing of it is read from there again. Only the newest blocks that were asked for are
kept as records.
"""

from __future__ import annotations

import threading
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence

from autoexp_tui.events.events import Recorded
from autoexp_tui.storage.codec import encode_record, parse_record

BLOCK = 256
"""Records of one block."""
OPEN_BLOCKS = 24
"""Blocks that are kept as records."""


class PackedHistory:
    """Implements `engine.replay_buffer.History`; one thread adds, any may read."""

    def __init__(self) -> None:
        self._times = array("d")
        self._more = bytearray()
        self._blocks: list[bytes] = []
        self._newest: list[Recorded] = []
        self._open: OrderedDict[int, Sequence[Recorded]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._times)

    def add(self, record: Recorded) -> None:
        """Keep one more."""
        self._more.append(record.more)
        self._newest.append(record)
        if len(self._newest) == BLOCK:
            lines = b"".join([encode_record(one) for one in self._newest])
            self._blocks.append(zlib.compress(lines, 1))
            self._newest = []
        self._times.append(record.t)  # the last: from here on it may be read

    @property
    def times(self) -> Sequence[float]:
        """The time of each record."""
        return self._times

    def ends_commit(self, place: int) -> bool:
        """Whether the record at `place` is the last of its commit."""
        return not self._more[place]

    def between(self, start: int, stop: int) -> Sequence[Recorded]:
        """The records from place `start` up to, and without, `stop`."""
        found: list[Recorded] = []
        start, stop = max(0, start), min(stop, len(self))
        while start < stop:
            number, first = divmod(start, BLOCK)
            part = self._block(number)[first : first + stop - start]
            found.extend(part)
            start += len(part)
        return found

    def _block(self, number: int) -> Sequence[Recorded]:
        if number == len(self._blocks):
            return self._newest
        with self._lock:
            known = self._open.get(number)
            if known is None:
                lines = zlib.decompress(self._blocks[number]).splitlines(keepends=True)
                known = [parse_record(line) for line in lines]
                self._open[number] = known
                if len(self._open) > OPEN_BLOCKS:
                    self._open.popitem(last=False)
            self._open.move_to_end(number)
            return known
