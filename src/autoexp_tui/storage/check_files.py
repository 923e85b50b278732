"""The check of what lies around a session's journal: leases, inbox, modes, disk.

Looks at names, modes and small files; never writes, and stops at nothing.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.storage.atomic import remedy_of
from autoexp_tui.storage.integrity_issue import Flaw
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.process_identity import Identity
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sharing import session_modes
from autoexp_tui.storage.trust import RECORD_BYTES, read_session_file

LEFT_OVER_SECONDS = 3600.0
"""Age of a temporary file that nobody is writing any more."""
LITTLE_BYTES = 256 << 20
LITTLE_FILES = 1000
FUTURE_EPOCHS = 1000
"""So far above the newest part of the journal no number of take-overs leads a lease."""


def check_files(session: SessionDir) -> Iterator[Flaw]:
    """All that is wrong around the journal."""
    for look in (_leases, _inbox, _modes, _left_over, _disk):
        try:
            yield from look(session)
        except OSError as error:
            yield Flaw(
                severity="error",
                where=str(error.filename or session.path),
                problem=f"it cannot be looked at: {error.strerror or error}",
                hint=remedy_of(error, "state"),
            )


# --------------------------------------------------------------------------- leases
def _leases(session: SessionDir) -> Iterator[Flaw]:
    if not session.lease.is_dir():
        yield _flaw("error", session.lease, "there is no directory of leases")
        return
    held = {}
    for path in sorted(session.lease.iterdir()):
        if path.suffix == ".json" and path.stem.isdecimal():
            held[int(path.stem)] = path
            yield from _lease(path)
        elif path.suffix != ".released" and not path.name.startswith("."):
            yield _flaw("warning", path, "this is no lease, and is not read")
    yield from _epochs(session, held)


def _lease(path: Path) -> Iterator[Flaw]:
    try:
        Identity.from_json(json.loads(read_session_file(path, RECORD_BYTES)))
    except (ValueError, TypeError, RecursionError):
        said = "nothing" if not path.stat().st_size else "no lease"
        yield _flaw(
            "warning",
            path,
            f"there is {said} in it: who holds, or held, it cannot be told",
            "When it is the newest, the session is free once it has been seen still "
            "for 600 s.",
        )


def _epochs(session: SessionDir, held: dict[int, Path]) -> Iterator[Flaw]:
    written = {epoch for epoch, _ in session.journal_parts()}
    newest = max(written, default=0)
    for epoch in sorted(written - set(held)):
        yield _flaw(
            "error",
            session.journal_part(epoch),
            f"its lease, lease/{epoch}.json, is gone: a former engine could not know "
            "that it was deposed",
            "Leases are never removed; bring it back from a copy.",
        )
    for epoch, path in held.items():
        if epoch - newest >= FUTURE_EPOCHS:
            yield _flaw(
                "warning",
                path,
                f"it is far above the journal's newest, {newest}: no engine of ours "
                "took it",
                "Engines go on above it. If a person made it, remove it.",
            )


# ---------------------------------------------------------------------------- inbox
def _inbox(session: SessionDir) -> Iterator[Flaw]:
    rejected = session.inbox_rejected
    names = os.listdir(session.inbox) if session.inbox.is_dir() else []
    waiting = [n for n in names if n != rejected.name and not n.startswith(".")]
    rubbish = [n for n in waiting if not n.endswith(".json")]
    if waiting and not _engine_lives(session):
        yield _flaw(
            "note", session.inbox, f"{len(waiting)} commands wait for an engine"
        )
    if rubbish:
        yield _flaw("note", session.inbox, f"{len(rubbish)} files are no commands")
    refused = [*rejected.glob("*.reason.txt")] if rejected.is_dir() else []
    if refused:
        yield _flaw(
            "note", rejected, f"{len(refused)} files that were no commands lie there"
        )


# ---------------------------------------------------------------------------- modes
def _modes(session: SessionDir) -> Iterator[Flaw]:
    """What others may read or write, and what we may not.

    Of a disk that is mounted read-only one finding says it all; that is not here.
    """
    usual = session_modes(session.path).directory
    needed = os.R_OK if _is_read_only(session) else os.R_OK | os.W_OK
    for path in (session.path, *sorted(session.path.iterdir())):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            continue
        if status.st_uid != os.geteuid():
            yield _flaw(
                "warning", path, f"it belongs to another user ({status.st_uid})"
            )
        elif status.st_mode & 0o077 & ~usual:
            yield _too_open(path, stat.S_IMODE(status.st_mode), usual)
        elif not os.access(path, needed):
            yield _flaw("error", path, "it may not be read and written")


def _too_open(path: Path, mode: int, usual: int) -> Flaw:
    private = mode & (usual | 0o700)

    def close() -> str:
        path.chmod(private)
        return f"{path.name} is {private:o} now"

    return Flaw(
        severity="warning",
        where=str(path),
        problem=f"others may look at it or change it (mode {mode:o})",
        repair=f"give it the mode {private:o}",
        mend=close,
    )


# ------------------------------------------------------------------ left-overs, disk
def _left_over(session: SessionDir) -> Iterator[Flaw]:
    now = time.time()
    places = (session.path, session.lease, session.inbox, session.path / "plans")
    for place in places:
        for path in sorted(place.glob(".*.tmp")):
            age = now - path.lstat().st_mtime
            if age > LEFT_OVER_SECONDS:
                yield Flaw(
                    severity="note",
                    where=str(path),
                    problem="whoever wrote it was killed amid it",
                    repair=f"remove {path.name}",
                    mend=_Removal(path),
                )


@dataclass(frozen=True, slots=True)
class _Removal:
    path: Path

    def __call__(self) -> str:
        self.path.unlink(missing_ok=True)
        return f"removed {self.path.name}"


def _disk(session: SessionDir) -> Iterator[Flaw]:
    found = os.statvfs(session.path)
    free = found.f_bavail * found.f_frsize
    if _is_read_only(session):
        yield _flaw(
            "error",
            session.path,
            "the disk is mounted read-only",
            "No engine can go on there, and nothing be repaired: have it mounted "
            "for writing, or go on with a copy of the session.",
        )
    elif free < LITTLE_BYTES:
        yield _flaw("warning", session.path, f"only {free >> 20} MiB are free there")
    elif found.f_files and found.f_favail < LITTLE_FILES:
        left = found.f_favail
        yield _flaw("warning", session.path, f"only {left} more files fit there")


def _is_read_only(session: SessionDir) -> bool:
    return bool(os.statvfs(session.path).f_flag & os.ST_RDONLY)


def _engine_lives(session: SessionDir) -> bool:
    watch = LeaseWatch(session)
    return watch.alive(watch.holder(), 0.0).value != "no"


def _flaw(severity: str, where: Path, problem: str, hint: str = "") -> Flaw:
    return Flaw(
        severity=severity,  # type: ignore[arg-type]
        where=str(where),
        problem=problem,
        hint=hint,
    )
