"""Which session a search goes on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import tree_runs
from autoexp_tui.cli.tree_runs import Run, find_run, name_run
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import why
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.tree.options import read_options
from autoexp_tui.tree.state import Tree
from tests.model.builders import plan
from tests.worktrees.conftest import call_git, write_files

OPTIONS: dict[str, Any] = {"repository": "dry_run", "beam_width": 2}


def make_plan(**options: Any) -> Plan:
    return replace(plan(), tree={**OPTIONS, **options})


def make_run(session: str, run: str, *, finished: bool) -> Run:
    tree = Tree(run, read_options(OPTIONS))
    tree.stopped = why("empty_frontier") if finished else None
    return Run(SessionDir(Path("/state", session)), tree, make_plan(), {})


@pytest.fixture(autouse=True)
def _runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [make_run("a1", "done", finished=True), make_run("b1", "on", finished=False)]
    monkeypatch.setattr(tree_runs, "_list_runs", lambda _: runs)


def find(name: str = "", *, resume: bool = True, **options: Any) -> str:
    found = find_run(make_plan(**options), Path("/state"), name, resume=resume)
    return found.session.id if found else ""


@pytest.mark.parametrize(("name", "resume", "options", "session"), [
    ("", True, {}, "b1"),  # the unfinished one
    ("", False, {}, ""),
    ("", True, {"beam_width": 3}, ""),  # decides otherwise
    ("", True, {"max_parallel_evals": 8}, "b1"),  # does not
    ("on", True, {"run": "on"}, "b1"),
    ("done", True, {"run": "done"}, "a1"),  # its summary is printed
    ("new", True, {}, ""),
    ("new", False, {}, ""),
])  # fmt: skip
def test_a_search_goes_on_by_its_name_or_its_config(
    name: str, resume: bool, options: dict[str, Any], session: str
) -> None:
    assert find(name, resume=resume, **options) == session


@pytest.mark.parametrize(("name", "resume", "options", "problem"), [
    ("on", False, {}, "there is a search on already"),
    ("done", False, {}, "there is a search done already"),
    ("on", True, {"beam_width": 3}, "with other settings: tree.beam_width"),
])  # fmt: skip
def test_a_name_of_another_search_is_refused(
    name: str, resume: bool, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        find(name, resume=resume, **options)


def test_a_new_search_gets_a_name_without_refs_and_takes_nobody_elses(
    tmp_path: Path,
) -> None:
    write_files(tmp_path, {"a": "a"})
    call_git(tmp_path, "init", "-q")
    call_git(tmp_path, "add", "a")
    call_git(tmp_path, "commit", "-qm", "a")
    made = make_plan(repository=str(tmp_path), run="r")
    assert name_run(made, "", tmp_path).tree["run"] == "r"
    assert name_run(made, "r", tmp_path) == made
    call_git(tmp_path, "update-ref", "refs/tree/r/n0", "HEAD")
    assert name_run(made, "", tmp_path).tree["run"] == "r-2"
    with pytest.raises(EnvironmentFailed, match="there are refs of a run r already"):
        name_run(made, "r", tmp_path)
