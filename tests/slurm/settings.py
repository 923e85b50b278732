"""A cluster's settings, and the configuration files they make.

Text in, text out: nothing is started, looked up or written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """What a cluster is like."""

    nodes: int = 4
    node_prefix: str = "n"
    """Nodes are named by it and a number from 1. With memory limits the names are
    also those of cgroups, which all clusters of a machine share."""
    cpus: int = 4
    """Processors of a node. They are virtual: not bound to any of the machine."""
    memory_mb: int = 4000
    gpus: int = 2
    """Fake devices of a node; jobs that ask for them get CUDA_VISIBLE_DEVICES."""
    accounting: bool = True
    """With slurmdbd and its database; without them `sacct` knows nothing."""
    memory_limits: bool = False
    """Whether a job above its memory ends OUT_OF_MEMORY."""
    min_job_age_s: int = 300
    """Seconds the controller remembers an ended job."""
    kill_wait_s: int = 10
    """Seconds from SIGTERM to SIGKILL, for a job that does not end."""
    slurmd_timeout_s: int = 10
    """Seconds without an answer after which a node counts as down."""
    message_timeout_s: int = 5
    """Seconds that daemons and commands wait for an answer, and try to connect;
    a lost node is noticed after three times as long, whatever `slurmd_timeout_s`."""
    max_array_size: int = 10001
    failing_prolog: bool = False
    """Whether launches can be made to fail: `Cluster.failing_prolog`."""

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"{self.node_prefix}{i + 1}" for i in range(self.nodes))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cluster lives: its directory, its address and its ports."""

    home: Path
    host: str
    address: str
    user: str
    """Account that all daemons and all jobs run under."""
    plugins: Path
    first_port: int

    @property
    def controller_port(self) -> int:
        return self.first_port

    @property
    def accounting_port(self) -> int:
        return self.first_port + 1

    @property
    def database_port(self) -> int:
        return self.first_port + 2

    @property
    def node_port(self) -> int:
        """Port of the first node; the others follow."""
        return self.first_port + 3

    @property
    def prolog(self) -> Path:
        """Run by a node before a job; if it fails, Slurm could not launch the job."""
        return self.home / "etc" / "prolog"

    @property
    def munge_socket(self) -> Path:
        return self.home / "munge" / "socket"


def ports_needed(settings: Settings) -> int:
    return settings.nodes + 3


def slurm_conf(settings: Settings, place: Place) -> str:
    """Text of slurm.conf."""
    home = place.home
    return f"""\
ClusterName=throwaway
SlurmctldHost={place.host}({place.address})
SlurmctldPort={place.controller_port}
SlurmUser={place.user}
SlurmdUser={place.user}
AuthType=auth/munge
# The shortest life of a credential is also the shortest wait of a requeued job.
AuthInfo=socket={place.munge_socket},cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
PluginDir={place.plugins}
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
SlurmdTimeout={settings.slurmd_timeout_s}
MessageTimeout={settings.message_timeout_s}
TCPTimeout=2
BatchStartTimeout=10
UnkillableStepTimeout=20
KillWait={settings.kill_wait_s}
MinJobAge={settings.min_job_age_s}
MaxArraySize={settings.max_array_size}
MaxJobCount=50000
{f"Prolog={place.prolog}" if settings.failing_prolog else ""}
InactiveLimit=0
ReturnToService=2
JobRequeue=1
{_tracking(settings)}
{_accounting(settings, place)}
SchedulerType=sched/backfill
SchedulerParameters={",".join(_SCHEDULING)}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# Nodes are what is written below, whatever the machine has.
SlurmdParameters=config_overrides
{_nodes(settings, place)}
{_partition("main", tier=1, preempt="REQUEUE", more=" Default=YES")}
{_partition("kill", tier=1, preempt="CANCEL")}
{_partition("urgent", tier=10, preempt="OFF")}
"""


def gres_conf(settings: Settings, place: Place) -> str:
    """Text of gres.conf: links to some device stand for real ones."""
    files = (f"{place.home}/dev/gpu{i}" for i in range(settings.gpus))
    return "".join(f"Name=gpu Type=fake File={file}\n" for file in files)


def cgroup_conf(settings: Settings) -> str:
    """Text of cgroup.conf."""
    limits = "ConstrainRAMSpace=yes\nConstrainCores=no\n"
    return (
        "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n"
        "CgroupAutomount=no\n" + (limits if settings.memory_limits else "")
    )


def slurmdbd_conf(place: Place) -> str:
    """Text of slurmdbd.conf."""
    return f"""\
AuthType=auth/munge
AuthInfo=socket={place.munge_socket}
CommunicationParameters=NoInAddrAny
DbdHost={place.host}
DbdAddr={place.address}
DbdPort={place.accounting_port}
SlurmUser={place.user}
PluginDir={place.plugins}
PidFile={place.home}/pid/slurmdbd
LogFile={place.home}/log/slurmdbd.log
CommitDelay=1
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={place.database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


def database_conf(place: Place) -> str:
    """Text of the database server's options: small, and nothing made durable."""
    home = place.home
    return f"""\
[mariadbd]
user={place.user}
datadir={home}/db
socket={home}/db.sock
pid-file={home}/pid/mariadbd
log-error={home}/log/mariadbd.log
init-file={home}/etc/database.sql
port={place.database_port}
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


DATABASE_SQL = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';
"""
"""What the database server runs before it lets anybody in; one statement a line."""


def prolog_script(place: Place) -> str:
    """Text of a prolog that fails while `fail-launches` lies beside it."""
    return f"#!/bin/sh\ntest ! -e {place.home}/etc/fail-launches\n"


_SCHEDULING = (
    "sched_interval=1",
    "batch_sched_delay=0",
    "bf_interval=1",
    "bf_continue",
    "default_queue_depth=2000",
    "bf_max_job_test=2000",
    "preempt_youngest_first",
    "max_array_tasks=10000",
)


def _tracking(settings: Settings) -> str:
    if settings.memory_limits:
        task, gather = "task/cgroup", "jobacct_gather/cgroup"
    else:
        task, gather = "task/none", "jobacct_gather/linux"
    return (
        f"ProctrackType=proctrack/linuxproc\nTaskPlugin={task}\n"
        f"JobAcctGatherType={gather}\nJobAcctGatherFrequency=task=1"
    )


def _accounting(settings: Settings, place: Place) -> str:
    if not settings.accounting:
        return "AccountingStorageType=accounting_storage/none"
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={place.address}
AccountingStoragePort={place.accounting_port}
AccountingStoragePass={place.munge_socket}
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment"""


def _nodes(settings: Settings, place: Place) -> str:
    lines = ["GresTypes=gpu"] if settings.gpus else []
    gres = f" Gres=gpu:fake:{settings.gpus}" if settings.gpus else ""
    lines += [
        f"NodeName={name} NodeHostname={place.host} NodeAddr={place.address}"
        f" Port={place.node_port + i} CPUs={settings.cpus}"
        f" RealMemory={settings.memory_mb} TmpDisk=1000{gres} State=UNKNOWN"
        for i, name in enumerate(settings.node_names)
    ]
    return "\n".join(lines)


def _partition(name: str, *, tier: int, preempt: str, more: str = "") -> str:
    return (
        f"PartitionName={name} Nodes=ALL MaxTime=INFINITE DefaultTime=60"
        f" DefMemPerCPU=100 PriorityTier={tier} PreemptMode={preempt}{more}"
    )
