"""The sessions of a state dir as rows: name, counts, whether an engine lives.

A session that has not changed since it was last listed is not folded again: its row is
kept in `snapshot.json`, with the name and size of the journal part it was made from.
Any mismatch means folding again; a cache that cannot be written is done without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoexp_tui import __version__
from autoexp_tui.adapters.atomic import explaining, write_atomic
from autoexp_tui.adapters.identity import Alive
from autoexp_tui.adapters.journal import load_state
from autoexp_tui.adapters.lease import LeaseWatch
from autoexp_tui.adapters.session_dir import SessionDir, sessions_in
from autoexp_tui.core.errors import EnvironmentFailed
from autoexp_tui.core.state import SessionState
from autoexp_tui.core.states import TERMINAL, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One session, as a list shows it."""

    id: str
    directory: Path
    name: str = ""
    counts: Mapping[JobState, int] = field(default_factory=dict)
    """Only states that some job has."""
    started_at: float = 0.0
    last_event_at: float = 0.0
    """UTC."""
    owner: Alive = Alive.NO
    """Whether an engine runs it; UNKNOWN: one on another host may."""
    host: str = ""
    """Where the newest engine ran."""
    halted_pid: int = 0
    """That engine's process on this host while Ctrl-Z or SIGSTOP keeps it; else 0."""
    problem: str = ""
    """Why it cannot be read; then the rest is empty."""

    @property
    def jobs(self) -> int:
        """How many jobs it has."""
        return sum(self.counts.values())

    @property
    def finished(self) -> bool:
        """Whether every job ended for good."""
        return bool(self.counts) and TERMINAL.issuperset(self.counts)


def list_sessions(state_dir: Path) -> tuple[SessionRow, ...]:
    """Every session of `state_dir`, the one with the newest event first.

    A session that cannot be read is a row with its problem.

    Raises:
        EnvironmentFailed: the state dir cannot be listed.
    """
    rows = [describe(session) for session in sessions_in(state_dir)]
    return tuple(sorted(rows, key=lambda row: (-row.last_event_at, row.id)))


def list_everywhere(places: Sequence[Path]) -> tuple[SessionRow, ...]:
    """Every session of several state dirs, the one with the newest event first.

    Raises:
        EnvironmentFailed: the first cannot be listed; others are passed over then.
    """
    rows = list(list_sessions(places[0]))
    for place in places[1:]:
        with suppress(EnvironmentFailed):
            rows += list_sessions(place)
    return tuple(sorted(rows, key=lambda row: (-row.last_event_at, row.id)))


def describe(session: SessionDir) -> SessionRow:
    """One session's row."""
    try:
        summary = _cached(session) or _folded(session)
        owner, host, halted_pid = _owner(session)
    except EnvironmentFailed as error:
        return SessionRow(
            id=session.id, directory=session.path, problem=str(error.problem)
        )
    return SessionRow(
        id=session.id,
        directory=session.path,
        name=summary["name"],
        counts={JobState(key): count for key, count in summary["counts"].items()},
        started_at=summary["started_at"],
        last_event_at=summary["last_event_at"],
        owner=owner,
        host=host,
        halted_pid=halted_pid,
    )


def _owner(session: SessionDir) -> tuple[Alive, str, int]:
    watch = LeaseWatch(session)
    holder = watch.holder()
    host = holder.identity.host if holder and holder.identity else ""
    return watch.alive(holder, 0.0), host, watch.halted_pid(holder)


def _folded(session: SessionDir) -> dict[str, Any]:
    # The mark is taken first: what is appended meanwhile makes the cache stale.
    with explaining(session.path, "read the journal"):
        mark = _mark(session)
    state = load_state(session, tail=1).state
    summary = {
        "name": state.name,
        "counts": _counts(state),
        "started_at": state.started_at,
        "last_event_at": state.t,
    }
    with suppress(EnvironmentFailed):
        data = json.dumps({"of": mark, "summary": summary}).encode()
        write_atomic(session.snapshot, data, durable=False)
    return summary


def _counts(state: SessionState) -> dict[str, int]:
    counts: dict[str, int] = {}
    for job in state.jobs.values():
        counts[job.state.value] = counts.get(job.state.value, 0) + 1
    return counts


def _cached(session: SessionDir) -> dict[str, Any] | None:
    """The row as it was made from the very same journal; None: fold again."""
    try:
        cache = json.loads(session.snapshot.read_bytes())
        summary: dict[str, Any] = cache["summary"]
        fits = cache["of"] == _mark(session) and set(summary) == _KEYS
        known = {state.value for state in JobState}
        return summary if fits and known.issuperset(summary["counts"]) else None
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):
        return None


_KEYS = {"name", "counts", "started_at", "last_event_at"}


def _mark(session: SessionDir) -> list[object]:
    """What changes whenever the journal does: every part's size."""
    paths = [session.journal_part(*part) for part in session.journal_parts()]
    return [__version__, *([path.name, _size(path)] for path in paths)]


def _size(path: Path) -> int:
    """Of a part; one that was packed will never change."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1
