"""How often each growing file is looked at: busy ones at every poll, quiet ones seldom.

A file that said nothing new waits half as long again, up to a quarter of a minute; one
that grew, or that somebody saw change, is looked at with the next poll; where very many
grow, a little later, so that all of them together cost no more looks than a few hundred
a second. Times are the engine's monotonic seconds. What is due is found on a heap, so
that a thousand files that nobody need look at cost nothing. Only `wake` may be called
from another thread.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

SLOWER: Final = 1.5
"""How much longer the wait is after a look that found nothing."""
SLOWEST_SECONDS: Final = 15.0
TOGETHER: Final = 0.25
"""Of a poll: files due so soon after the first are looked at with it."""
MOST_AT_ONCE: Final = 250
"""Files of one answer to `due`: the commit that reads them stays short."""
BUSY_LOOKS: Final = 500
"""Looks a second that growing files cost together, at most and about ..."""
BUSIEST_SECONDS: Final = 5.0
"""... but each is looked at so often, however many there are."""
_NEVER: Final = float("inf")

Stream: TypeAlias = tuple[str, str]
"""(job, which of its files): the log is the empty one."""


@dataclass(slots=True)
class _Beat:
    """When one file is looked at."""

    due: float
    wait: float = 0.0
    path: str = ""
    """Empty: it was never looked at."""
    listed: float = _NEVER
    """The time of its entry on the heap, never after `due`; any other one is void."""


@dataclass(slots=True)
class Pacing:
    """The beats of all files that are watched."""

    _beats: dict[Stream, _Beat] = field(default_factory=dict)
    _heap: list[tuple[float, Stream]] = field(default_factory=list)
    _growing: set[Stream] = field(default_factory=set)
    """What grew at its last look."""
    _sleepers: dict[str, Stream] = field(default_factory=dict)
    """Path -> a file that is looked at seldom."""
    _woken: deque[Stream] = field(default_factory=deque)

    # ------------------------------------------------------------------ what there is
    def watch(self, stream: Stream, now: float) -> None:
        """A file is to be looked at from now on, at once for the first time."""
        if stream not in self._beats:
            beat = self._beats[stream] = _Beat(now)
            self._list(stream, beat)

    def forget(self, stream: Stream) -> None:
        """Nobody looks at it any more."""
        beat = self._beats.pop(stream, None)
        self._growing.discard(stream)
        if beat is not None:
            self._stir(stream, beat)

    # ---------------------------------------------------------------------- when next
    def due(
        self,
        now: float,
        poll: float,
        is_out: Callable[[Stream], bool] = lambda _: False,
    ) -> list[Stream]:
        """Which files to look at, the longest due first; none before its time.

        All that come are to be told by `asked`; what is more than `MOST_AT_ONCE` comes
        with the next call. `poll`: seconds. `is_out`: whether a look at a file is under
        way; such a file has to wait for another beat.
        """
        self._rouse(now, poll)
        first = self._first()
        if first is None or first > now:
            return []
        soon, found = now + poll * TOGETHER, list[Stream]()
        while len(found) < MOST_AT_ONCE:
            first = self._first()
            if first is None or first > soon:
                break
            stream = heapq.heappop(self._heap)[1]
            beat = self._beats[stream]
            beat.listed = _NEVER
            if is_out(stream):
                beat.due = now + max(beat.wait, poll)
                self._list(stream, beat)
            else:
                found.append(stream)
        return found

    def next_at(self, now: float) -> float | None:
        """When the first file is due; None when there is none."""
        return now if self._woken else self._first()

    # ------------------------------------------------------------------------- beats
    def asked(self, stream: Stream, path: str, now: float, poll: float) -> None:
        """A look at it is under way: without an answer the next comes in its time."""
        beat = self._beats.get(stream)
        if beat is None:
            return
        if beat.path != path:
            self._stir(stream, beat)
            beat.path, beat.wait = path, poll
        beat.due = now + beat.wait
        self._list(stream, beat)

    def grew(self, stream: Stream, now: float, poll: float, *, more: bool) -> None:
        """It had something new; `more`: and it has more than was read."""
        beat = self._beats.get(stream)
        if beat is None:
            return
        if beat.wait > poll:
            self._stir(stream, beat)
        self._growing.add(stream)
        often = self._often(poll)
        beat.due = now if more else min(beat.due, beat.due - beat.wait + often)
        beat.wait = often
        self._list(stream, beat)

    def _often(self, poll: float) -> float:
        """Seconds between two looks at a file that grows."""
        return max(poll, min(len(self._growing) / BUSY_LOOKS, BUSIEST_SECONDS))

    def quiet(
        self, stream: Stream, poll: float, slowest: float = SLOWEST_SECONDS
    ) -> None:
        """It had nothing new, or could not be read.

        `slowest`: seconds between two looks, however long it stays so.
        """
        beat = self._beats.get(stream)
        if beat is None:
            return
        self._growing.discard(stream)
        asked = beat.due - beat.wait
        beat.wait = min(beat.wait * SLOWER, max(slowest, poll))
        beat.due = asked + beat.wait
        self._list(stream, beat)
        if beat.wait > poll * SLOWER:
            self._sleepers[beat.path] = stream

    def hurry(self, stream: Stream, now: float) -> None:
        """Look at it as soon as can be."""
        beat = self._beats.get(stream)
        if beat is not None:
            beat.due = now
            self._list(stream, beat)

    def wake(self, paths: Iterable[str]) -> bool:
        """Some files changed, as another thread saw; whether one of them slept."""
        woken = [self._sleepers.pop(path, None) for path in paths]
        streams = [stream for stream in woken if stream is not None]
        self._woken.extend(streams)
        return bool(streams)

    def _rouse(self, now: float, poll: float) -> None:
        while self._woken:
            stream = self._woken.popleft()
            beat = self._beats.get(stream)
            if beat is not None:
                beat.wait, beat.due = poll, now
                self._list(stream, beat)

    def _stir(self, stream: Stream, beat: _Beat) -> None:
        if self._sleepers.get(beat.path) == stream:
            self._sleepers.pop(beat.path, None)

    # -------------------------------------------------------------------------- heap
    def _list(self, stream: Stream, beat: _Beat) -> None:
        """See that the heap has the beat no later than it is due."""
        if beat.due < beat.listed:
            beat.listed = beat.due
            heapq.heappush(self._heap, (beat.due, stream))

    def _first(self) -> float | None:
        """When the first file is due; its entry is then the first of the heap."""
        heap, beats = self._heap, self._beats
        while heap:
            at, stream = heap[0]
            beat = beats.get(stream)
            if beat is not None and beat.listed == at:
                if beat.due <= at:
                    return at
                beat.listed = beat.due
                heapq.heapreplace(heap, (beat.due, stream))
            else:
                heapq.heappop(heap)
        return None
