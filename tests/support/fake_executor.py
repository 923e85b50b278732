"""A cluster in memory: scripted by data, on a manual clock, faulty on request.

Deterministic, without threads, and everything it knows can be looked at. It outlives
the engines that use it, as a real cluster does, and keeps what the wrapper's records
keep: claims (so that no attempt is begun by two), begun runs, ends. It writes no files
of its own; what a scripted run writes goes through a callback.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from autoexp_tui.engine.executor_port import (
    Accepted,
    AdoptAnswer,
    BeginRecord,
    Busy,
    CancelAnswer,
    ExitRecord,
    Found,
    PollAnswer,
    Rejected,
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
    Call,
    Ends,
    Fault,
    Faults,
    PlannedFaults,
    RunScript,
    Script,
    Timeline,
    Write,
    by_job,
)
from tests.support.true_ends import STROKES, Ledger, Stroke

SIGTERM, SIGKILL = 15, 9
LOOKS: Final = 2.5
"""Polls that it takes at the least before a task is lost."""
LATE_SECONDS: Final = 5.0
"""After which a submission arrives that is late."""
GRACE_SECONDS: Final = 10.0
_AWAY: Final = "unable to contact the controller"


@dataclass(slots=True, kw_only=True)
class FakeRun:
    """One begun run. Times are monotonic; None: not yet."""

    script: RunScript
    begin: BeginRecord
    began_at: float
    ended_at: float | None = None
    exit: ExitRecord | None = None
    exit_seen_at: float = 0.0
    """When the exit record appears."""
    asked: bool = False
    """It was asked to end."""
    written: int = 0
    """Bytes in its log."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """One task as the queue took it. Times are monotonic; None: not yet."""

    task: Task
    token: str
    executor_id: str
    taken_at: float
    submitted_utc: float
    scripts: Sequence[RunScript]
    runs: list[FakeRun] = field(default_factory=list)
    over_at: float | None = None
    """When it left the queue for good."""
    cause: Cause | None = None

    @property
    def running(self) -> bool:
        return bool(self.runs) and self.runs[-1].ended_at is None

    @property
    def script(self) -> RunScript:
        return self.scripts[min(len(self.runs), len(self.scripts) - 1)]

    def report(self, seen: float) -> TaskReport:
        """What was to be seen of it at `seen`."""
        begun = [run for run in self.runs if run.began_at <= seen]
        run = begun[-1] if begun else None
        over = self.over_at is not None and self.over_at <= seen
        phase = TaskPhase.QUEUED
        if over:
            phase = TaskPhase.ENDED
        elif run is not None and (run.ended_at is None or run.ended_at > seen):
            phase = TaskPhase.RUNNING
        return TaskReport(
            job=self.task.job,
            attempt=self.task.attempt,
            phase=phase,
            executor_id=self.executor_id,
            began=run.begin if run else None,
            exited=run.exit if run and over and run.exit_seen_at <= seen else None,
            cause=self.cause if over else None,
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
        faults: Faults | None = None,
        write: Callable[[str, bytes], None] | None = None,
        lag_seconds: float = 0.0,
        settle_seconds: float = 2.0,
        array_size: int = 1,
    ) -> None:
        self.slots = slots
        self.array_size = array_size
        self.lag_seconds = lag_seconds
        """What polls and probes see is the world of so long ago."""
        self.copies: list[Copy] = []
        self.claims: dict[TaskId, Copy] = {}
        self.begun: list[FakeStart] = []
        self.cancelled: set[TaskId] = set()
        self.files: dict[str, bytes] = {}
        """What runs wrote, unless a callback took it."""
        self.calls: Counter[str] = Counter()
        self.ledger = Ledger()
        self._of_task: dict[TaskId, list[Copy]] = {}
        self._running = 0
        self._faults = faults or PlannedFaults()
        self._clock = clock
        self._script = script or by_job({})
        self._write = write or self._keep
        self._settle_seconds = settle_seconds
        self._ready: deque[Copy] = deque()
        self._tokens: dict[TaskId, str] = {}
        self._missed: dict[str, float] = {}
        self._gone = HeldTimes(self.lost_after_seconds / LOOKS)
        self._last_poll: dict[TaskId, TaskReport] = {}
        self._time = Timeline(clock)

    # ------------------------------------------------------------------- the port
    def submit(self, submission: Submission) -> SubmitAnswer:
        """Take the tasks, unless a fault says otherwise."""
        fault = self._start_call("submit")
        self._missed.pop(submission.token, None)  # it is looked for anew
        sent = f"fake submit {submission.token}"
        match fault:
            case Fault.BUSY:
                return Busy(message="the queue is full", sent=sent)
            case Fault.REJECTED:
                return Rejected(message="invalid partition", sent=sent)
            case Fault.ARRIVES_LATE:
                self._time.at(LATE_SECONDS, partial(self._take, submission))
        if fault in (Fault.REQUEST_LOST, Fault.ARRIVES_LATE):
            return Uncertain(message="timed out on send", sent=sent)
        taken = self._take(submission)
        if fault is Fault.TAKEN_TWICE:
            self._take(submission)
        self.settle()
        if fault is Fault.ANSWER_LOST:
            return Uncertain(message="timed out on receive", sent=sent)
        ids = tuple(copy.executor_id for copy in taken)
        at = taken[0].submitted_utc if taken else self._clock.utc()
        return Accepted(executor_ids=ids, submitted_at=at, sent=sent)

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        """End the tasks, also those that arrive only later."""
        if self._start_call("cancel") is Fault.CANCEL_LOST:
            return CancelAnswer(ok=False, sent="fake cancel", said="timed out")
        for task in tasks:
            self.cancelled.add(task.id)
            for copy in self._of_task.get(task.id, ()):
                self._cancel(copy)
        self.settle()
        return CancelAnswer(ok=True, sent="fake cancel")

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        fault = self._start_call("poll")
        if fault is Fault.POLL_FAILED:
            return PollAnswer(error=_AWAY)
        if fault is Fault.POLL_EMPTY:
            return PollAnswer()
        if fault is Fault.POLL_STALE:
            known = (self._last_poll.get(task.id) for task in tasks)
            return PollAnswer(reports=tuple(r for r in known if r))
        reports = tuple(self._report(task) for task in tasks)
        if fault is Fault.POLL_PARTIAL:
            reports = reports[::2]
        self._last_poll.update(((r.job, r.attempt), r) for r in reports)
        return PollAnswer(reports=reports)

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        """Look by token; absent after `settle_seconds` of looking in vain."""
        if self._start_call("adopt") is Fault.ADOPT_FAILED:
            return AdoptAnswer(error=_AWAY)
        looks = [(sub.token, self._find(sub)) for sub in submissions]
        now, wait = self._time.now, self._settle_seconds
        missing = [token for token, found in looks if not found]
        absent = [t for t in missing if now - self._missed.setdefault(t, now) >= wait]
        found = tuple(found for _, found in looks if found)
        return AdoptAnswer(found=found, absent=tuple(absent))

    # -------------------------------------------------- as a test looks and breaks
    def settle(self) -> None:
        """Let everything happen that is due by now, in order."""
        self._time.settle()

    def next_event_at(self) -> float | None:
        """When something happens next, monotonic seconds; None: nothing will."""
        return self._time.next_event_at()

    def kill_supervisor(self, task: TaskId) -> None:
        """SIGKILL to a running task's wrapper: its end leaves no record."""
        self.settle()
        copy = self.claims[task]
        if copy.running:
            self._end(copy, copy.runs[-1], ends="vanish")

    def living(self) -> tuple[TaskId, ...]:
        self.settle()
        return tuple(copy.task.id for copy in self.copies if copy.running)

    def has_succeeded(self, task: TaskId) -> bool:
        """Whether a run of the task ended by itself with status 0."""
        copies = self._of_task.get(task, ())
        ends = (run.exit for copy in copies for run in copy.runs)
        return any(end is not None and end.exit_code == 0 for end in ends)

    def problems(self) -> tuple[str, ...]:
        """What must never be: an attempt begun by two, or twice at a time."""
        self.settle()
        owners: dict[TaskId, set[str]] = {}
        for begun in self.begun:
            owners.setdefault(begun.task, set()).add(begun.executor_id)
        runs = Counter((begun.task, begun.run) for begun in self.begun)
        return (
            *(f"{t} was begun by {ids}" for t, ids in owners.items() if len(ids) > 1),
            *(f"{task} was begun {n} times" for task, n in runs.items() if n > 1),
        )

    # ------------------------------------------------------------ what happens when
    def _start_call(self, call: Call) -> Fault | None:
        self.settle()
        self.calls[call] += 1
        return self._faults(call)

    def _take(self, submission: Submission) -> list[Copy]:
        number, taken = len(self.copies) + 1, []
        for index, task in enumerate(submission.tasks):
            copy = Copy(
                task=task,
                token=submission.token,
                executor_id=f"{number}.{index}",
                taken_at=self._time.now,
                submitted_utc=self._time.utc(),
                scripts=self._script(task),
            )
            self._tokens[task.id] = submission.token
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
        if copy.over_at is not None:
            return
        if self.claims.setdefault(copy.task.id, copy) is not copy:
            copy.over_at = self._time.now  # it lost the claim and does nothing
        elif copy.task.id in self.cancelled:
            self._drop_cancelled(copy)
        else:
            self._run(copy)

    def _drop_cancelled(self, copy: Copy) -> None:
        copy.over_at, copy.cause = self._time.now, Cause.USER

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
        run = FakeRun(script=script, begin=begin, began_at=self._time.now)
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
        if run.ended_at is None:
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
        if run.ended_at is not None:
            return
        run.ended_at = self._time.now
        self._running -= 1
        if ends == "requeue" and copy.task.id not in self.cancelled:
            self._schedule_begin(copy)
        else:
            copy.over_at, copy.cause = self._time.now, cause
        if ends == "exit":
            run.exit = ExitRecord(
                run=run.begin.run,
                ended_at=self._time.utc(),
                exit_code=exit_code,
                signal=signal,
                asked=run.asked,
            )
            run.exit_seen_at = self._time.now + run.script.record_lag
        self._note_end(copy.task.id, run, ends, cause)
        self._fill_slots()

    def _note_end(
        self, task: TaskId, run: FakeRun, ends: Ends, cause: Cause | None
    ) -> None:
        number, lag = run.begin.run, run.script.record_lag
        strokes = [Stroke.CANCELLED] if run.asked else []
        strokes += [STROKES[cause]] if cause is not None else []
        if ends != "exit":
            strokes.append(Stroke.REQUEUED if ends == "requeue" else Stroke.VANISHED)
        for stroke in strokes:
            self.ledger.note(task, number, stroke)
        if run.exit is not None:
            told = (run.exit.exit_code, run.exit.signal)
            self.ledger.note_end(task, number, told, asked=run.asked, late_seconds=lag)

    def _cancel(self, copy: Copy) -> None:
        if copy.over_at is not None:
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
        seen, token = self._time.now - self.lag_seconds, submission.token
        found = [self._find_copy(task.id, seen) for task in submission.tasks]
        copies = [copy for copy in found if copy is not None and copy.token == token]
        if len(copies) < len(found):
            return None
        return Found(
            token=token,
            executor_ids=tuple(copy.executor_id for copy in copies),
            submitted_at=copies[0].submitted_utc if copies else self._clock.utc(),
        )

    def _report(self, task: Task) -> TaskReport:
        seen, now = self._time.now - self.lag_seconds, self._time.now
        copy = self._find_copy(task.id, seen)
        absent = TaskReport(job=task.job, attempt=task.attempt, phase=TaskPhase.ENDED)
        report = copy.report(seen) if copy else absent
        ended = report.phase is TaskPhase.ENDED
        gone_for = self._gone.note(task.id, holds=ended, now=now)
        if not ended:
            return report
        holder = self.claims.get(task.id)
        lost = holder is not None and holder.token != self._tokens.get(task.id)
        return replace(report, gone_for=gone_for, duplicate=lost)

    def _find_copy(self, task: TaskId, seen: float) -> Copy | None:
        """The copy that speaks for a task: the claim's holder, else the oldest."""
        holder = self.claims.get(task)
        if holder is not None and holder.taken_at <= seen:
            return holder
        visible = [c for c in self._of_task.get(task, ()) if c.taken_at <= seen]
        alive = [c for c in visible if c.over_at is None or c.over_at > seen]
        return next(iter(alive or visible), None)
