"""Runs tasks on a Slurm cluster: `executor_port.Executor` over Slurm's own commands.

A poll looks at the attempts' records, which costs a stat a task, and asks the
controller when that is due (`slurm_watch`). What both say is weighed in `slurm_truth`;
how a submission is sent, in `slurm_submit`. Kept here is what only this process knows:
since when a task is over or gone, and which cancels still have to be driven home.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

from autoexp_tui.engine.executor_port import (
    Accepted,
    AdoptAnswer,
    CancelAnswer,
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
from autoexp_tui.executors.slurm.commands import (
    CANCEL_RUNNING,
    Commands,
    Questions,
    Ran,
    format_uncancelled,
    is_cancelled,
    is_signalled,
)
from autoexp_tui.executors.slurm.job_status_resolution import (
    GRACE_SECONDS,
    QUICK_SECONDS,
    WORD_SECONDS,
    Evidence,
    find_newest_word,
    is_ended_by_signal,
    is_left_over,
    is_unlaunched,
    report,
)
from autoexp_tui.executors.slurm.submit import Sender, SubmitSettings
from autoexp_tui.executors.slurm.task_history import (
    LateWords,
    LaunchReleases,
    Silence,
    Since,
    SlurmWords,
    Start,
    VanishedTasks,
    has_failed_to_launch,
)
from autoexp_tui.executors.slurm.text import (
    AccountRow,
    QueueRow,
    Standing,
    join_scancel_ids,
    make_task_ids,
)
from autoexp_tui.executors.slurm.watch import (
    NEVER,
    QueueWatch,
    Rhythm,
    Rows,
    find_row,
)
from autoexp_tui.executors.supervisors import check_supervisor, find_refusal
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.hold_timer import HeldTimes
from autoexp_tui.storage.atomic import make_private
from autoexp_tui.storage.attempt_records import (
    AttemptRecords,
    RecordCache,
    read_attempt,
)
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.storage.trust import format_person

MARGIN_SECONDS: Final = 600.0
"""By how much accounting is asked about earlier than an intent: clocks differ."""
LOST_SECONDS: Final = 300.0
"""A task of which nobody says a word is lost after this, or after MinJobAge."""
SIGNAL_SECONDS: Final = 3.0
"""For a signal to be on its way."""
STUBBORN_SECONDS: Final = 15.0
"""Beyond the grace, before a task that was asked to end is cancelled outright."""
LARGEST_ARRAY: Final = 1000
LEARN_SECONDS: Final = 3.0
NAMES: Final = 1000
"""Jobs and arrays on one command line."""
LOOKS: Final = 500
"""Attempts that are looked at between two questions: a stat may cross a network."""
_DAY: Final = 86400.0
_NOT_TOLD: Final = frozenset({Standing.QUEUED, Standing.SUSPENDED})
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
        questions: Questions | None = None,
    ) -> None:
        """`questions`: how the controller is asked; by default within a poll."""
        self._questions = questions or Questions()
        self._settings = settings
        self._commands = commands
        self._clock = clock
        self._sender = Sender(settings.submit, commands, clock)
        self._watch = QueueWatch(
            commands=commands,
            monotonic=clock.monotonic,
            ask_seconds=settings.ask_seconds,
            rhythm=settings.rhythm,
        )
        self._cache = RecordCache(clock.monotonic)
        self._seen: dict[TaskId, AttemptRecords] = {}
        self._sent_at: dict[str, float] = {}
        """When a token was sent, monotonic: an older answer knows nothing of it."""
        self._changed_at: dict[TaskId, float] = {}
        """When a task's records were last seen to change, monotonic."""
        self._words = SlurmWords(self._watch)
        self._silence = Silence(self._watch)
        self._late = LateWords(self._watch)
        self._me = Identity.get_own()
        latest = settings.rhythm.latest
        self._gone, self._said = HeldTimes(latest), HeldTimes(latest)
        self._unseen: set[TaskId] = set()
        """Attempts that could not be looked at last."""
        self._over = Since()
        self._asked_to_end, self._missed = Since(), Since()
        self._vanished = VanishedTasks(
            uptime=self._watch.ask_uptime, age=self._measure_age
        )
        self._releases = LaunchReleases()
        self._one_at_a_time = threading.Lock()
        self._told_calls = 0
        self._turn = 0

    @property
    def array_size(self) -> int:
        """Tasks that one submission may hold."""
        largest = self._watch.get_known_facts().max_array_size - 1
        return max(1, min(self._settings.array_size, largest))

    @property
    def lost_after_seconds(self) -> float:
        """A task of which nobody says a word for this long is lost."""
        return max(
            self._settings.lost_seconds, self._watch.get_known_facts().min_job_age
        )

    def learn(self) -> None:
        """Ask for the cluster's own limits; Slurm's defaults hold until it answers.

        A session begins after this: a controller that hangs does not hold it up.
        """
        self._watch.learn(min(LEARN_SECONDS, self._settings.ask_seconds))

    # ------------------------------------------------------------------------ submit
    def submit(self, submission: Submission) -> SubmitAnswer:
        """Hand the tasks to sbatch, as one job or one array."""
        now = self._clock.monotonic()
        self._missed.note(submission.token, holds=False, now=now)  # looked for anew
        answer = self._sender.send(submission)
        if isinstance(answer, Accepted | Uncertain):
            self._sent_at[submission.token] = self._clock.monotonic()
            self._watch.rhythm.set_hurried()
        return answer

    # -------------------------------------------------------------------------- poll
    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        """A stat a task; the controller is asked when that is due."""
        self._words.note_ends(map(self._start, tasks))
        due = bool(tasks) and self._watch.rhythm.is_due(self._clock.monotonic())
        for task in tasks if due else self._in_turn(tasks):
            self._look(task)
        self._watch.owed_since = self._find_owed_since(tasks)
        if due or (tasks and self._watch.rhythm.is_due(self._clock.monotonic())):
            self._forget_all_but(tasks)
            self._questions.put(lambda: self._run_question(tasks))
        for task in tasks:  # last: the question may have taken long
            if task.id in self._said or task.id in self._gone:
                self._look(task, fresh=True)
        now = self._clock.monotonic()
        reports = tuple(self._report(task, now) for task in tasks)
        self._cancel_left_over()
        return PollAnswer(
            reports=reports,
            late=tuple(self._late.list_reports(now)),
            error=self._watch.error,
            calls=self._new_calls(),
            age=now - self._watch.answered_at,
        )

    def _new_calls(self) -> int:
        """Commands sent since the last poll, whatever for."""
        total = sum(self._commands.calls.values())
        new, self._told_calls = total - self._told_calls, total
        return new

    def _in_turn(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """As many tasks as are looked at between two questions, each in its turn."""
        if len(tasks) <= LOOKS:
            return tasks
        first = self._turn % len(tasks)
        self._turn = first + LOOKS
        return [
            *tasks[first : first + LOOKS],
            *tasks[: max(0, self._turn - len(tasks))],
        ]

    def _forget_all_but(self, tasks: Sequence[Task]) -> None:
        """Keep nothing of tasks that nobody asks about any more."""
        wanted = {task.id for task in tasks}
        for one in (
            *(self._gone, self._said, self._words, self._silence),
            *(self._vanished, self._releases, self._over),
        ):
            one.keep_only(wanted)
        self._unseen &= wanted
        tables: tuple[dict[TaskId, Any], ...] = (self._seen, self._changed_at)
        for table in tables:
            for key in [key for key in table if key not in wanted]:
                del table[key]

    def _look(self, task: Task, *, fresh: bool = False) -> None:
        """Read the records; an attempt that cannot be looked at is as it was."""
        try:
            found = self._cache.read(task.attempt_dir, fresh=fresh)
        except OSError:
            self._unseen.add(task.id)
            return
        self._unseen.discard(task.id)
        old = self._seen.get(task.id)
        self._seen[task.id] = found
        if old is None or (old.run, old.void) != (found.run, found.void):
            self._changed_at[task.id] = self._clock.monotonic()
            if old is not None:
                self._watch.rhythm.set_hurried()

    def _run_question(self, tasks: Sequence[Task]) -> None:
        rows = self._watch.ask()
        if rows is None:
            return
        self._cancel_stubborn(tasks, rows)
        self._release_unlaunched(tasks, rows)
        self._ask_accounts(tasks)
        self._explain_vanished(tasks, rows)
        self._ask_on([task for task in tasks if self._is_awaiting_word(task)])

    def _ask_accounts(self, tasks: Sequence[Task]) -> None:
        unexplained = [task for task in tasks if self._is_unexplained(task)]
        if unexplained:
            since = self._compute_since(map(self._at_least_since, unexplained))
            self._watch.ask_accounts(since)

    def _ask_on(self, tasks: Sequence[Task]) -> None:
        """Hurry at first, then ask steadily, while Slurm owes its word on ends."""
        newest = max((self._changed_at.get(one.id, NEVER) for one in tasks), default=0)
        if tasks and self._clock.monotonic() - newest < WORD_SECONDS:
            self._watch.rhythm.set_hurried()
        elif tasks:
            self._watch.rhythm.keep_up()

    def _is_awaiting_word(self, task: Task) -> bool:
        """Whether a run has ended as by Slurm, which has not said why yet."""
        told = self._find_row(task) or self._find_account(task)
        said = told is not None and told.state.standing is Standing.ENDED
        return is_ended_by_signal(self._get_records(task)) and not said

    def _find_owed_since(self, tasks: Sequence[Task]) -> float:
        """UTC from which accounting has to be asked for the words that it owes."""
        owed = [one for one in tasks if one.id in self._over.times]
        owed = [one for one in owed if self._is_awaiting_word(one)]
        return self._compute_since(map(self._at_least_since, owed)) if owed else inf

    def _at_least_since(self, task: Task) -> float:
        """UTC, by whichever clock is behind: its intent's or its run's."""
        run = self._get_records(task).run
        return min(task.ordered_at, run.began.began_at) if run else task.ordered_at

    def _compute_since(self, intents: Iterable[float]) -> float:
        """UTC from which accounting is asked about submissions with such intents."""
        times = [at for at in intents if at > 0]
        return min(times, default=self._clock.utc() - _DAY) - MARGIN_SECONDS

    def _is_unexplained(self, task: Task) -> bool:
        """Whether squeue does not tell how a task stands, or how it ended."""
        row = self._find_row(task)
        if row is None:
            return True
        records = self._get_records(task)
        if row.state.standing is not Standing.ENDED:
            return False
        if row.state.word == "CANCELLED":
            return not records.cancel_ordered  # squeue does not tell by whom
        return records.exited is None and row.state.cause is None

    def _explain_vanished(self, tasks: Sequence[Task], rows: Rows) -> None:
        """Tell the cancelled from the forgotten, of those that nobody shows."""
        vanished = [task for task in tasks if self._has_vanished(task, rows)]
        if vanished and not self._watch.error:
            self._vanished.explain(vanished, rows, self.lost_after_seconds)

    def _measure_age(self, task: Task) -> float | None:
        """Seconds since a task was sent; by the wall clock if another engine sent it.

        None: that clock was set back since, or nobody noted when.
        """
        sent_at = self._sent_at.get(task.token)
        if sent_at is not None:
            return self._clock.monotonic() - sent_at
        age = self._clock.utc() - task.ordered_at
        return age if task.ordered_at > 0 and age >= 0 else None

    def _has_vanished(self, task: Task, rows: Rows) -> bool:
        """Whether a task that was taken, and left no end, is shown by nobody."""
        if find_row(rows, self._id(task), task.token) is not None:
            self._vanished.note_reappeared(task.id)
            return False
        records = self._get_records(task)
        over = records.exited is not None or records.void is not None
        older = self._sent_at.get(task.token, NEVER) >= self._watch.answered_at
        if over or records.cancel_ordered or older or not task.executor_id:
            return False
        row, account = self._words.get(self._start(task))
        return find_newest_word(records, row, account) is None

    def _get_records(self, task: Task) -> AttemptRecords:
        return self._seen.get(task.id) or AttemptRecords()

    def _report(self, task: Task, now: float) -> TaskReport:
        records = self._get_records(task)
        row, account = self._words.get(self._start(task))
        live = row is not None and row.state.standing is not Standing.ENDED
        over = records.exited is not None or records.void is not None
        over_for = self._over.note(task.id, holds=over, now=now)
        news = max(
            self._sent_at.get(task.token, NEVER), self._changed_at.get(task.id, NEVER)
        )
        silent_for = self._silence.measure(
            task.id,
            since=self._at_least_since(task),
            news_at=self._changed_at.get(task.id, NEVER),
        )
        heard = self._watch.answered_at > self._sent_at.get(task.token, NEVER)
        answered = heard and self._watch.answered_at > news
        seen = task.id not in self._unseen
        gone = seen and answered and not live and not self._watch.error
        gone = gone and not self._is_alive_here(task, records)
        word = find_newest_word(records, row, account)
        by = account.state.by if account is not None else None
        said = seen and word is not None and word.standing is Standing.ENDED
        found = report(
            Evidence(
                task=task,
                records=records,
                row=row,
                account=account,
                answered=answered,
                accounted=silent_for >= self._settings.patience_seconds,
                over_for=over_for,
                gone_for=self._gone.note(task.id, holds=gone, now=now),
                said_for=self._said.note(task.id, holds=said, now=now),
                patience=self._settings.patience_seconds,
                lost_after=self.lost_after_seconds,
                cancelled_after=self._vanished.get_patience(task.id),
                forgotten=self._vanished.is_forgotten(task.id),
                by="" if by is None else format_person(by),
                by_may_come=self._watch.get_known_facts().accounting,
                released=self._releases.count(task.id),
                given_up=self._releases.is_given_up(task.id),
                unheard=self._watch.error,
            )
        )
        return self._check_report(task, found, now)

    def _check_report(self, task: Task, found: TaskReport, now: float) -> TaskReport:
        """The report, unless it calls lost what may not have been able to write."""
        if found.phase is not TaskPhase.ENDED:
            return found
        if found.exited is not None:
            if found.cause is None and found.exited.exit_code == 0:
                self._late.await_word(self._start(task), found, now)
            return found
        forgotten = found.cause is not None and self._vanished.is_forgotten(task.id)
        said = found.cause is not None and not forgotten
        if said or found.gone_for < self.lost_after_seconds:
            return found
        if not (refusal := find_refusal(task.attempt_dir)):
            if forgotten:
                self._write_cancel(task)  # should its node be cut off, and its run live
            return found
        self._gone.note(task.id, holds=False, now=now)
        return TaskReport(
            job=task.job, attempt=task.attempt, phase=TaskPhase.UNKNOWN, reason=refusal
        )

    def _is_alive_here(self, task: Task, records: AttemptRecords) -> bool:
        """Whether its supervisor runs on this host; of others only squeue knows."""
        if records.run is None or records.exited is not None:
            return False
        claim = Path(task.attempt_dir, "claim")
        return check_supervisor(records.run.process, self._me, claim) is Alive.YES

    def _find_row(self, task: Task) -> QueueRow | None:
        return self._watch.told.find_row(self._id(task), task.token)

    def _find_account(self, task: Task) -> AccountRow | None:
        return self._watch.told.find_account(self._id(task), task.token)

    def _start(self, task: Task) -> Start:
        run = self._get_records(task).run
        return Start(
            task=task.id,
            run=run.began.run if run else -1,
            executor_id=self._id(task),
            token=task.token,
        )

    def _id(self, task: Task) -> str:
        """What Slurm calls the start that counts: the one that claimed the attempt."""
        claim = self._get_records(task).claim
        ours = claim is not None and claim.token == task.token
        return claim.executor_id if claim and ours else task.executor_id

    # ------------------------------------------------------------------------ cancel
    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        """Ask the tasks to end: those that wait are cancelled, those that run told.

        A running task has its grace, which Slurm's own cancel does not give. It is
        told by its file, and sooner by a signal; whoever outlives the grace is
        cancelled outright by a later poll. An id goes to scancel only when the queue
        has just said that the job under it is ours.
        """
        problems = [text for text in map(self._write_cancel, tasks) if text]
        named = [task for task in tasks if self._id(task)]
        rows = self._watch.ask() if named else {}
        if rows is None:
            problems.append(self._watch.error)
        ours = [task for task in named if self._is_ours(task, rows or {})]
        running = [task for task in ours if self._is_running(task)]
        waiting = [task for task in ours if task not in running]
        ended, told = self._cancel_named(waiting), self._send_signal(running)
        failed = [ran for ran in ended if not is_cancelled(ran)]
        failed += [
            ran for ran in told if not is_cancelled(ran) and not is_signalled(ran)
        ]
        problems += [format_uncancelled(ran) for ran in failed]
        self._watch.rhythm.set_hurried()
        return CancelAnswer(
            ok=not problems,
            sent="; ".join(ran.sent for ran in ended + told),
            said="; ".join(problems),
        )

    def _is_ours(self, task: Task, rows: Rows) -> bool:
        """Whether the job under the task's id has our name.

        Otherwise it has ended, or was forgotten: its id may be anybody's by now.
        """
        return find_row(rows, self._id(task), task.token) is not None

    def _is_running(self, task: Task) -> bool:
        """Whether a run has begun that neither its records nor the queue saw end."""
        try:
            run = read_attempt(task.attempt_dir).run
        except OSError:
            return False
        row = self._find_row(task)
        newer = self._watch.answered_at > self._changed_at.get(task.id, NEVER)
        elsewhere = row is not None and row.state.standing in _NOT_TOLD and newer
        return run is not None and run.exited is None and not elsewhere

    def _cancel_named(self, tasks: Sequence[Task]) -> list[Ran]:
        """Cancel tasks by their names alone.

        Asked for a state as well, scancel takes a task of an array that has not been
        split off yet for all that wait of the array, and cancels them all.
        """
        return [
            self._run_command("scancel", *names) for names in self._join_names(tasks)
        ]

    def _send_signal(self, tasks: Sequence[Task]) -> list[Ran]:
        """Tell tasks that run."""
        return [
            self._commands.run(("scancel", *CANCEL_RUNNING, *names), SIGNAL_SECONDS)
            for names in self._join_names(tasks)
        ]

    def _join_names(self, tasks: Sequence[Task]) -> list[Sequence[str]]:
        """What scancel calls the tasks, in as many parts as its command line needs."""
        names = join_scancel_ids([self._id(task) for task in tasks])
        return [names[first : first + NAMES] for first in range(0, len(names), NAMES)]

    def _run_command(self, *words: str) -> Ran:
        return self._commands.run(words, self._settings.ask_seconds)

    def _write_cancel(self, task: Task) -> str:
        """A start that comes later finds the file, and never begins."""
        try:
            make_private(Path(task.attempt_dir))
            Path(task.attempt_dir, "cancel").touch(mode=0o600)
        except OSError as error:
            return f"{task.job}: {error}"
        self._cache.forget(task.attempt_dir)  # what we wrote, its age need not show
        return ""

    def _release_unlaunched(self, tasks: Sequence[Task], rows: Rows) -> None:
        """Have those run that Slurm could not launch: it holds them, or ended them.

        `rows`: the queue's answer of just now.
        """
        now = self._clock.monotonic()
        for verb, is_meant in (
            ("release", self._is_held),
            ("requeue", self._is_unlaunched),
        ):
            meant = [
                task
                for task in tasks
                if is_meant(task, find_row(rows, self._id(task), task.token))
                and not self._get_records(task).cancel_ordered
                and self._releases.is_due(task.id, now)
            ]
            for task in meant:
                self._releases.note(task.id, now)
            if meant:
                self._run_command(
                    "scontrol", verb, ",".join(map(self._id, meant[:NAMES]))
                )
                self._watch.rhythm.set_hurried()

    def _is_held(self, task: Task, row: QueueRow | None) -> bool:
        left_over = is_left_over(self._get_records(task), row)
        return has_failed_to_launch(row) and not left_over

    def _is_unlaunched(self, task: Task, row: QueueRow | None) -> bool:
        """Whether the start that Slurm calls over has begun no run, seen for a while:
        its records may come late."""
        long_enough = self._said.seconds(task.id) >= QUICK_SECONDS
        return long_enough and is_unlaunched(self._get_records(task), row, None)

    def _cancel_left_over(self) -> None:
        """Take out of the queue what is held there although it has ended well."""
        over = list(self._late.list_left_over())
        if over:
            self._run_command("scancel", *join_scancel_ids(over)[:NAMES])
            self._watch.rhythm.set_hurried()

    def _cancel_stubborn(self, tasks: Sequence[Task], rows: Rows) -> None:
        """Cancel outright what was asked to end and still lives after its grace.

        `rows`: the queue's answer of just now.
        """
        now = self._clock.monotonic()
        limit = self._settings.submit.grace_seconds + STUBBORN_SECONDS
        stubborn: list[str] = []
        for task in tasks:
            row = find_row(rows, self._id(task), task.token)
            live = row is not None and row.state.standing is not Standing.ENDED
            asked = live and self._get_records(task).cancel_ordered
            if self._asked_to_end.note(task.id, holds=asked, now=now) > limit:
                stubborn.append(self._id(task))
                self._asked_to_end.note(task.id, holds=False, now=now)
        if stubborn:
            self._run_command("scancel", *join_scancel_ids(stubborn)[:NAMES])

    # ------------------------------------------------------------------------- adopt
    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        """Look for claims, then ask the queue and accounting by name."""
        try:
            claims = {sub.token: self._find_claim(sub) for sub in submissions}
        except OSError as error:
            return AdoptAnswer(error=f"cannot look at the records: {error}")
        heard = self._ask_again(submissions)
        looks = [self._find(sub, claims[sub.token], heard=heard) for sub in submissions]
        pairs = list(zip(submissions, looks, strict=True))
        return AdoptAnswer(
            found=tuple(found for _, found in pairs if isinstance(found, Found)),
            absent=tuple(sub.token for sub, found in pairs if found == "absent"),
            error="" if heard else self._watch.error,
        )

    def _ask_again(self, submissions: Sequence[Submission]) -> bool:
        """Whether queue and accounting answered; one answer is for all in doubt."""
        since = self._compute_since(sub.ordered_at for sub in submissions)
        sent = (self._sent_at.get(sub.token, NEVER) for sub in submissions)
        with self._one_at_a_time:
            return self._watch.ask_anew(since, max(sent, default=NEVER))

    @staticmethod
    def _find_claim(submission: Submission) -> str:
        """The job id that a task of the submission was claimed under."""
        for task in submission.tasks:
            claim = read_attempt(task.attempt_dir).claim
            if claim is not None and claim.token == submission.token:
                return claim.executor_id.partition("_")[0]
        return ""

    def _find(
        self, submission: Submission, claimed: str, *, heard: bool
    ) -> Found | Literal["absent", "unknown"]:
        job_id = claimed or self._watch.find_job(submission.token)
        now = self._clock.monotonic()
        if job_id:
            self._missed.note(submission.token, holds=False, now=now)
            return Found(
                token=submission.token,
                executor_ids=make_task_ids(job_id, len(submission.tasks)),
                submitted_at=submission.ordered_at or self._clock.utc(),
            )
        if not heard:
            return "unknown"
        missed = self._missed.note(submission.token, holds=True, now=now)
        return "absent" if missed >= self._get_settle_seconds else "unknown"

    @property
    def _get_settle_seconds(self) -> float:
        facts = self._watch.load_facts()
        return max(self._settings.settle_seconds, facts.min_job_age)
