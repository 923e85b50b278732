"""The handle on a journal that was: plays it in its own time, or faster, or stands.

`Playing` is the machine, with time as an argument; the handle drives it on a thread of
its own, so that no jump is ever waited for by the screen. What is pressed while a jump
is under way is done next, and shown once.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from autoexp_tui.engine.journal_loading import ReadingIn
from autoexp_tui.engine.live import Listener
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.replay_buffer import Reel
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


class Playing:
    """Where a replay stands and how fast it goes. `now` is monotonic seconds."""

    def __init__(self, reel: Reel, *, speed: float, playing: bool, now: float) -> None:
        self.reel = reel
        self.speed = speed
        self.playing = playing and len(reel) > 0
        self.at = reel.begin
        self.goal: float | None = None
        """A moment to show as soon as the journal is read that far."""
        self.lags = False
        """Whether more has to be folded than was possible at once."""
        self._moved_at = now
        reel.seek(reel.position_at(self.at))

    def toggle(self, now: float) -> None:
        """Play, or stand still; at the end, play from the beginning."""
        self._moved_at = now
        if not self.playing and self.at >= self.reel.end:
            self.jump(self.reel.begin, now)
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
        reel = self.reel
        reel.seek(reel.after_commits(commits))
        place = reel.position - 1
        self.at = reel.history.times[place] if place >= 0 else reel.begin

    def jump(self, t: float, now: float) -> None:
        """Show the moment `t`, or the nearest that there is; what is not read in yet
        once it is."""
        wanted = max(self.reel.begin, min(t, self.reel.end))
        self._moved_at = now
        if wanted > self.reel.read_until:
            self.goal = wanted
            return
        self.at, self.goal = wanted, None
        self.reel.seek(self.reel.position_at(self.at))

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
        reel, gone = self.reel, max(0.0, now - self._moved_at)
        self._moved_at = now
        wanted = reel.end if self.speed == inf else self.at + gone * self.speed
        wanted = min(wanted, reel.read_until)
        position = reel.position_at(wanted)
        most = reel.position + AT_ONCE
        self.lags = position > most
        if self.lags:
            position = reel.whole(most)
            wanted = reel.history.times[position - 1]
        reel.seek(max(position, reel.position))
        moved = wanted > self.at
        self.at = min(max(wanted, self.at), reel.end)
        self.playing = self.at < reel.end
        return moved

    @property
    def hurries(self) -> bool:
        """Whether it goes as fast as it can and has not arrived."""
        return self.playing and (self.lags or self.speed == inf)

    def snapshot(self) -> Snapshot:
        """What is shown now."""
        return self.reel.snapshot(self.at, self.speed, playing=self.playing)


class ReplayHandle:
    """Shows a session as of any moment of its journal, and plays it."""

    role: Role = "replay"
    read_only = True
    unanswered = False

    def __init__(
        self,
        reel: Reel,
        clock: Clock,
        *,
        speed: float = 60.0,
        playing: bool = True,
        log_fault: Callable[[str], None] = lambda _text: None,
        rest: Iterable[Recorded] = (),
    ) -> None:
        """Begin at the journal's beginning.

        Args:
            reel: what was read in, at least the first commit.
            clock: of this process; only its monotonic side is asked.
            speed: seconds of the session in one second; inf: as fast as it goes.
            playing: whether it plays at once.
            log_fault: keeps a traceback.
            rest: what is to be read in yet.
        """
        self._clock = clock
        self._reading = ReadingIn(reel, rest)
        self._log_fault = log_fault
        self._playing = Playing(
            reel, speed=speed, playing=playing, now=clock.monotonic()
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
        history = self._playing.reel.history
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
        self._wishes.put(lambda: self._playing.toggle(self._clock.monotonic()))

    def pace(self, factor: float) -> None:
        """Play `factor` times as fast as now."""
        self._wishes.put(lambda: self._playing.pace(factor, self._clock.monotonic()))

    def step(self, commits: int) -> None:
        """Go on by so many commits, and stand still."""
        self._wishes.put(lambda: self._playing.step(commits))

    def jump(self, t: float) -> None:
        """Show the moment `t`."""
        self._wishes.put(lambda: self._playing.jump(t, self._clock.monotonic()))

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
        reading = self._reading.going_on
        if reading:
            self._reading.go_on()
        moved = self._playing.tick(self._clock.monotonic())
        if wishes or moved or reading:
            arrived = not (self._playing.hurries or self._reading.going_on)
            self._show(at_once=bool(wishes) or arrived)
        return True

    def _made(self) -> Snapshot:
        """What is shown now, and what is still to come."""
        shown, reading = self._playing.snapshot(), self._reading
        if not (reading.words or reading.problem):
            return shown
        doing, holding = reading.words, reading.problem
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
        playing = self._playing
        patience = TICK_SECONDS if playing.playing else None
        if self._reading.going_on:
            patience = BREATH_SECONDS
        found = []
        try:
            found.append(self._wishes.get(not playing.hurries, patience))
            while True:
                found.append(self._wishes.get_nowait())
        except queue.Empty:
            return found
