"""Runs tasks on a Slurm cluster: `executor_port.Executor` over Slurm's own commands.

What is known of a task stands in one record of it and is weighed in
`judgement`; when the controller is asked, in `watch`; how tasks are sent, in `submit`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

from autoexp_tui.engine import executor_port as port
from autoexp_tui.engine.ports import Clock, Pool
from autoexp_tui.executors.slurm.commands import (
    CANCEL_RUNNING,
    Commands,
    Ran,
    explain_uncancelled,
)
from autoexp_tui.executors.slurm.judgement import (
    GRACE_SECONDS,
    LATE_SECONDS,
    QUICK_SECONDS,
    RELEASE_WAITS,
    WORD_SECONDS,
    TaskMemory,
    Terms,
    has_failed_to_launch,
    is_ended_by_signal,
    is_left_over,
    is_unlaunched,
    report,
)
from autoexp_tui.executors.slurm.submit import SubmitSettings, send
from autoexp_tui.executors.slurm.text import join_scancel_ids, make_task_ids
from autoexp_tui.executors.slurm.watch import NEVER, Accounts, QueueWatch, Rhythm, Rows
from autoexp_tui.executors.supervisors import HeldTimes, find_refusal, report_unknown
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.atomic import make_private
from autoexp_tui.storage.attempt_records import RecordCache, read_attempt
from autoexp_tui.storage.processes import Identity

MARGIN_SECONDS: Final = 600.0
"""By how much accounting is asked about earlier than an intent: clocks differ."""
LOST_SECONDS: Final = 300.0
"""A task of which nobody says a word is lost after this, or after MinJobAge."""
SIGNAL_SECONDS: Final = 3.0
STUBBORN_SECONDS: Final = 15.0
"""Beyond the grace, before a task that was asked to end is cancelled outright."""
LARGEST_ARRAY: Final = 1000
LEARN_SECONDS: Final = 3.0
NAMES: Final = 1000
LOOKS: Final = 500
"""Attempts that are looked at between two questions: a stat may cross a network."""
CERTAIN_SECONDS: Final = 10.0
"""Without a task whose array is known: the queue does not lack it by mistake."""
ROUNDING_SECONDS: Final = 2.0
"""Slurm tells times in whole seconds."""
_DAY: Final = 86400.0
_NOT_TOLD: Final = frozenset({port.TaskPhase.QUEUED, port.TaskPhase.SUSPENDED})
"""How begun tasks stand that a signal does not reach: they are cancelled outright."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """How a session uses its cluster."""

    submit: SubmitSettings
    ask_seconds: float = 30.0
    """The time limit of squeue, sacct, scancel and scontrol."""
    settle_seconds: float = 60.0
    """Nothing must be heard of a submission for this long before it is sent again;
    never shorter than the controller remembers ended jobs (MinJobAge)."""
    patience_seconds: float = GRACE_SECONDS
    """For what may yet follow Slurm's last word: an exit record, or a requeue."""
    lost_seconds: float = LOST_SECONDS
    array_size: int = LARGEST_ARRAY
    """The most tasks of one array; 1: no arrays."""
    rhythm: Rhythm = field(default_factory=Rhythm)


class SlurmExecutor:
    """`executor_port.Executor` over sbatch, squeue, sacct, scancel and scontrol."""

    name = "slurm"
    slots = 0
    poll_seconds = 2.0

    def __init__(
        self,
        settings: SlurmSettings,
        commands: Commands,
        clock: Clock,
        questions: Pool | None = None,
    ) -> None:
        self._questions = questions
        """Who asks the controller; None: a poll itself, as tests with a clock want."""
        self._fault: BaseException | None = None
        """Of the newest question; raised by the next poll."""
        self._settings = settings
        self._commands = commands
        self._clock = clock
        self._watch = QueueWatch(
            commands=commands,
            monotonic=clock.monotonic,
            ask_seconds=settings.ask_seconds,
            rhythm=settings.rhythm,
            tell=self._hear,
        )
        self._cache = RecordCache(clock.monotonic)
        self._tasks: dict[TaskId, TaskMemory] = {}
        self._sent_at: dict[str, float] = {}
        """When a token was sent, monotonic: an older answer knows nothing of it."""
        self._missed: dict[str, float] = {}
        """Since when the queue has answered without a submission; monotonic."""
        self._me = Identity.get_own()
        self._lock = threading.RLock()
        """Of the memories: a poll, a question and a cancel have a thread each."""
        self._one_at_a_time = threading.Lock()
        self._turn = 0

    @property
    def array_size(self) -> int:
        largest = self._watch.get_known_facts().max_array_size - 1
        return max(1, min(self._settings.array_size, largest))

    @property
    def lost_after_seconds(self) -> float:
        return max(
            self._settings.lost_seconds, self._watch.get_known_facts().min_job_age
        )

    def learn(self) -> None:
        """Ask for the cluster's limits, not for long: a session begins after this."""
        self._watch.learn(min(LEARN_SECONDS, self._settings.ask_seconds))

    def submit(self, submission: port.Submission) -> port.SubmitAnswer:
        self._missed.pop(submission.token, None)  # looked for anew
        answer = send(submission, self._settings.submit, self._commands, self._clock)
        if isinstance(answer, port.Accepted | port.Uncertain):
            self._sent_at[submission.token] = self._clock.monotonic()
            self._watch.rhythm.hurried = True
        return answer

    def poll(self, tasks: Sequence[port.Task]) -> port.PollAnswer:
        """A stat a task; the controller is asked when that is due."""
        memories = [self._remember(task) for task in tasks]
        rhythm, fault, self._fault = self._watch.rhythm, self._fault, None
        if fault is not None:
            raise fault
        due = bool(tasks) and rhythm.is_due(self._clock.monotonic())
        looked_at = memories
        if not due and len(memories) > LOOKS:  # each in its turn
            first = self._turn % len(memories)
            self._turn = first + LOOKS
            looked_at = (memories + memories)[first : self._turn]
        for memory in looked_at:
            self._look(memory)
        over = [one for one in memories if "over" in one.since]
        owed = [one for one in over if self._is_awaiting_word(one)]
        self._watch.owed_since = self._compute_since(owed) if owed else inf
        if due or (tasks and rhythm.is_due(self._clock.monotonic())):
            wanted = {memory.task.id for memory in memories}
            with self._lock:
                self._tasks = {
                    task: memory
                    for task, memory in self._tasks.items()
                    if task in wanted or memory.judged is not None
                }
            if self._questions is None:
                self._run_question(memories)
            else:
                ask = partial(self._run_question, memories)
                self._questions.submit("question", ask, self._note_fault)
        for memory in memories:  # last: the question may have taken long
            if "said" in memory.held or "gone" in memory.held:
                self._look(memory, fresh=True)
        now = self._clock.monotonic()
        terms = Terms(
            patience=self._settings.patience_seconds,
            lost_after=self.lost_after_seconds,
            by_may_come=self._watch.get_known_facts().accounting,
            unheard=self._watch.error,
        )
        reports = tuple(self._report(memory, terms, now) for memory in memories)
        with self._lock:
            late = tuple(self._list_late(now))
        self._cancel_left_over()
        return port.PollAnswer(
            reports=reports,
            late=late,
            error=self._watch.error,
            age=now - self._watch.answered_at,
        )

    def _note_fault(self, _: object, fault: BaseException | None) -> None:
        self._fault = fault

    def _remember(self, task: port.Task) -> TaskMemory:
        with self._lock:
            memory = self._tasks.get(task.id)
            if memory is None:
                latest = self._settings.rhythm.latest
                memory = TaskMemory(task=task, held=HeldTimes(latest))
                self._tasks[task.id] = memory
                memory.hear(self._watch.rows, self._watch.accounts)
            memory.task = task
        return memory

    def _hear(self, rows: Rows, accounts: Accounts) -> None:
        with self._lock:
            for memory in self._tasks.values():
                memory.hear(rows, accounts)
                memory.hear(self._watch.rows, self._watch.accounts)

    def _look(self, memory: TaskMemory, *, fresh: bool = False) -> None:
        """An attempt that cannot be looked at is as it was."""
        try:
            found = self._cache.read(memory.task.attempt_dir, fresh=fresh)
        except OSError:
            memory.in_sight = False
            return
        with self._lock:
            moved = memory.observe(found, self._clock.monotonic())
        if moved:
            self._watch.rhythm.hurried = True

    def _run_question(self, memories: Sequence[TaskMemory]) -> None:
        rows, rhythm = self._watch.ask(), self._watch.rhythm
        if rows is None:
            return
        self._cancel_stubborn(memories, rows)
        self._release_unlaunched(memories, rows)
        unexplained = [one for one in memories if self._is_unexplained(one)]
        if unexplained:
            self._watch.ask_accounts(self._compute_since(unexplained))
        self._explain_vanished(memories, rows)
        awaiting = [one for one in memories if self._is_awaiting_word(one)]
        newest = max((memory.changed_at for memory in awaiting), default=0)
        # Hurry at first, then ask steadily, while Slurm owes its word on ends.
        if awaiting and self._clock.monotonic() - newest < WORD_SECONDS:
            rhythm.hurried = True
        elif awaiting:
            rhythm.wait = min(rhythm.wait, rhythm.first)

    def _is_awaiting_word(self, memory: TaskMemory) -> bool:
        """Whether a run has ended as by Slurm, which has not said why yet."""
        watch = self._watch
        row = memory.find_in(watch.rows) or memory.find_in(watch.accounts)
        has_ended = row is not None and row.state.standing is port.TaskPhase.ENDED
        return is_ended_by_signal(memory.records) and not has_ended

    def _compute_since(self, those: Iterable[TaskMemory | port.Submission]) -> float:
        """UTC from which accounting is asked about what was ordered then."""
        times = [one.ordered_at for one in those if one.ordered_at > 0]
        return min(times, default=self._clock.utc() - _DAY) - MARGIN_SECONDS

    def _is_unexplained(self, memory: TaskMemory) -> bool:
        """Whether squeue does not tell how a task stands, or how it ended."""
        row = memory.find_in(self._watch.rows)
        if row is None:
            return True
        if row.state.standing is not port.TaskPhase.ENDED:
            return False
        if row.state.word == "CANCELLED":
            return not memory.records.cancel_ordered  # squeue does not tell by whom
        return memory.records.exited is None and row.state.cause is None

    def _explain_vanished(self, memories: Sequence[TaskMemory], rows: Rows) -> None:
        """Tell the cancelled from the forgotten, of those that nobody shows.

        Slurm keeps no record of a task that was cancelled before its array was split.
        Its array is still known; or the controller is older, and would know it.
        """
        vanished = [one for one in memories if self._has_vanished(one, rows)]
        new = [one for one in vanished if not one.has_vanished]
        if self._watch.error or not new:
            return
        known = {
            (row.id.partition("_")[0], row.name.rpartition("-")[2])
            for row in rows.values()
        }
        rest: list[TaskMemory] = []
        for memory in new:
            job, sep, _ = memory.task.executor_id.partition("_")
            if sep and (job, memory.task.token) in known:
                memory.has_vanished, memory.cancelled_after = True, CERTAIN_SECONDS
            else:
                rest.append(memory)
        uptime = self._watch.ask_uptime() if rest else None
        for memory in rest if uptime is not None else ():
            task = memory.task
            sent_at, now = self._sent_at.get(task.token), self._clock.monotonic()
            age = self._clock.utc() - task.ordered_at if task.ordered_at > 0 else -1.0
            age = age if sent_at is None else now - sent_at
            older = age >= 0 and (uptime or 0.0) > age + ROUNDING_SECONDS
            memory.has_vanished = True
            memory.cancelled_after = self.lost_after_seconds if older else None

    def _has_vanished(self, memory: TaskMemory, rows: Rows) -> bool:
        """Whether a task that was taken, and left no end, is shown by nobody."""
        task, records = memory.task, memory.records
        if memory.find_in(rows) is not None:
            memory.has_vanished, memory.cancelled_after = False, None
            return False
        older = self._sent_at.get(task.token, NEVER) >= self._watch.answered_at
        if records.is_over or records.cancel_ordered or older or not task.executor_id:
            return False
        return memory.word is None

    def _report(self, memory: TaskMemory, terms: Terms, now: float) -> port.TaskReport:
        """What is known, unless it calls lost what may not have been able to write."""
        task, sent_at = memory.task, self._sent_at.get(memory.task.token, NEVER)
        with self._lock:
            memory.weigh(self._watch, terms, sent_at=sent_at, me=self._me, now=now)
            found = report(memory)
        if found.phase is not port.TaskPhase.ENDED:
            return found
        if found.exited is not None:
            plain = found.cause is None and found.exited.exit_code == 0
            if plain and memory.judged is None:
                memory.judged, memory.judged_at = found, now
            return found
        forgotten = found.cause is not None and memory.forgotten
        is_explained = found.cause is not None and not forgotten
        if is_explained or found.gone_for < self.lost_after_seconds:
            return found
        # Without the lock: the disk may hang.
        if not (refusal := find_refusal(task.attempt_dir)):
            if forgotten:
                self._write_cancel(task)  # should its node be cut off, and its run live
            return found
        memory.held.note("gone", holds=False, now=now)
        return report_unknown(task, refusal)

    def _list_late(self, now: float) -> Iterator[port.TaskReport]:
        """Each once: ends judged without Slurm's word, of which it says another
        cause."""
        watch = self._watch
        for memory in self._tasks.values():
            if (judged := memory.judged) is None:
                continue
            row = memory.find_in(watch.rows) or memory.find_in(watch.accounts)
            ended = row is not None and row.state.standing is port.TaskPhase.ENDED
            if ended or now - memory.judged_at > LATE_SECONDS:
                memory.judged = None
            if row is not None and row.state.cause is Cause.OUT_OF_MEMORY:
                yield replace(judged, late_cause=row.state.cause)

    def cancel(self, tasks: Sequence[port.Task]) -> port.CancelAnswer:
        """Ask the tasks to end: those that wait are cancelled, those that run told.

        A running task has its grace, which Slurm's own cancel does not give; whoever
        outlives it is cancelled outright by a later poll. An id goes to scancel only
        when the queue has just said that the job under it is ours.
        """
        problems = [text for text in map(self._write_cancel, tasks) if text]
        named = [one for one in map(self._remember, tasks) if one.id]
        rows = self._watch.ask() if named else {}
        if rows is None:
            problems.append(self._watch.error)
        ours = [one for one in named if one.find_in(rows or {}) is not None]
        running = [one for one in ours if self._is_running(one)]
        waiting = [one for one in ours if one not in running]
        # By names alone: asked for a state as well, scancel takes a task of an array
        # that is not split off yet for all that wait of it, and cancels them all.
        ended = [self._run_command("scancel", *names) for names in _join_names(waiting)]
        signalled = [
            self._commands.run(("scancel", *CANCEL_RUNNING, *names), SIGNAL_SECONDS)
            for names in _join_names(running)
        ]
        limit = self._settings.ask_seconds
        failed = [explain_uncancelled(ran, limit) for ran in ended]
        failed += [
            explain_uncancelled(ran, SIGNAL_SECONDS, signal=True) for ran in signalled
        ]
        problems += [text for text in failed if text]
        self._watch.rhythm.hurried = True
        return port.CancelAnswer(
            ok=not problems,
            sent="; ".join(ran.sent for ran in ended + signalled),
            said="; ".join(problems),
        )

    def _is_running(self, memory: TaskMemory) -> bool:
        """Whether a run has begun that neither its records nor the queue saw end."""
        try:
            run = read_attempt(memory.task.attempt_dir).run
        except OSError:
            return False
        row = memory.find_in(self._watch.rows)
        newer = self._watch.answered_at > memory.changed_at
        elsewhere = row is not None and row.state.standing in _NOT_TOLD and newer
        return run is not None and run.exited is None and not elsewhere

    def _run_command(self, *words: str) -> Ran:
        return self._commands.run(words, self._settings.ask_seconds)

    def _write_cancel(self, task: port.Task) -> str:
        """A start that comes later finds the file, and never begins."""
        try:
            make_private(Path(task.attempt_dir))
            Path(task.attempt_dir, "cancel").touch(mode=0o600)
        except OSError as error:
            return f"{task.job}: {error}"
        self._cache.forget(task.attempt_dir)  # what we wrote, its age need not show
        return ""

    def _release_unlaunched(self, memories: Sequence[TaskMemory], rows: Rows) -> None:
        """Have those run that Slurm could not launch: it holds them, or ended them."""
        now = self._clock.monotonic()
        meant: dict[str, list[TaskMemory]] = {"release": [], "requeue": []}
        for memory in memories:
            if memory.given_up or memory.records.cancel_ordered:
                continue
            wait = RELEASE_WAITS[memory.released]
            if now - memory.released_at < wait or memory.find_in(rows) is None:
                continue
            if has_failed_to_launch(memory.row) and not is_left_over(memory):
                meant["release"].append(memory)
            # Its records may come late.
            seen_for = memory.held.seconds("said")
            if seen_for >= QUICK_SECONDS and is_unlaunched(memory):
                meant["requeue"].append(memory)
        for verb, some in meant.items():
            for memory in some:
                memory.released, memory.released_at = memory.released + 1, now
            if some:
                ids = ",".join(memory.id for memory in some[:NAMES])
                self._run_command("scontrol", verb, ids)
                self._watch.rhythm.hurried = True

    def _cancel_left_over(self) -> None:
        """Take out of the queue what is held there although it has ended well."""
        with self._lock:
            over = [one for one in self._tasks.values() if one.judged is not None]
        rows = self._watch.rows
        over = [one for one in over if has_failed_to_launch(one.find_in(rows))]
        if over:
            self._run_command("scancel", *_join_names(over)[0])
            self._watch.rhythm.hurried = True

    def _cancel_stubborn(self, memories: Sequence[TaskMemory], rows: Rows) -> None:
        """Cancel outright what was asked to end and still lives after its grace."""
        now = self._clock.monotonic()
        limit = self._settings.submit.grace_seconds + STUBBORN_SECONDS
        stubborn: list[TaskMemory] = []
        for memory in memories:
            row = memory.find_in(rows)
            live = row is not None and row.state.standing is not port.TaskPhase.ENDED
            asked = live and memory.records.cancel_ordered
            if memory.since.note("asked", holds=asked, now=now) > limit:
                stubborn.append(memory)
                memory.since.note("asked", holds=False, now=now)
        if stubborn:
            self._run_command("scancel", *_join_names(stubborn)[0])

    def adopt(self, submissions: Sequence[port.Submission]) -> port.AdoptAnswer:
        """Look for claims, then ask the queue and accounting by name."""
        claims: dict[str, str] = {}
        """By token, the job id that a task of the submission was claimed under."""
        try:
            for sub in submissions:
                every = (read_attempt(task.attempt_dir).claim for task in sub.tasks)
                ours = (claim for claim in every if claim and claim.token == sub.token)
                if claim := next(ours, None):
                    claims[sub.token] = claim.executor_id.partition("_")[0]
        except OSError as error:
            return port.AdoptAnswer(error=f"cannot look at the records: {error}")
        since = self._compute_since(submissions)
        sent = (self._sent_at.get(sub.token, NEVER) for sub in submissions)
        with self._one_at_a_time:  # one answer is for all in doubt
            heard = self._watch.ask_anew(since, max(sent, default=NEVER))
        found: list[port.Found] = []
        absent: list[str] = []
        for sub in submissions:
            if job_id := claims.get(sub.token) or self._watch.find_job(sub.token):
                self._missed.pop(sub.token, None)
                one = port.Found(
                    token=sub.token,
                    executor_ids=make_task_ids(job_id, len(sub.tasks)),
                    submitted_at=sub.ordered_at or self._clock.utc(),
                )
                found.append(one)
            elif heard and self._is_settled(sub.token):
                absent.append(sub.token)
        said = "" if heard else self._watch.error
        return port.AdoptAnswer(found=tuple(found), absent=tuple(absent), error=said)

    def _is_settled(self, token: str) -> bool:
        """Whether the queue has lacked a submission for longer than it forgets."""
        now = self._clock.monotonic()
        missed_for = now - self._missed.setdefault(token, now)
        memory_lasts = self._watch.load_facts().min_job_age
        return missed_for >= max(self._settings.settle_seconds, memory_lasts)


def _join_names(memories: Sequence[TaskMemory]) -> list[Sequence[str]]:
    names = join_scancel_ids([memory.id for memory in memories])
    return [names[first : first + NAMES] for first in range(0, len(names), NAMES)]
