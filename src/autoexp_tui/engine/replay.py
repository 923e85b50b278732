"""The handle on a journal that was: plays it in its own time, or faster, or stands.

`ReplayPlayer` is the machine, with time as an argument; the handle drives it on a
thread of its own, so that no jump is ever waited for by the screen. What is pressed
while a jump is under way is done next, and shown once.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from autoexp_tui.engine.handle import EngineHandle, Player
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.replay_buffer import ReplayBuffer
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


class ReplayPlayer:
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
        buffer.seek(buffer.find_position(self.at))

    def toggle(self, now: float) -> None:
        """Play, or stand still; at the end, play from the beginning."""
        self._moved_at = now
        if not self.playing and self.at >= self.buffer.end:
            self.jump(self.buffer.begin, now)
        self.playing = not self.playing

    def change_speed(self, factor: float, now: float) -> None:
        """Play `factor` times as fast as now, within what there is."""
        self.tick(now)
        wanted = FASTEST * 2 if self.speed == inf else self.speed
        wanted = max(SLOWEST, wanted * factor)
        self.speed = inf if wanted > FASTEST else wanted

    def step(self, commits: int) -> None:
        """Go on by so many commits, and stand still."""
        self.playing, self.goal = False, None
        buffer = self.buffer
        buffer.seek(buffer.find_commit(commits))
        place = buffer.position - 1
        self.at = buffer.records[place].t if place >= 0 else buffer.begin

    def jump(self, t: float, now: float) -> None:
        """Show the moment `t`, or the nearest that there is; what is not read in yet
        once it is."""
        wanted = max(self.buffer.begin, min(t, self.buffer.end))
        self._moved_at = now
        if wanted > self.buffer.read_until:
            self.goal = wanted
            return
        self.at, self.goal = wanted, None
        self.buffer.seek(self.buffer.find_position(self.at))

    def tick(self, now: float) -> bool:
        """Go on to where it should be by `now`, at most `AT_ONCE` records; whether
        anything moved."""
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
        """What is shown now."""
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
        """Begin at the journal's beginning, of which at least the first commit is in
        the buffer. `speed`: seconds of the session in one second; inf: as fast as it
        goes."""
        super().__init__(lambda _, seq, count: buffer.list_before(seq, count))
        self._clock = clock
        self._log_fault = log_fault
        self._machine = ReplayPlayer(
            buffer, speed=speed, playing=playing, now=clock.monotonic()
        )
        self._wishes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._snapshot: Snapshot = self._build_snapshot()
        self._shown_at = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

    @property
    def player(self) -> Player:
        return self

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """What has happened takes no commands: nothing is sent."""
        return ""

    def close(self, *, hand_over: bool = False) -> None:
        """Stop playing."""
        self._wishes.put(None)
        self._thread.join(2.0)

    def toggle(self) -> None:
        """Play, or stand still."""
        self._wishes.put(lambda: self._machine.toggle(self._clock.monotonic()))

    def change_speed(self, factor: float) -> None:
        """Play `factor` times as fast as now."""
        self._wishes.put(
            lambda: self._machine.change_speed(factor, self._clock.monotonic())
        )

    def step(self, commits: int) -> None:
        """Go on by so many commits, and stand still."""
        self._wishes.put(lambda: self._machine.step(commits))

    def jump(self, t: float) -> None:
        """Show the moment `t`."""
        self._wishes.put(lambda: self._machine.jump(t, self._clock.monotonic()))

    def _run(self) -> None:
        try:
            while self._play():
                pass
        except Exception:  # noqa: BLE001 - a thread's last frame: keep and show
            self._log_fault(traceback.format_exc())

    def _play(self) -> bool:
        """Carry out what is wished, or go on playing; False when it is over."""
        wishes = self._next_wishes()
        for wish in wishes:
            if wish is None:
                return False
            wish()
        buffer = self._machine.buffer
        reading = buffer.reading
        if reading:
            buffer.read_on()
        moved = self._machine.tick(self._clock.monotonic())
        if wishes or moved or reading:
            arrived = not (self._machine.hurries or buffer.reading)
            now = self._clock.monotonic()
            if wishes or arrived or now - self._shown_at >= SHOW_SECONDS:
                self._shown_at = now
                self.publish(self._build_snapshot())
        return True

    def _build_snapshot(self) -> Snapshot:
        """What is shown now, and what is still to come."""
        shown, buffer = self._machine.snapshot(), self._machine.buffer
        doing, holding = buffer.progress, buffer.problem
        if not (doing or holding):
            return shown
        view = replace(shown.engine, doing=doing, holding=holding)
        return replace(shown, engine=view)

    def _next_wishes(self) -> list[Callable[[], None] | None]:
        """All that is wished; waits for the first, or for the next tick."""
        player = self._machine
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
