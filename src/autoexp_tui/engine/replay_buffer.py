"""A journal that can be shown as of any moment: keyframes, and a fold from the nearest.

Folded once, in order, while it is read in; every so many records the state is kept,
so that going anywhere costs the records of one interval. States share their frozen
records: a keyframe is a few mappings. There are never more keyframes than `MOST`, and
fewer where each holds many jobs: the intervals double instead.

Policy never runs again; what was decided then is shown as it was decided.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from autoexp_tui.engine.replay_live import PlayedLives
from autoexp_tui.engine.snapshot_publisher import Publisher
from autoexp_tui.events import events
from autoexp_tui.events.apply import apply
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.snapshot import (
    EngineView,
    Landmark,
    LandmarkKind,
    Playback,
    Snapshot,
)
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState

INTERVAL = 512
"""Records from one keyframe to the next, at first."""
MOST = 256
"""Keyframes at a time."""
ENTRIES = 2_000_000
"""Mapping entries that all keyframes together may hold."""
TAIL = 500
"""Events that a snapshot carries after a jump; older ones are read when asked for."""
MOST_LANDMARKS = 5000


class History(Protocol):
    """A journal's records in order, kept small, any stretch of them at hand."""

    def __len__(self) -> int: ...

    def add(self, record: Recorded) -> None:
        """Keep one more."""
        ...

    @property
    def times(self) -> Sequence[float]:
        """The time of each record; never falls."""
        ...

    def ends_commit(self, place: int) -> bool:
        """Whether the record at `place` is the last of its commit."""
        ...

    def between(self, start: int, stop: int) -> Sequence[Recorded]:
        """The records from place `start` up to, and without, `stop`."""
        ...


class ListedHistory:
    """A history that simply holds its records: for short ones."""

    def __init__(self) -> None:
        self._records: list[Recorded] = []
        self._times: list[float] = []

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Recorded) -> None:
        """Keep one more."""
        self._records.append(record)
        self._times.append(record.t)

    @property
    def times(self) -> Sequence[float]:
        """The time of each record."""
        return self._times

    def ends_commit(self, place: int) -> bool:
        """Whether the record at `place` is the last of its commit."""
        return not self._records[place].more

    def between(self, start: int, stop: int) -> Sequence[Recorded]:
        """The records from place `start` up to, and without, `stop`."""
        return self._records[start:stop]


class Forgetful(MutableMapping[str, Any]):
    """Takes everything and keeps nothing: what only an engine needs to remember."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __setitem__(self, key: str, value: object) -> None:
        pass

    def __delitem__(self, key: str) -> None:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Keyframe:
    """The session after `position` records; its containers belong to nobody else."""

    position: int
    state: SessionState
    lives: PlayedLives

    @property
    def entries(self) -> int:
        """How much it holds, in mapping entries."""
        parts = (getattr(self.state, part.name) for part in fields(self.state))
        maps = sum(len(part) for part in parts if isinstance(part, dict))
        return maps + len(self.lives.jobs)


@dataclass(slots=True)
class Fold:
    """A session as it is made of its records, one after the other."""

    state: SessionState
    lives: PlayedLives
    position: int
    """How many records it is made of."""

    def fold(self, records: Sequence[Recorded]) -> None:
        """Take in the next records."""
        state, lives = self.state, self.lives
        for record in records:
            apply(state, record)
            lives.take(record, state.plan.monitoring.loss if state.plan else "")
        self.position += len(records)


class Reel:
    """Stands after some number of records of a history, and can stand anywhere."""

    def __init__(
        self,
        history: History,
        plans: MutableMapping[str, Plan],
        *,
        interval: int = INTERVAL,
        user: str = "",
    ) -> None:
        """Begin with an empty history.

        Args:
            history: keeps the records.
            plans: by the sha that records name.
            interval: records between two keyframes.
            user: the other user whose session it is; empty: one's own.
        """
        self.history = history
        self._user = user
        self._interval = interval
        self._shown = Fold(_fresh(plans), PlayedLives(), 0)
        self._ahead: Fold | None = None
        """What keyframes are made of while the journal is still read in."""
        self.expected = 0
        """Records of the journal that is read in; 0: not known."""
        self._expected_end = 0.0
        self._publisher = Publisher()
        first = Keyframe(0, _own(self._shown.state), self._shown.lives.copy())
        self._keyframes = [first]
        self.landmarks: list[Landmark] = []
        self._gone: list[tuple[float, float]] = []
        self._orderly = False
        """Whether the newest engine gave the session back."""

    # ------------------------------------------------------------------- reading in
    def expect(self, records: int, end: float) -> None:
        """Of the journal that is read in: how many records, and when the last was."""
        self.expected, self._expected_end = records, end

    def expect_no_more(self) -> None:
        """All is read in."""
        self.expected, self._expected_end = len(self), 0.0
        self._ahead = None

    def take_in(self, record: Recorded) -> None:
        """Take in the next record, and stand where it stands.

        Raises:
            IllegalTransition, KeyError, IndexError, ValueError: it does not follow.
        """
        if self._ahead is None:
            self._ahead = self._at_the_end()
        ahead = self._ahead
        ahead.fold((record,))
        self.history.add(record)
        self._note_landmark(record)
        if ahead.position - self._keyframes[-1].position >= self._interval:
            self._keep(ahead)

    def _at_the_end(self) -> Fold:
        """After all that was read in."""
        frame = self._keyframes[-1]
        fold = Fold(_own(frame.state), frame.lives.copy(), frame.position)
        fold.fold(self.history.between(frame.position, len(self)))
        return fold

    def meet(self, record: Recorded) -> None:
        """Take in the next record, and stand after it.

        Raises:
            IllegalTransition, KeyError, IndexError, ValueError: it does not follow.
        """
        self.history.add(record)
        self._fold((record,))
        self._note_landmark(record)
        if self._shown.position - self._keyframes[-1].position >= self._interval:
            self._keep(self._shown)

    def _keep(self, fold: Fold) -> None:
        frame = Keyframe(fold.position, _own(fold.state), fold.lives.copy())
        self._keyframes.append(frame)
        most = max(8, min(MOST, ENTRIES // max(1, frame.entries)))
        if len(self._keyframes) > most:
            self._keyframes = self._keyframes[::2]
            self._interval *= 2

    def _note_landmark(self, record: Recorded) -> None:
        event = record.event
        match event:
            case events.JobEnded(state=JobState.FAILED | JobState.LOST):
                self._landmark("failed", record.t)
            case events.ApprovalAsked():
                self._landmark("asked", record.t)
            case events.EngineStarted(gap_seconds=gap) if gap > 0:
                if not self._orderly:
                    self._gone.append((record.t - gap, record.t))
                    self._landmark("gone", record.t - gap, record.t)
        if isinstance(event, events.EngineStarted | events.EngineStopped):
            self._orderly = isinstance(event, events.EngineStopped)

    def _landmark(
        self, kind: LandmarkKind, t: float, until: float | None = None
    ) -> None:
        if len(self.landmarks) >= MOST_LANDMARKS:
            self.landmarks = self.landmarks[::2]
        self.landmarks.append(Landmark(t, kind, t if until is None else until))

    # ----------------------------------------------------------------------- moving
    def __len__(self) -> int:
        return len(self.history)

    @property
    def position(self) -> int:
        """How many records are shown."""
        return self._shown.position

    @property
    def begin(self) -> float:
        """UTC of the first record; 0 without any."""
        return self.history.times[0] if len(self) else 0.0

    @property
    def end(self) -> float:
        """UTC of the journal's last record; 0 without any."""
        return max(self.read_until, self._expected_end)

    @property
    def read_until(self) -> float:
        """UTC of the last record that was read in; 0 without any."""
        return self.history.times[len(self) - 1] if len(self) else 0.0

    def position_at(self, t: float) -> int:
        """How many records had happened by the moment `t`, whole commits."""
        return self.whole(bisect_right(self.history.times, t))

    def whole(self, position: int) -> int:
        """The position, moved on to the end of the commit that it lies in."""
        while 0 < position < len(self) and not self.history.ends_commit(position - 1):
            position += 1
        return position

    def after_commits(self, commits: int) -> int:
        """The position `commits` further on, back when negative."""
        position, step = self._shown.position, 1 if commits > 0 else -1
        for _ in range(abs(commits)):
            position += step
            while 0 < position < len(self) and not self.history.ends_commit(
                position - 1
            ):
                position += step
        return max(0, min(position, len(self)))

    def seek(self, position: int) -> None:
        """Stand after the first `position` records, from the nearest keyframe."""
        position = max(0, min(position, len(self)))
        frame = self._keyframes[self._frame_before(position)]
        if position < self._shown.position or frame.position > self._shown.position:
            self._restore(frame, position)
        self._fold(self.history.between(self._shown.position, position))

    def _frame_before(self, position: int) -> int:
        return bisect_right(self._keyframes, position, key=lambda f: f.position) - 1

    def _restore(self, frame: Keyframe, position: int) -> None:
        self._shown = Fold(_own(frame.state), frame.lives.copy(), frame.position)
        self._publisher = Publisher()
        first = max(0, position - TAIL)
        if first < self._shown.position:
            self._publisher.note(self.history.between(first, self._shown.position))

    def _fold(self, records: Sequence[Recorded]) -> None:
        self._shown.fold(records)
        self._publisher.note(records)

    # ---------------------------------------------------------------------- showing
    def snapshot(self, at: float, speed: float, *, playing: bool) -> Snapshot:
        """The session at the present position, seen at the moment `at`."""
        state = self._shown.state
        view = EngineView(
            role="replay",
            epoch=state.epoch,
            host=state.engine_host,
            pid=state.engine_pid,
            stopped=state.engine_stopped,
            owner_alive=not self._nobody_at(at),
            committed_at=at,
            user=self._user,
        )
        shown = self._publisher.snapshot(state, view, self._shown.lives.jobs)
        playback = Playback(
            begin=self.begin,
            end=self.end,
            at=at,
            position=self._shown.position,
            length=max(self.expected, len(self)),
            speed=speed,
            playing=playing,
            landmarks=tuple(self.landmarks),
        )
        return replace(shown, playback=playback)

    def _nobody_at(self, t: float) -> bool:
        """Whether the engine had died by then and no other had come yet."""
        return any(begin < t < end for begin, end in self._gone)


def _fresh(plans: MutableMapping[str, Plan]) -> SessionState:
    state = SessionState(plans=plans)
    state.matches = state.commands = Forgetful()
    return state


def _own(state: SessionState) -> SessionState:
    """A copy with containers of its own; frozen records are shared."""
    parts: dict[str, Any] = {
        part.name: getattr(state, part.name) for part in fields(state)
    }
    for name, part in parts.items():
        if isinstance(part, dict | set | list) and name != "plans":
            parts[name] = part.copy()
    return SessionState(**parts)
