"""The check of what jobs left on disk against what the journal says of them.

Records are read before the journal, so that what the journal lacks was truly not
recorded then. A living engine may record it a moment later: then it is a note.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.ids import safe_filename
from autoexp_tui.model.state import Attempt, JobRecord, SessionState
from autoexp_tui.model.states import ACTIVE, BEGUN, Outcome
from autoexp_tui.storage.attempt_records import AttemptRecords, read_attempt
from autoexp_tui.storage.integrity_issue import Flaw, Severity
from autoexp_tui.storage.output_dir_lock import read_owner
from autoexp_tui.storage.session_dir import SessionDir

OnDisk = Mapping[tuple[str, int], AttemptRecords]
"""(name of the job's directory, number of the attempt) -> what lies there."""

_LOOK = "`autoexp-sessions show` tells its state; its log tells what it did."


def read_attempts(session: SessionDir) -> OnDisk:
    """The records of every attempt that left any.

    Raises:
        OSError: a directory cannot be read.
    """
    found: dict[tuple[str, int], AttemptRecords] = {}
    if session.attempts.is_dir():
        for job in sorted(os.listdir(session.attempts)):
            for number in _numbers(session.attempts / job):
                place = str(session.attempts / job / str(number))
                found[job, number] = read_attempt(place, copies=True)
    return found


def _numbers(directory: Path) -> list[int]:
    names = os.listdir(directory) if directory.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsCheck:
    """Compares one session's jobs with what they left."""

    session: SessionDir
    state: SessionState
    on_disk: OnDisk
    engine_lives: bool

    def flaws(self) -> Iterator[Flaw]:
        """Everything that differs."""
        directories = {safe_filename(name): name for name in self.state.jobs}
        for (directory, number), records in self.on_disk.items():
            name = directories.get(directory, "")
            place = self.session.attempts / directory / str(number)
            yield from _damaged(place, records)
            job = self.state.jobs.get(name)
            if job is None:
                yield self._unknown(place, "a job that the journal does not know")
            else:
                yield from self._of_attempt(place, job, number, records)
        for job in self.state.jobs.values():
            yield from self._of_job(job)

    def _unknown(self, place: Path, what: str) -> Flaw:
        return Flaw(
            severity=self._seen_later("error"),
            where=str(place),
            problem=f"records of {what}",
            hint="Something ran that the session does not count; a part of the "
            "journal may be gone.",
        )

    def _seen_later(self, severity: Severity) -> Severity:
        """A living engine may be about to record it."""
        return "note" if self.engine_lives else severity

    def _of_attempt(
        self, place: Path, job: JobRecord, number: int, records: AttemptRecords
    ) -> Iterator[Flaw]:
        attempt = next((a for a in job.attempts if a.number == number), None)
        if attempt is None:
            if records.claim or records.run:
                yield self._unknown(place, f"an attempt of {job.name} never ordered")
            return
        run = records.run
        if run and run.began.run > attempt.run and attempt.outcome is None:
            yield self._unseen(place, f"run {run.began.run} of {job.name} began")
        elif records.exited and attempt.outcome is None:
            yield self._unseen(place, f"{job.name} ended")
        elif attempt.outcome is Outcome.LOST and records.exited:
            yield self._unseen(place, f"{job.name}, which counts as lost, ended")

    def _unseen(self, place: Path, what: str) -> Flaw:
        return Flaw(
            severity="note",
            where=str(place),
            problem=f"{what}, and no engine has recorded it yet",
            hint="" if self.engine_lives else "The next engine does.",
        )

    def _of_job(self, job: JobRecord) -> Iterator[Flaw]:
        attempt = job.attempt
        if attempt is None:
            return
        records = self.on_disk.get((safe_filename(job.name), attempt.number))
        if job.state in BEGUN and (records is None or records.run is None):
            yield self._without(
                job, attempt, "runs, and there is no record that it began"
            )
        elif attempt.outcome is Outcome.COMPLETED and not (records and records.exited):
            yield self._without(job, attempt, "completed, and there is no exit record")
        if job.state in ACTIVE:
            yield from self._owner(job)

    def _without(self, job: JobRecord, attempt: Attempt, what: str) -> Flaw:
        return Flaw(
            severity="warning",
            where=str(self.session.attempt(job.name, attempt.number)),
            problem=f"{job.name} {what}",
            hint=_LOOK,
        )

    def _owner(self, job: JobRecord) -> Iterator[Flaw]:
        """Whose output directory an active job writes."""
        home, plan = Path(job.spec.output_dir), self.state.plan
        try:
            owner = read_owner(home, plan.share if plan else "private")
        except EnvironmentFailed as refusal:
            yield Flaw(severity="warning", where=refusal.where, problem=refusal.problem)
            return
        if owner is None and job.state in BEGUN:
            yield Flaw(
                severity="warning",
                where=str(home / ".autoexp"),
                problem=f"{job.name} runs, and nothing that reads says whose this is",
            )
        elif owner is not None and owner.session != self.session.id:
            yield Flaw(
                severity="error",
                where=str(home / ".autoexp"),
                problem=f"{job.name} writes it, and session {owner.session} owns it",
                hint=f"Stop one of them: `autoexp-sessions show {owner.session}`.",
            )


def _damaged(place: Path, records: AttemptRecords) -> Iterator[Flaw]:
    for name in records.forged:
        yield Flaw(
            severity="error",
            where=str(place / name),
            problem="the record was not written by the job's supervisor",
            hint=_LOOK,
        )
    for name in records.damaged:
        yield Flaw(
            severity="error",
            where=str(place / name),
            problem="the record does not read",
            hint="It counts as not there. " + _LOOK,
        )
