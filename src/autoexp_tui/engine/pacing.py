"""How often each growing file is looked at: busy ones at every poll, quiet ones seldom.

A file that said nothing new waits half as long again, up to a quarter of a minute; one
that grew, or that somebody saw change, is looked at with the next poll. Times are the
engine's monotonic seconds. Only `wake` may be called from another thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

SLOWER: Final = 1.5
"""How much longer the wait is after a look that found nothing."""
SLOWEST_SECONDS: Final = 15.0
TOGETHER: Final = 0.25
"""Of a poll: files due so soon after the first are looked at with it."""

Stream: TypeAlias = tuple[str, str]
"""(job, which of its files): the log is the empty one."""


@dataclass(slots=True)
class _Beat:
    """When one file is looked at."""

    due: float
    wait: float
    path: str


@dataclass(slots=True)
class Pacing:
    """The beats of all files that are read now."""

    _beats: dict[Stream, _Beat] = field(default_factory=dict)
    _sleepers: dict[str, Stream] = field(default_factory=dict)
    """Path -> a file that is looked at seldom."""
    _woken: deque[Stream] = field(default_factory=deque)

    def due(self, streams: Iterable[Stream], now: float, poll: float) -> list[Stream]:
        """Which of `streams` to look at, the longest due first; none before its time.

        A file seen for the first time is due at once. `poll`: seconds.
        """
        self._rouse(now, poll)
        soon = now + poll * TOGETHER
        beats = self._beats
        found: list[tuple[float, Stream]] = []
        ripe = False
        for stream in streams:
            beat = beats.get(stream)
            at = beat.due if beat is not None else now
            if at <= soon:
                found.append((at, stream))
                ripe = ripe or at <= now
        return [stream for _, stream in sorted(found)] if ripe else []

    def next_at(self, streams: Iterable[Stream], now: float) -> float | None:
        """When the first of `streams` is due; None when there is none."""
        if self._woken:
            return now
        beats = self._beats
        times = ((beats[one].due if one in beats else now) for one in streams)
        return min(times, default=None)

    def asked(self, stream: Stream, path: str, now: float, poll: float) -> None:
        """A look at it is under way: without an answer the next comes in its time."""
        beat = self._beats.get(stream)
        if beat is None or beat.path != path:
            self._forget(stream)
            beat = self._beats[stream] = _Beat(now, poll, path)
        beat.due = now + beat.wait

    def grew(self, stream: Stream, now: float, poll: float, *, more: bool) -> None:
        """It had something new; `more`: and it has more than was read."""
        beat = self._beats.get(stream)
        if beat is not None:
            self._sleepers.pop(beat.path, None)
            beat.due = now if more else min(beat.due, beat.due - beat.wait + poll)
            beat.wait = poll

    def quiet(
        self, stream: Stream, poll: float, slowest: float = SLOWEST_SECONDS
    ) -> None:
        """It had nothing new, or could not be read.

        `slowest`: seconds between two looks, however long it stays so.
        """
        beat = self._beats.get(stream)
        if beat is None:
            return
        asked = beat.due - beat.wait
        beat.wait = min(beat.wait * SLOWER, max(slowest, poll))
        beat.due = asked + beat.wait
        if beat.wait > poll * SLOWER:
            self._sleepers[beat.path] = stream

    def hurry(self, stream: Stream, now: float) -> None:
        """Look at it as soon as can be."""
        beat = self._beats.get(stream)
        if beat is not None:
            beat.due = now

    def keep(self, jobs: Iterable[str]) -> None:
        """Forget the files of all other jobs."""
        kept = set(jobs)
        for stream in [one for one in self._beats if one[0] not in kept]:
            self._forget(stream)

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

    def _forget(self, stream: Stream) -> None:
        beat = self._beats.pop(stream, None)
        if beat is not None and self._sleepers.get(beat.path) == stream:
            del self._sleepers[beat.path]
