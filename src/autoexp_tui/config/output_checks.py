"""Where a plan's jobs are to write: room, inodes, quota, permission.

Looked at while planning, so that a full disk is not found by a dead job in the night.
A place that does not answer in time is told as that; nothing here waits for it longer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec, Share
from autoexp_tui.probes.bounded_command import run_bounded
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.done_file import filter_existing
from autoexp_tui.storage.trust import (
    Untrusted,
    has_no_modes,
    require_below,
    require_logs,
    require_place,
)
from autoexp_tui.text.spelling import size

WHERE: Final = "project.base_output_dir"
LEAST_BYTES: Final = 200 << 20
"""Less than this lets no job write its first log and checkpoint."""
FEW_BYTES: Final = 2 << 30
FILES_PER_JOB: Final = 20
"""What a job writes at least: logs, records, provenance."""
ANSWER_SECONDS: Final = 15.0
_QUOTA_SECONDS: Final = 5.0

Quota: TypeAlias = tuple[int, str]
"""How much more a user may write, of `bytes` or `files`."""
Finding: TypeAlias = tuple[Problem, bool]
"""What is wrong, and whether nothing can run like that."""


def check_output_places(
    place: Path,
    jobs: Sequence[JobSpec] = (),
    *,
    share: Share = "private",
    seconds: float = ANSWER_SECONDS,
) -> Sequence[Finding]:
    """What there is to say; a place that does not answer in `seconds` is a warning."""
    (found,) = ask_all([lambda: [*find_problems(place, jobs, share)]], seconds)
    if isinstance(found, TimeoutError):
        message = f"{place} did not answer within {seconds:g} s"
        hint = "look at it with `df`; jobs that write there would hang as well"
        return [(Problem(message, WHERE, hint=hint), False)]
    if isinstance(found, Exception):
        raise found
    return found


def find_problems(
    place: Path, jobs: Sequence[JobSpec], share: Share
) -> Iterator[Finding]:
    """What is wrong with the disk, and with who may write there."""
    try:
        yield from [*_check_disk(place, len(jobs))]
    except OSError as error:
        message = f"{place} cannot be looked at: {error.strerror or error}"
        yield Problem(message, WHERE), False
    reported: set[str] = set()
    for where, look in _list_looks(place, jobs, share):
        try:
            look()
        except Untrusted as error:
            path = str(error.filename)
            if path not in reported:
                reported.add(path)
                message = f"{path} is not written to: {error.strerror}"
                yield Problem(message, where, hint=error.hint), True
        except OSError:
            continue  # told by who looks at the disk, or when it is used
    if os.path.isdir(place) and has_no_modes(place):
        message = (
            f"modes of files mean nothing at {place}: only their owners are looked at"
        )
        hint = "whoever else can reach that file system may change what lies there"
        yield Problem(message, WHERE, hint=hint), False


def _list_looks(
    place: Path, jobs: Sequence[JobSpec], share: Share
) -> Iterator[tuple[str, Callable[[], None]]]:
    """What refuses directories of others, or that everybody may write to."""
    if is_there := os.path.exists(place):
        yield WHERE, partial(require_place, place)
    homes: dict[str, set[str]] = {}
    for job in jobs:
        if job.log_dir:
            home, name = os.path.split(job.log_dir)
            homes.setdefault(home, set()).add(name)
    for home in sorted(homes):
        if is_there or not home.startswith(f"{place}{os.sep}"):
            yield "slurm.log_dir", partial(require_logs, place, home, share)
    for job in filter_existing(jobs) if is_there else ():
        own = Path(job.output_dir, ".autoexp")
        yield WHERE, partial(require_below, place, own, share)
    for home, names in sorted(homes.items()):
        with suppress(OSError):
            for name in names.intersection(os.listdir(home)):
                log_dir = Path(home, name)
                yield "slurm.log_dir", partial(require_logs, place, log_dir, share)


def _check_disk(wanted: Path, jobs: int) -> Iterator[Finding]:
    """The state of the directory itself, or of the one in which it would be made."""
    there = next(p for p in (wanted, *wanted.absolute().parents) if p.exists())
    found = os.statvfs(there)
    place = str(there).replace("{", "{{").replace("}", "}}")
    message = ""
    if not there.is_dir():
        message = f"{there} is a file, not a directory"
    elif found.f_flag & os.ST_RDONLY:
        message = f"{there} is mounted read-only"
    elif not os.access(there, os.W_OK | os.X_OK):
        made = "" if there == wanted else f"{wanted} cannot be made: "
        message = f"{made}you may not write to {there}"
    if message:
        hint = "choose another directory that you may write to"
        yield Problem(message, WHERE, hint=hint), True
    left: list[tuple[str, int, str, int, int]] = []
    room = FEW_BYTES, LEAST_BYTES
    if found.f_blocks:  # one in user space or over a network may not say what it holds
        free = found.f_bavail * found.f_frsize
        left.append((f"{{}} free at {place}", free, "bytes", *room))
    if found.f_files:
        few = jobs * FILES_PER_JOB
        what = f"{{}} can be made at {place}"
        left.append((what, found.f_favail, "more files", few, jobs))
    for amount, unit in read_quotas(there):
        few, least = room if unit == "bytes" else (1000, 1)
        what = f"your quota at {place} leaves {{}}"
        left.append((what, amount, unit, few, least))
    for what, amount, unit, few, least in left:
        if amount < few:
            shown = size(amount) if unit == "bytes" else f"{amount} {unit}"
            hint = "make room, or choose another directory; checkpoints are large"
            message = what.format(shown)
            yield Problem(message, WHERE, hint=hint), amount < least


def read_quotas(there: Path) -> Sequence[Quota]:
    """The user's limits where `there` lies, as the file system's own tool tells."""
    user = str(os.getuid())
    if not any(map(shutil.which, ("lfs", "quota"))):
        return ()
    system = _run_tool("df", "--output=fstype,source", str(there)).split()
    kind, source = system[-2:] if len(system) > 1 else ("", "")
    if kind == "lustre":
        return _parse_quota(_run_tool("lfs", "quota", "-q", "-u", user, str(there)))
    lines = _run_tool("quota", "-w", "-p", "-u", user).splitlines() if source else ()
    own = (line for line in lines if line.split()[:1] == [source])
    return _parse_quota(next(own, ""))


def _run_tool(*command: str) -> str:
    """What a tool prints; nothing where there is none, or it takes too long."""
    ran = run_bounded(command, _QUOTA_SECONDS)
    return "" if ran.exit_code is None else ran.detail


def _parse_quota(text: str) -> Sequence[Quota]:
    """The limits in a line `PLACE USED SOFT HARD GRACE FILES SOFT HARD GRACE`. As `lfs
    quota -q` and `quota -w -p` write it: kilobytes, `*` at what is too much, `-` or 0
    for none."""
    words = text.replace("*", "").split()[1:]
    if len(words) < 7:
        return ()
    numbers = [int(word) if word.isdigit() else 0 for word in words]
    kinds = ((numbers[:3], 1024, "bytes"), (numbers[4:7], 1, "files"))
    return [
        (max(0, (hard or soft) - used) * factor, unit)
        for (used, soft, hard), factor, unit in kinds
        if hard or soft
    ]
