from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autoexp_tui.cli.init import knobs_of, main, render
from autoexp_tui.core.errors import EnvironmentFailed, UsageError


def test_flags_with_values_become_knobs_in_the_order_of_the_command() -> None:
    knobs = knobs_of(["python", "t.py", "--lr", "1e-3", "--fast", "--n=5", "-v"])
    assert knobs.words == [
        "python",
        "t.py",
        "--lr",
        "${lr}",
        "--fast",
        "--n=${n}",
        "-v",
    ]
    assert knobs.values == {"lr": "1e-3", "n": "5"}


def test_negative_numbers_are_values_and_flags_are_not() -> None:
    knobs = knobs_of(["t", "--bias", "-0.5", "--fast", "--slow"])
    assert knobs.values == {"bias": "-0.5"}
    assert knobs.words[-2:] == ["--fast", "--slow"]


def test_a_flag_named_like_one_of_our_keys_does_not_shadow_it() -> None:
    assert list(knobs_of(["t", "--backend", "nccl"]).values) == ["arg_backend"]


def test_hydra_overrides_of_the_user_s_own_program_are_knobs() -> None:
    knobs = knobs_of(["t", "optim.lr=3", "+x=y"])
    assert knobs.values == {"optim_lr": "3", "x": "y"}
    assert knobs.words[1:] == ["optim.lr=${optim_lr}", "+x=${x}"]


def test_the_file_is_yaml_whatever_the_command_holds() -> None:
    command = ["sh", "-c", 'echo "a: {b}" \\ $HOME ${X}\n', "--tag", "it's: #1"]
    config = yaml.safe_load(render("odd", command))
    assert config["backend"]["command"][2] == 'echo "a: {b}" \\ $HOME \\${X}\n'
    assert config["tag"] == "it's: #1"


def test_the_likeliest_knob_is_swept(tmp_path: Path) -> None:
    config = yaml.safe_load(render("t", ["t", "--epochs", "5", "--lr", "0.1"]))
    assert config["sweep"] == {"params": {"lr": [0.1]}}
    assert config["project"]["name"] == "t_lr{lr}"


def test_an_existing_file_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        main(["-C", str(tmp_path), "--", "python", "train.py"])
    assert (tmp_path / "train.yaml").read_text() == "mine"


def test_without_a_command_it_says_how(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no command given"):
        main([])


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailed, match="cannot be written"):
        main(["-C", str(tmp_path / "file" / "deep"), "--", "t"])


def test_it_says_what_to_do_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-C", str(tmp_path), "--", "python", "my train.py"]) == 0
    out = capsys.readouterr().out
    assert "my_train.yaml" in out
    assert "--config-ref my_train" in out
