"""The handle of an engine in this process, from an opened plan, whose first submit
makes the session, on; and that on a session of another process, by its journal and
inbox."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from autoexp_tui.engine.handle import (
    EngineHandle,
    Identify,
    Listener,
    ReadEarlier,
    run_aside,
)
from autoexp_tui.engine.ports import Clock, SessionWatcher
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.model.commands import LEAVING, Command, Order, StopEngine, Submit
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.event import apply
from autoexp_tui.model.snapshot import EngineView, Role, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import JobRecord

if TYPE_CHECKING:
    from autoexp_tui.engine.loop import Engine
    from autoexp_tui.model.outputs import DoneWork

HELD_SECONDS = 5.0
"""How long who leaves waits for a disk that refuses to be written."""

StartEngine = Callable[[Plan, Listener], "Engine"]
"""Creates the session on disk and an engine that has begun; may raise AutoexpError."""


class LiveHandle(EngineHandle):
    """Commands in, snapshots out, over an engine thread of this process."""

    role: Role = "plan"
    read_only = False

    def __init__(
        self,
        *,
        plan: Plan | None = None,
        start: StartEngine | None = None,
        slots: int = 0,
        gpus: int | None = None,
        done: Mapping[str, DoneWork] = MappingProxyType({}),
        log_fault: Callable[[str], None] = lambda _text: None,
        earlier: ReadEarlier | None = None,
        identify: Identify | None = None,
    ) -> None:
        super().__init__(earlier, identify)
        self.engine: Engine | None = None
        self.problem: AutoexpError | None = None
        """Why the session could not be made; None while all is well."""
        self._start = start
        self._plan = plan
        self._log_fault = log_fault
        self._lock = threading.Lock()
        self._waiting: list[Order] = []
        self._unanswered: set[str] = set()
        """Ids of orders that no snapshot tells of yet."""
        self._thread: threading.Thread | None = None
        self._starter: threading.Thread | None = None
        """Makes the session, or has made it."""
        if plan is not None:
            self._snapshot = make_plan_snapshot(plan, slots=slots, gpus=gpus, done=done)

    @property
    def is_unanswered(self) -> bool:
        if self.role == "plan" or not self._unanswered:
            return False
        return not self.snapshot().engine.stopped

    def _give(self, order: Order) -> bool:
        """The first submit brings the session into being."""
        submit = order.command if isinstance(order.command, Submit) else None
        plan = self._plan if self.engine is None else None
        if submit and plan and submit.plan_id not in ("", plan.plan_id):
            # It was shown before this plan was made.
            self._show_problem("not submitted: it was planned again meanwhile")
            return True
        with self._lock:
            self._unanswered.add(order.command_id)
            if self.engine is not None:
                self.engine.order(order)
                return True
            self._waiting.append(order)
            if submit and self._starter is None:
                self.role = "live"  # no plan any more: it goes on
                self._starter = run_aside(self._start_session, "engine-start")
        return True

    def wait_begun(self) -> None:
        """Wait for the session that the first submit makes; raises AutoexpError, why it
        could not be made."""
        if (starter := self._starter) is not None:
            starter.join()
        if self.problem is not None:
            raise self.problem

    def close(self, *, hand_over: bool = False) -> None:
        if (starter := self._starter) is not None:
            starter.join()
        if self.engine is None or self.wait(0.0):
            return
        self.send(StopEngine(hand_over=hand_over), by=LEAVING)
        while not self.wait(HELD_SECONDS):
            if self.snapshot().engine.holding:
                self.engine.stop_unwritten()

    def attach(
        self, engine: Engine, begin: Callable[[], object] = lambda: None
    ) -> None:
        """Run an engine that has begun, on its own thread; what `begin` sends comes
        before all that it decides."""
        with self._lock:
            self.engine = engine
            self.role = "live"
            waiting, self._waiting = self._waiting, []
        for order in waiting:
            engine.order(order)
        begin()
        self._thread = run_aside(partial(self._run, engine), "engine")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the engine's thread to end; False when it still runs."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def publish(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if self.engine is not None and self._unanswered:
            answered = self.engine.state.commands  # carried out or refused: told by now
            with self._lock:
                self._unanswered -= {one for one in self._unanswered if one in answered}
        super().publish(snapshot)

    def _start_session(self) -> None:
        assert self._plan is not None
        assert self._start is not None
        try:
            engine = self._start(self._plan, self.publish)
        except AutoexpError as error:
            self.problem = error
            self._give_up(str(error))
        except Exception as bug:  # noqa: BLE001 - a thread's last frame: say so
            self._log_fault(traceback.format_exc())
            self._give_up(f"{type(bug).__name__}: {bug}")
        else:
            self.attach(engine)

    def _give_up(self, problem: str) -> None:
        """The session could not be made: show why, and let the person try again."""
        with self._lock:
            self._starter = None
            self.role = "plan"
            self._waiting.clear()
            self._unanswered.clear()
        self._show_problem(problem)

    def _show_problem(self, problem: str) -> None:
        snapshot = self.snapshot()
        view = replace(snapshot.engine, holding=problem)
        self.publish(replace(snapshot, engine=view))

    def _run(self, engine: Engine) -> None:
        try:
            engine.run()
        except Exception as bug:  # noqa: BLE001 - a thread's last frame: say so
            self._log_fault(traceback.format_exc())
            self._show_problem(f"the engine stopped: {type(bug).__name__}: {bug}")


def make_plan_snapshot(
    plan: Plan,
    *,
    slots: int = 0,
    gpus: int | None = None,
    done: Mapping[str, DoneWork] = MappingProxyType({}),
) -> Snapshot:
    """A plan as nobody has submitted it; `done`: work of an earlier session."""
    jobs = tuple(
        JobRecord(
            spec=spec,
            since=plan.created_at,
            start=(None,) * len(spec.start_conditions),
            cancel=(None,) * len(spec.cancel_conditions),
            done=done.get(spec.name),
        )
        for spec in sorted(plan.jobs, key=lambda spec: spec.index)
    )
    return Snapshot(
        t=plan.created_at,
        name=plan.name,
        plan=plan,
        engine=EngineView(
            role="plan", executor=plan.executor.class_name, slots=slots, gpus=gpus
        ),
        jobs=jobs,
        live=(None,) * len(jobs),
    )


POLL_SECONDS = 0.5
"""Between two looks at the session's journal."""
INBOX_SECONDS = 10.0
"""How long who leaves waits for a command that is being written into the inbox."""


class ViewerHandle(EngineHandle):
    """Watches a session and commands it through its inbox."""

    role: Role = "viewer"
    read_only = False

    def __init__(
        self,
        watcher: SessionWatcher,
        clock: Clock,
        *,
        read_only: bool = False,
        log_fault: Callable[[str], None] = lambda _text: None,
        earlier: ReadEarlier | None = None,
        directory: str = "",
        identify: Identify | None = None,
        user: str = "",
    ) -> None:
        """`user`: the other user whose it is; raises AutoexpError."""
        super().__init__(earlier, identify)
        self.read_only = read_only
        self._directory = directory
        self._user = user
        self._watcher = watcher
        self._clock = clock
        self._log_fault = log_fault
        self._load()
        self._stop = threading.Event()
        self._problem = ""
        self._writers: list[threading.Thread] = []
        """Of commands on their way into the inbox."""
        self._detail = watcher.live()
        self._snapshot: Snapshot = self._build_snapshot()
        self._thread = run_aside(self._run, "viewer")

    def _give(self, order: Order) -> bool:
        """Leave it in the inbox, off the caller's thread."""

        def leave() -> None:
            try:
                self._watcher.leave(order)
            except AutoexpError as error:
                self._show_problem(f"the command was not sent: {error}")

        known = [one for one in self._writers if one.is_alive()]
        self._writers = [*known, run_aside(leave, "order")]
        return True

    def send_now(
        self,
        command: Command,
        *,
        by: str,
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Leave a command in the inbox at once; raises EnvironmentFailed."""
        order = self._make_order(command, by, expected)
        self._watcher.leave(order)
        return order.command_id

    def close(self, *, hand_over: bool = False) -> None:
        """Stop watching, with all that was sent in the inbox; the session goes on."""
        del hand_over  # it runs no engine
        for thread in self._writers:
            thread.join(INBOX_SECONDS)
        self._stop.set()
        self._thread.join(2 * POLL_SECONDS)
        self._watcher.close()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            try:
                self._look()
            except (AutoexpError, OSError) as problem:
                self._show_problem(str(problem))
            except Exception:  # noqa: BLE001 - a thread's last frame: keep and show
                self._log_fault(traceback.format_exc())
                self._show_problem("this view failed; see the log")

    def _load(self) -> None:
        self._builder = SnapshotBuilder()
        self._state, newest = self._watcher.load()
        self._builder.note(newest)

    def _look(self) -> None:
        self._watcher.beat()
        records = self._watcher.news()
        detail = self._watcher.live()
        if records is None:
            self._load()
        else:
            for record in records:
                apply(self._state, record)
            self._builder.note(records)
        moved = records is None or bool(records) or detail is not self._detail
        self._detail, shown = detail, self._snapshot.engine
        owner = (self._watcher.owner_alive(), self._watcher.halted_pid())
        if moved or owner != (shown.owner_alive, shown.halted_pid):
            self.publish(self._build_snapshot())

    def _show_problem(self, problem: str) -> None:
        self._problem = problem
        self.publish(self._build_snapshot())

    def _build_snapshot(self) -> Snapshot:
        detail, state = self._detail, self._state
        view = detail.engine if detail else EngineView(role="viewer")
        view = replace(
            view,
            role="viewer",
            epoch=state.epoch,
            host=state.engine_host,
            pid=state.engine_pid,
            stopped=state.engine_stopped,
            owner_alive=self._watcher.owner_alive(),
            halted_pid=self._watcher.halted_pid(),
            directory=self._directory or view.directory,
            user=self._user,
            holding=self._problem or view.holding,
        )
        live = detail.jobs if detail else {}
        snapshot = self._builder.build_snapshot(state, view, live)
        return replace(snapshot, t=float(state.present(self._clock.utc())))
