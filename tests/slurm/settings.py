"""What a throw-away cluster is like, the files that make it, and whether it can be."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for: a user's PATH often lacks the daemons' folders."""
USER = pwd.getpwuid(os.geteuid()).pw_name
"""Account that all daemons and all jobs run under: that of this process."""
_SLURM = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "munged")
_ACCOUNTING = ("slurmdbd", "sacct", "mariadbd", "mariadb-install-db")
_MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")


# ----------------------------------------------------------------------- this machine
def find_program(name: str) -> str | None:
    return shutil.which(name, path=SEARCH_PATH)


@cache
def why_no_cluster(*, accounting: bool = False) -> str | None:
    """What keeps a cluster from running here; None when one can."""
    wanted = _SLURM + (_ACCOUNTING if accounting else ())
    missing = [name for name in wanted if find_program(name) is None]
    if missing:
        return f"no Slurm here: {', '.join(missing)} not installed"
    if _plugin_folder() is None:
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
        os.rmdir(tempfile.mkdtemp(prefix="slurm-probe-", dir=_MEMORY_CGROUPS))
    except OSError as error:
        return f"no cgroup can be made in {_MEMORY_CGROUPS}: {error.strerror}"
    return None


def _plugin_folder() -> Path | None:
    """Debian's, one for each architecture."""
    return next(iter(sorted(Path("/usr/lib").glob("*/slurm-wlm"))), None)


@cache
def host_address() -> str | None:
    """Address the daemons bind to: the one the host's own name stands for."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return None


# ------------------------------------------------------------------------- the cluster
@dataclass(frozen=True, slots=True)
class Settings:
    """What a cluster is like."""

    nodes: int = 4
    node_prefix: str = "n"
    """Nodes are named by it and a number from 1. With memory limits the names are
    also those of cgroups, which all clusters of a machine share."""
    gpus: int = 2
    """Fake devices of a node; jobs that ask for them get CUDA_VISIBLE_DEVICES."""
    accounting: bool = True
    """With slurmdbd and its database; without them `sacct` knows nothing."""
    memory_limits: bool = False
    """Whether a job above its memory ends OUT_OF_MEMORY."""
    min_job_age_s: int = 300
    """Seconds the controller remembers an ended job."""
    failing_prolog: bool = False
    """Whether launches can be made to fail: `Cluster.failing_prolog`."""

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"{self.node_prefix}{i + 1}" for i in range(self.nodes))

    @property
    def ports(self) -> int:
        """How many it needs: controller, accounting, database, and each node's."""
        return 3 + self.nodes


def write_files(settings: Settings, home: Path, port: int) -> None:
    """Writes all files of a cluster in `home` whose first port is `port`."""
    for i in range(settings.gpus):
        # Devices must be devices; which ones does not matter, nobody opens them.
        (home / "dev" / f"gpu{i}").symlink_to(os.devnull)
    gpus = (f"Name=gpu Type=fake File={home}/dev/gpu{i}" for i in range(settings.gpus))
    files = {
        "munge.key": os.urandom(64).hex(),
        "slurm.conf": _slurm_conf(settings, home, port),
        "gres.conf": "\n".join(gpus),
        "cgroup.conf": _CGROUPS + (_LIMITS if settings.memory_limits else ""),
        "slurmdbd.conf": _slurmdbd_conf(home, port),
        "database.cnf": _database_conf(home, port),
        "database.sql": _DATABASE_SQL,
        # It fails while `fail-launches` lies beside it: then no job can be launched.
        "prolog": f"#!/bin/sh\ntest ! -e {home}/etc/fail-launches\n",
    }
    for name, content in files.items():
        path = home / "etc" / name
        # The daemons demand that secrets are read by their owner alone.
        path.touch(0o755 if name == "prolog" else 0o600)
        path.write_text(content)


def _host() -> str:
    """Name by which Slurm's daemons know the machine they run on."""
    return socket.gethostname().split(".")[0]


_CGROUPS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
"""
_LIMITS = "ConstrainRAMSpace=yes\nConstrainCores=no\n"
_SCHEDULING = (
    "sched_interval=1,batch_sched_delay=0,bf_interval=1,bf_continue,"
    "default_queue_depth=2000,bf_max_job_test=2000,preempt_youngest_first,"
    "max_array_tasks=10000"
)


def _slurm_conf(settings: Settings, home: Path, port: int) -> str:
    """The shortest life of a credential is also the shortest wait of a requeued job.

    A lost node is noticed after three times MessageTimeout, whatever SlurmdTimeout.
    Nodes are what is written, whatever the machine has.
    """
    address, host, limits = host_address(), _host(), settings.memory_limits
    gres = f" Gres=gpu:fake:{settings.gpus}" if settings.gpus else ""
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr={address} Port={port + 3 + i}"
        f" CPUs=4 RealMemory=4000 TmpDisk=1000{gres} State=UNKNOWN"
        for i, name in enumerate(settings.node_names)
    )
    accounting = f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
AccountingStoragePort={port + 1}
AccountingStoragePass={home}/munge/socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment"""
    partition = "Nodes=ALL MaxTime=INFINITE DefaultTime=60 DefMemPerCPU=100"
    return f"""\
ClusterName=throwaway
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmUser={USER}
SlurmdUser={USER}
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
PluginDir={_plugin_folder()}
PlugStackConfig=/dev/null
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/pid/slurmctld
SlurmdPidFile={home}/pid/%n
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/%n.log
SlurmctldTimeout=30
SlurmdTimeout=10
MessageTimeout=5
TCPTimeout=2
BatchStartTimeout=10
UnkillableStepTimeout=20
KillWait=10
MinJobAge={settings.min_job_age_s}
MaxArraySize=10001
MaxJobCount=50000
{f"Prolog={home}/etc/prolog" if settings.failing_prolog else ""}
InactiveLimit=0
ReturnToService=2
JobRequeue=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/{"cgroup" if limits else "none"}
JobAcctGatherType=jobacct_gather/{"cgroup" if limits else "linux"}
JobAcctGatherFrequency=task=1
{accounting if settings.accounting else "AccountingStorageType=accounting_storage/none"}
SchedulerType=sched/backfill
SchedulerParameters={_SCHEDULING}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
{"GresTypes=gpu" if settings.gpus else ""}
{nodes}
PartitionName=main {partition} PriorityTier=1 PreemptMode=REQUEUE Default=YES
PartitionName=kill {partition} PriorityTier=1 PreemptMode=CANCEL
PartitionName=urgent {partition} PriorityTier=10 PreemptMode=OFF
"""


def _slurmdbd_conf(home: Path, port: int) -> str:
    return f"""\
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CommunicationParameters=NoInAddrAny
DbdHost={_host()}
DbdAddr={host_address()}
DbdPort={port + 1}
SlurmUser={USER}
PluginDir={_plugin_folder()}
PidFile={home}/pid/slurmdbd
LogFile={home}/log/slurmdbd.log
CommitDelay=1
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={port + 2}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


def _database_conf(home: Path, port: int) -> str:
    """Options of the database server: small, and nothing made durable."""
    return f"""\
[mariadbd]
user={USER}
datadir={home}/db
socket={home}/db.sock
pid-file={home}/pid/mariadbd
log-error={home}/log/mariadbd.log
init-file={home}/etc/database.sql
port={port + 2}
bind-address=127.0.0.1
skip-name-resolve
skip-log-bin
performance_schema=OFF
innodb_buffer_pool_size=64M
innodb_log_file_size=16M
innodb_lock_wait_timeout=900
innodb_flush_log_at_trx_commit=0
innodb_doublewrite=0
innodb_flush_method=nosync
innodb_use_native_aio=0
"""


# Run by the database server before it lets anybody in; one statement a line.
_DATABASE_SQL = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';
"""
