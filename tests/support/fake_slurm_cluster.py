"""A made-up cluster, and what may befall it: lost nodes, killed processes, a crash."""

from __future__ import annotations

from autoexp_tui.model.effect import TaskId
from tests.support.fake_slurm_controller import KILL, Controller
from tests.support.fake_slurm_jobs import Job
from tests.support.true_ends import Stroke

LAUNCH_FAILED = "launch failed requeued held"


class Cluster(Controller):
    """The controller with its nodes, as a test looks at it and breaks it."""

    def cancel_by_others(self, job: Job) -> None:
        """Let somebody cancel it to whom the session has said nothing."""
        self.cancel(job, Stroke.CANCELLED_BY_OTHERS)

    def requeue(self, job: Job, reason: str = "BeginTime") -> None:
        """Let a running job, or one that failed, run again: `scontrol requeue`."""
        self._strike(job, Stroke.REQUEUED)
        if job.word == "FAILED":
            job.run, job.word = None, "RUNNING"
        self._requeue(job, "REQUEUED", reason)

    def fail_launch(self, job: Job) -> None:
        """Hold a job as a controller does that was killed while it launched it."""
        if job.word in ("PENDING", "RUNNING") and job.run is None:
            job.word, job.reason, job.nodes = "PENDING", LAUNCH_FAILED, ()
            job.held, job.restarts = True, job.restarts + 1
            self._tell(job)

    def refuse_second_launch(self, job: Job) -> None:
        """A controller forgot a launch: it stopped that run, and its node refused the
        next start."""
        self._lose(job, Stroke.FORGOTTEN)
        job.started_utc, job.exit_code = self._time.utc(), 1
        self._leave(job, "FAILED")

    def lose_node(self, name: str) -> None:
        """A node dies with all that runs on it: no more records come from there."""
        self._nodes.down.add(name)
        for job in [job for job in self.jobs if name in job.nodes and job.live]:
            self._lose(job, Stroke.NODE_LOST)
            if job.order.requeue:
                self._requeue(job, "NODE_FAIL", "BeginTime")
            else:
                job.reason = "NodeDown"
                self._leave(job, "NODE_FAIL")

    def return_node(self, name: str) -> None:
        self._nodes.down.discard(name)
        self._wake()

    def down_nodes(self) -> tuple[str, ...]:
        return tuple(sorted(self._nodes.down))

    def kill_supervisor(self, task: TaskId) -> None:
        """SIGKILL to a running task's wrapper: its guard ends the command, tells so."""
        for job in self.jobs:
            if (run := job.runs) and run.task == task:
                self._end_run(job, run, signal=KILL, note="the supervisor died")

    def forget(self, job: Job) -> None:
        """A job vanishes with its processes, and nobody has ever heard of it."""
        self._lose(job, Stroke.FORGOTTEN)
        self.jobs.remove(job)
        self._accounts.pop(job.id, None)
        self._wake()

    def wrap_ids(self) -> None:
        """The next ids are the first ones again, but for those that are remembered."""
        self._next_id = 1

    def crash(self) -> tuple[str, ...]:
        """SIGKILL to the controller: what it had not saved never was; these ids.

        Accounting keeps them as PENDING, and their ids are given out again.
        """
        limit = self._time.now - self.settings.save_seconds
        self.booted_utc = self._time.utc()
        lost = [job for job in self.jobs if job.taken_at > limit]
        self.jobs = [job for job in self.jobs if job.taken_at <= limit]
        for job in lost:
            job.history = job.history[:1]
            self._lose(job, Stroke.FORGOTTEN)
        self._next_id = min((job.parent for job in lost), default=self._next_id)
        return tuple(job.id for job in lost)

    def say(self, job: Job, word: str) -> None:
        """Have the job shown in a state of that name, whatever it does."""
        job.word = word
        self._tell(job)

    def living(self) -> tuple[TaskId, ...]:
        self.settle()
        return tuple(run.task for run in self._running())

    def problems(self) -> tuple[str, ...]:
        """What must never be: an attempt begun by two jobs, or one run twice."""
        owners: dict[TaskId, set[str]] = {}
        for task, _, job_id in self.begun:
            owners.setdefault(task, set()).add(job_id)
        found = [f"{t} was begun by {ids}" for t, ids in owners.items() if len(ids) > 1]
        if len({(task, run) for task, run, _ in self.begun}) < len(self.begun):
            found.append("a run was begun twice")
        return tuple(found)
