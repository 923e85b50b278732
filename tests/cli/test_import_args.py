"""autoexp-import-args: two files, written once, and over only when told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.cli.import_args import main
from autoexp_tui.config.planning import PlanningAnswer, PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.errors import UsageError

ONE = "def f(p):\n    p.add_argument('--lr', type=float, default=0.1)\n"
OTHER = ONE.replace("0.1", "0.2")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(ONE)
    yield tmp_path
    GlobalHydra.instance().clear()


def run(*more: str) -> int:
    return main(["train.py:f", *more])


def test_group_and_schema_are_written(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0

    assert sorted(path.name for path in (place / "config/args").iterdir()) == [
        "train.schema.json", "train.yaml",
    ]  # fmt: skip
    assert capsys.readouterr().out == (
        "wrote config/args/train.yaml and config/args/train.schema.json: 1 argument\n"
        "  a backend checks them with `schema: train`\n"
    )


def test_a_program_that_did_not_change_changes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    group = place / "config/args/train.yaml"
    group.write_text(group.read_text().replace("0.1", "0.5"))
    capsys.readouterr()

    assert run() == 0

    assert capsys.readouterr().out.startswith("nothing changed")
    assert "lr: 0.5" in group.read_text()


def test_a_program_that_changed_is_told_and_written_only_by_force(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    schema = place / "config/args/train.schema.json"
    before = schema.read_text()
    (place / "train.py").write_text(OTHER)

    with pytest.raises(UsageError) as caught:
        run()
    head, *changes = caught.value.problem.splitlines()
    assert head == "train.yaml and train.schema.json would change; nothing was written."
    assert [(line.split()[0][0], "0.1" in line, "0.2" in line) for line in changes] == [
        ("-", True, False),
        ("+", False, True),
    ]
    assert schema.read_text() == before

    capsys.readouterr()
    assert run("--force") == 0
    out = capsys.readouterr().out
    assert out.startswith("-")
    assert "wrote " in out
    assert "lr: 0.2" in (place / "config/args/train.yaml").read_text()


def test_json_tells_what_was_written(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--json", "--name", "gpt")

    assert json.loads(capsys.readouterr().out) == {
        "version": 1, "name": "gpt", "arguments": 1, "changes": [],
        "written": ["config/args/gpt.yaml", "config/args/gpt.schema.json"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (("--name", "a/b"), "'a/b' cannot name a group"),
        (("--timeout", "0"), "argument --timeout: invalid seconds value: '0'"),
    ],
)
def test_a_wrong_option_is_told(
    more: tuple[str, ...], problem: str, place: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        run(*more)

    assert caught.value.problem == problem


def test_without_a_function_it_says_what_to_write() -> None:
    with pytest.raises(UsageError, match="no function given"):
        main([])


EXPERIMENT = """\
defaults:
  - /args@backend.args: train
  - _self_
project: {name: "lr${backend.args.lr}"}
backend: {class_name: Python, script: train.py, python: py, schema: train}
monitoring: {state_dir: state}
"""


def planned(place: Path, *overrides: str) -> PlanningAnswer:
    (place / "config/exp.yaml").write_text(EXPERIMENT)
    return answer_request(PlanningRequest(overrides=overrides, cwd=str(place)))


def test_a_plan_takes_the_group_and_leaves_defaults_out(place: Path) -> None:
    run()

    plain = planned(place).plan
    GlobalHydra.instance().clear()
    changed = planned(place, "backend.args.lr=0.3").plan

    assert plain is not None
    assert changed is not None
    assert plain.jobs[0].command == ("py", "train.py")
    assert changed.jobs[0].command == ("py", "train.py", "--lr", "0.3")


@pytest.mark.parametrize("held", [b"a: 1\n", b"caf\xe9: 1\n"])
def test_a_file_of_somebody_else_is_left_alone(place: Path, held: bytes) -> None:
    (place / "mine").mkdir()
    (place / "mine/x.yaml").write_bytes(held)
    with pytest.raises(UsageError, match=r"x\.yaml would change"):
        run("--output-dir", "mine", "--name", "x")
    assert (place / "mine/x.yaml").read_bytes() == held
    assert not (place / "mine/x.schema.json").exists()


def test_an_argument_that_is_needed_hides_no_other_that_is_wrong(place: Path) -> None:
    needed = "    p.add_argument('--layers', type=int, required=True)\n"
    (place / "train.py").write_text(ONE + needed)
    run()

    found = planned(place, "backend.args.lr=x", "++backend.args.lrr=1").errors

    assert [one.where for one in found] == [
        "backend.args.layers", "backend.args.lr", "backend.args.lrr",
    ]  # fmt: skip


def test_a_parser_without_arguments_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="has no arguments"):
        main(["argparse:ArgumentParser"])
    assert not (place / "config").exists()
