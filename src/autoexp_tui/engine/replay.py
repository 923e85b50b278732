"""The handle on a journal that was: plays it in its own time, or faster, or stands. Any
moment is a fold from the nearest keyframe. Policy never runs again, and logs are not
read: noted metrics give rates and curves."""

from __future__ import annotations

import queue
import traceback
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from autoexp_tui.engine.handle import EngineHandle, ReplayMove, run_aside
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.events import events
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.event import IllegalTransition, Recorded, apply
from autoexp_tui.model.snapshot import (
    Curve,
    EngineView,
    Landmark,
    Live,
    Playback,
    Role,
    Snapshot,
)
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState, Why

INTERVAL = 512
"""Records from one keyframe to the next, at first; it doubles."""
MOST = 64
"""Keyframes at a time: of 10,000 jobs they hold some 80 MB."""
TAIL = 500
"""Events that a snapshot carries after a jump; older ones are read when asked for."""
MOST_MARKS = 5000
PORTION = 200
"""Records between two looks at what a person wishes: a few milliseconds."""
MOST_POINTS = 64
"""Of one curve; from there on every second point goes."""
TREND = 16
"""Points of the sparkline."""


@dataclass(slots=True)
class Fold:
    """A session as its first `position` records make it."""

    state: SessionState
    lives: dict[str, Live] = field(default_factory=dict)
    position: int = 0

    def take(self, records: Sequence[Recorded]) -> None:
        state = self.state
        for record in records:
            apply(state, record)
            update_lives(
                self.lives, record, state.base.monitoring.loss if state.base else ""
            )
        self.position += len(records)
        state.matches.clear()  # what only an engine needs to remember
        state.commands.clear()
        state.touched.clear()

    def copy(self) -> Fold:
        """One whose containers belong to nobody else; frozen records are shared."""
        state = self.state.fork()
        state.moves = None  # it is no draft
        return Fold(state, dict(self.lives), self.position)


class ReplayBuffer:
    """Stands after some number of records of a journal, and can stand anywhere."""

    def __init__(
        self,
        records: Iterable[Recorded],
        plans: MutableMapping[str, Plan],
        *,
        interval: int = INTERVAL,
        user: str = "",
    ) -> None:
        """`plans`: by the sha that records name; `user`: the other one whose it is."""
        self.records: list[Recorded] = []
        """As far as they were read. One thread adds, any may read."""
        self.problem = ""
        """Why reading ended before the journal did; empty when all is well."""
        self.reading = True
        self.expected = (0, 0.0)
        """Of the journal that is read: how many records, and when the last was."""
        self.landmarks: list[Landmark] = []
        self._unread = iter(records)
        self._user = user
        self._interval = interval
        self._shown = Fold(SessionState(plans=plans))
        self._ahead = self._shown.copy()
        """What keyframes are made of."""
        self._keyframes = [self._shown.copy()]
        self._builder = SnapshotBuilder()
        self._gone: list[tuple[float, float]] = []
        self._was_stopped = False
        """Whether the newest engine gave the session back."""

    def read(self, portion: int = PORTION) -> None:
        """Read so many records, and on to the end of their commit; raises AutoexpError,
        or IllegalTransition, KeyError, IndexError or ValueError."""
        for record in self._unread:
            self._add(record)
            portion -= 1
            if portion <= 0 and not record.more:
                return
        self.reading = False

    def read_on(self, portion: int = PORTION) -> None:
        """`read`; what goes wrong is the `problem`, and ends the reading."""
        problem = ""
        try:
            self.read(portion)
        except AutoexpError as error:
            problem = str(error)
        except (IllegalTransition, KeyError, IndexError, ValueError) as error:
            problem = f"record {len(self)} does not follow: {error}"
        if problem:
            self.problem = f"nothing is shown of what follows: {problem}"
            self.reading = False

    def _add(self, record: Recorded) -> None:
        ahead = self._ahead
        ahead.take((record,))
        self.records.append(record)
        if (mark := self._find_landmark(record)) and len(self.landmarks) < MOST_MARKS:
            self.landmarks.append(mark)
        if ahead.position - self._keyframes[-1].position >= self._interval:
            self._keyframes.append(ahead.copy())
            if len(self._keyframes) > MOST:
                self._keyframes = self._keyframes[::2]
                self._interval *= 2

    def _find_landmark(self, record: Recorded) -> Landmark | None:
        was_stopped = self._was_stopped
        match record.event:
            case events.JobEnded(state=JobState.FAILED | JobState.LOST):
                return Landmark(record.t, "failed", record.t)
            case events.ApprovalAsked() | events.AskRaised():
                return Landmark(record.t, "asked", record.t)
            case events.EngineStopped():
                self._was_stopped = True
            case events.EngineStarted(gap_seconds=gap):
                self._was_stopped = False
                if gap > 0 and not was_stopped:
                    self._gone.append((record.t - gap, record.t))
                    return Landmark(record.t - gap, "gone", record.t)
        return None

    def list_before(self, seq: int, count: int) -> Sequence[Recorded]:
        """The newest `count` records before record `seq`, oldest first."""
        stop = max(0, min(seq - 1, len(self)))
        return self.records[max(0, stop - count) : stop]

    def __len__(self) -> int:
        return len(self.records)

    @property
    def position(self) -> int:
        return self._shown.position

    @property
    def begin(self) -> float:
        """UTC of the first record; 0 without any."""
        return self.records[0].t if self.records else 0.0

    @property
    def end(self) -> float:
        """UTC of the journal's last record; 0 without any."""
        return max(self.read_until, self.expected[1] if self.reading else 0.0)

    @property
    def read_until(self) -> float:
        """UTC of the last record that was read in; 0 without any."""
        return self.records[-1].t if self.records else 0.0

    def find_position(self, t: float) -> int:
        """How many records had happened by the moment `t`, whole commits."""
        return self.end_commit(bisect_right(self.records, t, key=lambda one: one.t))

    def end_commit(self, position: int, step: int = 1) -> int:
        """The position, moved on to the end of the commit that it lies in."""
        while 0 < position < len(self) and self.records[position - 1].more:
            position += step
        return position

    def find_commit(self, commits: int) -> int:
        """The position `commits` further on, back when negative."""
        position, step = self._shown.position, 1 if commits > 0 else -1
        for _ in range(abs(commits)):
            position = self.end_commit(position + step, step)
        return max(0, min(position, len(self)))

    def seek(self, position: int) -> None:
        """Stand after the first `position` records, from the nearest keyframe."""
        position = max(0, min(position, len(self)))
        near = bisect_right(self._keyframes, position, key=lambda one: one.position) - 1
        frame = self._keyframes[near]
        if position < self._shown.position or frame.position > self._shown.position:
            self._shown = frame.copy()
            self._builder = SnapshotBuilder()
            first = max(0, position - TAIL)
            self._builder.note(self.records[first : frame.position])
        records = self.records[self._shown.position : position]
        self._shown.take(records)
        self._builder.note(records)

    def snapshot(self, at: float, speed: float, *, playing: bool) -> Snapshot:
        """The session at the present position, seen at the moment `at`."""
        state, length, doing = self._shown.state, len(self), ""
        if self.reading:
            length = max(1, self.expected[0], length)
            doing = f"reading the journal: {len(self) / length:.0%}"
        view = EngineView(
            role="replay",
            epoch=state.epoch,
            host=state.engine_host,
            pid=state.engine_pid,
            stopped=state.engine_stopped,
            owner_alive=not any(begin < at < end for begin, end in self._gone),
            committed_at=at,
            user=self._user,
            doing=doing,
            holding=self.problem,
        )
        shown = self._builder.build_snapshot(state, view, self._shown.lives)
        playback = Playback(
            begin=self.begin,
            end=self.end,
            at=at,
            position=self._shown.position,
            length=length,
            speed=speed,
            playing=playing,
            landmarks=tuple(self.landmarks),
        )
        return replace(shown, playback=playback)


def update_lives(lives: dict[str, Live], record: Recorded, loss: str) -> None:
    """Move on by one record; `loss` names the metric of the sparkline."""
    match record.event:
        case events.MetricsNoted(job=job) as noted:
            lives[job] = _add_metrics(lives.get(job, Live()), noted, record.t, loss)
        case events.JobReplanned(job=job, why=Why(code="other_overrides")):
            lives.pop(job, None)
        case events.RunBegan(job=job) if job in lives:
            lives[job] = replace(lives[job], rate=None, last_step_at=None)


def _add_metrics(old: Live, event: events.MetricsNoted, t: float, loss: str) -> Live:
    went_on = old.step is None or event.step > old.step
    rate = old.rate
    if old.step is not None and old.last_step_at is not None and t > old.last_step_at:
        rate = (event.step - old.step) / (t - old.last_step_at) if went_on else rate
    values = {name: float(value) for name, value in event.values.items()}
    curves = {**old.curves}
    for name, value in values.items():
        curve = curves.get(name, Curve())
        # What a restart runs again is drawn again.
        kept = bisect_left(curve.steps, event.step)
        steps, drawn = curve.steps[:kept], curve.values[:kept]
        if kept >= MOST_POINTS:
            steps, drawn = steps[::2], drawn[::2]
        curves[name] = Curve((*steps, event.step), (*drawn, value))
    trend = curves[loss].values[-TREND:] if loss in curves else old.trend
    return replace(
        old,
        step=event.step,
        total=event.total or old.total,
        rate=rate if rate and rate > 0 else None,
        metrics={**old.metrics, **values},
        result=old.result if event.result is None else float(event.result),
        curves=curves,
        trend=trend,
        last_step_at=t if went_on or old.last_step_at is None else old.last_step_at,
    )


SLOWEST = 1.0
FASTEST = float(2**20)
"""About a million; beyond it is as fast as it goes."""
TICK_SECONDS = 0.25
"""Between two moves of a replay that plays."""
BREATH_SECONDS = 0.001
"""Between two portions of a journal that is read in: the screen comes first."""
SHOW_SECONDS = 0.1
"""Between two snapshots of a replay that hurries."""
AT_ONCE = 2000
"""Records that are folded before the screen may look."""


class ReplayPlayer:
    """Where a replay stands and how fast it goes. `now` is monotonic seconds."""

    def __init__(
        self, buffer: ReplayBuffer, *, speed: float, playing: bool, now: float
    ) -> None:
        self.buffer = buffer
        self.speed = speed
        self.playing = playing and len(buffer) > 0
        self.at = buffer.begin
        self.lags = False
        """Whether more has to be folded than was possible at once."""
        self._moved_at = now
        buffer.seek(buffer.find_position(self.at))

    def play(self, move: ReplayMove, value: float, now: float) -> None:
        buffer = self.buffer
        match move:
            case "toggle":
                self._moved_at = now
                if not self.playing and self.at >= buffer.end:
                    self.jump(buffer.begin, now)
                self.playing = not self.playing
            case "speed":
                self.tick(now)
                wanted = FASTEST * 2 if self.speed == inf else self.speed
                wanted = max(SLOWEST, wanted * value)
                self.speed = inf if wanted > FASTEST else wanted
            case "step":
                self.playing = False
                buffer.seek(buffer.find_commit(int(value)))
                place = buffer.position - 1
                self.at = buffer.records[place].t if place >= 0 else buffer.begin
            case "jump":
                self.jump(value, now)

    def jump(self, t: float, now: float) -> None:
        """Show the moment `t`, or the nearest that was read."""
        self._moved_at = now
        self.at = max(self.buffer.begin, min(t, self.buffer.read_until))
        self.buffer.seek(self.buffer.find_position(self.at))

    def tick(self, now: float) -> bool:
        """Go on to where it should be by `now`; whether anything moved."""
        if not self.playing:
            return False
        buffer, gone = self.buffer, max(0.0, now - self._moved_at)
        self._moved_at = now
        wanted = buffer.end if self.speed == inf else self.at + gone * self.speed
        wanted = min(wanted, buffer.read_until)
        position = buffer.find_position(wanted)
        most = buffer.position + AT_ONCE
        self.lags = position > most
        if self.lags:
            position = buffer.end_commit(most)
            wanted = buffer.records[position - 1].t
        buffer.seek(max(position, buffer.position))
        moved = wanted > self.at
        self.at = min(max(wanted, self.at), buffer.end)
        self.playing = self.at < buffer.end
        return moved

    @property
    def hurries(self) -> bool:
        """Whether it goes as fast as it can and has not arrived."""
        return self.playing and (self.lags or self.speed == inf)

    def snapshot(self) -> Snapshot:
        return self.buffer.snapshot(self.at, self.speed, playing=self.playing)


class ReplayHandle(EngineHandle):
    """Shows a session as of any moment of its journal, and plays it."""

    role: Role = "replay"
    read_only = True

    def __init__(
        self,
        buffer: ReplayBuffer,
        clock: Clock,
        *,
        speed: float = 60.0,
        playing: bool = True,
        log_fault: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Begin at the beginning, of which the first commit is in the buffer. `speed`:
        seconds of the session in one second; inf: as fast as it goes."""
        super().__init__(lambda _, seq, count: buffer.list_before(seq, count))
        self._clock = clock
        self._log_fault = log_fault
        self._machine = ReplayPlayer(
            buffer, speed=speed, playing=playing, now=clock.monotonic()
        )
        self._wishes: queue.SimpleQueue[tuple[ReplayMove, float] | None]
        self._wishes = queue.SimpleQueue()
        self._snapshot: Snapshot = self._machine.snapshot()
        self._shown_at = clock.monotonic()
        self._thread = run_aside(self._run, "replay")

    def close(self, *, hand_over: bool = False) -> None:
        self._wishes.put(None)
        self._thread.join(2.0)

    def play(self, move: ReplayMove, value: float = 0.0) -> None:
        self._wishes.put((move, value))

    def _run(self) -> None:
        try:
            while self._go_on():
                pass
        except Exception:  # noqa: BLE001 - a thread's last frame: keep and show
            self._log_fault(traceback.format_exc())

    def _go_on(self) -> bool:
        """Carry out what is wished, or go on playing; False when it is over."""
        player, buffer, clock = self._machine, self._machine.buffer, self._clock
        patience = TICK_SECONDS if player.playing else None
        patience = BREATH_SECONDS if buffer.reading else patience
        wishes: list[tuple[ReplayMove, float] | None] = []
        with suppress(queue.Empty):  # what comes meanwhile is shown after them
            wishes.append(self._wishes.get(not player.hurries, patience))
            while True:
                wishes.append(self._wishes.get_nowait())
        for wish in wishes:
            if wish is None:
                return False
            player.play(*wish, clock.monotonic())
        reading = buffer.reading
        if reading:
            buffer.read_on()
        moved = player.tick(clock.monotonic())
        if wishes or moved or reading:
            arrived = not (player.hurries or buffer.reading)
            now = clock.monotonic()
            if wishes or arrived or now - self._shown_at >= SHOW_SECONDS:
                self._shown_at = now
                self.publish(player.snapshot())
        return True
