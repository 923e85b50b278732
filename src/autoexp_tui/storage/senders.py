"""Who sent a command: this process as others may check it, and whether it is a job's.
Approvals are a person's. A process is a job's by the wrapper's variable, by a
supervisor among its ancestors, or by the Slurm job it runs in. It is no fence against
code of the same user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autoexp_tui.model.commands import Sender
from autoexp_tui.storage.processes import COOKIE, Alive, Identity, read_start, read_stat
from autoexp_tui.storage.trust import open_regular
from autoexp_tui.storage.user_files import list_places

_PROC = Path("/proc")
_WRAPPER = re.compile(r"(?:.*/)?wrapper(?:\.[\w-]+)?\.pyc?")
_SLURM_CGROUP = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_LONGEST_CLAIM = 64 * 1024
_MOST_ANCESTORS = 1000
"""More than any chain has; it may change while it is followed."""


def describe_sender(state_dir: Path) -> Sender:
    """This process, as a command carries it; `state_dir` is the session's."""
    me, leader = Identity.get_own(), os.getsid(0)
    return Sender(
        user=_find_user(),
        host=me.host,
        boot=me.boot,
        namespace=me.namespace,
        pid=me.pid,
        started=me.started,
        leader=leader,
        leader_started=read_start(leader) or "",
        tty=_find_tty(),
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
    lives = [
        _check_alive(sender, pid, started, me)
        for pid, started in _list_processes(sender)
    ]
    if Alive.UNKNOWN in lives:
        return replace(sender, checked=False)
    living = [
        pid
        for (pid, _), alive in zip(_list_processes(sender), lives, strict=True)
        if alive is Alive.YES
    ]
    if not living:
        return replace(sender, doubt="ended", checked=True)
    job = sender.job or job_of(living[0], state_dir)
    return replace(sender, job=job, doubt="", checked=True)


def _list_processes(sender: Sender) -> Sequence[tuple[int, str]]:
    return (sender.pid, sender.started), (sender.leader, sender.leader_started)


def _check_alive(sender: Sender, pid: int, started: str, me: Identity) -> Alive:
    process = Identity(
        host=sender.host,
        machine=me.machine,
        boot=sender.boot,
        namespace=sender.namespace,
        pid=pid,
        started=started,
    )
    return process.check_alive(me)


def _find_user() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return str(os.getuid())


def _find_tty() -> str:
    for descriptor in (0, 2, 1):
        with suppress(OSError):
            return os.ttyname(descriptor).removeprefix("/dev/")
    return ""


def job_of(pid: int, state_dir: Path) -> str:
    """The job that a process of this host belongs to, in words; empty: to none."""
    chain = list(_list_ancestors(pid))
    variables = [_read_environment(one) for one in chain]
    if pid == os.getpid():  # as we were started, and as we are now
        variables.append({**os.environ})
    for found in variables:
        if attempt := found.get(COOKIE):
            return _format_attempt(attempt)
    for one in chain:
        if task_file := _task_of_supervisor(one):
            return _format_attempt(os.path.dirname(task_file))
    ids = {found["SLURM_JOB_ID"] for found in variables if found.get("SLURM_JOB_ID")}
    ids |= {number for one in chain for number in _list_slurm_jobs(one)}
    return _find_slurm_attempt(ids, list_places(state_dir)) if ids else ""


def _list_ancestors(pid: int) -> Iterator[int]:
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:
            return
        yield pid
        stat = (read_stat(pid) or "").split()
        pid = int(stat[1]) if len(stat) > 1 else 0


def _read_environment(pid: int) -> dict[str, str]:
    """As the process was started; empty where it is not ours to read."""
    try:
        data = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in data.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _task_of_supervisor(pid: int) -> str:
    """The task file of a wrapper's process; empty: it is none."""
    try:
        data = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    words = [os.fsdecode(word) for word in data.split(b"\0")]
    for place, word in enumerate(words[1:], 1):
        if _WRAPPER.fullmatch(word):
            return next((one for one in words[place:] if one.endswith(".json")), "")
    return ""


def _list_slurm_jobs(pid: int) -> Sequence[str]:
    try:
        return _SLURM_CGROUP.findall((_PROC / str(pid) / "cgroup").read_text())
    except OSError:
        return ()


def _find_slurm_attempt(ids: Iterable[str], places: Sequence[Path]) -> str:
    wanted = frozenset(ids)
    for place in places:
        for claim in place.glob("*/attempts/*/*/claim"):
            record = _read_claim(str(claim))
            ours = wanted & {record.get("slurm_job"), record.get("executor_id")}
            if ours and _is_under_way(claim.parent):
                return _format_attempt(str(claim.parent))
    return ""


def _is_under_way(attempt: Path) -> bool:
    """Clusters give a number again: an attempt that has ended is no answer."""
    began, ended = (
        sum(1 for _ in attempt.glob(f"{kind}.*.json")) for kind in ("begin", "exit")
    )
    return began > ended or not ended


def _read_claim(path: str) -> dict[str, object]:
    try:
        with open_regular(path) as (handle, _):
            data = os.read(handle, _LONGEST_CLAIM) if handle is not None else b""
        record = json.loads(data or b"{}")
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _format_attempt(directory: str) -> str:
    parts = Path(directory).parts
    if len(parts) > 3 and parts[-3] == "attempts":
        return f"attempt {parts[-1]} of {parts[-2]}, session {parts[-4]}"
    return directory
