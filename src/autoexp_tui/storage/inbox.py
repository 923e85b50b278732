"""Commands that other processes leave for a session's engine, one file each, and who
sent them. The engine forgets one once its events are synced; killed in between, it is
given it again, and knows its id from the journal. What is no command is set aside.
Approvals are a person's: whether a job sent one is found out, which is no fence against
code of the same user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autoexp_tui.model.commands import Order, Sender
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.ids import format_filename
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.json_codec import decode, encode
from autoexp_tui.storage.lease import UNREADABLE
from autoexp_tui.storage.processes import COOKIE, Alive, Identity, read_start, read_stat
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.trust import format_user, read_checked
from autoexp_tui.storage.user_files import list_places
from autoexp_tui.text.sanitize import clean

AT_A_LOOK = 500
"""Files that one look takes in or sets aside."""
_ID = re.compile(r"[!-~]{1,200}")
_PROC = Path("/proc")
_WRAPPER = re.compile(r"(?:.*/)?wrapper(?:\.[\w-]+)?\.pyc?")
_SLURM_CGROUP = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_MOST_ANCESTORS = 1000
"""More than any chain has; it may change while it is followed."""


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
    ) -> None:
        self._session = session
        self._on_rejected = on_rejected
        self._given: dict[str, str] = {}
        """File name -> command id of what was given out and is not done."""

    def take(self) -> Sequence[Order]:
        orders: list[Order] = []
        aside = 0
        for name in self._list_new():
            if len(orders) == AT_A_LOOK:
                break
            try:
                order = _read(self._session.inbox / name)
            except NotACommand as reason:
                aside += 1
                if aside <= AT_A_LOOK:  # heaps of it take seconds
                    self._set_aside(name, str(reason))
                continue
            if order is None:
                continue
            self._given[name] = order.command_id
            if order.command.is_personal:
                sender = check_sender(order.sender, self._session.state_dir)
                order = replace(order, sender=sender)
            orders.append(order)
        return orders

    def done(self, command_ids: Sequence[str]) -> None:
        settled = frozenset(command_ids)
        for name, command_id in list(self._given.items()):
            if command_id in settled:
                with suppress(OSError):  # given again by the next engine, and known
                    (self._session.inbox / name).unlink(missing_ok=True)
                    self._given.pop(name, None)

    def _list_new(self) -> list[str]:
        with explaining(self._session.inbox, "read the inbox"):
            try:
                names = os.listdir(self._session.inbox)
            except FileNotFoundError:
                return []
        known = {self._session.inbox_rejected.name, *self._given}
        return sorted(n for n in names if n not in known and not n.startswith("."))

    def _set_aside(self, name: str, reason: str) -> None:
        rejected = self._session.inbox_rejected
        # What cannot be moved, or not explained, is not looked at again either.
        with suppress(OSError, EnvironmentFailed):
            make_directory(rejected)
            os.replace(self._session.inbox / name, rejected / name)
            reason_file = rejected / f"{format_filename(name)}.reason.txt"
            data = f"{reason}\n".encode("utf-8", "replace")
            write_atomic(reason_file, data, durable=False)
        self._given.setdefault(name, "")
        self._on_rejected(clean(name), clean(reason))


def _read(path: Path) -> Order | None:
    """The command; None: gone, or the disk failed just now; raises NotACommand."""
    if path.suffix != ".json":
        raise NotACommand("its name does not end in .json")
    try:
        data = read_checked(path, "own")
    except PermissionError as error:  # Untrusted is one
        raise NotACommand(str(error.strerror)) from error
    except OSError:
        return None
    try:
        order = decode(Order, data, path.name)
    except JournalDamaged as error:
        raise NotACommand(f"it is no command: {error.problem}") from error
    if not _ID.fullmatch(order.command_id):
        # Known by it once it is done: without one it would be done again and again.
        raise NotACommand("its command_id is none: 1 to 200 visible characters")
    return order


def describe_sender(state_dir: Path) -> Sender:
    """This process, as a command carries it; `state_dir` is the session's."""
    me, leader = Identity.get_own(), os.getsid(0)
    tty = ""
    for descriptor in (1, 2, 0):  # the input's, if it has one
        with suppress(OSError):
            tty = os.ttyname(descriptor).removeprefix("/dev/")
    return Sender(
        user=format_user(os.getuid()),
        host=me.host,
        boot=me.boot,
        namespace=me.namespace,
        pid=me.pid,
        started=me.started,
        leader=leader,
        leader_started=read_start(leader) or "",
        tty=tty,
        ssh_client=os.environ.get("SSH_CONNECTION", "").partition(" ")[0],
        job=job_of(me.pid, state_dir),
        checked=True,
    )


def check_sender(sender: Sender | None, state_dir: Path) -> Sender:
    """What the engine finds, on its own host, of the process that sent a command; of
    another host's, what the sender found of itself stands."""
    if sender is None:
        return Sender(doubt="unnamed")
    me = Identity.get_own()
    theirs = replace(me, host=sender.host, boot=sender.boot, namespace=sender.namespace)
    processes = (
        replace(theirs, pid=sender.pid, started=sender.started),
        replace(theirs, pid=sender.leader, started=sender.leader_started),
    )
    lives = [process.check_alive(me) for process in processes]
    if Alive.UNKNOWN in lives:
        return replace(sender, checked=False)
    if Alive.YES not in lives:
        return replace(sender, doubt="ended", checked=True)
    living = processes[lives.index(Alive.YES)].pid
    job = sender.job or job_of(living, state_dir)
    return replace(sender, job=job, doubt="", checked=True)


def job_of(pid: int, state_dir: Path) -> str:
    """The job that a process of this host belongs to, in words; empty: to none."""
    chain: list[int] = []
    one = pid
    while one > 0 and len(chain) < _MOST_ANCESTORS:
        chain.append(one)
        stat = (read_stat(one) or "").split()
        one = int(stat[1]) if len(stat) > 1 else 0
    variables: list[dict[str, str]] = []
    for one in chain:
        pairs = (e.partition(b"=") for e in _read_proc(one, "environ").split(b"\0"))
        variables.append({os.fsdecode(k): os.fsdecode(value) for k, _, value in pairs})
    if pid == os.getpid():  # as we were started, and as we are now
        variables.append({**os.environ})
    for found in variables:
        if attempt := found.get(COOKIE):
            return _format_attempt(Path(attempt))
    for one in chain:  # a supervisor names its task file behind the wrapper
        words = [os.fsdecode(word) for word in _read_proc(one, "cmdline").split(b"\0")]
        named = (at for at, word in enumerate(words) if at and _WRAPPER.fullmatch(word))
        behind = words[next(named, len(words)) :]
        if task := next((word for word in behind if word.endswith(".json")), ""):
            return _format_attempt(Path(task).parent)
    ids = {found["SLURM_JOB_ID"] for found in variables if found.get("SLURM_JOB_ID")}
    for one in chain:
        ids.update(_SLURM_CGROUP.findall(os.fsdecode(_read_proc(one, "cgroup"))))
    for home in list_places(state_dir) if ids else ():
        for claim in home.glob("*/attempts/*/*/claim"):
            if ids & _read_claim(claim) and not _has_ended(claim.parent):
                return _format_attempt(claim.parent)
    return ""


def _read_proc(pid: int, name: str) -> bytes:
    with suppress(OSError):
        return (_PROC / str(pid) / name).read_bytes()
    return b""


def _read_claim(path: Path) -> set[object]:
    """The ids of the Slurm job that has claimed an attempt."""
    with suppress(OSError, *UNREADABLE):
        record = json.loads(read_checked(path, "anybody"))
        return {record.get("slurm_job"), record.get("executor_id")}
    return set()


def _has_ended(attempt: Path) -> bool:
    """Whether all its runs have ended: clusters give a number again."""
    began, ended = (
        len([*attempt.glob(f"{kind}.*.json")]) for kind in ("begin", "exit")
    )
    return 0 < ended >= began


def _format_attempt(directory: Path) -> str:
    parts = directory.parts
    if len(parts) > 3 and parts[-3] == "attempts":
        return f"attempt {parts[-1]} of {parts[-2]}, session {parts[-4]}"
    return str(directory)
