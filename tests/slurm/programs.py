"""Whether a Slurm cluster can run on this machine, and if not, why."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from functools import cache
from pathlib import Path

SEARCH_PATH = ":".join(
    [os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
)
"""Where programs are looked for: a user's PATH often lacks the daemons' folders."""

_SLURM = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "munged")
_ACCOUNTING = ("slurmdbd", "sacct", "mariadbd", "mariadb-install-db")
_MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")


def program(name: str) -> str | None:
    """Path of an installed program, None if there is none."""
    return shutil.which(name, path=SEARCH_PATH)


@cache
def why_no_cluster(*, accounting: bool = False) -> str | None:
    """What keeps a cluster from running here; None when one can."""
    wanted = _SLURM + (_ACCOUNTING if accounting else ())
    missing = [name for name in wanted if program(name) is None]
    if missing:
        return f"no Slurm here: {', '.join(missing)} not installed"
    if plugin_folder() is None:
        return "no Slurm here: its plugins are not below /usr/lib"
    if host_address() is None:
        return f"the host name {socket.gethostname()} does not resolve"
    return None


@cache
def why_no_memory_limits() -> str | None:
    """What keeps memory limits from being enforced here; None when they can be."""
    if os.geteuid() != 0:
        return "memory limits need root"
    if not (_MEMORY_CGROUPS / "memory.limit_in_bytes").exists():
        return "memory limits need the memory controller of cgroup v1"
    try:
        probe = tempfile.mkdtemp(prefix="slurm-probe-", dir=_MEMORY_CGROUPS)
    except OSError as error:
        return f"no cgroup can be made in {_MEMORY_CGROUPS}: {error.strerror}"
    os.rmdir(probe)
    return None


def plugin_folder() -> Path | None:
    """Folder of Slurm's plugins: Debian's, one for each architecture."""
    return next(iter(sorted(Path("/usr/lib").glob("*/slurm-wlm"))), None)


def host_name() -> str:
    """Name by which Slurm's daemons know the machine they run on."""
    return socket.gethostname().split(".")[0]


@cache
def host_address() -> str | None:
    """Address the daemons bind to: the one the host's own name stands for."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
