"""Whose an output directory is: two sessions must not write one job's files.

The owner is linked as `.autoexp/owner.json` there before a job is submitted. A dead one
is not removed but followed by `owner.1.json`, `owner.2.json` ...: the highest owns, and
of any number that try for the next one, one gets it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.masking import Share
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import ACTIVE
from autoexp_tui.storage.atomic import MODES, explaining, link_new, make_directory
from autoexp_tui.storage.attempt_records import read_attempt
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.json_codec import read_json, read_small
from autoexp_tui.storage.lease import find_engine
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.trust import read_checked

_NAME = re.compile(r"owner(?:\.([1-9][0-9]{0,8}))?\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    session: str
    state_dir: str
    """Absolute."""
    job: str
    fingerprint: str = ""

    def same_session(self, other: Owner) -> bool:
        mine, theirs = Path(self.state_dir), Path(other.state_dir)
        return self.session == other.session and (
            mine == theirs or mine.resolve() == theirs.resolve()
        )


def take_ownership(
    output_dir: Path,
    mine: Owner,
    living: Callable[[Owner], str] | None = None,
    share: Share = "private",
) -> None:
    """Become the owner of `output_dir`; again for the same work changes nothing.
    `living` says why another counts as alive, and looks at each session once. Raises
    SessionOwned."""
    judge = living or Living()
    home = output_dir / ".autoexp"
    modes = MODES[share]
    make_directory(home, modes.directory, place="output")
    data = json.dumps(asdict(mine)).encode()
    while True:
        number = _find_highest(home)
        current = read_owner(output_dir, share, number)
        if current is not None and current.same_session(mine):
            if current.fingerprint == mine.fingerprint:
                return
        elif current is not None and (reason := judge(current)):
            raise _build_refusal(output_dir, current, reason)
        # Not durable on purpose: after a power cut the jobs are gone as well.
        path = _path(output_dir, number + 1)
        if link_new(path, data, modes.file, durable=False, place="output"):
            return


def require_free(
    output_dir: Path, living: Callable[[Owner], str], share: Share = "private"
) -> Owner | None:
    """Refuse a directory that a living session writes; its dead owner; raises
    SessionOwned."""
    current = read_owner(output_dir, share)
    if current is not None and (reason := living(current)):
        raise _build_refusal(output_dir, current, reason)
    return current


def read_owner(
    output_dir: Path, share: Share = "private", number: int | None = None
) -> Owner | None:
    """Who owns `output_dir`, dead or alive; None: nobody, or it does not read."""
    if number is None:
        number = _find_highest(output_dir / ".autoexp")
    if number < 0:
        return None
    path = _path(output_dir, number)
    with explaining(path, "read the owner"), suppress(FileNotFoundError, ValueError):
        return read_small(Owner, read_json(read_checked(path, share)))
    return None


class Living:
    """Says why another session still counts as owner; empty: it does not. An engine
    that may live counts, and a session that cannot be read."""

    def __init__(self) -> None:
        self._states: dict[Path, SessionState] = {}
        """Without an engine nothing changes; the lease is asked each time."""

    def __call__(self, owner: Owner) -> str:
        session = SessionDir(Path(owner.state_dir) / owner.session)
        if not session.has_journal():
            return ""
        try:
            if find_engine(session)[1] is not Alive.NO:
                return "its engine is running, or may be"
            if session.path not in self._states:
                self._states[session.path] = load_state(session, tail=1).state
            job = self._states[session.path].jobs.get(owner.job)
            if job is None or job.state not in ACTIVE or _has_ended(session, job):
                return ""
        except EnvironmentFailed as error:
            return f"it cannot be read ({error.problem})"
        return f"its job {owner.job} was {job.state} when its engine ended"


def _has_ended(session: SessionDir, job: JobRecord) -> bool:
    """Whether the newest begun run of the newest attempt left its exit record."""
    if job.attempt is None:
        return True
    place = session.get_attempt(job.name, job.attempt.number)
    with explaining(place, "read the records of its job"):
        records = read_attempt(str(place), copies=True)
    damaged = any(name.startswith("exit.") for name in records.damaged)
    return records.exited is not None or damaged


def _build_refusal(output_dir: Path, owner: Owner, reason: str) -> SessionOwned:
    where = f"{owner.session} --state-dir {owner.state_dir}"
    return SessionOwned(
        f"session {owner.session} owns it for job {owner.job}: {reason}",
        str(output_dir),
        f"Stop that session (`autoexp-sessions stop --jobs {where}`), take it up again "
        f"(`autoexp-tui --session {where}`), or write elsewhere.",
    )


def _path(output_dir: Path, number: int) -> Path:
    name = f"owner.{number}.json" if number else "owner.json"
    return output_dir / ".autoexp" / name


def _find_highest(home: Path) -> int:
    """The number of the newest owner; -1 before the first."""
    with explaining(home, "read the owner", "output"):
        try:
            found = (_NAME.fullmatch(entry.name) for entry in home.iterdir())
            return max((int(match[1] or 0) for match in found if match), default=-1)
        except (FileNotFoundError, NotADirectoryError):
            return -1  # a file in the way is told when the directory is made
