"""All that can be told of a session's soundness by reading what lies on disk. Jobs'
records are read before the journal, so that what the journal lacks was not recorded
then; a living engine may do so a moment later: then it is a note."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.ids import format_filename
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import ACTIVE, BEGUN, Outcome
from autoexp_tui.storage.atomic import explain, find_remedy, read_session_modes
from autoexp_tui.storage.attempt_records import AttemptRecords, read_attempt
from autoexp_tui.storage.journal import TAIL, fold_chain
from autoexp_tui.storage.journal_parts import RESTORE, find_chain
from autoexp_tui.storage.journal_repair import Salvage, find_salvage
from autoexp_tui.storage.json_codec import decode_plan, hash_plan
from autoexp_tui.storage.lease import find_engine
from autoexp_tui.storage.output_dir_lock import read_owner
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.storage.session_dir import SessionDir, get_packed, read_if_there
from autoexp_tui.storage.trust import read_checked

LITTLE_BYTES = 256 << 20
LITTLE_FILES = 1000

_LOOK = "`autoexp-sessions show` tells its state; its log tells what it did."

Severity: TypeAlias = Literal["error", "warning", "note"]
"""An *error* keeps the session from going on, or something accepted is lost; a
*warning* may; a *note* is no flaw."""
_ORDER: tuple[Severity, ...] = ("error", "warning", "note")

RecordsOnDisk: TypeAlias = Mapping[tuple[str, int], AttemptRecords]
"""(name of the job's directory, number of the attempt) -> what lies there."""


@dataclass(frozen=True, slots=True)
class Flaw:
    severity: Severity
    where: str
    """The file, with line and byte where there are any; or the job."""
    problem: str
    hint: str = ""
    repair: str = ""
    """What a repair would do; empty: nothing is repaired by us."""


@dataclass(slots=True)
class SessionReport:
    flaws: list[Flaw] = field(default_factory=list)
    parts: int = 0
    records: int = 0
    state: SessionState | None = None
    """The fold of the journal; None: it is damaged."""
    engine: str = ""
    """Who runs the session; empty: nobody."""
    salvage: Salvage | None = None
    """What a repair would go on from; None: nothing to repair, or no way to."""

    def count_jobs(self) -> int:
        return len(self.state.jobs) if self.state else 0

    def is_sound(self) -> bool:
        """Whether nothing is wrong; notes are nothing wrong."""
        return all(flaw.severity == "note" for flaw in self.flaws)

    def add(
        self, severity: Severity, where: Path | str, problem: str, hint: str = ""
    ) -> None:
        self.flaws.append(Flaw(severity, str(where), problem, hint))


def check_session(session: SessionDir) -> SessionReport:
    """Read all of a session and compare."""
    report = SessionReport()
    for check in (
        _check_jobs_and_journal,
        _check_plans,
        _check_leases,
        _check_modes,
        _check_disk,
    ):
        try:
            check(session, report)
        except EnvironmentFailed as refusal:
            report.add("error", refusal.where, refusal.problem, refusal.hint)
        except OSError as error:
            where = error.filename or session.path
            problem = f"it cannot be looked at: {error.strerror or error}"
            report.add("error", where, problem, find_remedy(error, "state"))
    report.flaws.sort(key=lambda flaw: _ORDER.index(flaw.severity))
    return report


def _check_jobs_and_journal(session: SessionDir, report: SessionReport) -> None:
    try:
        holder, alive = find_engine(session)
        report.engine = "" if alive is Alive.NO else str(holder)
    except EnvironmentFailed as refusal:
        report.add("error", refusal.where, refusal.problem, refusal.hint)
    on_disk: RecordsOnDisk = {}
    try:
        on_disk = {
            (place.parent.name, int(place.name)): read_attempt(str(place), copies=True)
            for job in _list_directory(session.attempts)
            for place in _list_directory(job)
            if place.name.isdecimal()
        }
    except OSError as error:
        told = explain(error, session.attempts, "read the jobs' records")
        report.add("error", told.where, told.problem)
    _check_journal(session, report)
    if report.state is not None:
        _JobsCheck(session, report, report.state, on_disk).run()


def _check_journal(session: SessionDir, report: SessionReport) -> None:
    link, notices = session.journal, list[str]()
    is_gone = link.is_symlink() and not link.exists()
    if is_gone and not get_packed(link.resolve()).exists():
        report.add("error", link, "the part that it leads to is gone", RESTORE)
    try:
        chain = find_chain(session, notices)
        loaded = fold_chain(session, chain, notices, TAIL)
    except JournalDamaged as damage:
        if not damage.newer:
            with suppress(EnvironmentFailed, OSError):
                report.salvage = find_salvage(session)
        would = report.salvage.describe() if report.salvage else ""
        flaw = Flaw("error", damage.where, damage.problem, damage.hint, would)
        report.flaws.append(flaw)
        return
    report.state, report.parts = loaded.state, len(chain)
    report.records = loaded.position.seq
    for line in loaded.notices:
        where, _, problem = line.partition(": ")
        report.add("note", where, problem)


def _check_plans(session: SessionDir, report: SessionReport) -> None:
    for path in sorted((session.path / "plans").glob("*.json")):
        if path.match("*.public.json"):
            continue  # a masked copy, for viewers alone
        data = read_if_there(path)
        if data is not None and hash_plan(data) != path.stem:
            problem = "the plan was changed after it was stored"
            report.add("error", path, problem, "Bring back the file as it was.")
    data = read_if_there(session.plan)
    if data is not None:
        decode_plan(data, str(session.plan))


def _list_directory(path: Path) -> list[Path]:
    """What lies in it, in order; a glob would pass over what it may not read."""
    return sorted(path.iterdir()) if path.is_dir() else []


@dataclass(frozen=True, slots=True)
class _JobsCheck:
    """Compares what the journal says of one session's jobs with what they left."""

    session: SessionDir
    report: SessionReport
    state: SessionState
    on_disk: RecordsOnDisk

    def run(self) -> None:
        jobs = {format_filename(name): job for name, job in self.state.jobs.items()}
        for (directory, number), records in self.on_disk.items():
            place = self.session.attempts / directory / str(number)
            for name in records.forged:
                problem = "the record was not written by the job's supervisor"
                self.report.add("error", place / name, problem, _LOOK)
            for name in records.damaged:
                hint = "It counts as not there. " + _LOOK
                self.report.add("error", place / name, "the record does not read", hint)
            if (job := jobs.get(directory)) is None:
                self._add_unknown(place, "a job that the journal does not know")
            else:
                self._check_attempt(place, job, number, records)
        for job in jobs.values():
            self._check_job(job)
            if job.state in ACTIVE:
                self._check_owner(job)

    def _add_unknown(self, place: Path, what: str) -> None:
        lost = "a part of the journal may be gone."
        hint = f"Something ran that the session does not count; {lost}"
        severity: Severity = "note" if self.report.engine else "error"
        self.report.add(severity, place, f"records of {what}", hint)

    def _check_attempt(
        self, place: Path, job: JobRecord, number: int, records: AttemptRecords
    ) -> None:
        attempt = next((a for a in job.attempts if a.number == number), None)
        if attempt is None:
            if records.claim or records.run:
                self._add_unknown(place, f"an attempt of {job.name} never ordered")
            return
        run, unseen = records.run, ""
        if run and run.began.run > attempt.run and attempt.outcome is None:
            unseen = f"run {run.began.run} of {job.name} began"
        elif records.exited and attempt.outcome is None:
            unseen = f"{job.name} ended"
        elif records.exited and attempt.outcome is Outcome.LOST:
            unseen = f"{job.name}, which counts as lost, ended"
        if unseen:
            problem = f"{unseen}, and no engine has recorded it yet"
            hint = "" if self.report.engine else "The next engine does."
            self.report.add("note", place, problem, hint)

    def _check_job(self, job: JobRecord) -> None:
        attempt = job.attempt
        if attempt is None:
            return
        records = self.on_disk.get((format_filename(job.name), attempt.number))
        lack = ""
        if job.state in BEGUN and (records is None or records.run is None):
            lack = "runs, and there is no record that it began"
        elif attempt.outcome is Outcome.COMPLETED and not (records and records.exited):
            lack = "completed, and there is no exit record"
        if lack:
            place = self.session.get_attempt(job.name, attempt.number)
            self.report.add("warning", place, f"{job.name} {lack}", _LOOK)

    def _check_owner(self, job: JobRecord) -> None:
        """Whose output directory an active job writes."""
        home, plan = Path(job.spec.output_dir), self.state.plan
        place = home / ".autoexp"
        try:
            owner = read_owner(home, plan.share if plan else "private")
        except EnvironmentFailed as refusal:
            self.report.add("warning", refusal.where, refusal.problem)
            return
        if owner is None and job.state in BEGUN:
            problem = f"{job.name} runs, and nothing that reads says whose this is"
            self.report.add("warning", place, problem)
        elif owner is not None and owner.session != self.session.id:
            problem = f"{job.name} writes it, and session {owner.session} owns it"
            hint = f"Stop one of them: `autoexp-sessions show {owner.session}`."
            self.report.add("error", place, problem, hint)


def _check_leases(session: SessionDir, report: SessionReport) -> None:
    if not session.lease.is_dir():
        report.add("error", session.lease, "there is no directory of leases")
        return
    held = set()
    for path in sorted(session.lease.iterdir()):
        if path.suffix != ".json" or not path.stem.isdecimal():
            continue
        held.add(int(path.stem))
        try:
            Identity.from_json(json.loads(read_checked(path, "session")))
        except (ValueError, TypeError, RecursionError):
            wait = "the session is free once it has been seen still for 600 s."
            hint = f"When it is the newest, {wait}"
            problem = "it does not read: who holds, or held, it cannot be told"
            report.add("warning", path, problem, hint)
    for epoch in sorted({epoch for epoch, _ in session.list_parts()} - held):
        problem = (
            f"its lease, lease/{epoch}.json, is gone: a former engine could not know "
            "that it was deposed"
        )
        hint = "Leases are never removed; bring it back from a copy."
        report.add("error", session.get_part(epoch), problem, hint)


def _check_modes(session: SessionDir, report: SessionReport) -> None:
    """What others may read or write, and what we may not."""
    usual = read_session_modes(session.path).directory
    needed = os.R_OK if _is_read_only(session) else os.R_OK | os.W_OK
    for path in (session.path, *sorted(session.path.iterdir())):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            continue
        if status.st_uid != os.geteuid():
            problem = f"it belongs to another user ({status.st_uid})"
            report.add("warning", path, problem)
        elif status.st_mode & 0o077 & ~usual:
            mode = stat.S_IMODE(status.st_mode)
            problem = f"others may look at it or change it (mode {mode:o})"
            hint = f"`chmod {mode & (usual | 0o700):o}` closes it."
            report.add("warning", path, problem, hint)
        elif not os.access(path, needed):
            report.add("error", path, "it may not be read and written")


def _check_disk(session: SessionDir, report: SessionReport) -> None:
    found, where = os.statvfs(session.path), session.path
    free = found.f_bavail * found.f_frsize
    if _is_read_only(session):
        report.add(
            "error",
            where,
            "the disk is mounted read-only",
            "No engine can go on there, and nothing be repaired: have it mounted "
            "for writing, or go on with a copy of the session.",
        )
    elif free < LITTLE_BYTES:
        report.add("warning", where, f"only {free >> 20} MiB are free there")
    elif found.f_files and found.f_favail < LITTLE_FILES:
        report.add("warning", where, f"only {found.f_favail} more files fit there")


def _is_read_only(session: SessionDir) -> bool:
    return bool(os.statvfs(session.path).f_flag & os.ST_RDONLY)
