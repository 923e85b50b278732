"""Commands that other processes leave for a session's engine, one file each. The engine
forgets one once its events are synced; killed in between, it is given it again, and
knows its id from the journal. What is no command is set aside with the reason."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autoexp_tui.model.commands import Order, Sender, is_personal
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.ids import format_filename
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.json_codec import decode, encode
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.trust import Untrusted, read_checked
from autoexp_tui.text.sanitize import clean

MAX_BYTES = 4 << 20
"""Of one command: enough for one that names 100,000 jobs one by one."""

AT_A_LOOK = 500
"""Commands that one look takes in, and files that it sets aside."""
_OURS = re.compile(r"\d{17}-[^/]+\.json")
_ID = re.compile(r"[!-~]{1,200}")

_HOPELESS = {
    errno.EISDIR: "it is a directory",
    errno.EACCES: "it may not be read",
    errno.EPERM: "it may not be read",
}
"""What no later look mends; everything else is tried again."""


class NotACommand(Exception):
    """A file of the inbox that is set aside; the text says why."""


def leave(session: SessionDir, order: Order, utc: float) -> Path:
    """Leave a command for the engine, now or later; raises EnvironmentFailed."""
    session.require_own()
    make_directory(session.inbox)
    stamp = f"{max(0, int(utc * 1e6)):017d}"
    path = session.inbox / f"{stamp}-{format_filename(order.command_id)}.json"
    write_atomic(path, encode(order))
    return path


class FileInbox:
    """The engine's side. Implements `ports.Inbox`."""

    def __init__(
        self,
        session: SessionDir,
        on_rejected: Callable[[str, str], None] = lambda _name, _reason: None,
        check: Callable[[Sender | None], Sender | None] = lambda sender: sender,
    ) -> None:
        """`on_rejected` is told file and reason; `check` finds who sent a person's
        word."""
        self._session = session
        self._on_rejected = on_rejected
        self._check = check
        self._given: dict[str, str] = {}
        """File name -> command id of what was given out and is not done."""
        self._rubbish: dict[str, str] = {}
        """File name -> why it is no command, of what has to be set aside."""
        self._failing: set[str] = set()
        """Names of files that could not be read the last time."""

    def take(self) -> Sequence[Order]:
        """Commands since the last call, oldest first; raises EnvironmentFailed."""
        orders: list[Order] = []
        for name in self._new_names():
            if len(orders) == AT_A_LOOK:
                break
            try:
                order = _read(self._session.inbox / name)
            except NotACommand as reason:
                self._rubbish[name] = str(reason)
                continue
            if order is None:
                self._failing.add(name)
                continue
            self._failing.discard(name)
            self._given[name] = order.command_id
            if is_personal(order.command):
                order = replace(order, sender=self._check(order.sender))
            orders.append(order)
        for name in list(self._rubbish)[:AT_A_LOOK]:  # heaps of it take seconds
            self._set_aside(name, self._rubbish.pop(name))
        return orders

    def done(self, command_ids: Sequence[str]) -> None:
        settled = frozenset(command_ids)
        for name, command_id in list(self._given.items()):
            if command_id in settled:
                with suppress(OSError):  # given again by the next engine, and known
                    (self._session.inbox / name).unlink(missing_ok=True)
                    self._given.pop(name, None)

    def _new_names(self) -> list[str]:
        with explaining(self._session.inbox, "read the inbox"):
            try:
                names = os.listdir(self._session.inbox)
            except FileNotFoundError:
                return []
        known = {self._session.inbox_rejected.name, *self._given, *self._rubbish}
        new = [one for one in names if one not in known and not one.startswith(".")]
        # A command is not kept waiting by heaps of something else.
        turns = [(one in self._failing, not _OURS.fullmatch(one), one) for one in new]
        return [name for *_, name in sorted(turns)]

    def _set_aside(self, name: str, reason: str) -> None:
        rejected = self._session.inbox_rejected
        # What cannot be moved, or not explained, is not looked at again either.
        with suppress(OSError, EnvironmentFailed):
            make_directory(rejected)
            os.replace(self._session.inbox / name, rejected / name)
            told = rejected / f"{format_filename(name)}.reason.txt"
            data = f"{reason}\n".encode("utf-8", "replace")
            write_atomic(told, data, durable=False)
        self._given.setdefault(name, "")
        self._on_rejected(clean(name), clean(reason))


def _read(path: Path) -> Order | None:
    """The command; None: gone, or the disk failed just now; raises NotACommand."""
    if path.suffix != ".json":
        raise NotACommand("its name does not end in .json")
    try:
        data = read_checked(path, "own", MAX_BYTES)
    except Untrusted as error:
        raise NotACommand(str(error.strerror)) from error
    except OSError as error:
        if error.errno in _HOPELESS:
            raise NotACommand(_HOPELESS[error.errno]) from error
        return None
    try:
        order = decode(Order, data, path.name)
    except JournalDamaged as error:
        raise NotACommand(f"it is no command: {error.problem}") from error
    if not _ID.fullmatch(order.command_id):
        # Known by it once it is done: without one it would be done again and again.
        raise NotACommand("its command_id is none: 1 to 200 visible characters")
    return order
