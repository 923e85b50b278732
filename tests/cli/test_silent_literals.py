"""What YAML takes for text, and a program for another value, is told with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import plan
from tests.config.config_trees import write_tree

EXP = """
project: {name: "x{index}", base_output_dir: out}
lr: 1e-3
note: ""
backend: {class_name: Command, command: [echo, "${lr}", "${note}"]}
"""


def planned(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    monkeypatch.chdir(root)
    plan.main(["--config-ref", "exp", "--json"])
    return json.loads(capsys.readouterr().out)


def test_a_list_without_brackets_is_refused_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep = "sweep:\n  params:\n    lr: 1e-3, 3e-3, 5e-3\n"
    write_tree(tmp_path / "config", exp=EXP + sweep)
    (error,) = planned(tmp_path, monkeypatch, capsys)["errors"]

    assert error["where"] == "lr"
    assert error["place"] == "config/exp.yaml:8"
    assert "`lr: [1e-3, 3e-3, 5e-3]`" in error["hint"]


def test_text_among_numbers_is_counted_over_its_jobs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep = "sweep: {params: {lr: [1e-3, auto], note: [a, b, c]}}\n"
    write_tree(tmp_path / "config", exp=EXP + sweep)
    found = planned(tmp_path, monkeypatch, capsys)

    assert not found["errors"]
    (warning,) = (one for one in found["warnings"] if one["where"] == "lr")
    assert warning["message"] == (
        "is the text `auto`, and was the number `1e-3` (and for 2 more jobs)"
    )


@pytest.mark.parametrize(
    "text", [r"\\${sibling.stable.name}", "{{sibling.stable.name}}", r"\\${aux.x}"]
)
def test_a_reference_of_another_program_does_not_reach_the_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    config = EXP.replace('note: ""', f'note: "{text}"')
    write_tree(tmp_path / "config", exp=config)
    (error,) = planned(tmp_path, monkeypatch, capsys)["errors"]

    assert error["where"] == "backend"
    assert "as it is written" in error["message"]
