"""Who holds the slots of this machine, as the files say that wrappers lock.

A slot is taken while its file is locked; the text in it names the session of whoever
locked it last. Only looks: slots are taken and given back by the wrapper alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.executors.wrapper import plain

_MOST_BYTES = 4096
_NAMED = 3
"""Sessions that are named before the rest is only counted."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How many of some locks are held, and by which sessions."""

    held: int
    of: int
    sessions: tuple[str, ...] = ()
    """Each once, as far as the files tell."""


def slots_taken(directory: Path, count: int) -> Taken:
    """The slots that are held now."""
    return _taken(directory / f"slot.{number}" for number in range(count))


def gpus_taken(directory: Path, gpus: Iterable[str]) -> Taken:
    """The GPUs that are held now."""
    return _taken(directory / f"gpu.{plain(gpu)}" for gpu in gpus)


def why_queued(slots: Taken, gpus: Taken, wanted_gpus: int) -> str:
    """Why a task that wants a slot and `wanted_gpus` does not start yet."""
    if slots.held >= slots.of:
        all_are = f"all {slots.of} of this machine are"
        which = "the one of this machine is" if slots.of == 1 else all_are
        return f"waits for a slot: {which} taken{_by(slots.sessions)}"
    if wanted_gpus > gpus.of - gpus.held:
        head = f"waits for {wanted_gpus} of this machine's {gpus.of} GPUs"
        return f"{head}: {gpus.held} are taken{_by(gpus.sessions)}"
    return "is about to start"


def _by(sessions: tuple[str, ...]) -> str:
    if not sessions:
        return ""
    noun = "session" if len(sessions) == 1 else "sessions"
    rest = len(sessions) - _NAMED
    tail = f" and {rest} more" if rest > 0 else ""
    return f", by {noun} {', '.join(sessions[:_NAMED])}{tail}"


def _taken(paths: Iterable[Path]) -> Taken:
    holders = [_holder(path) for path in paths]
    held = [session for session in holders if session is not None]
    names = dict.fromkeys(session for session in held if session)
    return Taken(len(held), len(holders), tuple(names))


def _holder(path: Path) -> str | None:
    """The session that holds a lock, empty when unknown; None: nobody holds it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # never taken, or not for us to look at
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _session(os.read(handle, _MOST_BYTES))
    except OSError:  # no locks here: nothing is known, and it is only told
        return None
    finally:
        os.close(handle)
    return None


def _session(text: bytes) -> str:
    try:
        fields = json.loads(text)
    except ValueError:
        return ""
    return str(fields.get("session") or "") if isinstance(fields, dict) else ""
