"""Where this user's sessions were made: a list of state directories.

`$XDG_STATE_HOME/autoexp-tui/state-dirs`, else below ~/.local/state: one absolute path a
line, appended when a session is made in a place that is not listed. It only helps to
find sessions again: a list that cannot be read is empty, one that cannot be written is
done without. Each session's own directory remains the only truth about it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from autoexp_tui.model.errors import UsageError
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.session_dir import (
    ANSWER_SECONDS,
    SessionDir,
    called,
    find_session,
    look_into,
    meant_by,
    no_answer,
    require_readable,
)
from autoexp_tui.storage.trust import open_own

_LONGEST = 256 * 1024
"""Bytes of the list that are read."""


def list_file() -> Path | None:
    """The list's file, there or not; None where the user has no home."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base, "autoexp-tui", "state-dirs") if os.path.isabs(base) else None


def remember(state_dir: Path) -> None:
    """Keep a state directory in the list; whatever hinders that is let be."""
    place = os.path.realpath(state_dir)
    file = list_file()
    if file is None or "\n" in place or place in _lines(file):
        return
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, os.fsencode(f"{place}\n"))
        finally:
            os.close(handle)


def remembered() -> tuple[Path, ...]:
    """The listed directories that are still there, in the order they came."""
    file = list_file()
    lines = _lines(file) if file is not None else ()
    there = ask_all([partial(os.path.isdir, line) for line in lines], ANSWER_SECONDS)
    return tuple(
        Path(line)
        for line, is_there in zip(lines, there, strict=True)
        if is_there  # also one that did not answer: it is told when it is looked into
    )


def _lines(file: Path) -> Sequence[str]:
    try:
        with open_own(file) as opened:
            data = opened.read(_LONGEST)
    except OSError:
        return ()
    texts = map(os.fsdecode, data.split(b"\n"))
    return tuple(dict.fromkeys(text for text in texts if os.path.isabs(text)))


def with_remembered(first: Path) -> tuple[Path, ...]:
    """`first`, and behind it the remembered places that are another directory."""
    own = os.path.realpath(first)
    others = (place for place in remembered() if str(place) != own)
    return (first, *others)


def find_in(places: Sequence[Path], session_id: str) -> SessionDir:
    """The session of that id, in whichever of the state directories it lies.

    Raises:
        UsageError: there is none, or there are several.
        EnvironmentFailed: the first of the places, or the session, cannot be read.
    """
    if len(places) == 1:
        return _find_here(places[0], session_id)
    known = _sessions(places)
    found = called(known, session_id)
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
    meant = meant_by(session_id, known)
    others = len(places) - 1
    elsewhere = "another known place" if others == 1 else f"{others} other known places"
    raise UsageError(
        f"there is no session {session_id!r} in {places[0]}, nor in {elsewhere}",
        hint=f"{meant}`autoexp-sessions list` shows them all.",
    )


def _find_here(place: Path, session_id: str) -> SessionDir:
    """In the one place that was named; where else it lies is told."""
    try:
        return find_session(place, session_id)
    except UsageError as error:
        elsewhere = [
            one.state_dir
            for one in _sessions(with_remembered(place)[1:], named=False)
            if one.id == session_id
        ]
        if elsewhere:
            error.hint = f"There is one in {elsewhere[0]}: --state-dir {elsewhere[0]}"
        raise


def _sessions(places: Sequence[Path], *, named: bool = True) -> list[SessionDir]:
    """The sessions of the places; `named`: the first of them must be readable."""
    sessions: list[SessionDir] = []
    for place, found in zip(places, look_into(places), strict=True):
        if not isinstance(found, Exception):
            sessions += found
        elif named and place == places[0]:
            late = isinstance(found, TimeoutError)
            raise no_answer(place) if late else found
    return sessions
