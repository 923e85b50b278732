"""autoexp-render-config prints a config, and says where configs are looked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoexp_tui.cli import doctor, plan, render_config
from autoexp_tui.probes.config_files import find_shipped
from tests.config.config_trees import write_tree

EXP = """
project: {name: "x{lr}", base_output_dir: out}
backend: {class_name: Command, command: [echo]}
lr: .nan
most: .inf
note: "a\\u202eb"
sweep: {params: {lr: [.nan, 1.0]}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_tree(tmp_path / "config", exp=EXP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def strict(text: str) -> object:
    """JSON as other programs read it: a bare NaN is none."""

    def refuse(name: str) -> object:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_yaml_names_the_directories_that_were_searched(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert render_config.main(["--config-ref", "exp"]) == 0
    first = capsys.readouterr().out.splitlines()[0]

    assert first == f"# searched: {here / 'config'}, then {find_shipped('config')}"


def test_the_doctor_names_the_directories_that_are_searched(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor.main(["--json"])
    found = {each["what"]: each for each in json.loads(capsys.readouterr().out)}

    assert (
        found["configs"]["found"] == f"{here / 'config'}, then {find_shipped('config')}"
    )


@pytest.mark.usefixtures("here")
def test_characters_that_reorder_text_are_escaped_in_yaml(
    capsys: pytest.CaptureFixture[str],
) -> None:
    render_config.main(["--config-ref", "exp"])

    assert 'note: "a\\u202Eb"' in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_a_config_with_nan_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    render_config.main(["--config-ref", "exp", "--json"])
    config = strict(capsys.readouterr().out)

    assert isinstance(config, dict)
    assert (config["lr"], config["most"]) == ("nan", "inf")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("option", ["--points", "--json"])
def test_a_plan_with_nan_is_json(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.main(["--config-ref", "exp", option])
    strict(capsys.readouterr().out)
