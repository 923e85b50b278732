"""Slurm's reasons (`squeue %r`, `job_reason_codes` of its manual) in plain words."""

from __future__ import annotations

import re
from typing import Final

_SAYS: Final = {
    "Priority": "lower priority than other jobs in {partition}",
    "Resources": "no free room in {partition} yet: next in line",
    "Dependency": "waits for another job that it depends on",
    "DependencyNeverSatisfied": "depends on a job that failed: it will never start",
    "JobHeldUser": "held by its owner: scontrol release {id}",
    "JobHeldAdmin": "held by an administrator of the cluster",
    "BeginTime": "not before its begin time",
    "JobArrayTaskLimit": "the array runs no more tasks at a time",
    "PartitionDown": "{partition} is down",
    "PartitionInactive": "{partition} takes no jobs now",
    "PartitionConfig": "asks for more than {partition} has: it will not start",
    "PartitionNodeLimit": "asks for more nodes than {partition} allows: "
    "it will not start",
    "PartitionTimeLimit": "asks for more time than {partition} allows: "
    "it will not start",
    "BadConstraints": "no node has what it asks for: it will not start",
    "ReqNodeNotAvail": "nodes that it needs are down, reserved or drained",
    "NodeDown": "a node that it needs is down",
    "Prolog": "the node is being prepared",
    "Reservation": "waits for its reservation",
    "JobLaunchFailure": "Slurm could not start it on the node",
    "JobHoldMaxRequeue": "requeued too often: scontrol release {id}",
    "launch_failed_requeued_held": "Slurm could not launch it, and holds it: "
    "scontrol release {id}",
    "job_requeued_in_held_state": "requeued and held: scontrol release {id}",
    "InvalidAccount": "its account is not valid: it will not start",
    "InvalidQOS": "its QOS is not valid: it will not start",
    "QOSNotAllowed": "its QOS is not allowed in {partition}",
    "AccountNotAllowed": "its account is not allowed in {partition}",
    "MaxMemPerLimit": "asks for more memory than is allowed: it will not start",
}
_SPACED: Final = frozenset(word.replace("_", " ") for word in _SAYS if "_" in word)
_LIMIT: Final = re.compile(
    r"(?P<whose>Assoc|QOS)(?P<kind>Grp|Max|Min)(?P<what>[A-Za-z]+?)"
    r"(?:Per(?P<per>User|Account|Job|Node))?(?:Limit|NotSatisfied)?"
)
_WHOSE: Final = {"Assoc": "your account", "QOS": "the quality of service"}
_KINDS: Final = {
    "Grp": "a limit of {whose} on the {what} of all jobs together",
    "Max": "a limit of {whose} on {what}{per}",
    "Min": "{whose} wants a job to ask for more {what}",
}
_WHAT: Final = {
    "Cpu": "CPUs",
    "CPU": "CPUs",
    "GRES": "devices (GRES)",
    "Mem": "memory",
    "Node": "nodes",
    "SubmitJob": "submitted jobs",
    "SubmitJobs": "submitted jobs",
    "Wall": "time",
    "WallDuration": "time",
    "BB": "burst buffers",
}
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def parse_reason(reason: str) -> str:
    """The word of a reason of squeue: `launch failed requeued held` has spaces."""
    word = reason.strip("()").split(",")[0].strip()
    return word.replace(" ", "_") if word in _SPACED else word


def format_reason(reason: str, *, partition: str = "", job_id: str = "") -> str:
    """A reason of squeue as a clause; empty for none."""
    word = parse_reason(reason)
    if word in ("", "None"):
        return ""
    said = _SAYS.get(word)
    if said is not None:
        where = f"partition {partition}" if partition else "the partition"
        return said.format(partition=where, id=job_id)
    limit = _LIMIT.fullmatch(word)
    if limit is None:
        return split_words(word)
    return _KINDS[limit["kind"]].format(
        whose=_WHOSE[limit["whose"]],
        what=_WHAT.get(limit["what"]) or split_words(limit["what"]),
        per=f" per {limit['per'].lower()}" if limit["per"] else "",
    )


def split_words(word: str) -> str:
    """`AssocGrpCpuLimit` as `assoc grp cpu limit`; a sentence stays one."""
    if " " in word:
        return word
    return " ".join(_WORDS.findall(word.replace("_", " "))).lower() or word
