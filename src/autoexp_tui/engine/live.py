"""The handle of an engine in this process, from an opened plan to a running session. A
plan touches no disk; its first submit makes the session, on a thread of its own."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from autoexp_tui.engine.handle import (
    EngineHandle,
    Identify,
    Listener,
    ReadEarlier,
)
from autoexp_tui.model.commands import LEAVING, Command, Order, StopEngine, Submit
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.snapshot import EngineView, Role, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Why, why

if TYPE_CHECKING:
    from autoexp_tui.engine.loop import Engine
    from autoexp_tui.model.outputs import DoneWork

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
        """None until there is one."""
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
        self._starting = False
        self._starter: threading.Thread | None = None
        if plan is not None:
            self._snapshot = make_plan_snapshot(plan, slots=slots, gpus=gpus, done=done)

    @property
    def is_unanswered(self) -> bool:
        if self.role == "plan" or not self._unanswered:
            return False
        return not self.snapshot().engine.stopped

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Queue a command; the first submit brings the session into being."""
        order = self._make_order(command, by, expected)
        if (
            self.engine is None
            and self._plan is not None
            and isinstance(command, Submit)
            and command.plan_id not in ("", self._plan.plan_id)
        ):  # it was shown before this plan was made
            self._refuse(order, why("other_plan"))
            return order.command_id
        with self._lock:
            self._unanswered.add(order.command_id)
            if self.engine is not None:
                self.engine.order(order)
                return order.command_id
            self._waiting.append(order)
            begin = isinstance(command, Submit) and not self._starting
            self._starting = self._starting or begin
            self.role = "live" if begin else self.role  # no plan any more: it goes on
        if begin:
            self._starter = threading.Thread(
                target=self._start_session, name="engine-start", daemon=True
            )
            self._starter.start()
        return order.command_id

    def _refuse(self, order: Order, reason: Why) -> None:
        """Tell of a refusal where there is no journal yet."""
        from autoexp_tui.events.events import CommandRefused
        from autoexp_tui.model.event import Recorded

        snapshot = self.snapshot()
        refused = Recorded(
            seq=snapshot.seq,
            epoch=0,
            t=snapshot.t,
            event_id=order.command_id,
            command_id=order.command_id,
            event=CommandRefused(why=reason),
        )
        self.publish(replace(snapshot, events=(*snapshot.events, refused)))

    def close(self, *, hand_over: bool = False) -> None:
        """Stop the engine at a commit boundary and wait for it."""
        if self._starter is not None:
            self._starter.join()
        if self.engine is None or self.wait(0.0):
            return
        self.send(StopEngine(hand_over=hand_over), by=LEAVING)
        self.wait()

    def attach(self, engine: Engine) -> None:
        """Run an engine that has begun, on its own thread."""
        with self._lock:
            self.engine = engine
            self.role = "live"
            waiting, self._waiting = self._waiting, []
        for order in waiting:
            engine.order(order)
        self._thread = threading.Thread(
            target=self._run, args=(engine,), name="engine", daemon=True
        )
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the engine's thread to end; False when it still runs."""
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def publish(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if self.engine is not None and self._unanswered:
            answered = self.engine.state.commands  # carried out or refused: told by now
            with self._lock:
                self._unanswered -= {one for one in self._unanswered if one in answered}
        super().publish(snapshot)

    def _start_session(self) -> None:
        if self._plan is None or self._start is None:
            return
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
            self._starting = False
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
        seq=0,
        t=plan.created_at,
        session="",
        name=plan.name,
        plan=plan,
        started_at=0.0,
        paused=None,
        engine=EngineView(
            role="plan", executor=plan.executor.class_name, slots=slots, gpus=gpus
        ),
        jobs=jobs,
        live=(None,) * len(jobs),
    )
