"""The sessions of state directories: made, listed, and found by what people type."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import count
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.model.specs import Share
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.atomic import (
    SESSION_MODES,
    explain,
    explaining,
    sync_directory,
)
from autoexp_tui.storage.manifests import ENTRIES, MANIFESTS, make_state_dir
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.user_files import ANSWER_SECONDS, list_places

_NO_SESSION = re.compile(rf"(?s:\..*)|({MANIFESTS}|{ENTRIES})(\.\d+)?")
SILENCE = f"it did not answer within {ANSWER_SECONDS:g} s"
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_LETTERS = _BASE32[:26]
_DIGITS = _BASE32[26:]
_TRIES_PER_LENGTH = 20
SHORTEST_PREFIX = 2
"""Letters of an id that may stand for all of it, when no other begins so."""


def create_session(
    state_dir: Path,
    new_id: Callable[[int], str] | None = None,
    *,
    share: Share = "private",
) -> SessionDir:
    """A new session with an id that nobody has: its directory is the claim; raises
    EnvironmentFailed."""
    state_dir = state_dir.absolute()
    make_state_dir(state_dir, share)
    for tries in count():
        length = 4 + tries // _TRIES_PER_LENGTH
        session = SessionDir(state_dir / (new_id or random_id)(length))
        with explaining(session.path, "make the session's directory"):
            try:
                session.path.mkdir(0o700)
            except FileExistsError:
                continue
            if share != "private":
                session.path.chmod(SESSION_MODES[share].directory)
            sync_directory(state_dir)
        break
    session.make()
    return session


def random_id(length: int) -> str:
    """Such as `k7f2`, a letter and a digit first: no number, no word of YAML."""
    rest = "".join(secrets.choice(_BASE32) for _ in range(length - 2))
    return secrets.choice(_LETTERS) + secrets.choice(_DIGITS) + rest


def find_sessions(state_dir: Path) -> list[SessionDir]:
    """The sessions of a state dir, there or not, by id; raises EnvironmentFailed."""
    state_dir = state_dir.absolute()
    with explaining(state_dir, "list the sessions"):
        try:
            entries = sorted(state_dir.iterdir())
        except FileNotFoundError:
            return []
        named = (one for one in entries if not _NO_SESSION.fullmatch(one.name))
        found = map(SessionDir, named)
        return [one for one in found if one.has_journal() or one.is_odd()]


def look_into(places: Sequence[Path]) -> list[list[SessionDir] | Exception]:
    """The sessions of each state dir, or the error of the look; TimeoutError: it
    hangs."""
    return ask_all([partial(find_sessions, one) for one in places], ANSWER_SECONDS)


def find_session(places: Sequence[Path], session_id: str) -> SessionDir:
    """The session whose id is, or alone begins, so; raises UsageError,
    EnvironmentFailed."""
    first, *others = places
    known = _list_known(places)
    found = match_id(known, session_id)
    if len(found) == 1:
        return found[0]
    if found:
        where = " and in ".join(str(session.state_dir) for session in found)
        raise UsageError(
            f"there is a session {session_id!r} in {where}",
            hint=f"choose one with --state-dir {found[0].state_dir}",
        )
    for place in places:
        require_readable(place.absolute() / session_id)
    ids = sorted({session.id for session in known})
    near = get_close_matches(session_id, ids, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    problem = f"there is no session {session_id!r} in {first}"
    if not others:
        hint = _find_elsewhere(first, session_id) or (
            f"{hint}`autoexp-sessions list --state-dir {first}` shows them all."
        )
        raise UsageError(problem, hint=hint)
    more = len(others)
    nor = "another known place" if more == 1 else f"{more} other known places"
    hint = f"{hint}`autoexp-sessions list` shows them all."
    raise UsageError(f"{problem}, nor in {nor}", hint=hint)


def _list_known(places: Sequence[Path]) -> list[SessionDir]:
    """The sessions of the places; the first of them must be readable."""
    looks = look_into(places)
    if isinstance(looks[0], TimeoutError):
        hint = "Its file server may be down: look at it with `df`."
        raise EnvironmentFailed(SILENCE, str(places[0]), hint)
    if isinstance(looks[0], Exception):
        raise looks[0]
    lists = [found for found in looks if not isinstance(found, Exception)]
    return [session for found in lists for session in found]


def _find_elsewhere(place: Path, session_id: str) -> str:
    """Where else a session of that id lies than in the place that was named."""
    for found in look_into(list_places(place)[1:]):
        for one in () if isinstance(found, Exception) else found:
            if one.id == session_id:
                return f"There is one in {one.state_dir}: --state-dir {one.state_dir}"
    return ""


def match_id(sessions: Sequence[SessionDir], session_id: str) -> list[SessionDir]:
    """The sessions of that id, else whose id begins so; raises UsageError for
    several."""
    exactly = [session for session in sessions if session.id == session_id]
    if exactly or len(session_id) < SHORTEST_PREFIX:
        return exactly
    found = [session for session in sessions if session.id.startswith(session_id)]
    ids = dict.fromkeys(session.id for session in found)
    if len(ids) > 1:
        raise UsageError(
            f"several sessions begin with {session_id!r}: {', '.join(ids)}",
            hint="Write one of them out.",
        )
    return found


def require_readable(path: Path) -> None:
    """Refuse a directory that is closed to us; raises EnvironmentFailed."""
    try:
        os.listdir(path)
    except PermissionError as error:
        raise explain(error, path, "read the session") from error
    except (OSError, ValueError):
        return  # no session, then
