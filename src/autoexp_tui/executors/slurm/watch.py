"""Asks the controller how tasks stand: seldom, all at once, and with patience.

One squeue and at most one sacct a question. The next is due after 15 s, later each time
nothing has moved, up to a minute; sooner when a record has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, TypeVar

from autoexp_tui.engine.executor_port import TaskPhase
from autoexp_tui.executors.slurm.commands import Commands
from autoexp_tui.executors.slurm.text import (
    AccountRow,
    ClusterFacts,
    QueueRow,
    build_sacct,
    build_squeue,
    has_token,
    parse_config,
    parse_sacct,
    parse_squeue,
    parse_uptime,
)

Row = TypeVar("Row", QueueRow, AccountRow)
Rows = Mapping[str, QueueRow]
"""By id."""
Accounts = Mapping[str, AccountRow]

SOONEST_SECONDS: Final = 3.0
"""Between two questions, whatever has changed."""
FIRST_SECONDS: Final = 15.0
LATEST_SECONDS: Final = 60.0
SLOWER: Final = 1.5
NEVER: Final = float("-inf")


@dataclass(slots=True)
class Rhythm:
    """When the controller may be asked again; monotonic seconds."""

    first: float = FIRST_SECONDS
    latest: float = LATEST_SECONDS
    soonest: float = SOONEST_SECONDS
    asked_at: float = NEVER
    wait: float = 0.0
    hurried: bool = False
    """Something has changed that the controller may know more about."""

    def is_due(self, now: float) -> bool:
        passed = now - self.asked_at
        return passed >= (min(self.soonest, self.wait) if self.hurried else self.wait)

    def note_question(self, now: float, *, moved: bool) -> None:
        """The controller answered, or failed to (which moves nothing)."""
        self.asked_at = now
        self.hurried = False
        slower = max(self.first, self.wait * SLOWER)
        self.wait = self.first if moved else min(slower, self.latest)


@dataclass(slots=True)
class QueueWatch:
    """What the controller and accounting said last."""

    commands: Commands
    monotonic: Callable[[], float]
    ask_seconds: float
    rhythm: Rhythm = field(default_factory=Rhythm)
    user: str = field(default_factory=lambda: str(os.getuid()))
    """Whose jobs are asked for: a uid, since $LOGNAME may name anybody."""
    answered_at: float = NEVER
    """Monotonic: when the question was put that squeue answered last."""
    accounted_at: float = NEVER
    """The same of sacct, or of knowing that there is no accounting."""
    accounted_since: float = 0.0
    """UTC: accounting was asked of jobs since then."""
    owed_since: float = inf
    """UTC: of jobs since then accounting owes a word on an end; inf: of none. Whoever
    asks asks that too: many askers would else put each other's question off."""
    error: str = ""
    """Why the newest question got no answer; empty when it did."""
    tell: Callable[[Rows, Accounts], None] = lambda *_: None
    """Is told what every answer says of ends: the next one may lack them again."""
    # Apart: the two are asked on threads of their own.
    rows: Rows = field(default_factory=dict)
    accounts: Accounts = field(default_factory=dict)
    _facts: ClusterFacts | None = None

    def ask(self) -> Rows | None:
        """One squeue: what it says just now; None when it did not answer."""
        now = self.monotonic()  # the answer may be as old as the question
        rows = self._ask(build_squeue(self.user), parse_squeue)
        if rows is None:
            self.rhythm.note_question(self.monotonic(), moved=False)
            return None
        found = {row.id: row for row in rows}
        self.rhythm.note_question(self.monotonic(), moved=found != self.rows)
        self.error = ""
        if now >= self.answered_at:  # of two threads' questions the later one counts
            self.rows, self.answered_at = found, now
        self.tell(_filter_ended(found), {})
        return found

    def ask_accounts(self, since: float) -> bool:
        """One sacct, of jobs since `since` (UTC); False when it did not answer."""
        since = min(since, self.owed_since)
        now, rows = self.monotonic(), tuple[AccountRow, ...]()
        if self.load_facts().accounting:
            answer = self._ask(build_sacct(self.user, since), parse_sacct)
            if answer is None:
                return False
            rows = answer
        accounts = {row.id: row for row in rows}
        self.accounts = accounts
        self.accounted_at, self.accounted_since = now, since
        self.tell({}, _filter_ended(accounts))
        return True

    def ask_anew(self, since: float, news_at: float) -> bool:
        """Both, unless both have answered lately; whether they have since `news_at`.

        `since`: UTC, of jobs. Who gave no answer just now is not asked again at once.
        """
        lately = self.monotonic() - self.rhythm.soonest
        if self.error and self.rhythm.asked_at >= lately:
            return False
        told_at = min(self.answered_at, self.accounted_at)
        if told_at >= max(lately, news_at) and self.accounted_since <= since:
            return True
        return self.ask() is not None and self.ask_accounts(since)

    def _ask(
        self, arguments: Sequence[str], parse: Callable[[str], tuple[Row, ...]]
    ) -> tuple[Row, ...] | None:
        """What a question brought; None: no answer that can be believed."""
        ran = self.commands.run(arguments, self.ask_seconds)
        try:
            if ran.ok:
                return parse(ran.stdout)
        except ValueError as error:
            self.error = str(error)
            return None
        if "accounting storage is disabled" in ran.stderr:
            self._facts = replace(self.load_facts(), accounting=False)
            return ()
        self.error = ran.explain(self.ask_seconds)
        return None

    def load_facts(self) -> ClusterFacts:
        """What the cluster's configuration says, asked once; till then the defaults."""
        if self._facts is None:
            self.learn(self.ask_seconds)
        return self.get_known_facts()

    def learn(self, seconds: float) -> None:
        ran = self.commands.run(("scontrol", "show", "config"), seconds)
        if ran.ok:
            self._facts = parse_config(ran.stdout)

    def ask_uptime(self) -> float | None:
        """Seconds since the controller was started, by its own word."""
        ran = self.commands.run(("scontrol", "show", "config"), self.ask_seconds)
        return parse_uptime(ran.stdout) if ran.ok else None

    def get_known_facts(self) -> ClusterFacts:
        return self._facts or ClusterFacts()

    def find_job(self, token: str) -> str:
        """The job id of the submission `token`, as far as anybody knows it."""
        # Accounting keeps jobs as PENDING that a killed controller has forgotten.
        booked = [r for r in self.accounts.values() if r.state.word != "PENDING"]
        rows: list[QueueRow | AccountRow] = [*self.rows.values(), *booked]
        ids = (row.id for row in rows if has_token(row.name, token))
        return next((name.partition("_")[0] for name in ids), "")


def _filter_ended(rows: Mapping[str, Row]) -> Mapping[str, Row]:
    ended = TaskPhase.ENDED
    return {name: row for name, row in rows.items() if row.state.standing is ended}
