"""A made-up cluster on a manual clock: its queue, nodes and accounting, and its jobs.

A started job plays the wrapper (`fake_slurm_wrapper`), so that the same records and
logs appear on disk as on a real node. What each run does is a script of
`fake_script`. Nothing here knows the commands' words; see `fake_slurm`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from itertools import count
from pathlib import Path

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.states import Cause
from tests.support import fake_slurm_wrapper as wrapper
from tests.support.fake_script import Script, Timeline, by_job
from tests.support.fake_slurm_jobs import ClusterSettings, Job, Nodes, Order
from tests.support.fake_slurm_text import Refused, no_submission, seconds_of
from tests.support.fake_slurm_wrapper import PlayedRun, Start
from tests.support.true_ends import STROKES, Ledger, Stroke

TERM, KILL = 15, 9
_WORDS = {
    Cause.TIMEOUT: "TIMEOUT",
    Cause.OUT_OF_MEMORY: "OUT_OF_MEMORY",
    Cause.NODE_FAIL: "NODE_FAIL",
    Cause.PREEMPTED: "PREEMPTED",
    Cause.USER: "CANCELLED by 0",
}
_REASONS = {"TIMEOUT": "TimeLimit", "OUT_OF_MEMORY": "OutOfMemory"}


class Controller:
    """Jobs, nodes and time. `settle()` lets the clock's time happen to it."""

    def __init__(
        self,
        clock: Clock,
        script: Script | None = None,
        settings: ClusterSettings | None = None,
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.jobs: list[Job] = []
        """Those that the controller remembers, oldest first."""
        self.begun: list[tuple[TaskId, int, str]] = []
        """Commands that were started: task, run, job id."""
        self.claims = wrapper.claim
        """How a start takes its attempt."""
        self.succeeded: set[TaskId] = set()
        """Whose command ended by itself with status 0."""
        self.ledger = Ledger()
        self.booted_utc = clock.utc()
        self._time = Timeline(clock)
        self._nodes = Nodes(self.settings.nodes, self.settings.node_jobs)
        self._script = script or by_job({})
        self._partitions = {one.name: one for one in self.settings.partitions}
        self._accounts: dict[str, Job] = {}
        self._woken = False
        self._pids = count(1000, 3)
        self._next_id = 1

    def settle(self) -> None:
        """Let everything happen that is due by now, in order."""
        self._time.settle()
        oldest = self._time.now - self.settings.min_job_age
        self.jobs = [
            job for job in self.jobs if job.ended_at is None or job.ended_at > oldest
        ]

    # --------------------------------------------------- what the commands ask for
    def submit(self, order: Order) -> int:
        """Take an order; the job's id; raises Refused where it cannot be had."""
        self._check(order)
        number, now = self._new_id(), self._time.now
        for index in order.indices or (None,):
            job = Job(
                parent=number,
                index=index,
                order=order,
                raw_id=number,
                taken_at=now,
                submitted_utc=self._time.utc(),
                eligible_at=now,
            )
            if "hold" in order.options:
                job.held, job.reason = True, "JobHeldUser"
            self.jobs.append(job)
            self._tell(job)
        self._wake()
        return number

    def _check(self, order: Order) -> None:
        if order.partition not in self._partitions:
            problem = "sbatch: error: invalid partition specified: " + order.partition
            why = no_submission("Invalid partition name specified")
            raise Refused(1, problem, why.stderr.rstrip())
        if max(order.indices, default=0) >= self.settings.max_array_size:
            raise no_submission("Invalid job array specification")
        live = sum(job.live for job in self.jobs)
        if live + max(1, len(order.indices)) > self.settings.max_jobs:
            raise no_submission("Slurm temporarily unable to accept job, sleeping")

    def _new_id(self) -> int:
        taken = {job.parent for job in self.jobs} | {job.raw_id for job in self.jobs}
        while self._next_id in taken:
            self._next_id += 1
        self._next_id += 1
        return self._next_id - 1

    def find(self, name: str) -> list[Job]:
        """The jobs that a name means: one, or all tasks of an array."""
        return [job for job in self.jobs if name in (job.id, str(job.parent))]

    def cancel(self, job: Job, stroke: Stroke = Stroke.CANCELLED) -> None:
        """End it, as scancel does: TERM, and KILL after KillWait."""
        if job.word == "PENDING":
            self._drop(job, stroke)
        elif job.word in ("RUNNING", "SUSPENDED"):
            self.resume(job)
            self._strike(job, stroke)
            self._let_go(job, "CANCELLED by 0")
        self._wake()

    def _drop(self, job: Job, stroke: Stroke) -> None:
        path = wrapper.task_file(job.order.script, job.index)
        if path is not None and path.exists():
            task = wrapper.task_of(json.loads(path.read_text()))
            begun = wrapper.newest_run(Path(task.attempt_dir))
            self.ledger.note(task.id, begun, stroke)
        if job.unsplit:  # an unsplit array's task leaves no trace
            self.jobs.remove(job)
            self._accounts.pop(job.id, None)
            if any(other.parent == job.parent for other in self.jobs):
                return
            job.index = None
            self.jobs.append(job)
        self._leave(job, "CANCELLED by 0")

    def suspend(self, job: Job) -> None:
        """Stop its processes, as `scontrol suspend` does."""
        if job.word == "RUNNING" and (run := job.runs):
            job.word, run.stopped_at = "SUSPENDED", self._time.now
            self._tell(job)

    def resume(self, job: Job) -> None:
        """Let its processes go on, as late as they were stopped for."""
        run = job.run
        if job.word != "SUSPENDED" or run is None or run.stopped_at is None:
            return
        run.stopped_seconds += self._time.now - run.stopped_at
        job.word, run.stopped_at = "RUNNING", None
        self._tell(job)
        waiting, run.waiting = run.waiting, []
        for action in waiting:
            self._time.at(0.0, action)

    def release(self, job: Job) -> None:
        job.held = False
        if job.word == "PENDING":
            job.reason = "None"
        self._wake()

    def terminate(self, job: Job) -> None:
        """SIGTERM to the wrapper, which gives its command a grace of its own."""
        if run := job.runs:
            self._terminate(job, run)

    def _terminate(self, job: Job, run: PlayedRun) -> None:
        if run.ending:
            return
        run.ending = "signal 15"
        if run.script.ignores_term:
            grace = wrapper.grace_of(run)
            self._time.at(grace, partial(self._end_run, job, run, signal=KILL))
        else:
            self._end_run(job, run, signal=TERM)

    def expire(self, job: Job) -> None:
        if job.word == "RUNNING":
            self._strike(job, Stroke.TIMEOUT)
            self._let_go(job, "TIMEOUT")

    def preempt(self, job: Job) -> None:
        self._strike(job, Stroke.PREEMPTED)
        how = self._partitions[job.order.partition].preempt
        if how == "requeue" and job.order.requeue:
            self._requeue(job, "PREEMPTED", "BeginTime")
        else:
            self._let_go(job, "PREEMPTED")

    def queue(self) -> list[Job]:
        """All that the controller remembers, ended ones too."""
        self.settle()
        return self.jobs

    def accounts(self, since: float) -> list[Job]:
        """What accounting knows by now of jobs that had not ended before `since`."""
        self.settle()
        limit = self._time.now - self.settings.account_lag
        found = []
        for job in self._accounts.values():
            newest_first = reversed(job.history)
            known = next((shown for at, shown in newest_first if at <= limit), None)
            if known and (known.ended_utc or since) >= since:
                found.append(known)
        return found

    def _tell(self, job: Job) -> None:
        """Let accounting know; it hears of jobs with a lag."""
        job.history.append((self._time.now, copy(job)))
        self._accounts[job.id] = job

    # ------------------------------------------------------------ what starts when
    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._time.at(self.settings.schedule_seconds, self._schedule)

    def _schedule(self) -> None:
        self._woken = False
        now = self._time.now
        waiting = [job for job in self.jobs if job.waits and job.eligible_at <= now]
        waiting.sort(key=lambda job: -self._tier(job))
        crowded: set[int] = set()
        hopeless: set[tuple[object, ...]] = set()
        for job in waiting:
            wish = (job.order.nodes, job.order.exclusive, self._tier(job))
            if job.parent in crowded:
                continue  # another of its array wanted the same in vain
            if wish in hopeless:  # equal wishes, equal answers
                job.reason = "Resources"
            elif not self._try_to_start(job):
                crowded.add(job.parent)
                if job.reason == "Resources":
                    hopeless.add(wish)

    def _tier(self, job: Job) -> int:
        return self._partitions[job.order.partition].tier

    def _try_to_start(self, job: Job) -> bool:
        siblings = [other for other in self.jobs if other.parent == job.parent]
        running = sum(other.word == "RUNNING" for other in siblings)
        reason, places = "JobArrayTaskLimit", None
        if not 0 < job.order.throttle <= running:
            reason, places = "Resources", self._nodes.places(job, self.jobs)
            if places is None and self._make_room(job):
                places = self._nodes.places(job, self.jobs)
        if places is not None:
            self._start(job, places)
            return True
        for other in siblings:
            if other.waits:
                other.reason = reason
        return False

    def _make_room(self, job: Job) -> bool:
        """Preempt jobs of lower tiers, the youngest first; whether any was."""
        weaker = [
            other
            for other in self.jobs
            if other.word == "RUNNING"
            and self._tier(other) < self._tier(job)
            and self._partitions[other.order.partition].preempt != "off"
        ]
        for other in reversed(weaker):
            self.preempt(other)
            if self._nodes.places(job, self.jobs) is not None:
                return True
        return bool(weaker)

    def _start(self, job: Job, nodes: tuple[str, ...]) -> None:
        siblings = [o for o in self.jobs if o.parent == job.parent and o.unsplit]
        if job.unsplit and len(siblings) > 1:
            job.raw_id = self._new_id()  # the last one keeps the parent's
        job.word, job.reason, job.nodes = "RUNNING", "None", nodes
        job.started_utc = self._time.utc()
        self._tell(job)
        if not job.open_output():
            job.reason, job.signal = "JobLaunchFailure", 53
            self._leave(job, "FAILED")
            return
        limit, restarts = seconds_of(job.order.options.get("time", "")), job.restarts

        def expire() -> None:
            """Its time is up, unless it has run again since, or nobody knows it."""
            if job.restarts == restarts and any(one is job for one in self.jobs):
                self.expire(job)

        if limit is not None:
            self._time.at(limit, expire)
        self._play(job)

    # ------------------------------------------------------------ a job's processes
    def _play(self, job: Job) -> None:
        """Start the wrapper, if the job's script starts one."""
        path = wrapper.task_file(job.order.script, job.index)
        if path is None:
            self._leave(job, "COMPLETED")
            return
        fields = json.loads(path.read_text())
        directory = Path(fields["attempt_dir"])
        start = Start(
            executor_id=job.id,
            restarts=job.restarts,
            node=job.nodes[0],
            pid=next(self._pids),
            utc=self._time.utc(),
            alone=all(run.attempt_dir != directory for run in self._running()),
        )
        number = self.claims(fields, start)
        if number is not None and (directory / "cancel").exists():
            wrapper.void(fields, start, "cancel file")
            number = None
        if number is None:
            self._leave(job, "COMPLETED")
        else:
            self._begin(job, fields, start, number)

    def _begin(
        self, job: Job, fields: Mapping[str, object], start: Start, number: int
    ) -> None:
        scripts = self._script(wrapper.task_of(fields))
        script = scripts[min(number, len(scripts) - 1)]
        job.run = run = wrapper.begin(fields, start, number, script)
        self.begun.append((run.task, number, job.id))
        for write in script.writes:
            path = Path(write.path) if write.path else run.log
            self._in_run(run, write.at, partial(_append, run, path, write.data))
        self._in_run(run, script.seconds, partial(self._end_as_scripted, job, run))

    def _in_run(
        self, run: PlayedRun, delay: float, action: Callable[[], object]
    ) -> None:
        """Have a run do something `delay` seconds from now, later if it is stopped."""
        stopped_before = run.stopped_seconds

        def due() -> None:
            late = run.stopped_seconds - stopped_before
            if run.stopped_at is not None:
                run.waiting.append(due)
            elif late > 0:
                self._in_run(run, late, action)
            else:
                action()

        self._time.at(delay, due)

    def _running(self) -> Iterable[PlayedRun]:
        return (run for job in self.jobs if (run := job.runs))

    def _end_as_scripted(self, job: Job, run: PlayedRun) -> None:
        script, cause = run.script, run.script.cause
        if run.over or run.ending:
            return
        if script.ends == "requeue":
            self._strike(job, Stroke.REQUEUED)
            self._requeue(job, "REQUEUED", "BeginTime")
        elif script.ends == "vanish":
            self._note_loss(run, Stroke.VANISHED)
            word = _WORDS.get(cause, "FAILED") if cause else "FAILED"
            job.signal = KILL if word == "FAILED" else 0
            self._leave(job, word)
        else:
            if cause is not None:
                self._strike(job, STROKES[cause])
                run.oom_kills = int(cause is Cause.OUT_OF_MEMORY)
                job.leaves_as = _WORDS.get(cause, "")
            code = script.exit_code if script.signal is None else None
            self._end_run(job, run, exit_code=code, signal=script.signal)

    def _end_run(
        self,
        job: Job,
        run: PlayedRun,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        note: str = "",
    ) -> None:
        """The command has ended; the wrapper tells so and ends likewise."""
        if run.over:
            return
        run.over = True
        lag, now, ends = run.script.record_lag, self._time.utc(), (exit_code, signal)
        asked = bool(run.ending)
        self.ledger.note_end(run.task, run.number, ends, asked=asked, late_seconds=lag)
        if exit_code == 0:
            self.succeeded.add(run.task)
        write = partial(wrapper.write_exit, run, now, ends, note, seen_utc=now + lag)
        if lag:
            self._time.at(lag, write)
        else:
            write()
        if job.run is not run or job.word not in ("RUNNING", "COMPLETING", "SUSPENDED"):
            return
        status = 128 + (signal or 0) if exit_code is None else exit_code
        job.exit_code = 0 if job.leaves_as else status
        self._leave(job, job.leaves_as or ("FAILED" if status else "COMPLETED"))

    def _let_go(self, job: Job, word: str) -> None:
        """TERM to all of a job, KILL after KillWait; it leaves as `word`."""
        job.leaves_as, run = word, job.runs
        if run is None:
            self._leave(job, word)
            return

        def kill() -> None:
            if not run.over:
                self._note_loss(run, Stroke.VANISHED)
                self._leave(job, job.leaves_as)

        job.word = "COMPLETING"
        self._time.at(self.settings.kill_wait, kill)
        self.terminate(job)

    def _strike(self, job: Job, stroke: Stroke) -> None:
        if run := job.runs:
            self.ledger.note(run.task, run.number, stroke)

    def _lose(self, job: Job, stroke: Stroke) -> None:
        """Its processes are gone, and no record tells of it."""
        if run := job.runs:
            self._note_loss(run, stroke)

    def _note_loss(self, run: PlayedRun, stroke: Stroke) -> None:
        run.over = True
        self.ledger.note(run.task, run.number, stroke)

    def _leave(self, job: Job, word: str) -> None:
        job.word, job.leaves_as = word, ""
        if word == "FAILED" and job.exit_code:
            job.reason = "NonZeroExitCode"
        job.reason = _REASONS.get(word, job.reason)
        job.ended_utc, job.ended_at = self._time.utc(), self._time.now
        self._tell(job)
        self._wake()

    def _requeue(self, job: Job, word: str, reason: str) -> None:
        """Back into the queue; accounting keeps `word` until it runs again."""
        if not job.live or job.word == "PENDING":
            return
        run, job.run = job.runs, None
        if run is not None:
            self._terminate(job, run)
        job.word, job.ended_utc = word, self._time.utc()
        self._tell(job)
        job.word, job.reason, job.nodes = "PENDING", reason, ()
        job.ended_utc = job.started_utc = None
        job.leaves_as, job.exit_code = "", 0
        job.restarts += 1
        wait = self.settings.requeue_seconds
        if run is not None and not run.over:  # it ignores TERM: its end comes first
            wait = max(wait, wrapper.grace_of(run))
        job.eligible_at = self._time.now + wait
        self._time.at(wait, self._schedule)


def _append(run: PlayedRun, path: Path, data: bytes) -> None:
    if not run.over:
        with path.open("ab") as file:
            file.write(data)
