from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.cli.init import (
    extract_knobs,
    find_doubts,
    main,
    name_command,
    render_config,
)
from autoexp_tui.config.planning import PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.errors import EnvironmentFailed, UsageError


@pytest.mark.parametrize(
    ("command", "words", "values"),
    [
        (
            "python t.py --lr 1e-3 --fast --n=5 -v",
            "python t.py --lr ${lr} --fast --n=${n} -v",
            {"lr": "1e-3", "n": "5"},
        ),
        (  # a negative number is a value, and a flag is not
            "t --bias -0.5 --fast --slow",
            "t --bias ${bias} --fast --slow",
            {"bias": "-0.5"},
        ),
        (  # not to shadow a key of ours
            "t --backend nccl",
            "t --backend ${arg_backend}",
            {"arg_backend": "nccl"},
        ),
        (
            "t optim.lr=3 +x=y",
            "t optim.lr=${optim_lr} +x=${x}",
            {"optim_lr": "3", "x": "y"},
        ),
    ],
)
def test_values_of_flags_and_overrides_become_knobs(
    command: str, words: str, values: dict[str, str]
) -> None:
    knobs = extract_knobs(command.split())
    assert (knobs.words, knobs.values) == (words.split(), values)
    assert list(knobs.values) == list(values)


def test_the_file_is_yaml_whatever_the_command_holds() -> None:
    command = ["sh", "-c", 'echo "a: {b}" \\ $HOME ${X}\n', "--tag", "it's: #1"]
    config = yaml.safe_load(render_config("odd", command))
    assert config["backend"]["command"][2] == 'echo "a: {b}" \\ $HOME \\${X}\n'
    assert config["tag"] == "it's: #1"


def test_the_likeliest_knob_is_swept(tmp_path: Path) -> None:
    config = yaml.safe_load(render_config("t", ["t", "--epochs", "5", "--lr", "0.1"]))
    assert config["sweep"] == {"params": {"lr": [0.1]}}
    assert config["project"]["name"] == "t_lr{lr}"


def test_an_existing_file_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        main(["-C", str(tmp_path), "--", "python", "train.py"])
    assert (tmp_path / "train.yaml").read_text() == "mine"


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


@pytest.fixture
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


@pytest.mark.usefixtures("own_hydra")
@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "echo \"$HOME\" '${X}' {sibling.a.b} \\${Y} \\\\${Z} `id`; # no"],
        ["t", "--tag", "it's: #1 {a}", "--glob", "${*}", "--empty", ""],
        ["t", "--no", "1", "--on", "2", "--null", "x", "--gui", "3", "--größe", "4"],
        ["t", "--seed", "010", "--cuda", "12.10", "--n", "+5", "--time", "12:30:00"],
        ["t", "--data", "/a/b c", "--lr", "1e-3", "--lr", "2"],
        [
            "t",
            "--data",
            "~/é\x85\u2028\u202e\x1b[31m\U0001f600",
            "@f",
            "&a",
            "*b",
            "!c",
        ],
        ["t", "--yes", "yes", "--nothing", "null", "--real", ".5", "--big", "1" * 30],
        ["t", "%(x)s", "- a", "? b", "| c", "> d", "key: value", "'q'", '"r"', "x\ny"],
    ],
)
def test_the_job_runs_the_very_words_of_the_command(
    tmp_path: Path, command: list[str]
) -> None:
    assert main(["-C", str(tmp_path), "--name", "x", "--", *command]) == 0
    request = PlanningRequest(cwd=str(tmp_path), config_dir=".", config_ref="x")
    answer = answer_request(request)
    assert answer.errors == ()
    assert answer.plan is not None
    (job,) = answer.plan.jobs
    assert [_number(word) for word in job.command] == [_number(w) for w in command]


def _number(word: str) -> object:
    """A word, or the number that it is when it is written another way."""
    return float(word) if word in {"1e-3", "0.001"} else word


def test_a_program_that_is_not_there_is_said_and_written_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-C", str(tmp_path), "--", "no-such-program", "--lr", "1"]) == 0
    assert "'no-such-program' is not on your PATH" in capsys.readouterr().err
    assert (tmp_path / "no-such-program.yaml").exists()


def test_programs_and_scripts_are_looked_for_where_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.py").write_text("")
    (tmp_path / "mine").write_text("")
    assert find_doubts(["sh", "here.py"]) == []
    (gone,) = find_doubts(["sh", "gone.py", "here.py"])
    assert "the script 'gone.py' is not a file here" in gone
    assert "'./gone' is not a file here" in find_doubts(["./gone"])[0]
    assert "'./mine' is not executable: chmod +x" in find_doubts(["./mine"])[0]


def test_a_program_of_dots_alone_makes_some_name() -> None:
    assert name_command(["..."]) == "experiment"


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "no command given"), (("--", "t", "\udcff"), "no UTF-8 text")]
    + [
        ((f"--name={name}", "--", "t"), "cannot name an experiment")
        for name in ("../up", "a/b", "two words", "-x", "a:b")
    ],
)
def test_what_could_be_no_command_or_file_is_refused(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        main(["-C", str(tmp_path), *words])
