"""Plans that were made and not yet submitted: one manifest each, in a state directory.
One is told by its first bytes, for they are many and large. In a state directory that
users share, each has shelves of their own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autoexp_tui.model.errors import JournalDamaged, UsageError
from autoexp_tui.model.ids import format_filename
from autoexp_tui.model.masking import Share
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.atomic import (
    MODES,
    SESSION_MODES,
    explain,
    make_directory,
    write_atomic,
)
from autoexp_tui.storage.json_codec import decode_plan, encode_plan, read_small
from autoexp_tui.storage.session_dir import require
from autoexp_tui.storage.trust import (
    MOST_BYTES,
    Untrusted,
    find_session_user,
    open_checked,
    read_checked,
    require_place,
)

MANIFESTS: Final = "manifests"
ENTRIES: Final = "entries"
_HEAD: Final = 64 * 1024
"""Bytes at the beginning of a manifest that are read to tell what it is of."""
_JOBS: Final = b'"jobs":['
_MOST_LOOKED_AT: Final = 500
"""Manifests, the newest first."""
_MANIFEST: Final = re.compile(r"plan_[^/]*(?<!\.provenance)\.json")


def make_state_dir(state_dir: Path, share: Share) -> None:
    """Make the directory that holds sessions, and those above; raises
    EnvironmentFailed."""
    require(state_dir, require_place)
    make_directory(state_dir.parent, MODES[share].directory)
    # Who may write there may leave sessions of their own, and take away no others.
    sticky = 0o3770 if share == "group_write" else SESSION_MODES[share].directory
    make_directory(state_dir, sticky)


def get_manifest(state_dir: Path, plan_id: str) -> Path:
    """Where a plan lies that was made but not yet submitted."""
    return _find_shelf(state_dir, MANIFESTS) / f"plan_{format_filename(plan_id)}.json"


def get_entry_dir(state_dir: Path, plan_id: str, job: str) -> Path:
    """Holds the attempts at a job that was started without a session."""
    shelf = _find_shelf(state_dir, ENTRIES)
    return shelf / format_filename(plan_id) / format_filename(job)


def _find_shelf(state_dir: Path, name: str) -> Path:
    """Our directory of that name: who comes second to a shared place has another."""
    usual = state_dir / name
    with suppress(OSError):
        if not os.path.lexists(usual) or not find_session_user(usual):
            return usual
    return state_dir / f"{name}.{os.geteuid()}"


def write_manifest(state_dir: Path, plan: Plan, data: bytes = b"") -> Path:
    """Keep a plan, encoded as `data` or not yet, under its id; raises
    EnvironmentFailed."""
    make_state_dir(state_dir, plan.share)
    path = get_manifest(state_dir, plan.plan_id)
    data = data or encode_plan(plan)
    make_directory(path.parent)
    write_atomic(path, data)
    return path


def read_manifest(path: Path, *, run: bool = False) -> Plan:
    """The plan of a manifest; `run`: as its commands run as the user, nobody else may
    have written it; raises UsageError."""
    try:
        data = read_checked(path, "own" if run else "session", MOST_BYTES)
    except FileNotFoundError as error:
        hint = "autoexp-plan writes one and prints its path"
        raise UsageError("there is no such manifest", str(path), hint) from error
    except Untrusted as error:
        hint = (
            "What it runs would run as you. Read it, then copy it to a file that you "
            "alone may write, or plan from the config with autoexp-plan."
        )
        problem = f"this manifest is refused: {error.strerror}"
        raise UsageError(problem, str(path), hint) from error
    except OSError as error:
        raise explain(error, path, "read") from error
    try:
        return decode_plan(data, str(path))
    except JournalDamaged as error:
        what = "of a newer version" if error.newer else "no manifest that can be read"
        hint = error.hint if error.newer else "Make it again with autoexp-plan."
        problem = f"this is {what}: {error.problem}"
        raise UsageError(problem, str(path), hint) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestHead:
    path: Path
    plan_id: str
    name: str
    config_ref: str
    config_dir: str
    overrides: tuple[str, ...] = ()
    """Of the command line."""
    created_at: float
    """UTC."""


def list_manifests(state_dir: Path) -> Iterator[ManifestHead]:
    """The manifests of a state dir that can be read, the newest file first."""
    dated: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(_find_shelf(state_dir, MANIFESTS)) as entries:
        plans = (one for one in entries if _MANIFEST.fullmatch(one.name))
        dated += [(one.stat().st_mtime, one.path) for one in plans]
    newest = sorted(dated, reverse=True)[:_MOST_LOOKED_AT]
    yield from filter(None, (read_manifest_head(Path(path)) for _, path in newest))


def find_manifest(state_dir: Path, plan_id: str) -> Path | None:
    """The manifest of a plan's id, or of the one that alone begins so."""
    exactly = get_manifest(state_dir, plan_id)
    if exactly.is_file():
        return exactly
    heads = list_manifests(state_dir)
    found = [head.path for head in heads if head.plan_id.startswith(plan_id)]
    return found[0] if plan_id and len(found) == 1 else None


def read_manifest_head(path: Path) -> ManifestHead | None:
    """What stands before the jobs of a manifest; None: it is none."""
    try:
        with open_checked(path, "own", MOST_BYTES) as file:
            before, found, _ = file.read(_HEAD).partition(_JOBS)
        tree = json.loads(before + b'"jobs":0}') if found else {}
        return read_small(ManifestHead, tree | {"path": str(path)})
    except (OSError, ValueError, TypeError):
        return None
