"""Which session a search goes on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import tree_runs
from autoexp_tui.cli.tree_runs import Run, find_run, prepare_search
from autoexp_tui.model.errors import EnvironmentFailed, UsageError, ValidationFailed
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.tree.events import TreeBegun, TreeOpened
from tests.model.builders import plan
from tests.storage.whole_session import WholeSession
from tests.worktrees.conftest import call_git, write_files

OPTIONS: dict[str, Any] = {"repository": "dry_run", "beam_width": 2}


def make_plan(**options: Any) -> Plan:
    return replace(plan(), tree={**OPTIONS, **options})


def make_run(session: str, run: str) -> Run:
    return Run(SessionDir(Path("/state", session)), run, make_plan())


@pytest.fixture(autouse=True)
def _runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [make_run("a1", "done"), make_run("b1", "on")]
    monkeypatch.setattr(tree_runs, "_list_runs", lambda _: runs)
    monkeypatch.setattr(Run, "is_finished", lambda run: run.name == "done")


def find(
    name: str = "", *, resume: bool = True, place: Path = Path("/state"), **options: Any
) -> str:
    found = find_run(make_plan(**options), place, name, resume=resume)
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
    state_dir = tmp_path.with_name("state")
    write_files(tmp_path, {"a": "a"})
    call_git(tmp_path, "init", "-q")
    call_git(tmp_path, "add", "a")
    call_git(tmp_path, "commit", "-qm", "a")
    made = make_plan(repository=str(tmp_path), run="r")
    named = replace(made, overrides=("++tree.run=r",))
    assert prepare_search(made, state_dir).tree["run"] == "r"
    assert prepare_search(named, state_dir) == named
    call_git(tmp_path, "update-ref", "refs/tree/r/n0", "HEAD")
    assert prepare_search(made, state_dir).tree["run"] == "r-2"
    with pytest.raises(EnvironmentFailed, match="there are refs of a run r already"):
        prepare_search(named, state_dir)
    write_files(tmp_path, {"b": "b"})
    with pytest.raises(ValidationFailed, match="neither tracks nor ignores: b"):
        prepare_search(made, state_dir)


def test_a_run_is_read_from_the_beginning_of_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the runs of a disk
    made = WholeSession(tmp_path / "k7f2", plan=replace(make_plan(), jobs=()))
    made.write(TreeBegun(run="r"))
    made.write(TreeOpened(root_commit="c", directory="/d", python="python"))
    at: dict[str, Any] = {"place": tmp_path}
    assert find("r", **at) == ""  # no directory of a search: its journal is not read
    (made.session.path / "tree").mkdir()
    assert (find("r", **at), find(**at)) == ("k7f2", "k7f2")
    assert find(beam_width=3, **at) == ""
