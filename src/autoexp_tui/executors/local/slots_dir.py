"""Where the slots of this machine lie: one directory a user a host.

`/tmp/autoexp-tui-<uid>`. When somebody else sits on that name, another one with random
letters, remembered for this host and boot, so that every engine of the user finds the
same.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.ids import safe_filename
from autoexp_tui.storage.atomic import link_new, write_atomic
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.trust import read_own
from autoexp_tui.storage.user_files import find_user_file

TEMPORARY = Path("/tmp")


def usual_slots_dir() -> Path:
    """The directory that is meant, whoever has it."""
    return TEMPORARY / f"autoexp-tui-{os.geteuid()}"


def find_slots_dir() -> Path:
    """The user's directory of slots on this host, made where it was not.

    What cannot be made is the usual one: the job that needs it says why.
    """
    usual, memory = usual_slots_dir(), _memory()
    remembered = _remembered(memory)
    for known in (remembered, usual):
        if known is not None and _make(known):
            return known
    other = usual.with_name(f"{usual.name}-{secrets.token_hex(6)}")
    if not _make(other):
        return usual
    return _remember(memory, other, remembered)


def _make(directory: Path) -> bool:
    """Whether it is ours alone, and there now."""
    with suppress(OSError):
        with suppress(FileExistsError):
            directory.mkdir(0o700)
        found = directory.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        return private and found.st_uid == os.geteuid()
    return False


def _memory() -> Path | None:
    """The file that keeps another name; None where the user has no home."""
    me = Identity.get_own()
    return find_user_file(safe_filename(f"slots-dir.{me.host}.{me.boot}"))


def _remembered(memory: Path | None) -> Path | None:
    if memory is None:
        return None
    try:
        text = os.fsdecode(read_own(memory).strip())
    except OSError:
        return None
    return Path(text) if text.startswith(str(usual_slots_dir())) else None


def _remember(memory: Path | None, directory: Path, before: Path | None) -> Path:
    """Keep the name, unless another engine was faster: then take its."""
    if memory is None:
        return directory
    data = os.fsencode(f"{directory}\n")
    with suppress(OSError, EnvironmentFailed):
        memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if before is not None:
            write_atomic(memory, data)
        elif not link_new(memory, data):
            return _remembered(memory) or directory
    return directory
