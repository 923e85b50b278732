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
from unicodedata import normalize

from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.masking import Share
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.resubmission import DoneReport, done_before
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.storage.atomic import explaining, sync_directory, write_atomic
from autoexp_tui.storage.json_codec import decode, encode
from autoexp_tui.storage.trust import read_checked

VERSION: Final = 1
_AT_ONCE: Final = 8
"""Directories that are looked at at a time: a shared file system answers slowly."""


def get_done_path(output_dir: Path) -> Path:
    return output_dir / ".autoexp" / "done.json"


def write_done(output_dir: Path, work: DoneWork, mode: int = 0o600) -> None:
    """Keep what a completed job leaves, durable; raises EnvironmentFailed."""
    tree = {"version": VERSION} | json.loads(encode(work))
    data = json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
    write_atomic(get_done_path(output_dir), data.encode(), mode, place="output")


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
    """The jobs whose output directory is there, or cannot be known not to be: each
    directory above them is listed once."""
    found = [(job, *os.path.split(os.path.normpath(job.output_dir))) for job in jobs]
    parents = dict.fromkeys(parent for _, parent, _ in found)
    there = {parent: _list_names(parent) for parent in parents}
    return [
        job
        for job, parent, name in found
        if (names := there[parent]) is None or _fold(name) in names
    ]


def _list_names(directory: str) -> frozenset[str] | None:
    """What is in a directory; None: it cannot be known."""
    try:
        return frozenset(map(_fold, os.listdir(directory or os.curdir)))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None


def _fold(name: str) -> str:
    """A name without its case and its way to write accents, which some file systems do
    not tell apart."""
    return normalize("NFC", name.casefold())
