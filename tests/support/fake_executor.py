"""A cluster in memory: scripted by data, on a manual clock, faulty on request.

Deterministic, without threads, and everything it knows can be looked at. It outlives
the engines that use it, as a real cluster does, and keeps what the wrapper's records
keep: claims (so that no attempt is begun by two), begun runs, ends. It writes no files
of its own; what a scripted run writes goes through a callback.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from autoexp_tui.engine.executor_port import (
    Accepted,
    AdoptAnswer,
    BeginRecord,
    CancelAnswer,
    ExitRecord,
    Found,
    PollAnswer,
    Submission,
    SubmitAnswer,
    Task,
    TaskPhase,
    TaskReport,
    Uncertain,
)
from autoexp_tui.engine.ports import Clock
from autoexp_tui.executors.supervisors import HeldTimes
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.states import Cause
from tests.support.fake_script import (
    Ends,
    Fault,
    RunScript,
    Script,
    Timeline,
    Write,
    by_job,
)

SIGTERM, SIGKILL = 15, 9
LOOKS: Final = 2.5
"""Polls that it takes at the least before a task is lost."""
GRACE_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 2.0
"""For which it is looked in vain for what is then absent."""


@dataclass(slots=True, kw_only=True)
class FakeRun:
    """One begun run; None: not yet."""

    script: RunScript
    begin: BeginRecord
    over: bool = False
    exit: ExitRecord | None = None
    asked: bool = False
    """It was asked to end."""
    written: int = 0
    """Bytes in its log."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """One task as the queue took it."""

    task: Task
    token: str
    executor_id: str
    submitted_utc: float
    scripts: Sequence[RunScript]
    runs: list[FakeRun] = field(default_factory=list)
    over: bool = False
    """It left the queue for good."""
    cause: Cause | None = None

    @property
    def running(self) -> bool:
        return bool(self.runs) and not self.runs[-1].over

    @property
    def script(self) -> RunScript:
        return self.scripts[min(len(self.runs), len(self.scripts) - 1)]

    def report(self) -> TaskReport:
        run = self.runs[-1] if self.runs else None
        phase = TaskPhase.RUNNING if self.running else TaskPhase.QUEUED
        phase = TaskPhase.ENDED if self.over else phase
        return TaskReport(
            job=self.task.job,
            attempt=self.task.attempt,
            phase=phase,
            executor_id=self.executor_id,
            began=run.begin if run else None,
            exited=run.exit if run and self.over else None,
            cause=self.cause,
            requeued=run is not None and phase is TaskPhase.QUEUED,
            reason="Resources" if phase is TaskPhase.QUEUED else "",
            node=run.begin.host if run else "",
        )


@dataclass(frozen=True, slots=True)
class FakeStart:
    """A command was started: the thing that must not happen twice."""

    task: TaskId
    run: int
    executor_id: str


class FakeExecutor:
    """The executor's port, in memory. `settle()` lets the clock's time happen to it."""

    name = "fake"
    poll_seconds = 1.0
    lost_after_seconds = 5.0

    def __init__(
        self,
        clock: Clock,
        script: Script | None = None,
        *,
        slots: int = 0,
        write: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.slots = slots
        self.array_size = 1
        self.faults: list[Fault] = []
        """Of the next submissions."""
        self.copies: list[Copy] = []
        self.claims: dict[TaskId, Copy] = {}
        self.begun: list[FakeStart] = []
        self.files: dict[str, bytes] = {}
        """What runs wrote, unless a callback took it."""
        self._cancelled: set[TaskId] = set()
        self._of_task: dict[TaskId, list[Copy]] = {}
        self._running = 0
        self._clock = clock
        self._script = script or by_job({})
        self._write = write or self._keep
        self._ready: deque[Copy] = deque()
        self._missed: dict[str, float] = {}
        self._gone = HeldTimes(self.lost_after_seconds / LOOKS)
        self._time = Timeline(clock)

    # ------------------------------------------------------------------- the port
    def submit(self, submission: Submission) -> SubmitAnswer:
        """Take the tasks, unless a fault says otherwise."""
        self.settle()
        fault = self.faults.pop(0) if self.faults else None
        self._missed.pop(submission.token, None)  # it is looked for anew
        sent = f"fake submit {submission.token}"
        if fault is Fault.REQUEST_LOST:
            return Uncertain(message="timed out on send", sent=sent)
        taken = self._take(submission)
        self.settle()
        if fault is Fault.ANSWER_LOST:
            return Uncertain(message="timed out on receive", sent=sent)
        ids = tuple(copy.executor_id for copy in taken)
        at = taken[0].submitted_utc if taken else self._clock.utc()
        return Accepted(executor_ids=ids, submitted_at=at, sent=sent)

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        """End the tasks, also those that arrive only later."""
        self.settle()
        for task in tasks:
            self._cancelled.add(task.id)
            for copy in self._of_task.get(task.id, ()):
                self._cancel(copy)
        self.settle()
        return CancelAnswer(ok=True, sent="fake cancel")

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        self.settle()
        return PollAnswer(reports=tuple(map(self._report, tasks)))

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        """Look by token; absent after a while of looking in vain."""
        self.settle()
        looks = [(sub.token, self._find(sub)) for sub in submissions]
        now, wait = self._time.now, SETTLE_SECONDS
        missing = [token for token, found in looks if not found]
        absent = [t for t in missing if now - self._missed.setdefault(t, now) >= wait]
        found = tuple(found for _, found in looks if found)
        return AdoptAnswer(found=found, absent=tuple(absent))

    # -------------------------------------------------- as a test looks and breaks
    def settle(self) -> None:
        """Let everything happen that is due by now, in order."""
        self._time.settle()

    def kill_supervisor(self, task: TaskId) -> None:
        """SIGKILL to a running task's wrapper: its end leaves no record."""
        self.settle()
        copy = self.claims[task]
        if copy.running:
            self._end(copy, copy.runs[-1], ends="vanish")

    def living(self) -> tuple[TaskId, ...]:
        self.settle()
        return tuple(copy.task.id for copy in self.copies if copy.running)

    def problems(self) -> tuple[str, ...]:
        """What must never be: an attempt begun by two, or twice at a time."""
        self.settle()
        owners: dict[TaskId, set[str]] = {}
        for begun in self.begun:
            owners.setdefault(begun.task, set()).add(begun.executor_id)
        found = [f"{t} was begun by {ids}" for t, ids in owners.items() if len(ids) > 1]
        if len({(begun.task, begun.run) for begun in self.begun}) < len(self.begun):
            found.append("a run was begun twice")
        return tuple(found)

    # ------------------------------------------------------------ what happens when
    def _take(self, submission: Submission) -> list[Copy]:
        number, taken = len(self.copies) + 1, []
        for index, task in enumerate(submission.tasks):
            copy = Copy(
                task=task,
                token=submission.token,
                executor_id=f"{number}.{index}",
                submitted_utc=self._time.utc(),
                scripts=self._script(task),
            )
            self.copies.append(copy)
            self._of_task.setdefault(task.id, []).append(copy)
            taken.append(copy)
            self._schedule_begin(copy)
        return taken

    def _schedule_begin(self, copy: Copy) -> None:
        def ready() -> None:
            self._ready.append(copy)
            self._fill_slots()

        self._time.at(copy.script.begin_delay, ready)

    def _fill_slots(self) -> None:
        while self._ready and (not self.slots or self._running < self.slots):
            self._begin(self._ready.popleft())

    def _begin(self, copy: Copy) -> None:
        if copy.over:
            return
        if self.claims.setdefault(copy.task.id, copy) is not copy:
            copy.over = True  # it lost the claim and does nothing
        elif copy.task.id in self._cancelled:
            self._drop_cancelled(copy)
        else:
            self._run(copy)

    def _drop_cancelled(self, copy: Copy) -> None:
        copy.over, copy.cause = True, Cause.USER

    def _run(self, copy: Copy) -> None:
        script, number = copy.script, len(copy.runs)
        begin = BeginRecord(
            run=number,
            began_at=self._time.utc(),
            executor_id=copy.executor_id,
            host=script.node,
            pid=1000 + len(self.begun),
            log_path=f"{copy.task.log_dir}/slurm-{copy.executor_id}.out",
            log_start=sum(run.written for run in copy.runs),
        )
        run = FakeRun(script=script, begin=begin)
        copy.runs.append(run)
        self._running += 1
        self.begun.append(FakeStart(copy.task.id, number, copy.executor_id))
        for write in script.writes:
            self._time.at(write.at, partial(self._do_write, run, write))
        limit = copy.task.resources.time_limit_seconds
        if limit is not None and limit < script.seconds:
            end = partial(self._end, signal=SIGTERM, cause=Cause.TIMEOUT)
            self._time.at(limit, partial(end, copy, run))
            return
        code = script.exit_code if script.signal is None else None
        end = partial(self._end, ends=script.ends, exit_code=code, cause=script.cause)
        self._time.at(script.seconds, partial(end, copy, run, signal=script.signal))

    def _do_write(self, run: FakeRun, write: Write) -> None:
        if not run.over:
            run.written += 0 if write.path else len(write.data)
            self._write(write.path or run.begin.log_path, write.data)

    def _keep(self, path: str, data: bytes) -> None:
        self.files[path] = self.files.get(path, b"") + data

    def _end(
        self,
        copy: Copy,
        run: FakeRun,
        *,
        ends: Ends = "exit",
        exit_code: int | None = None,
        signal: int | None = None,
        cause: Cause | None = None,
    ) -> None:
        if run.over:
            return
        run.over = True
        self._running -= 1
        if ends == "requeue" and copy.task.id not in self._cancelled:
            self._schedule_begin(copy)
        else:
            copy.over, copy.cause = True, cause
        if ends == "exit":
            run.exit = ExitRecord(
                run=run.begin.run,
                ended_at=self._time.utc(),
                exit_code=exit_code,
                signal=signal,
                asked=run.asked,
            )
        self._fill_slots()

    def _cancel(self, copy: Copy) -> None:
        if copy.over:
            return
        if not copy.running:
            self._drop_cancelled(copy)
            return
        run = copy.runs[-1]
        run.asked = True
        if run.script.ignores_term:
            end = partial(self._end, copy, run, signal=SIGKILL)
            self._time.at(GRACE_SECONDS, end)
        else:
            self._end(copy, run, signal=SIGTERM)

    # -------------------------------------------------------------- what is visible
    def _find(self, submission: Submission) -> Found | None:
        token = submission.token
        found = [self._find_copy(task.id) for task in submission.tasks]
        copies = [copy for copy in found if copy is not None and copy.token == token]
        if len(copies) < len(found):
            return None
        return Found(
            token=token,
            executor_ids=tuple(copy.executor_id for copy in copies),
            submitted_at=copies[0].submitted_utc if copies else self._clock.utc(),
        )

    def _report(self, task: Task) -> TaskReport:
        copy = self._find_copy(task.id)
        absent = TaskReport(job=task.job, attempt=task.attempt, phase=TaskPhase.ENDED)
        report = copy.report() if copy else absent
        ended = report.phase is TaskPhase.ENDED
        gone_for = self._gone.note(task.id, holds=ended, now=self._time.now)
        return replace(report, gone_for=gone_for) if ended else report

    def _find_copy(self, task: TaskId) -> Copy | None:
        """The copy that speaks for a task: the claim's holder, else the oldest."""
        holder = self.claims.get(task)
        if holder is not None:
            return holder
        copies = self._of_task.get(task, ())
        return next(iter([c for c in copies if not c.over] or copies), None)
