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
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.plan_diff import (
    PlanDiff,
    ValueChange,
    diff_plans,
    diff_values,
    flatten,
)
from autoexp_tui.storage.provenance import ProvenanceRecord, load_record
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
    difference: PlanDiff


def diff_to_last_plan(plan: Plan) -> SinceLast | None:
    """What changed since the last plan of the same config in the same state dir.

    None: there is none, or it cannot be read.
    """
    for head in list_manifests(Path(plan.state_dir)):
        if head.plan_id != plan.plan_id and _is_earlier(head, plan):
            found = _diff_to(head, plan)
            if found is None:
                return None
            return SinceLast(created_at=head.created_at, difference=found)
    return None


def _diff_to(head: ManifestHead, plan: Plan) -> PlanDiff | None:
    mine = manifest_path(Path(plan.state_dir), plan.plan_id)
    if head.overrides == plan.overrides and _have_equal_content(head.path, mine):
        return PlanDiff(same=len(plan.jobs))
    with suppress(AutoexpError):
        return diff_recorded_plans(read_manifest(head.path), plan)
    return None


def _have_equal_content(one: Path, other: Path) -> bool:
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


def _is_earlier(head: ManifestHead, plan: Plan) -> bool:
    same = (head.config_ref, head.config_dir) == (plan.config_ref, plan.config_dir)
    return same and bool(plan.config_ref) and head.created_at <= plan.created_at


def diff_recorded_plans(old: Plan, new: Plan) -> PlanDiff:
    """How two plans differ, their jobs' recorded configs included."""
    records = [_record_of(plan) for plan in (old, new)]

    def diff_jobs(old_name: str, new_name: str) -> list[ValueChange] | None:
        before, after = map(_config_text, records, (old_name, new_name))
        return diff_configs(before, after) if before and after else None

    return diff_plans(old, new, diff_jobs)


def _record_of(plan: Plan) -> ProvenanceRecord:
    """What planning recorded beside the manifest."""
    with suppress(AutoexpError):
        return load_record(Path(plan.state_dir), plan.plan_id) or ProvenanceRecord()
    return ProvenanceRecord()


def _config_text(record: ProvenanceRecord, job: str) -> str:
    """A job's resolved config; empty: it is not there, or does not read."""
    with suppress(AutoexpError):
        configs = record.of(job)
        return configs.resolved if configs is not None else ""
    return ""


# ------------------------------------------------------------------------ configs
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SECTION: Final = re.compile(r"^(?=[^ \n-]|-[^ \n])", re.MULTILINE)


def diff_configs(old: str, new: str) -> list[ValueChange]:
    """The dotted keys in which two configs differ, as `probes.yaml_text` writes them.

    Most configs of a plan share most of their text: only top-level sections that
    differ are read.
    """
    before, after = _split_sections(old), _split_sections(new)
    return [
        change
        for name in dict.fromkeys((*after, *before))
        if before.get(name) != after.get(name)
        for change in diff_values(
            _read_section(before.get(name, "")), _read_section(after.get(name, ""))
        )
    ]


@lru_cache(maxsize=256)
def _split_sections(text: str) -> Mapping[str, str]:
    """Each top-level key with all the lines that belong to it."""
    parts = (part for part in _SECTION.split(text) if part.strip())
    return MappingProxyType({part.partition(":")[0]: part for part in parts})


@lru_cache(maxsize=1024)
def _read_section(text: str) -> Mapping[str, object]:
    """Dotted key -> value of everything in a section; nothing if it does not read."""
    try:
        tree = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        return {}
    return MappingProxyType(dict(flatten("", tree)) if tree else {})


# ---------------------------------------------------------------------- manifests
def list_manifests(state_dir: Path) -> Iterator[ManifestHead]:
    """The manifests of a state dir that can be read, the newest file first."""
    place = own_shelf(state_dir, MANIFESTS)
    dated: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in place.iterdir():
            if _is_manifest(path):
                with suppress(OSError):
                    dated.append((path.stat().st_mtime, path))
    for _, path in sorted(dated, reverse=True)[:_MOST_LOOKED_AT]:
        head = read_manifest_head(path)
        if head is not None:
            yield head


def _is_manifest(path: Path) -> bool:
    provenance = path.name.endswith(".provenance.json")
    return bool(_MANIFEST.fullmatch(path.name)) and not provenance


def find_manifest(state_dir: Path, plan_id: str) -> Path | None:
    """The manifest of a plan's id, or of the one that alone begins so."""
    exactly = manifest_path(state_dir, plan_id)
    if exactly.is_file():
        return exactly
    found = [
        head.path
        for head in list_manifests(state_dir)
        if head.plan_id.startswith(plan_id)
    ]
    return found[0] if plan_id and len(found) == 1 else None


def read_manifest_head(path: Path) -> ManifestHead | None:
    """What stands before the jobs of a manifest; None: it is none."""
    try:
        with open_own(path, MOST_BYTES) as file:
            data = file.read(_HEAD)
        before, found, _ = data.partition(_JOBS)
        tree = json.loads(before + b'"jobs":0}') if found else None
    except (OSError, ValueError):
        return None
    return _parse_head(path, tree) if isinstance(tree, dict) else None


def _parse_head(path: Path, tree: Mapping[str, Any]) -> ManifestHead | None:
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
