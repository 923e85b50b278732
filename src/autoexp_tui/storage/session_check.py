"""All that can be told of a session's soundness by reading what lies on disk, and going
on with a damaged one. Jobs' records are read before the journal, so that what the
journal lacks was not recorded then; a living engine may do so a moment later: then it
is a note.

A repair edits, moves and removes no file: a take-over seals the journal after the last
commit that reads, and what follows is void, on disk for whoever has a better idea."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from autoexp_tui import __version__
from autoexp_tui.engine.ephemeral_state import Timeline
from autoexp_tui.engine.ports import Clock
from autoexp_tui.events.events import EngineStarted, EngineStopped, MessageLogged
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.event import apply, unseen
from autoexp_tui.model.ids import format_filename
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import ACTIVE, BEGUN, Outcome
from autoexp_tui.storage.atomic import explain
from autoexp_tui.storage.attempt_records import AttemptRecords, read_attempt
from autoexp_tui.storage.journal import (
    DOES_NOT_FOLLOW,
    RESTORE,
    TAIL,
    Part,
    StoredPlans,
    describe_torn,
    find_chain,
    find_seal,
    fold_chain,
    open_part,
    read_records,
)
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.json_codec import decode_plan, hash_plan
from autoexp_tui.storage.lease import find_engine, take_lease
from autoexp_tui.storage.output_dir_lock import read_owner
from autoexp_tui.storage.processes import Alive, Identity
from autoexp_tui.storage.session_dir import (
    PartId,
    SessionDir,
    get_packed,
    read_if_there,
)
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.text.spelling import plural

_LOOK = "`autoexp-sessions show` tells its state; its log tells what it did."

Severity: TypeAlias = Literal["error", "warning", "note"]
"""An *error* keeps the session from going on, or something accepted is lost; a
*warning* may; a *note* is no flaw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """The longest beginning of a damaged journal that reads and adds up."""

    chain: tuple[Part, ...]
    """The parts that would count, the last one up to its last good commit."""
    records: int
    left_out: int
    """Lines that counted, or may have, and would count no more."""

    def describe(self) -> str:
        last = self.chain[-1]
        return (
            f"go on after record {self.records} (byte {last.length} of "
            f"{last.path.name}) and leave out {plural(self.left_out, 'line')} that "
            "follow; no file is changed or removed"
        )


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
    on_disk: Mapping[Path, AttemptRecords] = field(default_factory=dict)
    """An attempt's directory -> what lies there."""
    salvage: Salvage | None = None
    """What a repair would go on from; None: nothing to repair, or no way to."""

    def count_jobs(self) -> int:
        return len(self.state.jobs) if self.state else 0

    def is_sound(self) -> bool:
        return all(flaw.severity == "note" for flaw in self.flaws)

    def add(
        self, severity: Severity, where: Path | str, problem: str, hint: str = ""
    ) -> None:
        self.flaws.append(Flaw(severity, str(where), problem, hint))


def check_session(session: SessionDir) -> SessionReport:
    report = SessionReport()
    checks = (_find_engine, _read_records, _check_journal)
    for check in (*checks, _check_plans, _check_leases, _check_modes):
        try:
            check(session, report)
        except EnvironmentFailed as refusal:
            report.add("error", refusal.where, refusal.problem, refusal.hint)
        except OSError as error:
            found = explain(error, error.filename or session.path, "look at it")
            report.add("error", found.where, found.problem, found.hint)
    report.flaws.sort(key=lambda flaw: get_args(Severity).index(flaw.severity))
    return report


def _find_engine(session: SessionDir, report: SessionReport) -> None:
    holder, alive = find_engine(session)
    report.engine = "" if alive is Alive.NO else str(holder)


def _read_records(session: SessionDir, report: SessionReport) -> None:
    report.on_disk = {
        place: read_attempt(str(place), copies=True)
        for job in _list_directory(session.attempts)
        for place in _list_directory(job)
        if place.name.isdecimal()
    }


def _check_journal(session: SessionDir, report: SessionReport) -> None:
    link = session.journal
    is_gone = link.is_symlink() and not link.exists()
    if is_gone and not get_packed(link.resolve()).exists():
        report.add("error", link, "the part that it leads to is gone", RESTORE)
    try:
        chain = find_chain(session)
        loaded = fold_chain(session, chain, TAIL)
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
    for part in chain[-1:]:
        if torn := describe_torn(part, find_seal(part)):
            report.add("note", part.path, torn)
    _check_records(session, report, loaded.state)
    for job in loaded.state.jobs.values():
        _check_job(session, report, job)
        if job.state in ACTIVE:
            _check_owner(session, report, job, loaded.state)


def _list_directory(path: Path) -> list[Path]:
    """What lies in it, in order; a glob would pass over what it may not read."""
    return sorted(path.iterdir()) if path.is_dir() else []


def _check_records(
    session: SessionDir, report: SessionReport, state: SessionState
) -> None:
    known = {
        session.get_attempt(job.name, attempt.number): job
        for job in state.jobs.values()
        for attempt in job.attempts
    }
    jobs = {format_filename(name) for name in state.jobs}
    for place, records in report.on_disk.items():
        for name in records.forged:
            problem = "the record was not written by the job's supervisor"
            report.add("error", place / name, problem, _LOOK)
        for name in records.damaged:
            hint = "It counts as not there. " + _LOOK
            report.add("error", place / name, "the record does not read", hint)
        job = place.parent.name
        if place not in known and (job not in jobs or records.claim or records.run):
            what = "a job that the journal does not know"
            what = f"an attempt of {job} never ordered" if job in jobs else what
            lost = "a part of the journal may be gone."
            hint = f"Something ran that the session does not count; {lost}"
            severity: Severity = "note" if report.engine else "error"
            report.add(severity, place, f"records of {what}", hint)


def _check_job(session: SessionDir, report: SessionReport, job: JobRecord) -> None:
    if job.attempt is None:
        return
    place, lack = session.get_attempt(job.name, job.attempt.number), ""
    left = report.on_disk.get(place, AttemptRecords())
    if job.state in BEGUN and left.run is None:
        lack = "runs, and there is no record that it began"
    elif job.attempt.outcome is Outcome.COMPLETED and left.exited is None:
        lack = "completed, and there is no exit record"
    if lack:
        report.add("warning", place, f"{job.name} {lack}", _LOOK)


def _check_owner(
    session: SessionDir, report: SessionReport, job: JobRecord, state: SessionState
) -> None:
    home = Path(job.spec.output_dir)
    try:
        owner = read_owner(home, state.plan.share if state.plan else "private")
    except EnvironmentFailed as refusal:
        report.add("warning", refusal.where, refusal.problem)
        return
    if owner is None and job.state in BEGUN:
        problem = f"{job.name} runs, and nothing that reads says whose this is"
        report.add("warning", home / ".autoexp", problem)
    elif owner is not None and owner.session != session.id:
        problem = f"{job.name} writes it, and session {owner.session} owns it"
        hint = f"Stop one of them: `autoexp-sessions show {owner.session}`."
        report.add("error", home / ".autoexp", problem, hint)


def _check_plans(session: SessionDir, report: SessionReport) -> None:
    for path in sorted(session.plans.glob("*.json")):
        if path.match("*.public.json"):
            continue  # a masked copy, for viewers alone
        data = read_if_there(path)
        if data is not None and hash_plan(data) != path.stem:
            problem = "the plan was changed after it was stored"
            report.add("error", path, problem, "Bring back the file as it was.")
    data = read_if_there(session.plan)
    if data is not None:
        decode_plan(data, str(session.plan))


def _check_leases(session: SessionDir, report: SessionReport) -> None:
    if not session.lease.is_dir():
        report.add("error", session.lease, "there is no directory of leases")
        return
    held = {path for path in session.lease.glob("*.json") if path.stem.isdecimal()}
    for path in sorted(held):
        try:
            Identity.from_json(json.loads(read_checked(path, "session")))
        except (ValueError, TypeError, RecursionError):
            wait = "the session is free once it has been seen still for 600 s."
            hint = f"When it is the newest, {wait}"
            problem = "it does not read: who holds, or held, it cannot be told"
            report.add("warning", path, problem, hint)
    for epoch in sorted({epoch for epoch, _ in session.list_parts()}):
        if session.lease / f"{epoch}.json" not in held:
            problem = (
                f"its lease, lease/{epoch}.json, is gone: a former engine could not "
                "know that it was deposed"
            )
            hint = "Leases are never removed; bring it back from a copy."
            report.add("error", session.get_part(epoch), problem, hint)


def _check_modes(session: SessionDir, report: SessionReport) -> None:
    usual = session.read_modes().directory
    needed = os.R_OK | os.W_OK
    if os.statvfs(session.path).f_flag & os.ST_RDONLY:
        needed = os.R_OK
        hint = "Have it mounted for writing, or go on with a copy of the session."
        report.add("error", session.path, "the disk is mounted read-only", hint)
    for path in (session.path, *sorted(session.path.iterdir())):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            continue
        if status.st_uid != os.geteuid():
            problem = f"it belongs to another user ({status.st_uid})"
            report.add("warning", path, problem)
        elif mode & 0o077 & ~usual:
            problem = f"others may look at it or change it (mode {mode:o})"
            hint = f"`chmod {mode & (usual | 0o700):o}` closes it."
            report.add("warning", path, problem, hint)
        elif not os.access(path, needed):
            report.add("error", path, "it may not be read and written")


def find_salvage(session: SessionDir) -> Salvage | None:
    """What a repair would go on from; None when nothing reads; raises
    EnvironmentFailed."""
    parts = session.list_parts()
    for newest in reversed(parts):
        try:
            chain = find_chain(session, upto=newest)
        except JournalDamaged:
            continue
        state = SessionState(plans=StoredPlans(session))
        ends: dict[PartId, int] = {}
        records = 0
        with unseen(state), suppress(JournalDamaged, *DOES_NOT_FOLLOW):
            for part in chain:
                for record, _, end in read_records(part, state.seq):
                    apply(state, record)
                    if not record.more:
                        ends[part.id], records = end, record.seq
        sealed = (part for part in chain if part.id in ends)
        good = tuple(replace(part, length=ends[part.id]) for part in sealed)
        if good:
            after = [session.get_part(*p) for p in parts if p > good[-1].id]
            lost = _count_lines(good[-1].path, good[-1].length or 0)
            lost += sum(_count_lines(path, 0) for path in after)
            return Salvage(chain=good, records=records, left_out=lost)
    return None


def _count_lines(part: Path, offset: int) -> int:
    """Lines of a part from `offset`; of a damaged pack those that unpack."""
    count = 0
    # Damage is what brought us here.
    with suppress(EnvironmentFailed), open_part(part) as file:
        file.seek(offset)
        while block := file.read(1 << 20):
            count += block.count(b"\n")
    return count


def repair_journal(session: SessionDir, salvage: Salvage, clock: Clock) -> str:
    """Seal the journal where it reads, and say so; raises SessionOwned."""
    lease = take_lease(session, clock)
    try:
        with closing(FileJournal(session, lease, chain=salvage.chain)) as journal:
            state = journal.load().state
            draft = Draft(state, Timeline(clock, state).now(), lease.epoch)
            draft.emit(
                EngineStarted(
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    engine_version=__version__,
                    sealed_part=journal.seal.part,
                    sealed_bytes=journal.seal.bytes,
                    gap_seconds=state.measure_seconds_until(clock.utc()),
                )
            )
            text = f"the journal was damaged: a person let it {salvage.describe()}"
            draft.emit(MessageLogged(text=text, level="warning"))
            draft.emit(EngineStopped(reason="repaired"))
            journal.append(draft.commit())
    finally:
        lease.release()
    return f"{session.get_part(lease.epoch).name} goes on there"
