"""The sessions of a state dir as rows: name, counts, whether an engine lives. A row is
kept in `snapshot.json`, with name and size of the journal part it was made from; any
mismatch means folding again."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from autoexp_tui import __version__
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.resubmission import is_open
from autoexp_tui.model.snapshot import SessionBrief
from autoexp_tui.model.states import JobState
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.atomic import explaining, write_atomic
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import SILENCE, look_into
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.storage.user_files import ANSWER_SECONDS

_KEYS: Final = {"name", "counts", "started_at", "last_event_at", "open"}
_UNREADABLE: Final = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow(SessionBrief):
    """One session, as its files tell it."""

    directory: Path
    started_at: float = 0.0
    owner: Alive = Alive.NO

    def count_jobs(self) -> int:
        return sum(self.counts.values())


def list_sessions(*places: Path) -> tuple[SessionRow, ...]:
    """Every session of some state dirs, the one with the newest event first; what
    cannot be read, or does not answer, is a row too. Raises EnvironmentFailed."""
    rows: list[SessionRow] = []
    sessions: list[SessionDir] = []
    for place, found in zip(places, look_into(places), strict=True):
        if isinstance(found, TimeoutError):
            rows.append(_build_faulty(SessionDir(place / "-"), SILENCE))
        elif not isinstance(found, Exception):
            sessions += found
        elif place == places[0] or not isinstance(found, EnvironmentFailed):
            raise found
    told = ask_all([partial(describe, one) for one in sessions], ANSWER_SECONDS)
    for session, row in zip(sessions, told, strict=True):
        if isinstance(row, TimeoutError):
            row = _build_faulty(session, SILENCE)
        elif isinstance(row, Exception):
            raise row
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: (-row.last_event_at, row.id)))


def _build_faulty(session: SessionDir, problem: str, user: str = "") -> SessionRow:
    return SessionRow(id=session.id, directory=session.path, user=user, problem=problem)


def describe(session: SessionDir) -> SessionRow:
    user = ""
    try:
        user = session.find_user()
        summary = _read_kept(session) or _fold_session(session, keep=not user)
        watch = LeaseWatch(session)
        holder = watch.find_holder()
    except EnvironmentFailed as error:
        return _build_faulty(session, str(error.problem), user)
    counts = {JobState(key): count for key, count in summary["counts"].items()}
    return SessionRow(
        id=session.id,
        directory=session.path,
        owner=watch.check_alive(holder, 0.0),
        host=holder.identity.host if holder and holder.identity else "",
        halted_pid=watch.find_halted(holder),
        user=user,
        **{**summary, "counts": counts},
    )


def _fold_session(session: SessionDir, *, keep: bool) -> dict[str, Any]:
    # The mark is taken first: what is appended meanwhile makes the cache stale.
    with explaining(session.path, "read the journal"):
        mark = _build_mark(session)
    state = load_state(session, tail=1).state
    summary = {
        "name": state.name,
        "counts": dict(Counter(job.state.value for job in state.jobs.values())),
        "started_at": state.started_at + state.wall_ahead,
        "last_event_at": state.utc,
        "open": is_open(state.jobs.values(), state.pending.values()),
    }
    if keep:
        with suppress(EnvironmentFailed):
            data = json.dumps({"of": mark, "summary": summary}).encode()
            mode = session.read_modes().file
            write_atomic(session.snapshot, data, mode, durable=False)
    return summary


def _read_kept(session: SessionDir) -> dict[str, Any] | None:
    """The row as it was made from the very same journal; None: fold again."""
    try:
        cache = json.loads(read_checked(session.snapshot, "session"))
        summary: dict[str, Any] = cache["summary"]
        fits = cache["of"] == _build_mark(session) and set(summary) == _KEYS
        known = {state.value for state in JobState}
        return summary if fits and known.issuperset(summary["counts"]) else None
    except _UNREADABLE:
        return None


def _build_mark(session: SessionDir) -> list[object]:
    """What changes whenever the journal does: every part's size."""
    mark: list[object] = [__version__]
    for path in (session.get_part(*part) for part in session.list_parts()):
        size = -1
        with suppress(FileNotFoundError):  # one that was packed will never change
            size = path.stat().st_size
        mark.append([path.name, size])
    return mark
