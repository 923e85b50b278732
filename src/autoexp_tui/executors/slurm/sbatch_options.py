"""sbatch's long options as text: which there are, what some mean, which are ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from autoexp_tui.model.errors import Problem

Scalar = str | int | float | bool | None

_NAMES: Final = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters
comment constraint container container-id contiguous core-spec cores-per-socket
cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution
error exclude exclusive export export-file extra extra-node-info get-user-env gid
gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
hint hold ignore-pbs input job-name kill-on-invalid-dep licenses mail-type mail-user
mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill
no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
ntasks-per-node ntasks-per-socket open-mode output overcommit oversubscribe parsable
partition power prefer priority profile propagate qos quiet reboot requeue
reservation signal sockets-per-node spread-job stepmgr switches test-only
thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid
use-min-nodes wait wait-all-nodes wckey wrap
"""
KNOWN: Final = frozenset(_NAMES.split())

_OWN_NAME: Final = "the job is found again by the name that it is given"
_OWN_LOG: Final = "its log is read where it is told to write: log_dir/<job>"
_OWN_ANSWER: Final = "it would change what sbatch answers, and no job id be read"
OURS_ALONE: Final[Mapping[str, str]] = {
    "array": "alike jobs become an array by themselves: slurm.client.array_size",
    "clusters": "only the cluster of this machine is asked; SLURM_CONF chooses it",
    "error": _OWN_LOG,
    "gid": "jobs are asked for by their owner, who is you",
    "help": _OWN_ANSWER,
    "job-name": _OWN_NAME,
    "open-mode": "a requeued job would overwrite the log of its earlier runs",
    "output": _OWN_LOG,
    "parsable": "it is given already",
    "quiet": _OWN_ANSWER,
    "test-only": "nothing would run; `autoexp-plan --check-cluster` asks that",
    "uid": "jobs are asked for by their owner, who is you",
    "usage": _OWN_ANSWER,
    "version": _OWN_ANSWER,
    "wait": "sbatch would not answer until the job has ended",
    "wrap": "the script is written already; `backend` says what runs",
}  # fmt: skip
"""Options that would take a job out of our sight, each with the reason."""
SHORT: Final[Mapping[str, str]] = {
    "a": "array", "e": "error", "h": "help", "M": "clusters", "Q": "quiet",
    "V": "version", "W": "wait",
}  # fmt: skip
"""Of those that a script's own lines could bring in, as one letter."""

_CLOCK: Final = re.compile(
    r"(?:(?P<days>\d+)-)?(?P<a>\d+)(?::(?P<b>\d{1,2}))?(?::(?P<c>\d{1,2}))?"
)


def find_option(name: str) -> str:
    """`name`, or the option it most likely misspells; sites add some of their own."""
    if name in KNOWN or name in OURS_ALONE:
        return name
    whole = [one for one in sorted({*KNOWN, *OURS_ALONE}) if one.startswith(name)]
    if len(whole) == 1:
        return whole[0]
    near = get_close_matches(name, KNOWN, n=1, cutoff=0.85)
    return near[0] if near else name


def parse_seconds(time: Scalar) -> float | None:
    """Slurm's time limit in seconds; None: absent, unlimited, or no time.

    Forms: minutes, minutes:seconds, h:m:s, days-h, days-h:m, days-h:m:s.
    """
    if time is None or isinstance(time, bool):
        return None
    found = _CLOCK.fullmatch(str(time).strip())
    if found is None:
        return None
    a, b, c = (int(found[part] or 0) for part in "abc")
    if found["days"] is not None:
        return float(int(found["days"]) * 86400 + a * 3600 + b * 60 + c)
    if found["c"] is not None:
        return float(a * 3600 + b * 60 + c)
    return float(a * 60 + b)


def parse_options(
    written: Mapping[str, Scalar], place: str
) -> tuple[dict[str, Scalar], list[Problem]]:
    """Options of the config key `place`, but null ones, and what is wrong with them."""
    options: dict[str, Scalar] = {}
    problems: list[Problem] = []
    for key, value in written.items():
        name = key.replace("_", "-")
        where = f"{place}.{key}"
        meant = find_option(name)
        if meant in OURS_ALONE and value is not None and value is not False:
            message = "is not for you to set"
            problems.append(Problem(message, where=where, hint=OURS_ALONE[meant]))
        elif meant != name:
            hint = f"did you mean `{meant}`?"
            problems.append(Problem("is no option of sbatch", where=where, hint=hint))
        elif name == "time" and value is not None and parse_seconds(value) is None:
            hint = "minutes, HH:MM:SS or D-HH:MM:SS, between quotes"
            problems.append(Problem(f"is {value!r}, no time", where=where, hint=hint))
        elif value is not None:
            options[name] = value
    return options, problems
