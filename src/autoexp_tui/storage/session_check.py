"""Everything that can be told of a session's soundness by reading what lies on disk.

Read-only, and safe beside a living engine. What a repair would do hangs on the flaws;
nothing is done here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.atomic import explained
from autoexp_tui.storage.check_files import check_files
from autoexp_tui.storage.check_jobs import JobsCheck, OnDisk, read_attempts
from autoexp_tui.storage.check_journal import check_journal
from autoexp_tui.storage.integrity_issue import Flaw
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.process_identity import Alive
from autoexp_tui.storage.session_dir import SessionDir

_ORDER = ("error", "warning", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found."""

    flaws: tuple[Flaw, ...]
    """The gravest first."""
    parts: int
    records: int
    jobs: int
    engine: str
    """Who runs the session; empty: nobody."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong; notes are nothing wrong."""
        return all(flaw.severity == "note" for flaw in self.flaws)


def check_session(session: SessionDir, clock: Clock) -> Checked:
    """Read all of a session and compare."""
    flaws: list[Flaw] = []
    engine = _engine(session, flaws)
    on_disk = _attempts(session, flaws)
    reading = check_journal(session, clock)
    flaws += reading.flaws
    if reading.state is not None:
        flaws += JobsCheck(
            session=session,
            state=reading.state,
            on_disk=on_disk,
            engine_lives=bool(engine),
        ).flaws()
    flaws += check_files(session)
    return Checked(
        flaws=tuple(_sorted(flaws)),
        parts=reading.parts,
        records=reading.records,
        jobs=len(reading.state.jobs) if reading.state else 0,
        engine=engine,
    )


def _sorted(flaws: list[Flaw]) -> Iterator[Flaw]:
    for severity in _ORDER:
        yield from (flaw for flaw in flaws if flaw.severity == severity)


def _engine(session: SessionDir, flaws: list[Flaw]) -> str:
    watch = LeaseWatch(session)
    try:
        holder = watch.holder()
    except EnvironmentFailed as refusal:
        flaws.append(
            Flaw(
                severity="error",
                where=refusal.where,
                problem=refusal.problem,
                hint=refusal.hint,
            )
        )
        return ""
    return "" if watch.alive(holder, 0.0) is Alive.NO else str(holder)


def _attempts(session: SessionDir, flaws: list[Flaw]) -> OnDisk:
    try:
        return read_attempts(session)
    except OSError as error:
        told = explained(error, session.attempts, "read the jobs' records")
        flaws.append(Flaw(severity="error", where=told.where, problem=told.problem))
        return {}
