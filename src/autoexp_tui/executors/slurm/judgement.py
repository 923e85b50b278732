"""What is known of a task on Slurm, for how long, and what became of it: records, queue
and accounting weighed, pure.

The wrapper's exit record gives the code and the end; the queue's last word (a time
limit, memory, a lost node) sets the cause even over exit 0. A word on an end that was
heard once, to whatever question, stays true for its run: the controller forgets ended
jobs, and accounting gives answers now and then that lack them. An empty or failed
answer is never absence: without a word of anybody a task is gone only after Slurm's
memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Final

from autoexp_tui.engine.executor_port import ExitRecord, Task, TaskPhase, TaskReport
from autoexp_tui.executors.slurm.text import (
    RETURNING,
    AccountRow,
    QueueRow,
    RawState,
    format_reason,
    has_token,
    parse_reason,
)
from autoexp_tui.executors.slurm.watch import NEVER, Accounts, QueueWatch, Row, Rows
from autoexp_tui.executors.supervisors import HeldTimes, check_supervisor
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.attempt_records import AttemptRecords
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.storage.trust import format_user

GRACE_SECONDS: Final = 90.0
"""For an exit record after COMPLETED, for a requeue after PREEMPTED, and for a last
word of anybody on an end by a signal that the queue does not show."""
LATE_SECONDS: Final = 300.0
"""For which a word is listened for on an end that was judged without it."""
RELEASE_WAITS: Final = (0.0, 30.0, 120.0)
"""Seconds before each release of a job that Slurm could not launch and holds: after a
few a person has to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for all tasks at one moment."""

    patience: float = GRACE_SECONDS
    """For an exit record, or a requeue, to come after the queue's last word."""
    lost_after: float = 300.0
    """A task of which nobody says a word for this long is lost."""
    by_may_come: bool = False
    """Whether accounting may yet say who cancelled a task."""
    unheard: str = ""
    """Why the newest question got no answer."""


@dataclass(slots=True, kw_only=True, eq=False)
class TaskMemory:
    """All that is known of one task."""

    task: Task
    records: AttemptRecords = field(default_factory=AttemptRecords)
    has_records: bool = False
    """Whether the records were read once."""
    in_sight: bool = True
    """Whether they could be looked at last."""
    changed_at: float = NEVER
    """When they were last seen to change, monotonic."""
    row: QueueRow | None = None
    """The queue's word now, or its last one on the end of this run."""
    account: AccountRow | None = None
    terms: Terms = field(default_factory=Terms)
    answered: bool = True
    """Whether squeue has answered since the records were seen to change."""
    accounted: bool = True
    """Whether sacct, where there is one, has lacked its end for so long after that that
    it would know: accounting trails."""
    over_for: float = 0.0
    """Seconds since the records first told of an end; 0 while they do not."""
    gone_for: float = 0.0
    """Seconds since squeue, asked after the newest record was seen, first answered
    without a live row; 0 while it has one."""
    said_for: float = 0.0
    """Seconds since Slurm was first heard to say that it has ended; 0 until it does."""
    by: str = ""
    """Who cancelled it, by accounting."""
    has_vanished: bool = False
    """It left the queue without a trace, and the controller was asked why."""
    cancelled_after: float | None = None
    """Seconds without it after which a task that never began was cancelled by somebody;
    None: it may have been forgotten."""
    released: int = 0
    """How often it was released, having been held for a failed launch."""
    released_at: float = 0.0
    judged: TaskReport | None = None
    """Its end as it was judged without Slurm's word, while that is listened for."""
    judged_at: float = 0.0
    heard_row: tuple[int, QueueRow] | None = None
    """The newest row, with the run that was known then."""
    heard_account: tuple[int, AccountRow] | None = None
    held: HeldTimes = field(default_factory=lambda: HeldTimes(inf))
    """For how long it is gone, and said to have ended, as far as somebody looked."""
    since: HeldTimes = field(default_factory=lambda: HeldTimes(inf))
    """For how long it is over, and asked to end."""
    lacked: tuple[float, float] = (NEVER, NEVER)
    """When accounting was first and last asked, and had no end of it; monotonic."""

    @property
    def run(self) -> int:
        return self.records.run.began.run if self.records.run else -1

    @property
    def id(self) -> str:
        """What Slurm calls the start that counts: the one that claimed the attempt."""
        claim = self.records.claim
        ours = claim is not None and claim.token == self.task.token
        return claim.executor_id if claim and ours else self.task.executor_id

    @property
    def word(self) -> RawState | None:
        """The newest word of Slurm's: the queue's, or accounting's on an end."""
        if self.row is not None:
            return self.row.state
        account, run = self.account, self.records.run
        if account is None or account.state.standing is not TaskPhase.ENDED:
            return None  # PENDING there may be a ghost
        again = run is not None and run.began.run > 0 and account.ended_at is not None
        # Accounting trails: it may tell of a run that another has followed.
        late = again and (account.ended_at or 0.0) < (
            run.began.began_at if run else 0.0
        )
        return None if late else account.state

    @property
    def live(self) -> bool:
        return self.row is not None and self.row.state.standing is not TaskPhase.ENDED

    @property
    def forgotten(self) -> bool:
        """The controller was started again since the task was sent, and lacks it."""
        return self.has_vanished and self.cancelled_after is None

    @property
    def given_up(self) -> bool:
        return self.released >= len(RELEASE_WAITS)

    @property
    def ordered_at(self) -> float:
        """UTC, by whichever clock is behind: its intent's or its run's."""
        run, intent = self.records.run, self.task.ordered_at
        return min(intent, run.began.began_at) if run else intent

    def observe(self, records: AttemptRecords, now: float) -> bool:
        """Take in the records; whether those of before have changed."""
        old, known = self.records, self.has_records
        self.records, self.has_records, self.in_sight = records, True, True
        moved = (old.run, old.void) != (records.run, records.void)
        if moved or not known:
            self.changed_at = now
        return moved and known

    def find_in(self, rows: Mapping[str, Row]) -> Row | None:
        """Its row, if of the submission: ids are given out again to anybody."""
        row = rows.get(self.id)
        return row if row is not None and has_token(row.name, self.task.token) else None

    def hear(self, rows: Rows, accounts: Accounts) -> None:
        """Take in an answer; one that lacks an end that was told takes nothing back."""
        row, account = self.find_in(rows), self.find_in(accounts)
        if row is not None:
            self.heard_row = self.run, row
        if account is not None:
            self.heard_account = self.run, account
        self.row = row or self._recall(self.heard_row)
        self.account = account or self._recall(self.heard_account)

    def _recall(self, heard: tuple[int, Row] | None) -> Row | None:
        """The last word on an end, if on this very run."""
        if heard is None or heard[1].state.standing is not TaskPhase.ENDED:
            return None
        return heard[1] if (heard[0], heard[1].id) == (self.run, self.id) else None

    def weigh(
        self,
        watch: QueueWatch,
        terms: Terms,
        *,
        sent_at: float,
        me: Identity,
        now: float,
    ) -> None:
        """For how long what has held, by the records and the newest answers."""
        self.terms = terms
        self.hear(watch.rows, watch.accounts)
        run = self.records.run
        self.over_for = self.since.note("over", holds=self.records.is_over, now=now)
        self.answered = watch.answered_at > max(sent_at, self.changed_at)
        self.accounted = self.measure_silence(watch) >= terms.patience
        gone = self.in_sight and self.answered and not self.live and not watch.error
        if gone and run is not None and run.exited is None:
            # Its supervisor may run on this host; of others only squeue knows.
            claim = Path(self.task.attempt_dir, "claim")
            gone = check_supervisor(run.process, me, claim) is not Alive.YES
        self.gone_for = self.held.note("gone", holds=gone, now=now)
        word = self.word
        has_ended = word is not None and word.standing is TaskPhase.ENDED
        self.said_for = self.held.note(
            "said", holds=has_ended and self.in_sight, now=now
        )
        by = self.account.state.by if self.account is not None else None
        self.by = "" if by is None else format_user(by)

    def measure_silence(self, watch: QueueWatch) -> float:
        """For how long accounting has had no end of it, by its answers alone.

        One answer that lacks it is not absence, nor is one asked of later jobs only.
        """
        first, newest = self.lacked
        if first <= self.changed_at:
            first = newest = NEVER
        at = watch.accounted_at
        if at > self.changed_at and watch.accounted_since <= self.ordered_at:
            first, newest = (at if first == NEVER else first), at
        self.lacked = first, newest
        return 0.0 if first == NEVER else newest - first


def has_failed_to_launch(row: QueueRow | None) -> bool:
    if row is None or row.state.standing is not TaskPhase.QUEUED:
        return False
    return parse_reason(row.reason) == "launch_failed_requeued_held"


QUICK_SECONDS: Final = 10.0
"""For the exit record to come once Slurm's last word was heard: file systems lag."""
WORD_SECONDS: Final = 15.0
"""For the queue's last word to come after an exit record: it may know the cause. After
an end by a signal, which is how Slurm ends runs, it is asked for instead."""
FAR_SECONDS: Final = 60.0
"""Who ends so long before its time limit has not met it: Slurm's limits are minutes."""
SKEW_SECONDS: Final = 5.0
"""By which the clocks of a node and of the controller may differ."""
MOST: Final = len(RELEASE_WAITS)
_SHELL_ADDS: Final = 128
"""What a shell, or srun, adds to the number of the signal that killed its command."""
_SENT_BY_SLURM: Final = frozenset(
    {_SHELL_ADDS + number for number in (SIGKILL, SIGTERM)}
)


def report(seen: TaskMemory) -> TaskReport:
    """What became of the task, by all that is known of it."""
    if seen.records.void is not None:
        return _report_ended(seen, gone_for=seen.terms.lost_after)
    again = seen.answered and _resolve_standing(seen) is TaskPhase.QUEUED
    # A run that ended well is not to run again because its controller missed that.
    runs_again = again and not is_left_over(seen)
    exited = seen.records.exited is not None and not runs_again
    if not is_unlaunched(seen) and not exited and (seen.live or not seen.answered):
        return _report_alive(seen)
    if (wait := _find_wait(seen, exited=exited)) is None:
        return _report_end(seen, exited=exited)
    awaited, seconds = wait
    return replace(
        _report_alive(seen),
        phase=TaskPhase.LEAVING,
        expected_at=None,
        reason=f"{_format_end(seen)}; waits up to {seconds:.0f} s for {awaited}",
    )


def is_left_over(seen: TaskMemory) -> bool:
    """Whether a job is held for a failed launch although it has run, and ended well."""
    ended = seen.records.exited
    return ended is not None and ended.exit_code == 0 and has_failed_to_launch(seen.row)


def is_unlaunched(seen: TaskMemory) -> bool:
    """Whether Slurm's last word is on a later start, which began no run: a controller
    that was killed within a launch has forgotten it, and starts the job anew."""
    records, entry, word = seen.records, seen.row or seen.account, seen.word
    if entry is None or word is None or records.cancel_ordered:
        return False
    if word.standing is not TaskPhase.ENDED or word.cause is not None:
        return False
    if records.exited is not None and not is_ended_by_signal(records):
        return False
    run, claim, known_at = records.run, records.claim, None
    if run is not None:
        known_at = run.began.began_at if run.began.executor_id == entry.id else None
    elif claim is not None and claim.executor_id == entry.id:
        known_at = claim.claimed_at
    return (
        known_at is not None
        and entry.started_at is not None
        and entry.started_at > known_at + SKEW_SECONDS
    )


def _resolve_standing(seen: TaskMemory) -> TaskPhase:
    """How the task stands in the queue; a word older than its run is no news."""
    if seen.row is None:
        return TaskPhase.UNKNOWN
    standing = seen.row.state.standing
    late = standing is TaskPhase.QUEUED and seen.records.run and not seen.answered
    return TaskPhase.RUNNING if late else standing


def _report_alive(seen: TaskMemory) -> TaskReport:
    row, run = seen.row, seen.records.run
    standing = _resolve_standing(seen)
    phase = TaskPhase.QUEUED if seen.task.executor_id else TaskPhase.UNKNOWN
    if row is not None and standing is not TaskPhase.RUNNING:
        phase = standing
    elif run is not None:  # running is what has begun by its own record
        phase = TaskPhase.RUNNING
    return replace(
        _build_report(seen, phase),
        executor_id=row.id if row else seen.task.executor_id,
        requeued=run is not None and standing is TaskPhase.QUEUED,
        reason=_format_reason(seen, standing),
        node=row.nodes if row else "",
        expected_at=row.starts_at if row and standing is TaskPhase.QUEUED else None,
        stuck=seen.given_up and has_failed_to_launch(row),
    )


def _format_reason(seen: TaskMemory, standing: TaskPhase) -> str:
    row = seen.row
    if row is None:
        return ""
    if standing is TaskPhase.UNKNOWN:
        return f"Slurm says {row.state.word or 'nothing'}: taken as alive"
    if standing is TaskPhase.SUSPENDED:
        return "suspended by the cluster"
    if standing is TaskPhase.RUNNING:
        return "" if seen.records.run else f"starting on {row.nodes or 'its node'}"
    if has_failed_to_launch(row) and not seen.given_up:
        return f"Slurm could not launch it; released {seen.released} times of {MOST}"
    return format_reason(row.reason, partition=row.partition, job_id=row.id)


def _build_report(seen: TaskMemory, phase: TaskPhase) -> TaskReport:
    """What is the same of all."""
    task, records = seen.task, seen.records
    return TaskReport(
        job=task.job,
        attempt=task.attempt,
        phase=phase,
        executor_id=(records.claim or task).executor_id,
        began=records.run.began if records.run else None,
        partition=seen.row.partition if seen.row else "",
    )


_WHY: Final = "Slurm's word on why"
_WHETHER_AGAIN: Final = "Slurm to start it again"


def _find_wait(seen: TaskMemory, *, exited: bool) -> tuple[str, float] | None:
    """What may yet come after an end, and for how many seconds that is waited for.

    `exited`: the wrapper says that the run is over; the queue may know why.
    """
    word, patience = seen.word, seen.terms.patience
    if is_unlaunched(seen):
        return (_WHETHER_AGAIN, patience) if seen.said_for < patience else None
    if exited and is_left_over(seen):
        return None
    if word is not None and word.standing is TaskPhase.ENDED:
        return _find_wait_after_word(seen, word, exited=exited)
    if not exited or _is_plain_success(seen):
        return None
    if is_ended_by_signal(seen.records):
        silent = seen.answered and not seen.live and seen.accounted
        heard_out = silent and seen.gone_for >= patience  # nobody will have a word
        owed = seen.over_for < seen.terms.lost_after and not heard_out
        return (_WHY, patience) if owed else None
    owed = (seen.live or not seen.answered) and seen.over_for < WORD_SECONDS
    return (_WHY, WORD_SECONDS) if owed else None


def _find_wait_after_word(
    seen: TaskMemory, word: RawState, *, exited: bool
) -> tuple[str, float] | None:
    """An exit record, a further run, or who cancelled it: accounting trails."""
    awaited, patience = "its exit record", seen.terms.patience
    never_had_a_node = word.word == "CANCELLED" and not _node(seen)
    if word.word in RETURNING:
        awaited = _WHETHER_AGAIN
    elif exited or never_had_a_node:  # then there is nothing to come
        patience = 0.0
    elif word.word != "COMPLETED":
        patience = QUICK_SECONDS
    if seen.said_for < patience:
        return awaited, patience
    by_unknown = word.word == "CANCELLED" and not seen.by and seen.terms.by_may_come
    if by_unknown and not seen.records.cancel_ordered and seen.said_for < QUICK_SECONDS:
        return "Slurm's word on who cancelled it", QUICK_SECONDS
    return None


def _is_plain_success(seen: TaskMemory) -> bool:
    """Whether exit 0 needs no word of Slurm's: unasked, far from its limit, no kill."""
    run = seen.records.run
    if run is None or run.exited is None:
        return False
    exited, limit = run.exited, seen.task.resources.time_limit_seconds
    far = not limit or exited.ended_at - run.began.began_at < limit - FAR_SECONDS
    quiet = exited.asked is False and not exited.oom_kills
    return exited.exit_code == 0 and quiet and far


def is_ended_by_signal(records: AttemptRecords) -> bool:
    """Whether a run ended as Slurm ends runs, not by our order: Slurm knows why."""
    run = records.run
    if run is None or run.exited is None or records.cancel_ordered:
        return False
    asked = run.ending.startswith("signal")
    killed = run.exited.signal is not None or run.exited.exit_code in _SENT_BY_SLURM
    return asked or killed


def _format_end(seen: TaskMemory) -> str:
    ended = seen.records.exited
    if ended is None:
        word = seen.word.word if seen.word else ""
        return f"over, Slurm says {word}"
    if ended.signal is not None:
        return f"ended by signal {ended.signal}"
    return f"ended with exit {ended.exit_code}"


def _report_end(seen: TaskMemory, *, exited: bool) -> TaskReport:
    word = seen.word
    if is_unlaunched(seen):  # Slurm's word is not on the run that began
        return _report_ended(seen, cause=Cause.NODE_FAIL, reason=_NOT_AGAIN)
    if not exited:
        return _report_vanished(seen) if word is None else _report_by_word(seen, word)
    ended = word is not None and word.standing is TaskPhase.ENDED
    cause = word.cause if word is not None and ended else None
    if cause is Cause.OUT_OF_MEMORY and _is_plain_success(seen):
        return replace(_report_ended(seen), late_cause=cause)
    return _report_ended(seen, cause=cause)


_NOT_AGAIN: Final = "Slurm ended its run and could not start it again"


def _report_vanished(seen: TaskMemory) -> TaskReport:
    """Nobody has a word on it. A cancelled task that waited may leave no trace."""
    records, gone_for = seen.records, seen.gone_for
    waited = records.claim is None and records.run is None
    ours = records.run is None and records.cancel_ordered
    limit = QUICK_SECONDS if ours else seen.cancelled_after if waited else None
    if limit is not None:
        over = None if gone_for >= limit else 0.0
        return _report_ended(seen, cause=Cause.USER, gone_for=over)
    if seen.forgotten and not waited:
        # It ran when the controller died, which had not saved it: its node ended it.
        options = seen.task.resources.options
        fixed = options.get("no-requeue") or options.get("requeue") is False
        ended = _report_ended(
            seen, cause=Cause.NODE_FAIL, gone_for=gone_for, reason=_WAS_FORGOTTEN
        )
        return replace(ended, rerun=not fixed)
    unheard = f"; {seen.terms.unheard}" if seen.terms.unheard else ""
    reason = f"squeue does not show it any more, and it left no exit record{unheard}"
    return _report_ended(seen, gone_for=gone_for, reason=reason)


_WAS_FORGOTTEN: Final = "Slurm's controller was started again and does not know it"


def _report_by_word(seen: TaskMemory, word: RawState) -> TaskReport:
    if word.cause is not None:
        return _report_ended(seen, cause=word.cause)
    if word.word == "COMPLETED":
        return _report_ended(seen, exited=_make_exit_record(seen, code=0))
    account, row = seen.account, seen.row
    if seen.records.run is None:
        why = row and format_reason(row.reason, partition=row.partition)
        directory = seen.task.cwd or seen.task.log_dir
        reason = (
            f"{why or 'Slurm could not start it on the node'}; "
            f"see that the nodes can reach {directory} and {seen.task.log_dir}"
        )
        return _report_ended(seen, cause=Cause.SUBMIT_ERROR, reason=reason)
    if account is not None and (account.exit_code or account.signal):
        killed = account.signal or None
        code = None if killed else account.exit_code
        exited = _make_exit_record(seen, code=code, signal=killed)
        return _report_ended(seen, exited=exited)
    return _report_ended(seen, cause=Cause.EXIT_CODE, reason=f"Slurm says {word.word}")


def _make_exit_record(
    seen: TaskMemory, *, code: int | None, signal: int | None = None
) -> ExitRecord:
    run = seen.records.run
    ends = (entry.ended_at for entry in (seen.account, seen.row) if entry is not None)
    began = run.began.began_at if run else 0.0
    return ExitRecord(
        run=run.began.run if run else 0,
        ended_at=next((at for at in ends if at is not None), began),
        exit_code=code,
        signal=signal,
        note="by Slurm's word: the job itself left no exit record",
    )


def _report_ended(
    seen: TaskMemory,
    *,
    cause: Cause | None = None,
    exited: ExitRecord | None = None,
    reason: str = "",
    gone_for: float | None = None,
) -> TaskReport:
    records, row, void = seen.records, seen.row, seen.records.void
    claimed = records.claim is not None or "claim" in records.damaged
    shown = cause
    # Of a cancelled one Slurm's reason says why it had waited.
    tells_more = row is not None and row.reason not in _SAID_BY_CAUSE
    if void:
        reason = reason or void.message
        shown = cause or (Cause.SUBMIT_ERROR if void.why == "failed" else Cause.USER)
    elif row and tells_more and cause not in (None, Cause.USER):
        message = format_reason(row.reason, partition=row.partition, job_id=row.id)
        reason = reason or message
    return replace(
        _build_report(seen, TaskPhase.ENDED),
        exited=exited or records.exited,
        cause=shown,
        reason=reason,
        node=_node(seen),
        gone_for=seen.terms.lost_after if gone_for is None else gone_for,
        # A damaged claim is one.
        unclaimed=not (claimed or void or seen.word or cause),
        tampering=records.tampering,
        by=seen.by if cause is Cause.USER else "",
    )


_SAID_BY_CAUSE: Final = frozenset({"TimeLimit", "NodeDown", "NodeFail", "OutOfMemory"})


def _node(seen: TaskMemory) -> str:
    if seen.row is not None and seen.row.nodes:
        return seen.row.nodes
    if seen.account is not None and seen.account.nodes:
        return seen.account.nodes
    return seen.records.supervisor.host if seen.records.supervisor else ""
