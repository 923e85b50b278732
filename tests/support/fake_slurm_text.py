"""The words of Slurm's commands: command lines in, lines of answers out, pure.

Only what our adapter sends is understood; any other option is a test's failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.fake_slurm_jobs import ClusterSettings, Job, Order


class Refused(Exception):
    """A command's failure: its exit status and what it says on stderr."""

    def __init__(self, status: int, *lines: str) -> None:
        super().__init__(*lines)
        self.status = status
        self.stderr = "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Line:
    """A command line taken apart."""

    options: Mapping[str, str]
    """By name, with dashes; a bare flag is empty."""
    names: tuple[str, ...]


_VALUED: Final = {"squeue": {"-t", "-u", "-o"}, "sacct": {"-u", "-S", "-o"}}
_BARE: Final = {
    "squeue": {"-a", "-r"},
    "sacct": {"-X", "-P"},
    "scancel": {"--batch"},
}
_SBATCH: Final = (
    "job-name output open-mode array parsable nodes exclusive time partition ntasks "
    "cpus-per-task mem gres gpus requeue no-requeue account qos hold signal comment "
    "exclude nodelist constraint"
)
_LONG: Final = {
    "scancel": {"--state", "--signal"},
    "sbatch": {f"--{name}" for name in _SBATCH.split()},
}


def parse_line(arguments: Sequence[str]) -> Line:
    """A command line as options and names."""
    program, words = arguments[0], list(arguments[1:])
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        key, _, value = word.partition("=")
        if word in _VALUED.get(program, ()) and words:
            options[word] = words.pop(0)
        elif word in _BARE.get(program, ()):
            options[word] = ""
        elif key in _LONG.get(program, ()):
            options[key] = value
        else:
            raise ValueError(f"the adapter never gives {program} {word}")
    return Line(options, tuple(words))


def parse_order(line: Line, script: str) -> Order:
    """An sbatch command line; raises Refused where Slurm would not have it."""
    given = {key.removeprefix("--"): value for key, value in line.options.items()}
    name = given.pop("job-name", "wrap")
    output = given.pop("output", "slurm-%j.out")
    if given.pop("parsable", None) is None:
        raise ValueError("the adapter always wants it parsable")
    first, _, throttle = given.pop("array", "").partition("%")
    return Order(
        name=name,
        script=script,
        output=output,
        options=given,
        indices=parse_indices(first) if first else (),
        throttle=int(throttle or 0),
    )


def parse_indices(text: str) -> tuple[int, ...]:
    """`0-2,5` as numbers; raises Refused where it is not such a text."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise no_submission("Invalid job array specification")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(found)


def no_submission(reason: str) -> Refused:
    """sbatch's failure by the controller's word."""
    return Refused(1, f"sbatch: error: Batch job submission failed: {reason}")


def expand_names(names: Iterable[str]) -> tuple[str, ...]:
    """`51_[1-2] 60` as `51_1 51_2 60`."""
    found: list[str] = []
    for name in names:
        job, bracket, indices = name.partition("_[")
        if bracket:
            found += (f"{job}_{n}" for n in parse_indices(indices.removesuffix("]")))
        else:
            found.append(name)
    return tuple(found)


def seconds_of(time: str) -> float | None:
    """A `--time`: minutes, `h:m:s` or `d-h:m:s`; None: no limit."""
    if not time:
        return None
    days, dash, rest = time.rpartition("-")
    parts = [float(part) for part in rest.split(":")]
    if dash or len(parts) == 3:
        hours, minutes, seconds = (*parts, 0.0, 0.0)[:3]
    else:
        hours, (minutes, seconds) = 0.0, (*parts, 0.0)[:2]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


def squeue_text(rows: Iterable[Job], pattern: str) -> str:
    """The lines of squeue, in its `-o` format."""
    told = [{key: title for key, (title, _) in _SQUEUE.items()}]
    told += [{key: show(row) for key, (_, show) in _SQUEUE.items()} for row in rows]
    parts = re.split(r"%(\w)", pattern)  # every second one is a field
    return "".join(
        "".join(line[part] if n % 2 else part for n, part in enumerate(parts)) + "\n"
        for line in told
    )


_SQUEUE: Final[Mapping[str, tuple[str, Callable[[Job], str]]]] = {
    "i": ("JOBID", lambda row: row.id),
    "A": ("JOBID", lambda row: str(row.raw_id)),
    "T": ("STATE", lambda row: row.word.split()[0]),
    "r": ("REASON", lambda row: row.reason),
    "N": ("NODELIST", lambda row: _nodes(row.nodes)),
    "P": ("PARTITION", lambda row: row.order.partition),
    "S": ("START_TIME", lambda row: _time(row.started_utc, "N/A")),
    "e": ("END_TIME", lambda row: _time(row.ended_utc, "N/A")),
    "V": ("SUBMIT_TIME", lambda row: _time(row.submitted_utc, "N/A")),
    "j": ("NAME", lambda row: row.order.name),
}
"""Heading and value of each field."""


def sacct_text(rows: Iterable[Job], fields: str) -> str:
    """The lines of `sacct -P`."""
    names = fields.split(",")
    lines = [names]
    lines += [[_SACCT[name](row) for name in names] for row in rows]
    return "".join("|".join(line) + "\n" for line in lines)


_SACCT: Final[Mapping[str, Callable[[Job], str]]] = {
    "JobID": lambda row: row.id,
    "JobIDRaw": lambda row: str(row.raw_id),
    "State": lambda row: row.word,
    "ExitCode": lambda row: f"{row.exit_code}:{row.signal}",
    "Submit": lambda row: _time(row.submitted_utc, "Unknown"),
    "Start": lambda row: _time(row.started_utc, "None" if row.ended_utc else "Unknown"),
    "End": lambda row: _time(row.ended_utc, "Unknown"),
    "NodeList": lambda row: _nodes(row.nodes) or "None assigned",
    "JobName": lambda row: row.order.name,
}


def _time(utc: float | None, none: str) -> str:
    return none if utc is None else str(int(utc))


def _nodes(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"n[{ranges([int(name[1:]) for name in names])}]"


def ranges(numbers: Iterable[int]) -> str:
    """`1 2 3 5` as `1-3,5`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][-1] == number - 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, pair)) for pair in found)


def config_text(settings: ClusterSettings, booted: float, now: float) -> str:
    """`scontrol show config`; `booted` and `now`: UTC, by the controller."""
    kind = "slurmdbd" if settings.accounting else "none"
    values = {
        "AccountingStorageType": f"accounting_storage/{kind}",
        "BOOT_TIME": int(booted),
        "ClusterName": "fake",
        "KillWait": f"{settings.kill_wait:.0f} sec",
        "MaxArraySize": settings.max_array_size,
        "MinJobAge": f"{settings.min_job_age:.0f} sec",
        "SLURM_VERSION": "22.05.8",
    }
    head = f"Configuration data as of {int(now)}"
    lines = [f"{key:<23} = {value}" for key, value in values.items()]
    return "\n".join([head, *lines, "", "Slurmctld(primary) at head is UP", "", ""])
