"""Earlier plans of a state dir: the last one of a config, and what changed since.

Manifests are many and large, so each is told by its first bytes until the right one is
found. Reads alone; what cannot be read is passed over, for nothing depends on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.compare import ConfigText, PlanDifference, compare, no_config
from autoexp_tui.storage.provenance import load_record
from autoexp_tui.storage.session_dir import (
    MANIFESTS,
    manifest_path,
    own_shelf,
    read_manifest,
)
from autoexp_tui.storage.trust import MOST_BYTES, open_own, read_own

_HEAD: Final = 64 * 1024
"""Bytes at the beginning of a manifest that are read to tell what it is of."""
_JOBS: Final = b'"jobs":['
_MOST_LOOKED_AT: Final = 500
"""Manifests, the newest first."""
_MANIFEST: Final = re.compile(r"plan_[^/]*\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestHead:
    """What the beginning of a manifest says."""

    path: Path
    plan_id: str
    name: str
    config_ref: str
    config_dir: str
    overrides: tuple[str, ...] = ()
    """Of the command line."""
    created_at: float
    """UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceLast:
    """How a plan differs from the one that was made of the same config before it."""

    created_at: float
    """When that was made; UTC."""
    difference: PlanDifference


def since_last(plan: Plan) -> SinceLast | None:
    """What changed since the last plan of the same config in the same state dir.

    None: there is none, or it cannot be read.
    """
    for head in manifests(Path(plan.state_dir)):
        if head.plan_id != plan.plan_id and _alike(head, plan):
            found = _against(head, plan)
            if found is None:
                return None
            return SinceLast(created_at=head.created_at, difference=found)
    return None


def _against(head: ManifestHead, plan: Plan) -> PlanDifference | None:
    mine = manifest_path(Path(plan.state_dir), plan.plan_id)
    if head.overrides == plan.overrides and _says_the_same(head.path, mine):
        return PlanDifference(same=len(plan.jobs))
    with suppress(AutoexpError):
        return difference(read_manifest(head.path), plan)
    return None


def _says_the_same(one: Path, other: Path) -> bool:
    """Whether two manifests differ in no byte but in who made them, and when."""
    try:
        heads = [
            read_own(path, MOST_BYTES).partition(b'"base_output_dir":')
            for path in (one, other)
        ]
    except OSError:
        return False
    (_, found, rest), (_, _, others) = heads
    return bool(found) and rest == others


def _alike(head: ManifestHead, plan: Plan) -> bool:
    same = (head.config_ref, head.config_dir) == (plan.config_ref, plan.config_dir)
    return same and bool(plan.config_ref) and head.created_at <= plan.created_at


def difference(old: Plan, new: Plan) -> PlanDifference:
    """How two plans differ, their jobs' recorded configs included."""
    return compare(old, new, old_config=config_texts(old), new_config=config_texts(new))


def config_texts(plan: Plan) -> ConfigText:
    """The resolved config of each job as planning recorded it beside the manifest."""
    try:
        record = load_record(Path(plan.state_dir), plan.plan_id)
    except AutoexpError:
        record = None
    if record is None:
        return no_config
    known = record

    def text(job: str) -> str:
        with suppress(AutoexpError):
            configs = known.of(job)
            return configs.resolved if configs is not None else ""
        return ""

    return text


# ---------------------------------------------------------------------- manifests
def manifests(state_dir: Path) -> Iterator[ManifestHead]:
    """The manifests of a state dir that can be read, the newest file first."""
    place = own_shelf(state_dir, MANIFESTS)
    dated: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in place.iterdir():
            if _is_manifest(path):
                with suppress(OSError):
                    dated.append((path.stat().st_mtime, path))
    for _, path in sorted(dated, reverse=True)[:_MOST_LOOKED_AT]:
        head = head_of(path)
        if head is not None:
            yield head


def _is_manifest(path: Path) -> bool:
    provenance = path.name.endswith(".provenance.json")
    return bool(_MANIFEST.fullmatch(path.name)) and not provenance


def manifest_of(state_dir: Path, plan_id: str) -> Path | None:
    """The manifest of a plan's id, or of the one that alone begins so."""
    exactly = manifest_path(state_dir, plan_id)
    if exactly.is_file():
        return exactly
    found = [
        head.path for head in manifests(state_dir) if head.plan_id.startswith(plan_id)
    ]
    return found[0] if plan_id and len(found) == 1 else None


def head_of(path: Path) -> ManifestHead | None:
    """What stands before the jobs of a manifest; None: it is none."""
    try:
        with open_own(path, MOST_BYTES) as file:
            data = file.read(_HEAD)
        before, found, _ = data.partition(_JOBS)
        tree = json.loads(before + b'"jobs":0}') if found else None
    except (OSError, ValueError):
        return None
    return _ashead_of(path, tree) if isinstance(tree, dict) else None


def _ashead_of(path: Path, tree: Mapping[str, Any]) -> ManifestHead | None:
    try:
        return ManifestHead(
            path=path,
            plan_id=str(tree["plan_id"]),
            name=str(tree["name"]),
            config_ref=str(tree["config_ref"]),
            config_dir=str(tree["config_dir"]),
            overrides=tuple(map(str, tree["overrides"])),
            created_at=float(tree["created_at"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
