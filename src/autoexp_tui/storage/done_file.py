"""Word of a completed job in its output directory: `.autoexp/done.json`.

It outlives the session's own files. Written when a job completes, gone before it is
sent again: what lies there always tells of results that are there. What cannot be read
says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from autoexp_tui.model.done import DoneReport, DoneWork, done_before
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from autoexp_tui.model.specs import JobSpec, Plan, Share
from autoexp_tui.storage.atomic import explaining, sync_directory, write_atomic
from autoexp_tui.storage.model_json import Unencodable
from autoexp_tui.storage.output_places import perhaps_there
from autoexp_tui.storage.plan_codec import decode_done, encode_done
from autoexp_tui.storage.trust import read_result

VERSION: Final = 1
_AT_ONCE: Final = 8
"""Directories that are looked at at a time: a shared file system answers slowly."""


def done_path(output_dir: Path) -> Path:
    """Where the word lies."""
    return output_dir / ".autoexp" / "done.json"


def write_done(output_dir: Path, work: DoneWork, mode: int = 0o600) -> None:
    """Keep what a completed job leaves, durable.

    Raises:
        EnvironmentFailed: the disk refused, or its metadata has no JSON form.
    """
    path = done_path(output_dir)
    try:
        tree = {"version": VERSION} | json.loads(encode_done(work))
    except Unencodable as error:
        raise EnvironmentFailed(f"cannot keep that it is done: {error}") from error
    data = json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
    write_atomic(path, data.encode(), mode, place="output")


def forget_done(output_dir: Path) -> None:
    """Take the word back, durable: the job is about to run again.

    Raises:
        EnvironmentFailed: the disk refused.
    """
    path = done_path(output_dir)
    doing = "take back that the job is done"
    with explaining(path, doing, "output"), suppress(FileNotFoundError):
        path.unlink()
        sync_directory(path.parent)


def read_done(output_dir: Path, share: Share = "private") -> DoneWork | None:
    """What an earlier session left; None for nothing, or nothing that can be read."""
    try:
        data = read_result(done_path(output_dir), share)
    except OSError:
        return None
    try:
        tree: Any = json.loads(data)
        if not isinstance(tree, dict) or tree.pop("version", None) != VERSION:
            return None
        return decode_done(json.dumps(tree).encode())
    except (ValueError, JournalDamaged):
        return None


def done_of(plan: Plan) -> DoneReport:
    """Which jobs of a plan are done, as their output directories tell."""
    return done_before(plan, found_done(plan.jobs, plan.share))


def found_done(
    jobs: Iterable[JobSpec], share: Share = "private"
) -> Mapping[str, DoneWork]:
    """Job -> what lies in its output directory, for those where something does."""
    specs = perhaps_there(jobs)
    if not specs:
        return {}
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="done") as pool:
        works = pool.map(lambda spec: read_done(Path(spec.output_dir), share), specs)
        found = zip(specs, works, strict=True)
        return {spec.name: work for spec, work in found if work is not None}
