"""The slots of this machine: where their files lie, and who holds them.

The files lie in one directory a user a host: `/tmp/autoexp-tui-<uid>`, or, when
somebody else sits on that name, another one with random letters, remembered for this
host and boot. A slot is taken while its file is locked; the text in it names the
session of whoever locked it last. The wrapper alone takes them and gives them back.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autoexp_tui.executors.wrapper import clean_name
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.ids import format_filename
from autoexp_tui.storage.atomic import link_new, write_atomic
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.storage.user_files import find_user_file

TEMPORARY = Path("/tmp")
_MOST_BYTES = 4096
_NAMED = 3
"""Sessions that are named before the rest is only counted."""


def get_usual_dir() -> Path:
    """The directory that is meant, whoever has it."""
    return TEMPORARY / f"autoexp-tui-{os.geteuid()}"


def find_slots_dir() -> Path:
    """The user's directory of slots on this host, made where it was not.

    What cannot be made is the usual one: the job that needs it says why.
    """
    me, usual = Identity.get_own(), get_usual_dir()
    memory = find_user_file(format_filename(f"slots-dir.{me.host}.{me.boot}"))
    noted = _read_memory(memory) if memory else None
    for known in (noted, usual):
        if known is not None and _make_own(known):
            return known
    other = usual.with_name(f"{usual.name}-{secrets.token_hex(6)}")
    if not _make_own(other):
        return usual
    if memory is None:
        return other
    data = os.fsencode(f"{other}\n")
    with suppress(OSError, EnvironmentFailed):
        memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if noted is not None:
            write_atomic(memory, data)
        elif not link_new(memory, data):  # another engine was faster
            return _read_memory(memory) or other
    return other


def _make_own(directory: Path) -> bool:
    with suppress(OSError):
        with suppress(FileExistsError):
            directory.mkdir(0o700)
        found = directory.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        return private and found.st_uid == os.geteuid()
    return False


def _read_memory(memory: Path) -> Path | None:
    """The directory that a file of the user's names; None: there is none."""
    try:
        text = os.fsdecode(read_checked(memory, "own").strip())
    except OSError:
        return None
    return Path(text) if text.startswith(str(get_usual_dir())) else None


def explain_queued(
    directory: Path, count: int, gpus: Sequence[str], wanted_gpus: int
) -> str:
    """Why a task that wants a slot and `wanted_gpus` does not start yet."""
    slots = [_find_holder(directory / f"slot.{number}") for number in range(count)]
    cards = [_find_holder(directory / f"gpu.{clean_name(gpu)}") for gpu in gpus]
    if None not in slots:
        which = f"all {count} of this machine are"
        which = "the one of this machine is" if count == 1 else which
        return f"waits for a slot: {which} taken{_format_sessions(slots)}"
    if wanted_gpus > cards.count(None):
        held = len(cards) - cards.count(None)
        head = f"waits for {wanted_gpus} of this machine's {len(cards)} GPUs"
        return f"{head}: {held} are taken{_format_sessions(cards)}"
    return "is about to start"


def _format_sessions(holders: Sequence[str | None]) -> str:
    sessions = [*dict.fromkeys(session for session in holders if session)]
    if not sessions:
        return ""
    noun = "session" if len(sessions) == 1 else "sessions"
    rest = len(sessions) - _NAMED
    tail = f" and {rest} more" if rest > 0 else ""
    return f", by {noun} {', '.join(sessions[:_NAMED])}{tail}"


def _find_holder(path: Path) -> str | None:
    """The session that holds a lock, empty when unknown; None: nobody holds it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # never taken, or not for us to look at
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(ValueError, AttributeError):
            return str(json.loads(os.read(handle, _MOST_BYTES)).get("session") or "")
        return ""
    except OSError:  # no locks here: nothing is known, and it is only told
        return None
    finally:
        os.close(handle)
    return None
