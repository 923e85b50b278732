"""A handle that is still being opened: the screen is up before the plan is read.

Planning and folding a journal take longer than a first paint may; they run on a thread
of their own while an empty snapshot says what is being done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autoexp_tui.model.snapshot import EngineView, Role, Snapshot

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle, Player
    from autoexp_tui.engine.live import Listener
    from autoexp_tui.events.events import Recorded
    from autoexp_tui.model.commands import Command


class DeferredHandle:
    """Stands for a handle until that is there, then passes everything on."""

    def __init__(
        self,
        open_handle: Callable[[], EngineHandle],
        *,
        name: str,
        doing: str,
        read_only: bool = False,
        on_failure: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        self._open = open_handle
        self._on_failure = on_failure
        self._read_only = read_only
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()
        self._handle: EngineHandle | None = None
        self._snapshot = empty_snapshot(name, doing)
        self._opening = False
        """Whether something is being opened, in place of what was opened before too."""
        self._thread: threading.Thread | None = None

    @property
    def role(self) -> Role:
        """The opened handle's role; `plan` until then."""
        return self._handle.role if self._handle else "plan"

    @property
    def read_only(self) -> bool:
        """As it was asked for, or as what was opened turned out to be."""
        return self._handle.read_only if self._handle else self._read_only

    @property
    def unanswered(self) -> bool:
        """Of what was opened; before, nothing is taken."""
        return self._handle is not None and self._handle.unanswered

    @property
    def opened(self) -> EngineHandle | None:
        """What was opened; None while it is under way, or after it failed."""
        return self._handle

    @property
    def player(self) -> Player | None:
        """Of the replay that was opened; None before, and for what is none."""
        return self._handle.player if self._handle else None

    def start(self) -> None:
        """Begin to open, off the caller's thread; again, after it failed.

        What was opened and is a plan that nobody submitted is opened anew: the plan
        of before stands until then. Nothing happens while one is being opened.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        self._opening = True
        self._thread = threading.Thread(target=self._run, name="open", daemon=True)
        self._thread.start()
        self._tell_again()

    def snapshot(self) -> Snapshot:
        """The newest state; empty while opening.

        Of a plan that is being made anew it says so: `doing`.
        """
        if self._handle is None:
            return self._snapshot
        snapshot = self._handle.snapshot()
        if self._opening and snapshot.engine.role == "plan":
            doing = self._snapshot.engine.doing
            return replace(snapshot, engine=replace(snapshot.engine, doing=doing))
        return snapshot

    def _tell_again(self) -> None:
        """That what is shown is being made anew, or is not any more."""
        if self._handle is not None:
            for listener in self._listeners:
                listener(self.snapshot())

    def earlier(self, seq: int, count: int) -> Sequence[Recorded]:
        """Older records of what was opened; none before."""
        return self._handle.earlier(seq, count) if self._handle else ()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` on each new snapshot."""
        with self._lock:
            self._listeners.append(listener)
            handle = self._handle
        if handle is not None:
            handle.subscribe(listener)

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Pass a command on; before the handle is there, it is not taken."""
        with self._lock:  # what is submitted is not replaced by another plan meanwhile
            if self._handle is None:
                return ""
            return self._handle.send(command, by=by, expected=expected)

    def look_at(self, jobs: Sequence[str]) -> None:
        """Pass on what is looked at."""
        if self._handle is not None:
            self._handle.look_at(jobs)

    def close(self, *, hand_over: bool = False) -> None:
        """Close what was opened."""
        if self._handle is not None:
            self._handle.close(hand_over=hand_over)

    def _run(self) -> None:
        try:
            handle = self._open()
        except Exception as error:  # noqa: BLE001 - handed to whoever asked to open
            self._opening = False
            self._tell_again()
            self._on_failure(error)
            return
        with self._lock:
            self._opening = False
            before = self._handle
            stale = before is not None and before.role != "plan"
            if not stale:
                self._handle = handle
            listeners = tuple(self._listeners)
        if stale:  # it was submitted meanwhile: that goes on
            handle.close()
            return
        for listener in listeners:
            handle.subscribe(listener)
            listener(handle.snapshot())
        if before is not None:
            before.close()


def empty_snapshot(name: str, doing: str) -> Snapshot:
    """No jobs yet, and a word for why."""
    return Snapshot(
        seq=0,
        t=0.0,
        session="",
        name=name,
        plan=None,
        started_at=0.0,
        paused=None,
        engine=EngineView(role="plan", doing=doing),
        jobs=(),
        live=(),
    )
