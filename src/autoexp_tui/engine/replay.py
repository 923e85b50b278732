"""The handle on a journal that was: plays it in its own time, or faster, or stands.

`Player` is the machine, with time as an argument; the handle drives it on a thread of
its own, so that no jump is ever waited for by the screen. What is pressed while a jump
is under way is done next, and shown once.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from autoexp_tui.engine.live import Listener
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.replay_buffer import ReplayBuffer
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.commands import Command
from autoexp_tui.model.snapshot import Role, Snapshot

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


class Player:
    """Where a replay stands and how fast it goes. `now` is monotonic seconds."""

    def __init__(
        self, buffer: ReplayBuffer, *, speed: float, playing: bool, now: float
    ) -> None:
        self.buffer = buffer
        self.speed = speed
        self.playing = playing and len(buffer) > 0
        self.at = buffer.begin
        self.goal: float | None = None
        """A moment to show as soon as the journal is read that far."""
        self.lags = False
        """Whether more has to be folded than was possible at once."""
        self._moved_at = now
        buffer.seek(buffer.position_at(self.at))

    def toggle(self, now: float) -> None:
        """Play, or stand still; at the end, play from the beginning."""
        self._moved_at = now
        if not self.playing and self.at >= self.buffer.end:
            self.jump(self.buffer.begin, now)
        self.playing = not self.playing

    def pace(self, factor: float, now: float) -> None:
        """Play `factor` times as fast as now, within what there is."""
        self.tick(now)
        wanted = FASTEST * 2 if self.speed == inf else self.speed
        wanted = max(SLOWEST, wanted * factor)
        self.speed = inf if wanted > FASTEST else wanted

    def step(self, commits: int) -> None:
        """Go on by so many commits, and stand still."""
        self.playing, self.goal = False, None
        buffer = self.buffer
        buffer.seek(buffer.after_commits(commits))
        place = buffer.position - 1
        self.at = buffer.history.times[place] if place >= 0 else buffer.begin

    def jump(self, t: float, now: float) -> None:
        """Show the moment `t`, or the nearest that there is; what is not read in yet
        once it is."""
        wanted = max(self.buffer.begin, min(t, self.buffer.end))
        self._moved_at = now
        if wanted > self.buffer.read_until:
            self.goal = wanted
            return
        self.at, self.goal = wanted, None
        self.buffer.seek(self.buffer.position_at(self.at))

    def tick(self, now: float) -> bool:
        """Go on to where it should be by `now`; whether anything moved.

        At most `AT_ONCE` records: what cannot keep up goes as fast as it can.
        """
        if self.goal is not None:
            before = self.at
            self.jump(self.goal, now)
            return self.at != before
        if not self.playing:
            return False
        buffer, gone = self.buffer, max(0.0, now - self._moved_at)
        self._moved_at = now
        wanted = buffer.end if self.speed == inf else self.at + gone * self.speed
        wanted = min(wanted, buffer.read_until)
        position = buffer.position_at(wanted)
        most = buffer.position + AT_ONCE
        self.lags = position > most
        if self.lags:
            position = buffer.whole(most)
            wanted = buffer.history.times[position - 1]
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
        """What is shown now."""
        return self.buffer.snapshot(self.at, self.speed, playing=self.playing)


class ReplayHandle:
    """Shows a session as of any moment of its journal, and plays it."""

    role: Role = "replay"
    read_only = True
    unanswered = False

    def __init__(
        self,
        buffer: ReplayBuffer,
        clock: Clock,
        *,
        speed: float = 60.0,
        playing: bool = True,
        log_fault: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Begin at the journal's beginning.

        Args:
            buffer: what was read, at least the first commit; it reads on.
            clock: of this process; only its monotonic side is asked.
            speed: seconds of the session in one second; inf: as fast as it goes.
            playing: whether it plays at once.
            log_fault: keeps a traceback.
        """
        self._clock = clock
        self._log_fault = log_fault
        self._player = Player(
            buffer, speed=speed, playing=playing, now=clock.monotonic()
        )
        self._listeners: list[Listener] = []
        self._wishes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._snapshot = self._made()
        self._shown_at = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

    # ---------------------------------------------------------------------- handle
    @property
    def player(self) -> ReplayHandle:
        """Itself: a replay is moved by its handle."""
        return self

    def snapshot(self) -> Snapshot:
        """The state at the moment that is shown."""
        return self._snapshot

    def earlier(self, seq: int, count: int) -> Sequence[Recorded]:
        """The newest `count` records before record `seq`, oldest first."""
        history = self._player.buffer.history
        stop = max(0, min(seq - 1, len(history)))
        return history.between(max(0, stop - count), stop)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` on each move, from the replay's thread."""
        self._listeners.append(listener)

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """What has happened takes no commands: nothing is sent."""
        del command, by, expected
        return ""

    def look_at(self, jobs: Sequence[str]) -> None:
        """A replay shows what was journaled."""

    def close(self, *, hand_over: bool = False) -> None:
        """Stop playing."""
        del hand_over  # it runs no engine
        self._wishes.put(None)
        self._thread.join(2.0)

    # ---------------------------------------------------------------------- player
    def toggle(self) -> None:
        """Play, or stand still."""
        self._wishes.put(lambda: self._player.toggle(self._clock.monotonic()))

    def pace(self, factor: float) -> None:
        """Play `factor` times as fast as now."""
        self._wishes.put(lambda: self._player.pace(factor, self._clock.monotonic()))

    def step(self, commits: int) -> None:
        """Go on by so many commits, and stand still."""
        self._wishes.put(lambda: self._player.step(commits))

    def jump(self, t: float) -> None:
        """Show the moment `t`."""
        self._wishes.put(lambda: self._player.jump(t, self._clock.monotonic()))

    # ------------------------------------------------------------------ the thread
    def _run(self) -> None:
        try:
            while self._once():
                pass
        except Exception:  # noqa: BLE001 - a thread's last frame: keep and show
            self._log_fault(traceback.format_exc())

    def _once(self) -> bool:
        """Carry out what is wished, or go on playing; False when it is over."""
        wishes = self._next_wishes()
        for wish in wishes:
            if wish is None:
                return False
            wish()
        buffer = self._player.buffer
        reading = buffer.reading
        if reading:
            buffer.read_on()
        moved = self._player.tick(self._clock.monotonic())
        if wishes or moved or reading:
            arrived = not (self._player.hurries or buffer.reading)
            self._show(at_once=bool(wishes) or arrived)
        return True

    def _made(self) -> Snapshot:
        """What is shown now, and what is still to come."""
        shown, buffer = self._player.snapshot(), self._player.buffer
        doing, holding = buffer.progress, buffer.problem
        if not (doing or holding):
            return shown
        view = replace(shown.engine, doing=doing, holding=holding)
        return replace(shown, engine=view)

    def _show(self, *, at_once: bool) -> None:
        now = self._clock.monotonic()
        if not at_once and now - self._shown_at < SHOW_SECONDS:
            return
        self._shown_at = now
        self._snapshot = self._made()
        for listener in self._listeners:
            listener(self._snapshot)

    def _next_wishes(self) -> list[Callable[[], None] | None]:
        """All that is wished; waits for the first, or for the next tick."""
        player = self._player
        patience = TICK_SECONDS if player.playing else None
        if player.buffer.reading:
            patience = BREATH_SECONDS
        found = []
        try:
            found.append(self._wishes.get(not player.hurries, patience))
            while True:
                found.append(self._wishes.get_nowait())
        except queue.Empty:
            return found
