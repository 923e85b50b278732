"""Word of a completed job in its output directory: `.autoexp/done.json`. It outlives
the session; gone before the job is sent again, so it tells of results that are there.
What cannot be read says nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from autoexp_tui.model.done import DoneReport, done_before
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec, Plan, Share
from autoexp_tui.storage.atomic import explaining, sync_directory, write_atomic
from autoexp_tui.storage.json_codec import Unencodable, decode, encode
from autoexp_tui.storage.trust import read_checked

VERSION: Final = 1
_AT_ONCE: Final = 8
"""Directories that are looked at at a time: a shared file system answers slowly."""
_MANY: Final = 16


def get_done_path(output_dir: Path) -> Path:
    return output_dir / ".autoexp" / "done.json"


def write_done(output_dir: Path, work: DoneWork, mode: int = 0o600) -> None:
    """Keep what a completed job leaves, durable; raises EnvironmentFailed."""
    path = get_done_path(output_dir)
    try:
        tree = {"version": VERSION} | json.loads(encode(work))
    except Unencodable as error:
        raise EnvironmentFailed(f"cannot keep that it is done: {error}") from error
    data = json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
    write_atomic(path, data.encode(), mode, place="output")


def forget_done(output_dir: Path) -> None:
    """Take the word back, durable: the job runs again; raises EnvironmentFailed."""
    path = get_done_path(output_dir)
    doing = "take back that the job is done"
    with explaining(path, doing, "output"), suppress(FileNotFoundError):
        path.unlink()
        sync_directory(path.parent)


def read_done(output_dir: Path, share: Share = "private") -> DoneWork | None:
    """What an earlier session left; None for nothing, or nothing that can be read."""
    with suppress(OSError, ValueError, JournalDamaged):
        tree: Any = json.loads(read_checked(get_done_path(output_dir), share))
        if isinstance(tree, dict) and tree.pop("version", None) == VERSION:
            return decode(DoneWork, json.dumps(tree).encode(), "done.json")
    return None


def check_done(plan: Plan) -> DoneReport:
    """Which jobs of a plan are done, as their output directories tell."""
    return done_before(plan, find_done(plan.jobs, plan.share))


def find_done(
    jobs: Iterable[JobSpec], share: Share = "private"
) -> Mapping[str, DoneWork]:
    """Job -> what lies in its output directory, for those where something does."""
    specs = filter_existing(jobs)
    if not specs:
        return {}
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="done") as pool:
        works = pool.map(lambda spec: read_done(Path(spec.output_dir), share), specs)
        found = zip(specs, works, strict=True)
        return {spec.name: work for spec, work in found if work is not None}


def filter_existing(jobs: Iterable[JobSpec]) -> Sequence[JobSpec]:
    """The jobs whose output directory is there, or cannot be known not to be."""
    found = [(job, *os.path.split(job.output_dir)) for job in jobs]
    siblings: dict[str, set[str]] = {}
    for _, parent, name in found:
        siblings.setdefault(parent, set()).add(name)
    there = {
        parent: _list_names(parent) if len(names) >= _MANY else None
        for parent, names in siblings.items()
    }
    kept: list[JobSpec] = []
    for job, parent, name in found:
        names = there[parent]
        # Some file systems take names for one that differ in case, or in how accents
        # are written, and some parts of a path are no names.
        odd = name in ("", ".", "..") or not name.isascii()
        if names is None or odd:
            is_there = _may_be_there(job.output_dir)
        else:
            is_there = name.casefold() in names
        if is_there:
            kept.append(job)
    return kept


def _may_be_there(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


def _list_names(directory: str) -> frozenset[str] | None:
    """What is in a directory, without the case of letters; None: it cannot be known."""
    try:
        return frozenset(name.casefold() for name in os.listdir(directory or os.curdir))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None
