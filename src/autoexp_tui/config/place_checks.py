"""Where a plan's jobs are to write: room, inodes, quota, permission, other owners.

Looked at while planning, so that a full disk is not found by a dead job in the night.
A place that does not answer in time is told as that; nothing here waits for it longer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.errors import AutoexpError, Problem
from autoexp_tui.model.specs import JobSpec, Share
from autoexp_tui.probes.mounts import TABLE
from autoexp_tui.storage.done_file import read_done
from autoexp_tui.storage.output_places import perhaps_there
from autoexp_tui.storage.trust import (
    Untrusted,
    modes_mean_nothing,
    require_below,
    require_logs,
    require_place,
)
from autoexp_tui.text.spelling import size

if TYPE_CHECKING:
    from autoexp_tui.storage.output_dir_lock import Owner

WHERE: Final = "project.base_output_dir"
LEAST_BYTES: Final = 200 << 20
"""Less than this lets no job write its first log and checkpoint."""
FEW_BYTES: Final = 2 << 30
FILES_PER_JOB: Final = 20
"""What a job writes at least: logs, records, provenance."""
ANSWER_SECONDS: Final = 15.0
_QUOTA_SECONDS: Final = 5.0
_AT_ONCE: Final = 8
_NUMBER: Final = re.compile(r"(\d+)\*?")


@dataclass(frozen=True, slots=True)
class PlaceFindings:
    """What is wrong, or odd, about where jobs are to write."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


Look = Callable[[Path, Sequence[JobSpec], bool], PlaceFindings]


def look_at_places(
    place: Path,
    jobs: Sequence[JobSpec] = (),
    *,
    owners: bool = True,
    share: Share = "private",
    seconds: float = ANSWER_SECONDS,
    look: Look | None = None,
) -> PlaceFindings:
    """What there is to say; a place that does not answer in `seconds` is a warning.

    Args:
        place: `project.base_output_dir`, absolute.
        jobs: those that are to write below it.
        owners: whether other sessions that write there are looked for.
        share: `project.share`.
        seconds: how long all of it may take.
        look: instead of the look itself.
    """
    answer: Future[PlaceFindings] = Future()
    looking = look or partial(_look, share=share)

    def answered() -> None:
        try:
            answer.set_result(looking(place, jobs, owners))
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            answer.set_exception(error)

    threading.Thread(target=answered, daemon=True).start()
    with suppress(TimeoutError):
        return answer.result(seconds)
    message = f"{place} did not answer within {seconds:g} s"
    hint = "look at it with `df`; jobs that write there would hang as well"
    return PlaceFindings(warnings=(Problem(message, WHERE, hint=hint),))


def _look(
    place: Path,
    jobs: Sequence[JobSpec],
    owners: bool,  # noqa: FBT001
    share: Share,
) -> PlaceFindings:
    try:
        errors, warnings = _of_disk(place, len(jobs))
    except OSError as error:
        message = f"{place} cannot be looked at: {error.strerror or error}"
        errors, warnings = [], [Problem(message, WHERE)]
    errors += _meddled(place, jobs, share)
    warnings += _made_up_modes(place)
    if owners:
        warnings += _owned(jobs, share)
    return PlaceFindings(tuple(errors), tuple(warnings))


# --------------------------------------------------------------------- who may meddle
def _meddled(place: Path, jobs: Sequence[JobSpec], share: Share) -> Iterable[Problem]:
    """Directories to write to that belong to others, or that everybody may write to."""
    logs = sorted({os.path.dirname(job.log_dir) for job in jobs if job.log_dir})
    looks: list[tuple[str, Callable[[], None]]] = [
        (WHERE, partial(require_place, place)),
        *(
            ("slurm.log_dir", partial(require_logs, place, home, share))
            for home in logs
        ),
    ]
    for job in perhaps_there(jobs):
        home = Path(job.output_dir, ".autoexp")
        looks.append((WHERE, partial(require_below, place, home, share)))
    looks += [
        ("slurm.log_dir", partial(require_logs, place, log_dir, share))
        for log_dir in _logs_there(jobs)
    ]
    told: dict[str, Problem] = {}
    for where, look in looks:
        try:
            look()
        except Untrusted as error:
            path = str(error.filename)
            problem = f"{path} is not written to: {error.strerror}"
            told.setdefault(path, Problem(problem, where, hint=error.hint))
        except OSError:
            continue  # told by who looks at the disk, or when it is used
    return told.values()


def _logs_there(jobs: Iterable[JobSpec]) -> Iterator[Path]:
    """The log directories of jobs that are there by now."""
    wanted: dict[str, set[str]] = {}
    for job in jobs:
        home, name = os.path.split(job.log_dir)
        wanted.setdefault(home, set()).add(name)
    for home, names in sorted(wanted.items()):
        with suppress(OSError):
            yield from (
                Path(home, name) for name in names.intersection(os.listdir(home))
            )


def _made_up_modes(place: Path) -> Iterable[Problem]:
    if modes_mean_nothing(place):
        message = (
            f"modes of files mean nothing at {place}: only their owners are looked at"
        )
        hint = "whoever else can reach that file system may change what lies there"
        yield Problem(message, WHERE, hint=hint)


# ------------------------------------------------------------------------- the disk
def _of_disk(wanted: Path, jobs: int) -> tuple[list[Problem], list[Problem]]:
    there = _nearest(wanted)
    errors = list(_unusable(wanted, there))
    warnings: list[Problem] = []
    found = os.statvfs(there)
    short = [*_room(there, found), *_inodes(there, found, jobs), *_over_quota(there)]
    for problem, stops in short:
        (errors if stops else warnings).append(problem)
    return errors, warnings


def _nearest(wanted: Path) -> Path:
    """The directory itself, or the one in which it would be made."""
    return next(p for p in (wanted, *wanted.absolute().parents) if p.exists())


def _unusable(wanted: Path, there: Path) -> Iterator[Problem]:
    hint = "choose another directory that you may write to"
    if not there.is_dir():
        yield Problem(f"{there} is a file, not a directory", WHERE, hint=hint)
    elif os.statvfs(there).f_flag & os.ST_RDONLY:
        yield Problem(f"{there} is mounted read-only", WHERE, hint=hint)
    elif not os.access(there, os.W_OK | os.X_OK):
        made = "" if there == wanted else f"{wanted} cannot be made: "
        yield Problem(f"{made}you may not write to {there}", WHERE, hint=hint)


Short = tuple[Problem, bool]
"""What is short, and whether nothing can run like that."""


def _room(there: Path, found: os.statvfs_result) -> Iterator[Short]:
    free = found.f_bavail * found.f_frsize
    # One without blocks, in user space or over a network, does not say what it holds.
    if found.f_blocks and free < FEW_BYTES:
        stops = free < LEAST_BYTES
        least = f", less than {size(LEAST_BYTES)}" if stops else ""
        message = f"{size(free)} free at {there}{least}"
        hint = "make room, or choose another directory; checkpoints are large"
        yield Problem(message, WHERE, hint=hint), stops


def _inodes(there: Path, found: os.statvfs_result, jobs: int) -> Iterator[Short]:
    needed = jobs * FILES_PER_JOB
    if found.f_files and found.f_favail < needed:
        message = (
            f"{found.f_favail} more files can be made at {there}; "
            f"{jobs} jobs make some {needed}"
        )
        hint = "remove files that nobody needs, or choose another directory"
        yield Problem(message, WHERE, hint=hint), found.f_favail < jobs


# ----------------------------------------------------------------------------- quota
@dataclass(frozen=True, slots=True)
class Quota:
    """What a user has and may have of one thing; 0: no limit."""

    used: int
    limit: int
    unit: str
    """`kB` or `files`."""

    @property
    def left(self) -> int:
        """How much more may be written."""
        return max(0, self.limit - self.used)


def _over_quota(there: Path) -> Iterator[Short]:
    for quota in quotas_of(there):
        scale = 1024 if quota.unit == "kB" else 1
        few = FEW_BYTES if quota.unit == "kB" else 1000
        least = LEAST_BYTES if quota.unit == "kB" else 1
        left = quota.left * scale
        if left < few:
            told = size(left) if quota.unit == "kB" else f"{left} files"
            message = f"your quota at {there} leaves {told}"
            hint = "remove what nobody needs, or choose another directory"
            yield Problem(message, WHERE, hint=hint), left < least


def quotas_of(there: Path) -> Sequence[Quota]:
    """The user's limits where `there` lies, as the file system's own tool tells.

    Nothing where there is no tool, no limit, or no answer in five seconds.
    """
    source, kind = _file_system(str(there.resolve()))
    user = str(os.getuid())
    if kind == "lustre" and shutil.which("lfs"):
        return parse_quota(_said(["lfs", "quota", "-q", "-u", user, str(there)]))
    if source and shutil.which("quota"):
        return parse_quota(_line_of(_said(["quota", "-w", "-p", "-u", user]), source))
    return ()


def _file_system(path: str) -> tuple[str, str]:
    """(source, type) of the file system that a path lies on; empty: not known."""
    best, found = "", ("", "")
    with suppress(OSError):
        for line in TABLE.read_text(errors="surrogateescape").splitlines():
            before, _, after = line.partition(" - ")
            point, kinds = before.split(" ")[4], after.split(" ")
            inside = f"{path}/".startswith(f"{point.rstrip('/')}/")
            if inside and len(point) >= len(best) and len(kinds) > 1:
                best, found = point, (kinds[1], kinds[0])
    return found


def _said(command: Sequence[str]) -> str:
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_QUOTA_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode("utf-8", "replace")


def _line_of(text: str, source: str) -> str:
    lines = (line for line in text.splitlines() if line.split()[:1] == [source])
    return next(lines, "")


def parse_quota(text: str) -> Sequence[Quota]:
    """The limits in a line `PLACE USED SOFT HARD GRACE FILES SOFT HARD GRACE`.

    As `lfs quota -q` and `quota -w -p` write it: kilobytes, `*` at what is too much,
    `-` or 0 for none.
    """
    words = text.split()[1:]
    numbers = [_NUMBER.fullmatch(word) for word in words]
    if len(words) < 7:
        return ()
    found: list[Quota] = []
    for at, unit in ((0, "kB"), (4, "files")):
        used, soft, hard = (_int(number) for number in numbers[at : at + 3])
        limit = hard or soft
        if limit:
            found.append(Quota(used, limit, unit))
    return found


def _int(found: re.Match[str] | None) -> int:
    return int(found[1]) if found else 0


# ---------------------------------------------------------------------- other owners
def _owned(jobs: Sequence[JobSpec], share: Share) -> Iterable[Problem]:
    """Directories that a living session writes; submitting the plan is refused then."""
    there = perhaps_there(jobs)
    if not there:
        return
    # What reads other sessions takes 0.1 s to import: not for a plan that is all new.
    from autoexp_tui.storage.output_dir_lock import Living

    living = Living()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="owners") as pool:
        owners = list(pool.map(partial(_owner_of, share=share), there))
    for job, owner in zip(there, owners, strict=True):
        if owner is None:
            continue
        reason = living(owner)
        if reason and not _is_done(job, share):
            message = (
                f"its output directory is written by the session {owner.session} in "
                f"{owner.state_dir}: {reason}"
            )
            hint = (
                f"go on with that session (autoexp-monitor --session {owner.session}), "
                "or choose another project.name or base_output_dir"
            )
            yield Problem(message, "project.name", job.name, hint)


def _owner_of(job: JobSpec, share: Share) -> Owner | None:
    from autoexp_tui.storage.output_dir_lock import read_owner

    with suppress(AutoexpError):
        return read_owner(Path(job.output_dir), share)
    return None


def _is_done(job: JobSpec, share: Share) -> bool:
    work = read_done(Path(job.output_dir), share)
    return work is not None and work.fingerprint == job.fingerprint
