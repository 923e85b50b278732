"""Everything that is wrong with a config is told by one run of autoexp-plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import guarded
from autoexp_tui.cli.plan import main
from tests.adapters.config_trees import write_tree

pytestmark = pytest.mark.usefixtures("planned_here")

EXP = """
defaults: [{backend: train}, _self_]
project: {name: "{stage}_{index}", base_output_dir: out}
sweep:
  type: list
  groups:
    - groups:
        - params: {backend.lr: [1e-4, 2e-4]}
        - configs:
            - stage: stable
            - {stage: cooldown, backend.load: "{sibling.stabel.output_dir}/last"}
            - {stage: late, backend.laod: latest}
            - {stage: other, backend: trian}
            - {stage: gone, backend.load: "{sibling.unwanted.output_dir}"}
            - stage: unwanted
      filter: stage != 'unwanted'
    - configs:
        - {stage: hen, backend.load: "{sibling.egg.backend.load}"}
        - {stage: egg, backend.load: "{sibling.hen.backend.load}"}
    - configs:
        - {stage: left, project.name: twin}
        - {stage: right, project.name: twin}
"""
SAID = """\
error: the plan has 6 errors
  - job 1 (stage=cooldown, lr=1e-4) backend.load: No sibling found matching pattern: \
stabel (and for 1 more job)
    config/exp.yaml:11: did you mean `stable`?
  - job 2 (stage=late, lr=1e-4) backend.laod: is not in the config (and for 1 more job)
    config/exp.yaml:12: did you mean `backend.load`? write `++backend.laod` to add it
  - job 3 (stage=other, lr=1e-4) override backend=trian: `backend` has no choice \
`trian` (and for 1 more job)
    config/exp.yaml:13: did you mean `train`?
  - job 4 (stage=gone, lr=1e-4) backend.load: No sibling found matching pattern: \
unwanted (and for 1 more job)
    config/exp.yaml:14: it was removed by the filter `stage != 'unwanted'` at \
sweep.groups.0.filter
  - job 10 (stage=hen) backend.load: references go in a ring: job 10 (stage=hen) \
-> job 11 (stage=egg) -> job 10 (stage=hen)
    config/exp.yaml:18: one of these references has to go; a value written twice will do
  - twin project.name: 2 jobs have the name twin
    config/exp.yaml:21: add what tells them apart: ${stage}
"""
TRAIN = "{class_name: 'Null', lr: 1, load: null, flag: false}"


def said_of(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    exp: str,
) -> tuple[int, str]:
    """What autoexp-plan says of a config: its exit status, and its errors."""
    monkeypatch.chdir(place)
    write_tree(place / "config", exp=exp, backend__train=TRAIN)
    code = guarded(main, [])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


def test_six_mistakes_are_told_at_once_each_with_its_place_and_the_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_of(tmp_path, monkeypatch, capsys, EXP) == (3, SAID)


def test_the_place_of_a_mistake_is_in_the_json_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "config", exp=EXP, backend__train=TRAIN)
    assert guarded(main, ["--json"]) == 3
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert [one["place"] for one in errors][:2] == [
        "config/exp.yaml:11",
        "config/exp.yaml:12",
    ]


HEAD = """
defaults: [{backend: train}, _self_]
project: {name: "{stage}", base_output_dir: out}
sweep:
  configs:
"""
THREE_OF_ONE_ENTRY = """\
    - stage: stable
    - stage: cooldown
      backend: trian
      backend.load: "{sibling.stabel.output_dir}"
      backend.flga: true
"""
BESIDE_A_FAILING_SIBLING = """\
    - {stage: stable, backend.laod: x}
    - {stage: cooldown, backend.load: "{sibling.stable.output_dir}", backend.flga: true}
    - stage: evaluate
      start_conditions:
        - {class_name: SlurmStateCondition, job_name: "{sibling.stable.name}"}
        - {class_name: FileExist, path: x}
"""
A_RING_OF_WAITS = """\
    - {stage: typo, backend.laod: x}
    - stage: hen
      start_conditions:
        - {class_name: SlurmState, job_name: "{sibling.egg.name}", state: COMPLETED}
    - stage: egg
      start_conditions:
        - {class_name: SlurmState, job_name: "{sibling.hen.name}", state: COMPLETED}
"""


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        pytest.param(
            THREE_OF_ONE_ENTRY,
            (
                "the plan has 3 errors",
                "did you mean `train`?",
                "did you mean `stable`?",
                "did you mean `backend.flag`?",
            ),
            id="three of one entry",
        ),
        pytest.param(
            BESIDE_A_FAILING_SIBLING,
            (
                "the plan has 4 errors",
                "did you mean `backend.load`?",
                "did you mean `backend.flag`?",
                "evaluate start_conditions.0.state: is missing",
                "did you mean `FileExists`?",
            ),
            id="of a job that names a failing one",
        ),
        pytest.param(
            A_RING_OF_WAITS,
            (
                "the plan has 2 errors",
                "did you mean `backend.load`?",
                "jobs wait for each other in a ring: hen -> egg -> hen",
            ),
            id="a ring of waits beside a typo",
        ),
    ],
)
def test_mistakes_are_told_at_once(
    configs: str,
    told: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = said_of(tmp_path, monkeypatch, capsys, HEAD + configs)
    assert code == 3
    assert [words for words in told if words not in said] == []


def test_a_plan_with_errors_has_its_holes_in_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "config", exp=EXP, backend__train=TRAIN)
    assert guarded(main, ["--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert len(told["errors"]) == 6
    assert told["holes"] == [
        {
            "parameters": {"backend.lr": lr},
            "stage": "unwanted",
            "filter": "stage != 'unwanted'",
            "where": "sweep.groups.0.filter",
        }
        for lr in (1e-4, 2e-4)
    ]
    assert told["holes_more"] == 0
