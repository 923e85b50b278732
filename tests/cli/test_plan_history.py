"""Earlier plans of a config, and what changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoexp_tui.cli.plan_diff import compare_to_last
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.plan_diff import list_first_differences
from autoexp_tui.storage.manifests import find_manifest, write_manifest
from autoexp_tui.storage.provenance import GitState, RecordBuilder, save_record
from tests.model.builders import job, plan


def made(
    state_dir: Path, plan_id: str, at: float, lr: float = 1.0, **fields: Any
) -> Plan:
    """A plan of one job, kept as planning keeps it."""
    given = {"config_ref": "exp", "config_dir": "/config", **fields}
    spec = job("a", parameters={"optim.lr": lr}, fingerprint=f"{lr}")
    one = plan(spec, plan_id=plan_id, state_dir=str(state_dir), created_at=at, **given)
    record = RecordBuilder()
    record.add(0, {"optim": {"lr": lr, "min": lr / 2}}, {})
    save_record(state_dir, plan_id, record.record(one.jobs, GitState()))
    write_manifest(state_dir, one)
    return one


def test_the_first_plan_of_a_config_has_none_before_it(tmp_path: Path) -> None:
    made(tmp_path, "other", 1.0, config_ref="another")
    assert compare_to_last(made(tmp_path, "p1", 2.0)) is None


def test_what_changed_is_told_against_the_newest_plan_before(tmp_path: Path) -> None:
    made(tmp_path, "p1", 1.0, lr=9.0)
    made(tmp_path, "p2", 2.0)
    found = compare_to_last(made(tmp_path, "p3", 3.0, lr=2.0))
    assert found is not None
    assert found.created_at == 2.0
    assert list_first_differences(found.difference) == (
        "1 job changed",
        "~ a: optim.lr 1 -> 2; optim.min 0.5 -> 1",
    )


def test_another_command_line_is_told_where_the_jobs_are_the_same(
    tmp_path: Path,
) -> None:
    made(tmp_path, "p1", 1.0)
    found = compare_to_last(made(tmp_path, "p2", 2.0, overrides=("ui.first_run=x",)))
    assert found is not None
    assert list_first_differences(found.difference)[1:] == (
        "* command line added: ui.first_run=x",
    )


def test_a_manifest_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    made(tmp_path, "p1", 1.0)
    (tmp_path / "manifests" / "plan_p2.json").write_text("{")
    assert compare_to_last(made(tmp_path, "p3", 2.0, lr=2.0)) is not None


def test_a_plan_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    for plan_id in ("abc1", "abd2"):
        made(tmp_path, plan_id, 1.0)
    assert find_manifest(tmp_path, "abc") == tmp_path / "manifests" / "plan_abc1.json"
    assert find_manifest(tmp_path, "ab") is None
    assert find_manifest(tmp_path, "") is None
