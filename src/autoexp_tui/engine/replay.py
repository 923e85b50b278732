"""The handle on a journal that was: plays it in its own time, or faster, or stands.
`ReplayPlayer` is the machine, with time as an argument; the handle drives it."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf

from autoexp_tui.engine.handle import EngineHandle, ReplayMove
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

    def play(self, move: ReplayMove, value: float, now: float) -> None:
        """Carry out what `EngineHandle.play` was asked for."""
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
                self.playing, self.goal = False, None
                buffer.seek(buffer.find_commit(int(value)))
                place = buffer.position - 1
                self.at = buffer.records[place].t if place >= 0 else buffer.begin
            case "jump":
                self.jump(value, now)

    def jump(self, t: float, now: float) -> None:
        """Show the moment `t`, or the nearest; what is unread once it is read."""
        wanted = max(self.buffer.begin, min(t, self.buffer.end))
        self._moved_at = now
        if wanted > self.buffer.read_until:
            self.goal = wanted
            return
        self.at, self.goal = wanted, None
        self.buffer.seek(self.buffer.find_position(self.at))

    def tick(self, now: float) -> bool:
        """Go on to where it should be by `now`; whether anything moved."""
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
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

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
