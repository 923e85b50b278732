"""How stored plans differ. Of earlier ones what cannot be read is passed over, for
nothing depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.plan_diff import (
    Tree,
    ValueChange,
    diff_plans,
    diff_values,
    is_different,
    list_differences,
    summarize_diff,
)
from autoexp_tui.storage.manifests import list_manifests, read_manifest
from autoexp_tui.storage.provenance import ProvenanceRecord, record_of
from autoexp_tui.text.plain_tree import flatten

_MOST_LINES: Final = 1000


def compare_to_last(plan: Plan) -> Mapping[str, Any] | None:
    """What changed since the last plan of the same config, as `PlanChanges` takes it;
    None: none that reads."""
    mine = (plan.config_ref, plan.config_dir)
    for head in list_manifests(Path(plan.state_dir)) if plan.config_ref else ():
        is_same_config = (head.config_ref, head.config_dir) == mine
        is_earlier = head.created_at <= plan.created_at and head.plan_id != plan.plan_id
        if is_same_config and is_earlier:
            with suppress(AutoexpError):
                found = compare_plans(read_manifest(head.path), plan)
                return {
                    "created_at": head.created_at,
                    "head": summarize_diff(found),
                    "lines": list_differences(found, _MOST_LINES),
                    "differs": is_different(found),
                }
            return None
    return None


def compare_plans(old: Plan, new: Plan) -> Tree:
    """How two plans differ, their jobs' recorded configs included."""
    records: list[ProvenanceRecord | None] = [None, None]
    for at, plan in enumerate((old, new)):
        with suppress(AutoexpError):
            records[at] = record_of(plan, Path(plan.state_dir))

    def compare_jobs(*names: str) -> list[ValueChange] | None:
        with suppress(AutoexpError):  # a config may be damaged
            trees = [
                record and record.load_resolved(job)
                for record, job in zip(records, names, strict=True)
            ]
            if all(trees):
                return [*diff_values(*(dict(flatten("", tree)) for tree in trees))]
        return None

    return diff_plans(old, new, compare_jobs)
