"""What the doctor says of a Slurm cluster: whether there is one, and how it is set.

Jobs run without a cluster too, so what is absent is a hint. Only where a controller
answers, and something that jobs need there is not to be had, is it missing.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from autoexp_tui.executors.slurm.commands import Commands, Ran
from autoexp_tui.executors.slurm.refusals import parse_refusal
from autoexp_tui.executors.slurm.text import (
    ClusterFacts,
    extract_complaint,
    parse_config,
)
from autoexp_tui.model.wording import duration

Grade = Literal["ok", "hint", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    grade: Grade
    found: str
    mend: str = ""
    """The command or the step that mends it; empty: nothing to do."""

    @property
    def line(self) -> str:
        """For people; what mends it stands below."""
        mark = {"ok": "✓", "hint": "·", "missing": "✗"}[self.grade]
        line = f" {mark} {self.what:<14} {self.found}"
        return f"{line}\n   {'':<14} {self.mend}" if self.mend else line


ASK_SECONDS: Final = 10.0
"""How long a command may take."""
GRACE_SECONDS: Final = 60.0
"""What a job is given to end by default: `slurm.client.grace_seconds`."""
_NEEDED: Final = ("sbatch", "squeue", "scancel", "scontrol")
_MODULE: Final = "Load the cluster's module (`module load slurm`), or add it to PATH."
_KINDS_OF_ONE = "ext2 ext3 ext4 xfs btrfs zfs f2fs tmpfs ramfs overlay vfat squashfs"
_LOCAL_ONLY: Final = frozenset(_KINDS_OF_ONE.split())
_KINDS_OF_MANY = (
    "nfs nfs4 lustre gpfs beegfs fhgfs ceph cifs smb3 afs panfs wekafs pvfs2 orangefs "
    "glusterfs fuse.glusterfs fuse.sshfs fuse.ceph 9p virtiofs quobyte vast"
)
_SHARED: Final = frozenset(_KINDS_OF_MANY.split())
_FEWEST_JOB_SECONDS: Final = 60.0
"""Of MinJobAge: below that a queue asked once a minute may miss an end."""


def examine_slurm(state_dir: Path, commands: Commands) -> Iterator[Finding]:
    """Every finding about the cluster; one where there is none."""
    if shutil.which("sbatch") is None:
        yield Finding("slurm", "hint", "no sbatch: jobs run on this machine (local)")
        return
    ran = commands.run(("scontrol", "show", "config"), ASK_SECONDS)
    if not ran.ok:
        yield _silent(ran)
        return
    facts = parse_config(ran.stdout)
    yield _controller(facts)
    yield from _programs()
    yield _accounting(facts, commands)
    yield _arrays(facts)
    yield _memory(facts)
    yield _kill_wait(facts)
    yield _place(state_dir, commands)


def _silent(ran: Ran) -> Finding:
    """There are Slurm's commands, and no controller behind them."""
    if ran.missing:
        return Finding("slurm", "hint", "sbatch without scontrol", _MODULE)
    if ran.timed_out:
        found = f"the controller did not answer within {ASK_SECONDS:g} s"
        return Finding("slurm", "hint", found, "scontrol ping")
    told = parse_refusal(extract_complaint(ran.stderr), {})
    mend = told.hint or "scontrol ping   says whether the controller is up"
    return Finding("slurm", "hint", f"no cluster answers: {told.reason}", mend)


def _controller(facts: ClusterFacts) -> Finding:
    name = f" of {facts.cluster}" if facts.cluster else ""
    return Finding("slurm", "ok", f"the controller{name} answers, {facts.version}")


def _programs() -> Iterator[Finding]:
    for name in _NEEDED:
        if shutil.which(name) is None:
            yield Finding(name, "missing", "not on PATH: jobs need it", _MODULE)


def _accounting(facts: ClusterFacts, commands: Commands) -> Finding:
    remembers = f"ended jobs are known for {duration(facts.min_job_age)}"
    without = f"{remembers}, then by their own records"
    if not facts.accounting:
        return Finding("accounting", "hint", f"none on this cluster: {without}")
    if shutil.which("sacct") is None:
        found = f"sacct is not on PATH: {without}"
        return Finding("accounting", "hint", found, _MODULE)
    ran = commands.run(("sacct", "-X", "-n", "-S", "now-1minutes"), ASK_SECONDS)
    if ran.ok:
        return Finding("accounting", "ok", "sacct answers")
    why = "no answer" if ran.timed_out else extract_complaint(ran.stderr)
    found = f"sacct: {why}; {without}"
    return Finding("accounting", "hint", found, "sacctmgr ping")


def _arrays(facts: ClusterFacts) -> Finding:
    most = facts.max_array_size - 1
    if most < 1:
        return Finding("arrays", "hint", "none here (MaxArraySize): one job a sbatch")
    return Finding("arrays", "ok", f"up to {most} jobs an array (MaxArraySize)")


def _memory(facts: ClusterFacts) -> Finding:
    found = f"the controller remembers ended jobs for {duration(facts.min_job_age)}"
    if facts.accounting or facts.min_job_age >= _FEWEST_JOB_SECONDS:
        return Finding("MinJobAge", "ok", found)
    mend = f"Ask for MinJobAge={_FEWEST_JOB_SECONDS:.0f} or more: nobody else keeps "
    return Finding("MinJobAge", "hint", found, f"{mend}how a job ended.")


def _kill_wait(facts: ClusterFacts) -> Finding:
    wait = duration(facts.kill_wait)
    found = f"{wait} between TERM and KILL at a time limit"
    if facts.kill_wait >= GRACE_SECONDS:
        return Finding("KillWait", "ok", found)
    mend = (
        f"grace_seconds ({GRACE_SECONDS:g}) does not count there: a job that needs "
        "longer to save is told earlier by slurm.sbatch.signal=USR1@120."
    )
    return Finding("KillWait", "hint", found, mend)


# ----------------------------------------------------------------- the state directory
def _place(state_dir: Path, commands: Commands) -> Finding:
    """Whether compute nodes see the state directory, as far as can be told here."""
    kind, mount = file_system(state_dir, _mounts())
    found = f"{state_dir} is on {mount} ({kind or 'of a kind not known'})"
    if kind in _SHARED:
        return Finding("shared state", "ok", f"{found}: nodes may see it too")
    if _is_only_node(commands):
        return Finding("shared state", "ok", f"{found}; this machine is the only node")
    mend = (
        "Nodes must see it under the same path: srun -N1 "
        f"ls -d {_existing(state_dir)}   tells; else --state-dir DIR on a shared disk."
    )
    sure = ", which is this machine's own" if kind in _LOCAL_ONLY else ""
    return Finding("shared state", "hint", f"{found}{sure}", mend)


def _existing(place: Path) -> Path:
    return next(one for one in (place, *place.parents) if one.exists())


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text("utf-8", "replace")
    except OSError:
        return ""


def file_system(place: Path, mounts: str) -> tuple[str, str]:
    """The kind and the mount point of the file system that holds `place`.

    `mounts` is the text of /proc/self/mounts; ("", "/") where it does not tell.
    """
    real = str(_existing(place).resolve())
    best = ("", "/")
    for line in mounts.splitlines():
        words = line.split()
        if len(words) > 2 and _holds(_unescaped(words[1]), real, best[1]):
            best = (words[2], _unescaped(words[1]))
    return best


def _holds(mount: str, place: str, best: str) -> bool:
    inside = place == mount or place.startswith(mount.rstrip("/") + "/")
    return inside and len(mount) >= len(best)


def _unescaped(text: str) -> str:
    """Blanks are `\\040` in the table of mounts."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _is_only_node(commands: Commands) -> bool:
    """Whether all nodes run on this very machine."""
    ran = commands.run(("scontrol", "-o", "show", "nodes"), ASK_SECONDS)
    hosts = _hosts(ran.stdout.splitlines()) if ran.ok else set()
    here = socket.gethostname()
    return bool(hosts) and hosts <= {here, here.partition(".")[0], "localhost"}


def _hosts(lines: Sequence[str]) -> set[str]:
    words = (word for line in lines for word in line.split())
    return {
        word.partition("=")[2] for word in words if word.startswith("NodeHostName=")
    }
