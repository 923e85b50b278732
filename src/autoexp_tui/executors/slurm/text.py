"""What Slurm's commands are asked, and what their answers mean: text in, values out.

Formats are fixed (`-o`, `-P`): Slurm's JSON is slow and wrong in places. A job's name
comes last in every line, since it may hold the separator; times are seconds since the
epoch (`SLURM_TIME_FORMAT=%s`). What cannot be read is never taken for absence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from autoexp_tui.engine.executor_port import TaskPhase
from autoexp_tui.model.states import Cause
from autoexp_tui.text.sanitize import clean

TIME_FORMAT: Final = {"SLURM_TIME_FORMAT": "%s"}
"""Environment under which the parsers here can read times."""


_QUEUED: Final = (
    "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT"
)
_RUNNING: Final = "RUNNING COMPLETING SIGNALING STAGE_OUT RESIZING"
_SUSPENDED: Final = "SUSPENDED STOPPED"
_ENDED: Final[Mapping[str, Cause | None]] = {
    "COMPLETED": None,
    "FAILED": None,
    "CANCELLED": Cause.USER,
    "TIMEOUT": Cause.TIMEOUT,
    "DEADLINE": Cause.TIMEOUT,
    "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
    "NODE_FAIL": Cause.NODE_FAIL,
    "BOOT_FAIL": Cause.NODE_FAIL,
    "PREEMPTED": Cause.PREEMPTED,
    "REVOKED": Cause.LOST,
    "LAUNCH_FAILED": Cause.SUBMIT_ERROR,
    "RECONFIG_FAIL": Cause.NODE_FAIL,
}
_STANDINGS: Final[Mapping[str, TaskPhase]] = {
    **dict.fromkeys(_QUEUED.split(), TaskPhase.QUEUED),
    **dict.fromkeys(_RUNNING.split(), TaskPhase.RUNNING),
    **dict.fromkeys(_SUSPENDED.split(), TaskPhase.SUSPENDED),
    **dict.fromkeys(_ENDED, TaskPhase.ENDED),
}
RETURNING: Final = frozenset({"PREEMPTED", "NODE_FAIL", "REQUEUED", "BOOT_FAIL"})
"""States after which Slurm may queue the same job again by itself."""


@dataclass(frozen=True, slots=True)
class RawState:
    """A state as Slurm says it: `CANCELLED by 1000` is CANCELLED."""

    word: str
    by: int | None = None
    """The uid of who cancelled it, which only sacct tells."""

    @property
    def standing(self) -> TaskPhase:
        """What it means for us; text that we do not know: still alive."""
        return _STANDINGS.get(self.word, TaskPhase.UNKNOWN)

    @property
    def cause(self) -> Cause | None:
        return _ENDED.get(self.word)


def parse_state(text: str) -> RawState:
    words = text.replace("+", " ").split()
    found = _BY.search(text)
    by = int(found[1]) if found else None
    return RawState(words[0].upper() if words else "", by)


_BY: Final = re.compile(r"\bby (\d{1,10})$")


_QUEUE_FIELDS: Final = "autoexp|%i|%A|%T|%r|%N|%P|%S|%e|%V|%j|end"
"""Both ends of a row are marked: what else is printed is told from it, and a row that
broke off from a whole one."""


def build_squeue(user: str) -> tuple[str, ...]:
    """A heading, and one row for every job of `user` that the controller remembers."""
    return ("squeue", "-a", "-r", "-t", "all", "-u", user, "-o", _QUEUE_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    id: str
    """`51`, or `51_3` for an array's task."""
    state: RawState
    reason: str
    """One word of Slurm's; `format_reason` says it plainly."""
    nodes: str
    partition: str
    starts_at: float | None
    """Expected, for one that waits; else of the last start; UTC."""
    ended_at: float | None
    name: str

    @property
    def started_at(self) -> float | None:
        waits = self.state.standing is TaskPhase.QUEUED
        return None if waits else self.starts_at


def parse_squeue(text: str) -> tuple[QueueRow, ...]:
    """The rows of an answer to `build_squeue`; raises ValueError if it is not whole."""
    rows = _MARKED.findall(text)
    if not rows or not rows[0].startswith("JOBID|"):
        raise ValueError(_format_unknown("squeue", text))
    if len(_MARKED_START.findall(text)) != len(rows):
        raise ValueError(_format_unknown("squeue", text.rstrip().rpartition("\n")[2]))
    return tuple(_parse_queue_row(row) for row in rows[1:])


_MARKED: Final = re.compile(r"^autoexp\|(.*?)\|end *$", re.MULTILINE | re.DOTALL)
_MARKED_START: Final = re.compile(r"^autoexp\|", re.MULTILINE)


def _format_unknown(program: str, text: str) -> str:
    return f"{program} said {clean(text, limit=200)!r}"


def _parse_queue_row(line: str) -> QueueRow:
    parts = line.split("|", 9)
    if len(parts) != 10 or not _ID.fullmatch(parts[0]):
        raise ValueError(_format_unknown("squeue", line))
    state = parse_state(parts[2])
    return QueueRow(
        id=parts[0],
        state=state,
        reason="" if parts[3] == "None" else clean(parts[3], limit=200),
        nodes=clean(parts[4], limit=200),
        partition=clean(parts[5], limit=200),
        starts_at=_parse_time(parts[6]),
        ended_at=_parse_time(parts[7]) if state.standing is TaskPhase.ENDED else None,
        name=parts[9],
    )


_ID: Final = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\])|\+\d+)?")
"""`51`; `51_3` or `51_[2-9]` of an array; `51+1` of a job of several parts."""
_ROW_START: Final = re.compile(rf"{_ID.pattern}\|")


_SAYS: Final = {
    "Priority": "lower priority than other jobs in {partition}",
    "Resources": "no free room in {partition} yet: next in line",
    "Dependency": "waits for another job that it depends on",
    "DependencyNeverSatisfied": "depends on a job that failed: it will never start",
    "JobHeldUser": "held by its owner: scontrol release {id}",
    "JobHeldAdmin": "held by an administrator of the cluster",
    "BeginTime": "not before its begin time",
    "JobArrayTaskLimit": "the array runs no more tasks at a time",
    "PartitionConfig": "asks for more than {partition} has: it will not start",
    "PartitionNodeLimit": "asks for more nodes than {partition} allows: "
    "it will not start",
    "PartitionTimeLimit": "asks for more time than {partition} allows: "
    "it will not start",
    "BadConstraints": "no node has what it asks for: it will not start",
    "ReqNodeNotAvail": "nodes that it needs are down, reserved or drained",
    "JobLaunchFailure": "Slurm could not start it on the node",
    "JobHoldMaxRequeue": "requeued too often: scontrol release {id}",
    "launch_failed_requeued_held": "Slurm could not launch it, and holds it: "
    "scontrol release {id}",
    "job_requeued_in_held_state": "requeued and held: scontrol release {id}",
}
_SPACED: Final = frozenset(word.replace("_", " ") for word in _SAYS if "_" in word)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def parse_reason(reason: str) -> str:
    """The word of a reason of squeue: `launch failed requeued held` has spaces."""
    word = reason.strip("()").split(",")[0].strip()
    return word.replace(" ", "_") if word in _SPACED else word


def format_reason(reason: str, *, partition: str = "", job_id: str = "") -> str:
    """A reason of squeue as a clause, of rare ones the words; empty for none."""
    word = parse_reason(reason)
    if word in ("", "None"):
        return ""
    if (template := _SAYS.get(word)) is not None:
        where = f"partition {partition}" if partition else "the partition"
        return template.format(partition=where, id=job_id)
    if " " in word:
        return word
    return " ".join(_WORDS.findall(word.replace("_", " "))).lower() or word


_ACCOUNT_FIELDS: Final = (
    "JobID,JobIDRaw,State,ExitCode,Submit,Start,End,NodeList,JobName"
)
_ACCOUNT_HEADING: Final = _ACCOUNT_FIELDS.replace(",", "|")


def build_sacct(user: str, since: float) -> tuple[str, ...]:
    """One row for every job of `user` since `since` (UTC); of a requeue the newest."""
    return (
        *("sacct", "-X", "-P", "-u", user),
        *("-S", f"uts{int(since)}"),
        *("-o", _ACCOUNT_FIELDS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    id: str
    state: RawState
    exit_code: int
    signal: int
    started_at: float | None = None
    ended_at: float | None
    nodes: str
    name: str


def parse_sacct(text: str) -> tuple[AccountRow, ...]:
    """The rows of an answer to `build_sacct`; raises ValueError as above."""
    before, heading, rows = text.partition(_ACCOUNT_HEADING)
    if not heading or (before and not before.endswith("\n")):
        raise ValueError(_format_unknown("sacct", text))
    lines = filter(_ROW_START.match, rows.split("\n"))
    return tuple(_parse_account_row(line) for line in lines)


def _parse_account_row(line: str) -> AccountRow:
    parts = line.split("|", 8)
    if len(parts) != 9 or not _ID.fullmatch(parts[0]):
        raise ValueError(_format_unknown("sacct", line))
    code, _, signal = parts[3].partition(":")
    nodes = "" if parts[7] == "None assigned" else clean(parts[7], limit=200)
    return AccountRow(
        id=parts[0],
        state=parse_state(parts[2]),
        exit_code=int(code),
        signal=int(signal or 0),
        started_at=_parse_time(parts[5]),
        ended_at=_parse_time(parts[6]),
        nodes=nodes,
        name=parts[8],
    )


def _parse_time(text: str) -> float | None:
    """Seconds since the epoch; None for `N/A`, `Unknown`, `None`."""
    return float(text) if text.isdigit() else None


def parse_sbatch(stdout: str) -> str:
    """The job id of `sbatch --parsable`: `51`, or `51;cluster`; raises ValueError."""
    last = (stdout.strip().splitlines() or [""])[-1].strip()
    found = re.fullmatch(r"(\d+)(?:;[\w.-]+)?", last)
    if found is None:
        answer = clean(stdout, limit=200)
        raise ValueError(f"sbatch said {answer!r} instead of a job id")
    return found[1]


def extract_complaint(stderr: str) -> str:
    """sbatch's error for people: its lines without `sbatch: error:`, said once."""
    lines = [
        re.sub(r"^s\w+: (?:error: |fatal: )?", "", line.strip())
        for line in stderr.splitlines()
    ]
    kept = dict.fromkeys(clean(line, limit=300) for line in lines if line)
    return "; ".join(kept) or "no reason was given"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What `scontrol show config` tells that matters to a client."""

    cluster: str = ""
    version: str = ""
    min_job_age: float = 300.0
    """Seconds for which the controller remembers an ended job."""
    max_array_size: int = 1001
    """One more than the largest index of an array."""
    accounting: bool = True


def parse_config(text: str) -> ClusterFacts:
    """The answer to `scontrol show config`; what is missing keeps Slurm's default."""
    pairs = (line.partition("=") for line in text.splitlines())
    values = {key.strip(): value.strip() for key, sep, value in pairs if sep}

    def read(name: str, default: float) -> float:
        found = re.match(r"\d+(\.\d+)?", values.get(name, ""))
        return float(found[0]) if found else default

    accounting, default = values.get("AccountingStorageType", ""), ClusterFacts()
    return ClusterFacts(
        cluster=values.get("ClusterName", ""),
        version=values.get("SLURM_VERSION", ""),
        min_job_age=read("MinJobAge", default.min_job_age),
        max_array_size=int(read("MaxArraySize", default.max_array_size)),
        accounting=not accounting.endswith(("/none", "(null)")),
    )


def parse_uptime(text: str) -> float | None:
    """Seconds for which the controller has run, by `scontrol show config`.

    None: it does not tell, or another controller took over from one that is down,
    whose memory may be older than its process.
    """
    now = re.search(r"^Configuration data as of (\d+)$", text, re.MULTILINE)
    booted = re.search(r"^BOOT_TIME +=  *(\d+)$", text, re.MULTILINE)
    primary = re.search(r"^Slurmctld\(primary\) .* is UP *$", text, re.MULTILINE)
    if now is None or booted is None or primary is None:
        return None
    return float(now[1]) - float(booted[1])


def make_task_ids(job_id: str, count: int) -> tuple[str, ...]:
    return (job_id,) if count == 1 else tuple(f"{job_id}_{n}" for n in range(count))


def join_scancel_ids(ids: Sequence[str]) -> tuple[str, ...]:
    """`51_1 51_2 51_3 60` as `51_[1-3] 60`, for scancel's command line."""
    arrays: dict[str, list[int]] = {}
    for name in ids:
        job, _, index = name.partition("_")
        arrays.setdefault(job, []).extend([int(index)] if index else [])
    return tuple(
        f"{job}_[{','.join(_collect_ranges(sorted(set(indices))))}]" if indices else job
        for job, indices in arrays.items()
    )


_OVER: Final = re.compile(
    r"invalid job id specified|already completing or completed|no job identification",
    re.IGNORECASE,
)


def has_nothing_to_cancel(stderr: str) -> bool:
    """Whether all that scancel complains of is jobs that have ended."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return bool(lines) and all(_OVER.search(line) for line in lines)


def _collect_ranges(indices: Sequence[int]) -> Iterator[str]:
    # Numbers in a row are as far from their places.
    for _, row in groupby(enumerate(indices), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in row]
        yield "-".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=+-]")
NAME_CHARACTERS: Final = 64
"""Of the readable part: enough to be known by, short enough for squeue."""


def format_queue_name(readable: str, token: str) -> str:
    """The name in the queue: `<readable>-<token>`, of plain characters."""
    plain = _UNSAFE.sub("_", readable)[:NAME_CHARACTERS].lstrip("-._") or "job"
    return f"{plain}-{token}"


def has_token(name: str, token: str) -> bool:
    return name.endswith(f"-{token}")
