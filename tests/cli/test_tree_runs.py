"""Which session a search goes on with."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import tree as tree_command
from autoexp_tui.cli import tree_runs
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.open import make_plan
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.tree_runs import Run, find_run, prepare_search
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.tree.events import TreeBegun, TreeOpened
from autoexp_tui.tree.options import IdeaSource, read_options
from tests.model.builders import plan
from tests.storage.whole_session import WholeSession
from tests.worktrees.conftest import call_git, write_files

OPTIONS: dict[str, Any] = {
    "repository": "dry_run",
    "beam_width": 2,
    "ideas": {"command": ["ideas"]},
    "implement": {"agent": ["a"]},
    "evaluate": {"command": ["measure"]},
}


def make_tree(**options: Any) -> Plan:
    return replace(plan(), tree={**OPTIONS, **options})


def make_run(session: str, run: str) -> Run:
    return Run(SessionDir(Path("/state", session)), run, make_tree())


@pytest.fixture(autouse=True)
def _runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [make_run("a1", "done"), make_run("b1", "on")]
    monkeypatch.setattr(tree_runs, "_list_runs", lambda _: runs)
    monkeypatch.setattr(Run, "is_finished", lambda run: run.name == "done")


def find(
    name: str = "", *, resume: bool = True, place: Path = Path("/state"), **options: Any
) -> str:
    found = find_run(make_tree(**options), place, name, resume=resume)
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
    made = make_tree(repository=str(tmp_path), run="r")
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


def test_a_search_of_which_a_part_is_not_given_is_refused(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"ideas": {}, "implement": {}, "evaluate": {}}
    with pytest.raises(ValidationFailed) as refused:
        prepare_search(make_tree(**parts), tmp_path)
    assert [one.where for one in refused.value.problems] == [
        f"tree.{name}" for name in parts
    ]
    call_git(tmp_path, "init", "-q")
    call_git(tmp_path, "commit", "-qm", "a", "--allow-empty")
    for options, problem in (
        ({"ideas": {"dir": "none"}}, r"tree\.ideas\.dir: none: there is no"),
        ({"repository": "gone"}, r"gone: there is no such directory"),
        (
            {"root_baseline_csv": "gone.csv"},
            r"tree\.root_baseline_csv: .*gone\.csv: cannot read the results",
        ),
        (
            {"evaluate": {"config_ref": "gone"}},
            r"tree\.evaluate\.config_ref: gone: .*there is no config `gone`",
        ),
    ):
        here = make_tree(**{"repository": str(tmp_path), **options})
        with pytest.raises(AutoexpError, match=problem):
            prepare_search(here, tmp_path.with_name("state"))


def test_a_measurement_that_the_root_commit_does_not_have_is_refused(
    tmp_path: Path,
) -> None:
    call_git(tmp_path, "init", "-q")
    call_git(tmp_path, "commit", "-qm", "a", "--allow-empty")
    write_files(tmp_path, {"config/measure.yaml": "project: {name: m}\n"})
    call_git(tmp_path, "add", "config")
    call_git(tmp_path, "commit", "-qm", "b")
    measured = {"config_ref": "measure"}
    made = make_tree(repository=str(tmp_path), root="HEAD~1", evaluate=measured)
    with pytest.raises(AutoexpError, match="there is no config `measure`"):
        prepare_search(made, tmp_path.with_name("state"))
    assert call_git(tmp_path, "status", "--porcelain") == ""


def test_a_run_is_read_from_the_beginning_of_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the runs of a disk
    made = WholeSession(tmp_path / "k7f2", plan=replace(make_tree(), jobs=()))
    made.write(TreeBegun(run="r"))
    made.write(TreeOpened(root_commit="c", directory="/d", python="python"))
    at: dict[str, Any] = {"place": tmp_path}
    assert find("r", **at) == ""  # no directory of a search: its journal is not read
    (made.session.path / "tree").mkdir()
    assert (find("r", **at), find(**at)) == ("k7f2", "k7f2")
    assert find(beam_width=3, **at) == ""


def test_every_flag_wins_over_its_key_of_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = {
        "beam_width": 3, "max_depth": 4, "ideas_per_node": 5, "sweep_config_limit": 6,
        "max_total_idea_evals": 7, "max_parallel_evals": 8, "eval_timeout_seconds": 9,
        "eval_retries": 10, "llm_max_inflight": 11, "llm_rate_limit": 12,
        "sweep_max_parallel": 13, "lock_stale_seconds": 120,
    }  # fmt: skip
    on = ("keep_rejected_worktrees", "keep_failed_artifacts", "strict_fail_depth")
    texts = {"run": "12", "ideas.dir": "a b,c=d"}
    words = ["--config-ref", "experiments/tree", "--context-ideas-dir", "x,y"]
    for key, value in {**numbers, **texts}.items():
        words += [f"--{key.replace('.', '-').replace('_', '-')}", str(value)]
    words += [f"--{key.replace('_', '-')}" for key in on]
    asked = {}

    def note(options: Options) -> None:
        asked["plan"] = make_plan(options)[0]
        raise UsageError("enough")

    monkeypatch.setattr("autoexp_tui.cli.open.make_plan", note)
    assert run_guarded(tree_command.main, words) == 2
    options = read_options(asked["plan"].tree)
    told = asdict(options)
    assert {key: told[key] for key in numbers} == numbers
    assert [told[key] for key in on] == [True] * 3
    assert (options.run, options.ideas) == ("12", IdeaSource(
        dir=str(tmp_path / "a b,c=d"), context_dirs=(str(tmp_path / "x,y"),)
    ))  # fmt: skip
