"""autoexp-init and autoexp-import-args: configs that are written for a command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.cli import import_args
from autoexp_tui.cli.init import (
    extract_knobs,
    find_doubts,
    main,
    name_command,
    render_config,
)
from autoexp_tui.config.planning import PlanningAnswer, PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.errors import EnvironmentFailed, UsageError

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


LR = "python t.py --lr 1e-3 --fast --n=5 -v"
LR_KNOBS = "python t.py --lr ${lr} --fast --n=${n} -v"


@pytest.mark.parametrize(
    ("command", "words", "values"),
    [
        (LR, LR_KNOBS, {"lr": "1e-3", "n": "5"}),
        # A negative number is a value, and a flag is not.
        ("t --b -0.5 --fast --slow", "t --b ${b} --fast --slow", {"b": "-0.5"}),
        # Not to shadow a key of ours.
        ("t --backend nccl", "t --backend ${arg_backend}", {"arg_backend": "nccl"}),
        ("t o.lr=3 +x=y", "t o.lr=${o_lr} +x=${x}", {"o_lr": "3", "x": "y"}),
    ],
)
def test_values_of_flags_and_overrides_become_knobs(
    command: str, words: str, values: dict[str, str]
) -> None:
    found, knobs = extract_knobs(command.split())
    assert (found, list(knobs.items())) == (words.split(), list(values.items()))


def test_the_likeliest_knob_is_swept() -> None:
    config = yaml.safe_load(render_config("t", ["t", "--epochs", "5", "--lr", "0.1"]))
    assert config["sweep"] == {"params": {"lr": [0.1]}}
    assert config["project"]["name"] == "t_lr{lr}"


def test_a_file_is_written_once_and_what_to_do_next_is_said(
    tmp_path: Path, capsys: Captured
) -> None:
    place = ["-C", str(tmp_path), "--"]
    assert main([*place, "no-such-program", "my train.py"]) == 0
    out, err = capsys.readouterr()
    assert "my_train.yaml" in out
    assert "--config-ref my_train" in out
    assert "no program 'no-such-program' is on your PATH" in err
    assert "the script 'my train.py' is not a file here" in err
    assert [*find_doubts(["sh", __file__])] == []
    written = tmp_path / "my_train.yaml"
    written.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        main([*place, "python", "my train.py"])
    assert written.read_text() == "mine"
    with pytest.raises(EnvironmentFailed, match="cannot write the experiment"):
        main(["-C", str(written / "deep"), "--", "t"])
    assert name_command(["..."]) == "experiment"


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "echo \"$HOME\" '${X}' {sibling.a.b} \\${Y} \\\\${Z} `id`; # no"],
        ["t", "--tag", "it's: #1 {a}", "--glob", "${*}", "--empty", ""],
        ["t", "--no", "1", "--on", "2", "--null", "x", "--gui", "3", "--größe", "4"],
        ["t", "--seed", "010", "--cuda", "12.10", "--n", "+5", "--time", "12:30:00"],
        ["t", "--data", "/a/b c", "--lr", "1e-3", "--lr", "2"],
        ["t", "~/é\x85\u2028\u202e\x1b[31m\U0001f600", "@f", "&a", "*b", "!c"],
        ["t", "--yes", "yes", "--nothing", "null", "--real", ".5", "--big", "1" * 30],
        ["t", "%(x)s", "- a", "? b", "| c", "> d", "key: value", "'q'", '"r"', "x\ny"],
    ],
)
def test_the_job_runs_the_very_words_of_the_command(
    tmp_path: Path, command: list[str]
) -> None:
    def number(word: str) -> object:
        """A word, or the number that it is when it is written another way."""
        return float(word) if word in {"1e-3", "0.001"} else word

    assert main(["-C", str(tmp_path), "--name", "x", "--", *command]) == 0
    request = PlanningRequest(cwd=str(tmp_path), config_dir=".", config_ref="x")
    answer = answer_request(request)
    assert answer.errors == ()
    assert answer.plan is not None
    (job,) = answer.plan.jobs
    assert list(map(number, job.command)) == list(map(number, command))


NAMES = ("../up", "a/b", "two words", "-x", "a:b")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no command given"),
        (("--", "t", "\udcff"), "no UTF-8 text"),
        *(((f"--name={name}", "--", "t"), "cannot name an exp") for name in NAMES),
    ],
)
def test_what_could_be_no_command_or_file_is_refused(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        main(["-C", str(tmp_path), *words])


ONE = "def f(p):\n    p.add_argument('--lr', type=float, default=0.1)\n"
NEEDED = "    p.add_argument('--layers', type=int, required=True)\n"
EXPERIMENT = """\
defaults:
  - /args@backend.args: train
  - _self_
project: {name: "lr${backend.args.lr}"}
backend: {class_name: Python, script: train.py, python: py, schema: train}
monitoring: {state_dir: state}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(ONE)
    return tmp_path


def run(*more: str) -> int:
    return import_args.main(["train.py:f", *more])


def planned(place: Path, *overrides: str) -> PlanningAnswer:
    (place / "config/exp.yaml").write_text(EXPERIMENT)
    GlobalHydra.instance().clear()
    return answer_request(PlanningRequest(overrides=overrides, cwd=str(place)))


def test_arguments_are_written_and_changes_told_and_written_only_by_force(
    place: Path, capsys: Captured
) -> None:
    assert run() == 0
    schema, group = sorted((place / "config/args").iterdir())
    assert capsys.readouterr().out == (
        "wrote config/args/train.yaml and config/args/train.schema.json: 1 argument\n"
        "  a backend checks them with `schema: train`\n"
    )
    group.write_text(group.read_text().replace("0.1", "0.5"))
    assert run() == 0
    assert capsys.readouterr().out.startswith("nothing changed")
    assert "lr: 0.5" in group.read_text()
    before = schema.read_text()
    (place / "train.py").write_text(ONE.replace("0.1", "0.2"))
    with pytest.raises(UsageError) as caught:
        run()
    head, old, new = caught.value.problem.splitlines()
    assert head == "train.yaml and train.schema.json would change"
    assert (old.split()[0][0], "0.1" in old, "0.2" in old) == ("-", True, False)
    assert (new.split()[0][0], "0.1" in new, "0.2" in new) == ("+", False, True)
    assert schema.read_text() == before
    assert run("--force") == 0
    out = capsys.readouterr().out
    assert out.startswith("-")
    assert "wrote " in out
    assert "lr: 0.2" in group.read_text()
    run("--json", "--name", "gpt")
    assert json.loads(capsys.readouterr().out) == {
        "version": 1, "name": "gpt", "arguments": 1, "changes": [],
        "written": ["config/args/gpt.yaml", "config/args/gpt.schema.json"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("train.py:f --name a/b", "'a/b' cannot name a group"),
        ("train.py:f --timeout soon", "--timeout: invalid float value: 'soon'"),
        ("", "no function given"),
        ("argparse:ArgumentParser", "has no arguments"),
    ],
)
def test_what_cannot_be_imported_is_told(place: Path, words: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        import_args.main(words.split())
    assert not (place / "config").exists()


def test_a_plan_takes_the_group_leaves_defaults_out_and_tells_what_is_wrong(
    place: Path,
) -> None:
    run()
    for more, words in (((), ()), (("backend.args.lr=0.3",), ("--lr", "0.3"))):
        found = planned(place, *more).plan
        assert found is not None
        assert found.jobs[0].command == ("py", "train.py", *words)
    (place / "train.py").write_text(ONE + NEEDED)
    run("--force")
    for given, wheres in (
        (("backend.args.lr=x", "++backend.args.lrr=1"), ["layers"]),
        (("backend.args.layers=1", "backend.args.lr=x"), ["lr"]),
        (("backend.args.layers=1", "++backend.args.lrr=1"), ["lrr"]),
    ):
        wrong = planned(place, *given).errors
        assert [one.where for one in wrong] == [f"backend.args.{one}" for one in wheres]
