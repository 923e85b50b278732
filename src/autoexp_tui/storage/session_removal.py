"""Removing a session's own directory, and nothing else: outputs and logs lie elsewhere.
It is renamed first, so that a session is there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned, UsageError
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import ACTIVE
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.lease import find_engine
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir

_GONE = ".removed-"


@dataclass(frozen=True, slots=True)
class Size:
    files: int
    bytes: int


def size_of(directory: Path) -> Size:
    """How much would go with a directory; what cannot be looked at counts nothing."""
    sizes: list[int] = []
    for home, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                sizes.append(os.lstat(os.path.join(home, name)).st_size)
    return Size(len(sizes), sum(sizes))


def require_removable(session: SessionDir) -> None:
    """Nobody runs it, none of its jobs may, nothing else lies in it; raises
    SessionOwned, UsageError or EnvironmentFailed."""
    if session.path.is_symlink():
        raise UsageError(
            f"it is a link to {session.path.resolve()}",
            str(session.path),
            "Remove the link yourself; what it leads to is no session of this place.",
        )
    session.require_own()
    _require_unowned(session)
    try:
        state = load_state(session, tail=1).state
    except EnvironmentFailed as damage:
        _require_no_open_run(session, damage)
    else:
        _require_no_active_job(session, state)
        _require_no_output(session, state)


def _require_unowned(session: SessionDir) -> None:
    holder, alive = find_engine(session)
    if alive is not Alive.NO:
        is_run = "is run" if alive is Alive.YES else "may be run"
        raise SessionOwned(
            f"session {session.id} {is_run} by {holder}",
            hint=f"`autoexp-sessions stop {session.id} --state-dir "
            f"{session.state_dir}` ends that engine first.",
        )


def _require_no_active_job(session: SessionDir, state: SessionState) -> None:
    active = [job.name for job in state.jobs.values() if job.state in ACTIVE]
    if active:
        more = f" and {len(active) - 3} more" if len(active) > 3 else ""
        raise UsageError(
            f"jobs of session {session.id} may still run: "
            f"{', '.join(active[:3])}{more}",
            hint=f"`autoexp-sessions stop {session.id} --jobs --yes --state-dir "
            f"{session.state_dir}` ends them first.",
        )


def _require_no_open_run(session: SessionDir, damage: EnvironmentFailed) -> None:
    """Of a journal that does not read: the jobs' own records say what may run."""
    for begin in session.attempts.glob("*/*/begin.*.json"):
        if not begin.with_name(begin.name.replace("begin", "exit", 1)).exists():
            raise UsageError(
                f"session {session.id} cannot be read, and {begin.parent.parent.name} "
                f"may still run: {damage.problem}",
                damage.where,
                "See that it does not, then remove the directory yourself.",
            )


def _require_no_output(session: SessionDir, state: SessionState) -> None:
    home = os.path.realpath(session.path) + os.sep
    for job in state.jobs.values():
        for place in (job.spec.output_dir, job.spec.log_dir):
            if place and os.path.realpath(place).startswith(home):
                raise UsageError(
                    f"{job.name} writes into the session's own directory",
                    place,
                    "Move that away first: outputs and logs are never removed.",
                )


def remove(session: SessionDir) -> Size:
    """Remove a session's directory; what was removed; raises AutoexpError."""
    require_removable(session)
    size = size_of(session.path)
    gone = session.path.with_name(f"{_GONE}{session.id}-{secrets.token_hex(4)}")
    with explaining(session.path, "remove"):
        os.rename(session.path, gone)
    try:
        _require_unowned(SessionDir(gone))  # by an engine that came up just now
    except SessionOwned:
        os.rename(gone, session.path)
        raise
    with explaining(gone, "remove all of it"):
        shutil.rmtree(gone)
    return size


def sweep(state_dir: Path) -> None:
    """Remove what killed or refused removals left; raises EnvironmentFailed."""
    with explaining(state_dir, "remove what is left of sessions"):
        for entry in state_dir.glob(f"{_GONE}*"):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
