"""What became of a task on Slurm: records, queue and accounting weighed, pure.

The wrapper's exit record gives the code and the end; the queue's last word (a time
limit, memory, a lost node) sets the cause even over exit 0; the queue alone says what
lives. An empty or failed answer is never absence: without a word of anybody a task is
gone only after Slurm's own memory has run out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from signal import SIGKILL, SIGTERM
from typing import Final

from autoexp_tui.engine.executor_port import ExitRecord, Task, TaskPhase, TaskReport
from autoexp_tui.executors.slurm.messages import format_reason
from autoexp_tui.executors.slurm.task_history import RELEASE_WAITS, has_failed_to_launch
from autoexp_tui.executors.slurm.text import (
    RETURNING,
    AccountRow,
    QueueRow,
    RawState,
    Standing,
)
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.attempt_records import AttemptRecords

QUICK_SECONDS: Final = 10.0
"""For the exit record to come once Slurm's last word was heard: file systems lag."""
WORD_SECONDS: Final = 15.0
"""For the queue's last word to come after an exit record: it may know the cause. After
an end by a signal, which is how Slurm ends runs, it is asked for instead."""
FAR_SECONDS: Final = 60.0
"""Who ends so long before its time limit has not met it: Slurm's limits are minutes."""
GRACE_SECONDS: Final = 90.0
"""For an exit record after COMPLETED, for a requeue after PREEMPTED, and for a last
word of anybody on an end by a signal that the queue does not show."""
SKEW_SECONDS: Final = 5.0
"""By which the clocks of a node and of the controller may differ."""
MOST: Final = len(RELEASE_WAITS)
"""Times that a held job is released."""
_SHELL_ADDS: Final = 128
"""What a shell, or srun, adds to the number of the signal that killed its command."""
_SENT_BY_SLURM: Final = frozenset(
    {_SHELL_ADDS + number for number in (SIGKILL, SIGTERM)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of one task at one moment."""

    task: Task
    records: AttemptRecords
    row: QueueRow | None = None
    account: AccountRow | None = None
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
    patience: float = GRACE_SECONDS
    """For an exit record, or a requeue, to come after the queue's last word."""
    cancelled_after: float | None = None
    """Seconds without it after which a task that never began was cancelled by somebody;
    None: it may have been forgotten."""
    forgotten: bool = False
    """The controller was started again since the task was sent, and lacks it."""
    by: str = ""
    """Who cancelled it, by accounting."""
    by_may_come: bool = False
    """Whether accounting may yet say who."""
    released: int = 0
    """How often it was released, having been held for a failed launch."""
    given_up: bool = False
    """It is not released again."""
    unheard: str = ""
    """Why the newest question got no answer."""
    lost_after: float = 300.0

    @property
    def word(self) -> RawState | None:
        """The newest word of Slurm's on the task."""
        return find_newest_word(self.records, self.row, self.account)

    @property
    def live(self) -> bool:
        """Whether the queue, when last asked, had it as queued or running."""
        return self.row is not None and self.row.state.standing is not Standing.ENDED


def find_newest_word(
    records: AttemptRecords, row: QueueRow | None, account: AccountRow | None
) -> RawState | None:
    """What Slurm says of a task: the queue, or accounting where it has ended."""
    if row is not None:
        return row.state
    if account is None or account.state.standing is not Standing.ENDED:
        return None  # PENDING there may be a ghost
    return None if _is_of_an_earlier_run(account, records) else account.state


def report(seen: Evidence) -> TaskReport:
    """What the evidence says of the task."""
    if seen.records.void is not None:
        return _report_ended(seen, gone_for=seen.lost_after)
    if is_unlaunched(seen.records, seen.row, seen.account):
        return _report_unlaunched(seen)
    if seen.records.exited is not None and not _is_running_again(seen):
        return _after_exit(seen)
    if seen.live or not seen.answered:
        return _report_alive(seen)
    return _report_without_exit(seen)


def _is_running_again(seen: Evidence) -> bool:
    """Whether the queue has it back, and says so since the run was seen.

    A run that ended well is not to run again because its controller did not hear of it.
    """
    again = seen.answered and _resolve_standing(seen) is Standing.QUEUED
    return again and not is_left_over(seen.records, seen.row)


def is_left_over(records: AttemptRecords, row: QueueRow | None) -> bool:
    """Whether a job is held for a failed launch although it has run, and ended well."""
    ended = records.exited
    return ended is not None and ended.exit_code == 0 and has_failed_to_launch(row)


def is_unlaunched(
    records: AttemptRecords, row: QueueRow | None, account: AccountRow | None
) -> bool:
    """Whether Slurm's last word is on a later start, which began no run.

    A controller that was killed within a launch has forgotten it: it stops that run,
    and starts the job anew. A node that has stopped it within the same second takes
    the new start for the old one and refuses it, and Slurm calls the job FAILED.
    """
    told, word = row or account, find_newest_word(records, row, account)
    if told is None or word is None or records.cancel_ordered:
        return False
    if word.standing is not Standing.ENDED or word.cause is not None:
        return False
    if records.exited is not None and not is_ended_by_signal(records):
        return False
    known_at = _find_start(records, told.id)
    return (
        known_at is not None
        and told.started_at is not None
        and told.started_at > known_at + SKEW_SECONDS
    )


def _find_start(records: AttemptRecords, executor_id: str) -> float | None:
    """When the newest start that left a record under this id did so; UTC."""
    run, claim = records.run, records.claim
    if run is not None:
        return run.began.began_at if run.began.executor_id == executor_id else None
    if claim is not None and claim.executor_id == executor_id:
        return claim.claimed_at
    return None


def _resolve_standing(seen: Evidence) -> Standing:
    """How the task stands in the queue; a word older than its run is no news."""
    if seen.row is None:
        return Standing.UNKNOWN
    standing = seen.row.state.standing
    late = standing is Standing.QUEUED and seen.records.run and not seen.answered
    return Standing.RUNNING if late else standing


def _is_of_an_earlier_run(told: AccountRow, records: AttemptRecords) -> bool:
    """Whether accounting, which trails, tells of a run that was followed by another."""
    run = records.run
    if run is None or run.began.run == 0 or told.ended_at is None:
        return False
    return told.ended_at < run.began.began_at


# ------------------------------------------------------------------------ still alive
def _report_alive(seen: Evidence) -> TaskReport:
    row = seen.row
    standing = _resolve_standing(seen)
    begun = seen.records.run is not None
    again = begun and standing is Standing.QUEUED
    return TaskReport(
        job=seen.task.job,
        attempt=seen.task.attempt,
        phase=_resolve_phase(seen, standing),
        executor_id=row.id if row else seen.task.executor_id,
        began=seen.records.run.began if seen.records.run else None,
        requeued=again,
        reason=_format_reason(seen, standing),
        node=row.nodes if row else "",
        partition=row.partition if row else "",
        expected_at=row.starts_at if row and standing is Standing.QUEUED else None,
        duplicate=_is_duplicate(seen),
        stuck=seen.given_up and has_failed_to_launch(row),
    )


def _resolve_phase(seen: Evidence, standing: Standing) -> TaskPhase:
    """Running is what has begun by its own record; before that it is starting."""
    if seen.row is not None and standing is not Standing.RUNNING:
        return _PHASES[standing]
    if seen.records.run is not None:
        return TaskPhase.RUNNING
    return TaskPhase.QUEUED if seen.task.executor_id else TaskPhase.UNKNOWN


_PHASES: Final = {
    Standing.QUEUED: TaskPhase.QUEUED,
    Standing.SUSPENDED: TaskPhase.SUSPENDED,
    Standing.ENDED: TaskPhase.ENDED,
    Standing.UNKNOWN: TaskPhase.UNKNOWN,
}


def _format_reason(seen: Evidence, standing: Standing) -> str:
    row = seen.row
    if row is None:
        return ""
    if standing is Standing.UNKNOWN:
        return f"Slurm says {row.state.word or 'nothing'}: taken as alive"
    if standing is Standing.SUSPENDED:
        return "suspended by the cluster"
    if standing is Standing.RUNNING:
        return "" if seen.records.run else f"starting on {row.nodes or 'its node'}"
    if has_failed_to_launch(row) and not seen.given_up:
        return f"Slurm could not launch it; released {seen.released} times of {MOST}"
    return format_reason(row.reason, partition=row.partition, job_id=row.id)


def _is_duplicate(seen: Evidence) -> bool:
    claim = seen.records.claim
    mine = seen.task.executor_id
    return bool(
        claim and mine and claim.executor_id != mine and seen.records.duplicates
    )


# ------------------------------------------------------------------ with exit record
def _after_exit(seen: Evidence) -> TaskReport:
    """The wrapper says that the run is over; the queue may know why."""
    word = seen.word
    final = _is_plain_success(seen)
    if is_left_over(seen.records, seen.row):
        return _report_ended(seen)
    if word is not None and word.standing is Standing.ENDED:
        if word.word in RETURNING and seen.said_for < seen.patience:
            return _report_leaving(seen, _WHETHER_AGAIN, seen.patience)
        if final and word.cause is Cause.OUT_OF_MEMORY:
            return replace(_report_ended(seen), late_cause=word.cause)
        if _is_canceller_awaited(seen, word):
            return _report_leaving(seen, _WHO, QUICK_SECONDS)
        return _report_ended(seen, cause=word.cause)
    if final:
        return _report_ended(seen)
    if is_ended_by_signal(seen.records):
        if seen.over_for < seen.lost_after and not _is_heard_out(seen):
            return _report_leaving(seen, _WHY, seen.patience)
    elif (seen.live or not seen.answered) and seen.over_for < WORD_SECONDS:
        return _report_leaving(seen, _WHY, WORD_SECONDS)
    return _report_ended(seen)


_WHY: Final = "Slurm's word on why"
_WHO: Final = "Slurm's word on who cancelled it"
_WHETHER_AGAIN: Final = "Slurm to start it again"
_RECORD: Final = "its exit record"


def _is_plain_success(seen: Evidence) -> bool:
    """Whether exit 0 needs no word of Slurm's.

    Nobody had signalled the command, its time limit was far, and where kills for memory
    are counted there was none. Where they are not, Slurm's word on them comes too late.
    """
    run = seen.records.run
    if run is None or run.exited is None:
        return False
    exited, limit = run.exited, seen.task.resources.time_limit_seconds
    lasted = exited.ended_at - run.began.began_at
    far = not limit or lasted < limit - FAR_SECONDS
    return (
        exited.exit_code == 0
        and exited.asked is False
        and far
        and (not exited.oom_kills)
    )


def _is_canceller_awaited(seen: Evidence, word: RawState) -> bool:
    """Whether accounting may yet tell who cancelled it; its row trails the queue's."""
    if word.word != "CANCELLED" or seen.records.cancel_ordered or seen.by:
        return False
    return seen.by_may_come and seen.said_for < QUICK_SECONDS


def is_ended_by_signal(records: AttemptRecords) -> bool:
    """Whether a run ended as Slurm ends runs, and not by our order.

    Out of memory, its time up, preempted for good or to run again: only Slurm can say.
    """
    run = records.run
    if run is None or run.exited is None or records.cancel_ordered:
        return False
    asked = run.ending.startswith("signal")
    killed = run.exited.signal is not None or run.exited.exit_code in _SENT_BY_SLURM
    return asked or killed


def _is_heard_out(seen: Evidence) -> bool:
    """Whether nobody has a word on the end, and nobody will have one."""
    silent = seen.answered and not seen.live and seen.accounted
    return silent and seen.gone_for >= seen.patience


def _report_leaving(seen: Evidence, awaited: str, seconds: float) -> TaskReport:
    """Over by its records or by the queue: its end is not judged yet.

    Args:
        seen: the evidence so far.
        awaited: what may yet come.
        seconds: for how long that is waited for.
    """
    run = seen.records.run
    return replace(
        _report_alive(seen),
        phase=TaskPhase.LEAVING,
        began=run.began if run else None,
        expected_at=None,
        reason=f"{_format_end(seen)}; waits up to {seconds:.0f} s for {awaited}",
    )


def _format_end(seen: Evidence) -> str:
    """By whose word it is over, and how."""
    ended = seen.records.exited
    if ended is None:
        word = seen.word.word if seen.word else ""
        return f"over, Slurm says {word}"
    if ended.signal is not None:
        return f"ended by signal {ended.signal}"
    return f"ended with exit {ended.exit_code}"


# ----------------------------------------------------------------- a start that failed
def _report_unlaunched(seen: Evidence) -> TaskReport:
    """It is queued again by us; Slurm's word is not on the run that began."""
    if seen.said_for < seen.patience:
        return _report_leaving(seen, _WHETHER_AGAIN, seen.patience)
    return _report_ended(seen, cause=Cause.NODE_FAIL, reason=_NOT_AGAIN)


_NOT_AGAIN: Final = "Slurm ended its run and could not start it again"


# --------------------------------------------------------------- without exit record
def _report_without_exit(seen: Evidence) -> TaskReport:
    word = seen.word
    if word is None:
        return _report_vanished(seen)
    patience = _get_patience(seen, word)
    if seen.said_for < patience:
        awaited = _WHETHER_AGAIN if word.word in RETURNING else _RECORD
        return _report_leaving(seen, awaited, patience)
    if _is_canceller_awaited(seen, word):
        return _report_leaving(seen, _WHO, QUICK_SECONDS)
    return _report_by_word(seen, word)


def _report_vanished(seen: Evidence) -> TaskReport:
    """Nobody has a word on it. A cancelled task that waited may leave no trace."""
    waited = seen.records.claim is None and seen.records.run is None
    ours = seen.records.run is None and seen.records.cancel_ordered
    limit = QUICK_SECONDS if ours else seen.cancelled_after if waited else None
    if limit is not None and seen.gone_for >= limit:
        return _report_ended(seen, cause=Cause.USER)
    if limit is not None:
        return _report_ended(seen, cause=Cause.USER, gone_for=0.0)
    if seen.forgotten and not waited:
        return _report_forgotten(seen)
    unheard = f"; {seen.unheard}" if seen.unheard else ""
    reason = f"squeue does not show it any more, and it left no exit record{unheard}"
    return _report_ended(seen, gone_for=seen.gone_for, reason=reason)


def _report_forgotten(seen: Evidence) -> TaskReport:
    """It ran when the controller died, which had not saved it: its node ended it."""
    ended = _report_ended(
        seen, cause=Cause.NODE_FAIL, gone_for=seen.gone_for, reason=_WAS_FORGOTTEN
    )
    options = seen.task.resources.options
    fixed = options.get("no-requeue") or options.get("requeue") is False
    return replace(ended, rerun=not fixed)


_WAS_FORGOTTEN: Final = "Slurm's controller was started again and does not know it"


def _get_patience(seen: Evidence, word: RawState) -> float:
    """How long an exit record, or a further run, is waited for after a last word."""
    if word.word == "CANCELLED" and not _node(seen):
        return 0.0  # it never had a node: there is nothing to come
    returns = word.word in RETURNING
    success = word.word == "COMPLETED"
    return seen.patience if returns or success else QUICK_SECONDS


def _report_by_word(seen: Evidence, word: RawState) -> TaskReport:
    if word.cause is not None:
        return _report_ended(seen, cause=word.cause)
    if word.word == "COMPLETED":
        return _report_ended(seen, exited=_make_exit_record(seen, code=0))
    account = seen.account
    if seen.records.run is None:
        return _report_ended(
            seen, cause=Cause.SUBMIT_ERROR, reason=_format_start_failure(seen)
        )
    if account is not None and (account.exit_code or account.signal):
        killed = account.signal or None
        code = None if killed else account.exit_code
        return _report_ended(
            seen, exited=_make_exit_record(seen, code=code, signal=killed)
        )
    return _report_ended(seen, cause=Cause.EXIT_CODE, reason=f"Slurm says {word.word}")


def _make_exit_record(
    seen: Evidence, *, code: int | None, signal: int | None = None
) -> ExitRecord:
    """An exit record by Slurm's word, the wrapper having left none."""
    run = seen.records.run
    ends = (told.ended_at for told in (seen.account, seen.row) if told is not None)
    began = run.began.began_at if run else 0.0
    return ExitRecord(
        run=run.began.run if run else 0,
        ended_at=next((at for at in ends if at is not None), began),
        exit_code=code,
        signal=signal,
        note="by Slurm's word: the job itself left no exit record",
    )


def _format_start_failure(seen: Evidence) -> str:
    reason = seen.row.reason if seen.row else ""
    why = format_reason(reason, partition=seen.row.partition if seen.row else "")
    directory = seen.task.cwd or seen.task.log_dir
    return (
        f"{why or 'Slurm could not start it on the node'}; "
        f"see that the nodes can reach {directory} and {seen.task.log_dir}"
    )


def _report_ended(
    seen: Evidence,
    *,
    cause: Cause | None = None,
    exited: ExitRecord | None = None,
    reason: str = "",
    gone_for: float | None = None,
) -> TaskReport:
    records = seen.records
    void = records.void
    return TaskReport(
        job=seen.task.job,
        attempt=seen.task.attempt,
        phase=TaskPhase.ENDED,
        executor_id=_id(seen),
        began=records.run.began if records.run else None,
        exited=exited or records.exited,
        cause=cause or (_get_void_cause(seen) if void else None),
        reason=reason or (void.message if void else _format_last_reason(seen, cause)),
        node=_node(seen),
        partition=seen.row.partition if seen.row else "",
        gone_for=seen.lost_after if gone_for is None else gone_for,
        duplicate=_is_duplicate(seen),
        unclaimed=_is_unclaimed(records) and seen.word is None and cause is None,
        tampering=records.tampering,
        by=seen.by if cause is Cause.USER else "",
    )


def _is_unclaimed(records: AttemptRecords) -> bool:
    """Whether no start ever claimed the attempt; a damaged claim is one."""
    claimed = records.claim is not None or "claim" in records.damaged
    return not claimed and records.void is None


def _id(seen: Evidence) -> str:
    claim = seen.records.claim
    return claim.executor_id if claim else seen.task.executor_id


def _get_void_cause(seen: Evidence) -> Cause | None:
    void = seen.records.void
    return Cause.SUBMIT_ERROR if void and void.why == "failed" else Cause.USER


_SAID_BY_CAUSE: Final = frozenset({"TimeLimit", "NodeDown", "NodeFail", "OutOfMemory"})


def _format_last_reason(seen: Evidence, cause: Cause | None) -> str:
    row = seen.row
    if row is None or cause in (None, Cause.USER) or row.reason in _SAID_BY_CAUSE:
        return ""  # of a cancelled one it says why it had waited
    return format_reason(row.reason, partition=row.partition, job_id=row.id)


def _node(seen: Evidence) -> str:
    if seen.row is not None and seen.row.nodes:
        return seen.row.nodes
    if seen.account is not None and seen.account.nodes:
        return seen.account.nodes
    return seen.records.supervisor.host if seen.records.supervisor else ""
