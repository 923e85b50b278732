"""Who sent a command: this process as others may check it, and whether it is a job's.
Approvals are a person's. A process is a job's by the wrapper's variable, by a
supervisor among its ancestors, or by the Slurm job it runs in. It is no fence against
code of the same user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence, Set
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
    user = str(os.getuid())
    with suppress(ImportError, KeyError):
        import pwd

        user = pwd.getpwuid(os.getuid()).pw_name
    tty = ""
    for descriptor in (1, 2, 0):  # the input's, if it has one
        with suppress(OSError):
            tty = os.ttyname(descriptor).removeprefix("/dev/")
    return Sender(
        user=user,
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
    chain = _list_ancestors(pid)
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
    for one in chain:
        ids.update(_SLURM_CGROUP.findall(os.fsdecode(_read_proc(one, "cgroup"))))
    return _find_slurm_attempt(ids, list_places(state_dir)) if ids else ""


def _list_ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while pid > 0 and len(found) < _MOST_ANCESTORS:
        found.append(pid)
        stat = (read_stat(pid) or "").split()
        pid = int(stat[1]) if len(stat) > 1 else 0
    return found


def _read_proc(pid: int, name: str) -> bytes:
    """What the system tells of a process; empty where it is not ours to read."""
    with suppress(OSError):
        return (_PROC / str(pid) / name).read_bytes()
    return b""


def _read_environment(pid: int) -> dict[str, str]:
    entries = _read_proc(pid, "environ").split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _task_of_supervisor(pid: int) -> str:
    """The task file of a wrapper's process; empty: it is none."""
    words = [os.fsdecode(word) for word in _read_proc(pid, "cmdline").split(b"\0")]
    for place, word in enumerate(words[1:], 1):
        if _WRAPPER.fullmatch(word):
            return next((one for one in words[place:] if one.endswith(".json")), "")
    return ""


def _find_slurm_attempt(wanted: Set[str], places: Sequence[Path]) -> str:
    for place in places:
        for claim in place.glob("*/attempts/*/*/claim"):
            record = _read_claim(str(claim))
            if not wanted & {record.get("slurm_job"), record.get("executor_id")}:
                continue
            # Clusters give a number again: an attempt that has ended is no answer.
            began, ended = (
                len([*claim.parent.glob(f"{kind}.*.json")])
                for kind in ("begin", "exit")
            )
            if began > ended or not ended:
                return _format_attempt(str(claim.parent))
    return ""


def _read_claim(path: str) -> dict[str, object]:
    with suppress(OSError, ValueError), open_regular(path) as (handle, _):
        data = os.read(handle, _LONGEST_CLAIM) if handle is not None else b""
        record = json.loads(data or b"{}")
        return record if isinstance(record, dict) else {}
    return {}


def _format_attempt(directory: str) -> str:
    parts = Path(directory).parts
    if len(parts) > 3 and parts[-3] == "attempts":
        return f"attempt {parts[-1]} of {parts[-2]}, session {parts[-4]}"
    return directory
