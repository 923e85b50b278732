"""autoexp-plan, and what commands say of a plan that cannot be made."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.plan import main
from autoexp_tui.cli.run import main as run
from autoexp_tui.storage.manifests import write_manifest
from tests.config.config_trees import write_tree
from tests.model.builders import job, plan
from tests.storage.test_session_list import Engine
from tests.support.journal_contract import PLAN

Say = Callable[..., tuple[int, str, str]]

EXP = """
project: {name: "lr{lr}", base_output_dir: out}
lr: 1
backend: {class_name: Command, command: ["true", "${lr}"]}
sweep: {params: {lr: [1, 2]}}
"""


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say) -> Say:
    """Run autoexp-plan where ./config/exp.yaml is."""
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "config", exp=EXP)
    return partial(say, main)


def test_the_plan_of_a_session_is_shown(say: Say, tmp_path: Path) -> None:
    Engine(tmp_path / "state", "k7f2", 1.0)
    given = ("--session", "k7f2", "--state-dir", str(tmp_path / "state"))
    code, out, _ = say(*given, "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)["jobs"]] == [PLAN.jobs[0].name]
    assert say(*given, "--points")[0] == 2


def test_a_manifest_is_validated_once_more(say: Say, tmp_path: Path) -> None:
    twice = plan(job("a"), job("a", 1))
    manifest = write_manifest(tmp_path / "state", twice)
    code, _, err = say("--manifest", str(manifest))
    assert code == 3
    assert "2 jobs have the name a" in err


def test_a_manifest_that_is_not_there_says_how_one_is_made(say: Say) -> None:
    code, _, err = say("--manifest", "none.json")
    assert (code, err) == (
        2,
        "error: none.json: there is no such manifest\n"
        "  autoexp-plan writes one and prints its path\n",
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["lr=3"], "lr=3: --manifest takes no overrides"),
        (["--points"], "--manifest is a finished plan"),
    ],
)
def test_what_a_finished_plan_cannot_heed_is_refused(
    say: Say, tmp_path: Path, argv: list[str], said: str
) -> None:
    manifest = write_manifest(tmp_path / "state", plan(job("a")))
    code, _, err = say("--manifest", str(manifest), *argv)
    assert code == 2
    assert said in err


def test_a_session_takes_no_overrides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_guarded(run, ["--session", "k7f2", "--state-dir", str(tmp_path), "lr=3"])
    assert code == 2
    assert "--session takes no overrides" in capsys.readouterr().err


def test_one_fault_of_the_config_is_one_message(say: Say) -> None:
    code, _, err = say("lrr=3")
    assert (code, err) == (
        2,
        "error: override lrr: there is no such key\n"
        "  did you mean `lr`? write `++lrr=...` to add it\n",
    )


def test_two_questions_at_once_are_refused(say: Say) -> None:
    code, out, told = say("--points", "--diff", "exp")
    assert (code, out) == (2, "")
    assert "--points and --diff are different questions" in told
