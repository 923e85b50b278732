"""What every screen is given: the session's model, its look, keys and options.

Daemon threads for what takes its time: a hung disk never holds the keys.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.model.errors import AutoexpError

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget

    from autoexp_tui.cockpit.keymap import Keymap
    from autoexp_tui.cockpit.render.plan_findings import PlanChanges
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.forecast import Looks
    from autoexp_tui.cockpit.themes import Skin
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.commands import Grow
    from autoexp_tui.model.outputs import CheckpointPlace
    from autoexp_tui.model.snapshot import Live, SessionBrief, Snapshot
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.planning.growth import Choices, Growth
    from autoexp_tui.planning.job_details import JobDetails


GrowthOrder: TypeAlias = "tuple[Grow, Mapping[str, int]]"
"""The command, and the attempts that were seen of jobs that it leaves out."""
Result = TypeVar("Result")


class LeaveWay(StrEnum):
    """How the person left."""

    LEFT = "left"
    """As a person wanted: what runs goes on without a screen."""
    BACK = "back"
    """To the list of sessions that it was opened from; nothing runs here."""
    LOST = "lost"
    """The terminal went away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CockpitOptions:
    """What a person, or their terminal, wants of the screen."""

    read_only: bool = False
    ascii: bool | None = None
    """None: by the locale's encoding."""
    no_color: bool | None = None
    """None: by NO_COLOR."""
    theme: str = "dark"
    """A shipped theme's name, or a path to one's own."""
    slow: bool = False
    """Repaint every two seconds instead of every second."""
    notify: bool = True
    """Bell and OSC 9, and the terminal's title."""
    keymap: Keymap | None = None
    come_back: str = ""
    """How to return after leaving, as a sentence; `ID` stands for the session's."""
    away_since: float | None = None
    """UTC at which the person left last; None: no digest."""
    save_directory: str = "."
    """Where saved logs go."""
    replay: bool = False
    """Whether the handle plays a journal: a time bar, its keys, and its time."""
    replan: Callable[[], None] | None = None
    """Plans again from what was saved; at once back. None: there is no config."""
    plan_growth: Callable[[Snapshot, Sequence[str]], Growth] | None = None
    """Plans the session's config again, with further overrides, and compares; slow,
    raises AutoexpError. None: nothing can join here."""
    store_growth: Callable[[Snapshot, Growth, Choices], GrowthOrder] | None = None
    """Keeps the plan that joins, for the engine to find; slow, raises AutoexpError."""
    changes: Callable[[], PlanChanges | None] | None = None
    """What is new in the plan shown since the last one of its config. None: there is no
    config."""
    details: Callable[[Plan, JobSpec], JobDetails] | None = None
    """Reads how a job was made; slow. None: nothing but the plan is at hand."""
    read_columns: Callable[[str], Sequence[str]] | None = None
    """The table's columns that were kept for a config; slow, raises AutoexpError. None:
    none are kept."""
    keep_columns: Callable[[str, Sequence[str]], None] | None = None
    """Keeps them; slow, raises AutoexpError."""
    read_keymap: Callable[[], Keymap] | None = None
    """The keys once there is a plan, with commands of its config. None: as before."""
    list_sessions: Callable[[], Sequence[SessionBrief]] | None = None
    """Lists the sessions that there are; slow. None: only this one is known."""
    view_session: Callable[[str], EngineHandle] | None = None
    """Watches a session, by its id, and commands it nothing; slow, raises
    AutoexpError. None: nothing can be compared."""
    read_curves: Callable[[str, Sequence[str]], Mapping[str, Live]] | None = None
    """Reads what the logs of some jobs of a session, by its directory, said; slow,
    raises AutoexpError. None: nobody reads them."""
    beside: Sequence[str] | None = None
    """Ids of sessions to compare with from the beginning: the results come first, and
    esc in them leads back to the list of sessions. None: it was not opened there."""
    checkpoints: Callable[[Sequence[CheckpointPlace]], Looks] | None = None
    """Looks for the checkpoints of jobs that run; slow. None: nobody looks."""


class Clock(Protocol):
    """What `engine.ports.Clock` offers too; screens do not import that."""

    def utc(self) -> float: ...

    def monotonic(self) -> float: ...


class WallClock:
    """The machine's own."""

    utc = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


KEEP: Final = math.inf
"""How long a notice stands that stays until a key is pressed."""


@dataclass(slots=True, kw_only=True)
class ScreenContext:
    """What every screen has, outside of a session too."""

    skin: Skin
    """Another one once a person takes another theme."""
    clock: Clock


@dataclass(slots=True, kw_only=True)
class CockpitContext(ScreenContext):
    """What screens, dialogs and actions share; the app makes it once."""

    handle: EngineHandle
    model: SessionModel
    options: CockpitOptions
    keymap: Keymap
    background: Background
    """For reads of files: a disk that hangs holds these, and nothing else."""

    @property
    def is_read_only(self) -> bool:
        return self.options.read_only or self.handle.read_only

    @property
    def parts(self) -> frozenset[str]:
        """The parts of the session, by the names of their policies."""
        return frozenset(self.model.session.snapshot.parts)

    @property
    def is_replay(self) -> bool:
        """Whether what is shown is a journal that is played."""
        return self.options.replay

    def find_utc(self) -> float:
        """The machine's time; in a replay the moment that it shows."""
        snapshot = self.model.session.snapshot
        if self.is_replay and snapshot.playback is not None:
            return snapshot.playback.at + snapshot.wall_ahead
        return self.clock.utc()

    def find_present(self) -> float:
        """The present by the session's own clock, UTC."""
        return self.model.session.present(self.find_utc())

    async def fetch_or_tell(
        self, teller: Widget | App[Any], key: str, work: Callable[[], Result], told: str
    ) -> Result | None:
        """What `work` returns; None where it fails, and why is said behind `told`."""
        try:
            return await self.background.fetch(key, work)
        except (AutoexpError, OSError) as problem:
            reason = outside(getattr(problem, "strerror", None) or problem, 2000)
            teller.notify(f"{told}: {reason}", severity="warning", timeout=KEEP)
        return None

    def describe_return(self) -> str:
        """How to come back after leaving, with the session's id once there is one."""
        session = self.model.session.snapshot.session
        return self.options.come_back.replace("ID", session or "ID")


class Background:
    """Works on one thing after the other, on a thread that may be left behind."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: OrderedDict[str, tuple[Callable[[], Any], Future[Any]]]
        self._waiting = OrderedDict()
        self._wake = threading.Condition()
        self._has_thread = False
        self._asked = 0

    async def fetch(self, key: str, work: Callable[[], Result]) -> Result:
        """What `work` returns, or raises, when its turn comes; cancelled where it
        still waits once a newer call has its key."""
        answer: Future[Result] = Future()
        with self._wake:
            if not self._has_thread:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._has_thread = True
            older = self._waiting.get(key)
            self._waiting[key] = (work, answer)
            self._wake.notify()
        if older is not None:
            older[1].cancel()
        self._asked += 1
        try:
            return await asyncio.wrap_future(answer)
        finally:
            self._asked -= 1

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not self._asked

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting:
                    self._wake.wait()
                work, answer = self._waiting.popitem(last=False)[1]
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work())
                except Exception as error:  # noqa: BLE001 - delivered, never swallowed
                    answer.set_exception(error)
