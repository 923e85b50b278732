"""The process that compares a plan with the one before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.plan_since import changes_of
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.session_dir import write_manifest
from tests.planning.plans import job, plan


def planned_twice(tmp_path: Path) -> Plan:
    """The second plan of a config, with a job more than the first."""
    first = plan([job("a")], plan_id="one", created_at=1000.0, state_dir=str(tmp_path))
    second = replace(
        first,
        plan_id="two",
        created_at=2000.0,
        jobs=(*first.jobs, job("b", 1, fingerprint="other")),
    )
    write_manifest(tmp_path, first)
    write_manifest(tmp_path, second)
    return second


def test_a_job_more_is_told_with_when_the_plan_before_was_made(tmp_path: Path) -> None:
    found = changes_of(planned_twice(tmp_path))
    assert found is not None
    assert (found.created_at, found.differs) == (1000.0, True)
    assert "1 job added" in found.head


def test_files_of_the_user_s_that_are_called_like_modules_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not yours')\n")
    monkeypatch.chdir(tmp_path)
    assert changes_of(planned_twice(tmp_path)) is not None


def test_a_first_plan_has_nothing_before_it(tmp_path: Path) -> None:
    made = plan([job("a")], state_dir=str(tmp_path))
    write_manifest(tmp_path, made)
    assert changes_of(made) is None


def test_a_plan_that_was_not_kept_has_nothing_before_it(tmp_path: Path) -> None:
    assert changes_of(plan([job("a")], state_dir=str(tmp_path))) is None
