"""What is known of one task on Slurm, and for how long: one record a task.

A word on an end that was heard once, to whatever question, stays true for its run: the
controller forgets ended jobs, and accounting gives answers now and then that lack them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

from autoexp_tui.engine.executor_port import Task, TaskReport
from autoexp_tui.executors.slurm.text import (
    AccountRow,
    QueueRow,
    RawState,
    Standing,
    has_token,
    parse_reason,
)
from autoexp_tui.executors.slurm.watch import NEVER, Accounts, QueueWatch, Row, Rows
from autoexp_tui.executors.supervisors import HeldTimes, check_supervisor
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
        if account is None or account.state.standing is not Standing.ENDED:
            return None  # PENDING there may be a ghost
        again = run is not None and run.began.run > 0 and account.ended_at is not None
        # Accounting trails: it may tell of a run that another has followed.
        late = again and (account.ended_at or 0.0) < (
            run.began.began_at if run else 0.0
        )
        return None if late else account.state

    @property
    def live(self) -> bool:
        return self.row is not None and self.row.state.standing is not Standing.ENDED

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
        if heard is None or heard[1].state.standing is not Standing.ENDED:
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
        has_ended = word is not None and word.standing is Standing.ENDED
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
    if row is None or row.state.standing is not Standing.QUEUED:
        return False
    return parse_reason(row.reason) == "launch_failed_requeued_held"
