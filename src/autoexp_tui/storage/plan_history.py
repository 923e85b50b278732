"""Earlier plans of a state dir: the last one of a config, and what changed since. What
cannot be read is passed over, for nothing depends on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from autoexp_tui.storage.manifests import (
    get_manifest,
    list_manifests,
    read_manifest,
)
from autoexp_tui.storage.provenance import ProvenanceRecord, load_record
from autoexp_tui.storage.trust import MOST_BYTES, read_checked


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceLast:
    """How a plan differs from the one that was made of the same config before it."""

    created_at: float
    """When that was made; UTC."""
    difference: PlanDiff


def compare_to_last(plan: Plan) -> SinceLast | None:
    """What changed since the last plan of the same config; None: none that reads."""
    mine = (plan.config_ref, plan.config_dir)
    for head in list_manifests(Path(plan.state_dir)) if plan.config_ref else ():
        is_same_config = (head.config_ref, head.config_dir) == mine
        is_earlier = head.created_at <= plan.created_at and head.plan_id != plan.plan_id
        if not (is_same_config and is_earlier):
            continue
        path = get_manifest(Path(plan.state_dir), plan.plan_id)
        difference = PlanDiff(same=len(plan.jobs))
        if head.overrides != plan.overrides or not _is_same_content(head.path, path):
            try:
                difference = compare_plans(read_manifest(head.path), plan)
            except AutoexpError:
                return None
        return SinceLast(created_at=head.created_at, difference=difference)
    return None


def _is_same_content(one: Path, other: Path) -> bool:
    """Whether two manifests differ in no byte but in who made them, and when."""
    try:
        heads = [
            read_checked(path, "own", MOST_BYTES).partition(b'"base_output_dir":')
            for path in (one, other)
        ]
    except OSError:
        return False
    (_, found, rest), (_, _, others) = heads
    return bool(found) and rest == others


def compare_plans(old: Plan, new: Plan) -> PlanDiff:
    """How two plans differ, their jobs' recorded configs included."""
    records: list[ProvenanceRecord | None] = [None, None]
    for at, plan in enumerate((old, new)):
        with suppress(AutoexpError):
            records[at] = load_record(Path(plan.state_dir), plan.plan_id)

    def compare_jobs(*names: str) -> list[ValueChange] | None:
        texts: list[str] = []
        with suppress(AutoexpError):  # a config may be damaged
            found = [
                record and record.get_configs(job)
                for record, job in zip(records, names, strict=True)
            ]
            texts += [configs.resolved for configs in found if configs]
        return compare_configs(*texts) if len(texts) == 2 and all(texts) else None

    return diff_plans(old, new, compare_jobs)


_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SECTION: Final = re.compile(r"^(?=[^ \n-]|-[^ \n])", re.MULTILINE)


def compare_configs(old: str, new: str) -> list[ValueChange]:
    """The dotted keys in which two configs, as `probes.yaml_text` writes them, differ:
    only top-level sections that differ are read."""
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
