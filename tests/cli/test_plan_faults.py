"""Everything that is wrong with a config is told by one run of autoexp-plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.cli.plan import main
from tests.config.config_trees import write_tree

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
"""
SAID = """\
error: the plan has 5 errors
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
"""
TRAIN = "{class_name: 'Null', lr: 1, load: null, flag: false}"


Said = tuple[int, str, str]


@pytest.fixture
def plan_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Callable[..., Said]
) -> Callable[..., Said]:
    """What autoexp-plan says of a config."""
    monkeypatch.chdir(tmp_path)

    def run(exp: str, *argv: str) -> Said:
        write_tree(tmp_path / "config", exp=exp, backend__train=TRAIN)
        return say(main, *argv)

    return run


PlanOf = Callable[..., Said]


def test_five_mistakes_are_told_at_once_each_with_its_place_and_the_mend(
    plan_of: PlanOf,
) -> None:
    assert plan_of(EXP) == (3, "", SAID)


HEAD = """
defaults: [{backend: train}, _self_]
project: {name: "{stage}", base_output_dir: out}
sweep:
  configs:
"""


UNREADABLE_SWEEP = """
defaults: [{backend: train}, _self_]
project: {name: "{stage}", base_output_dir: out}
monitorng: {poll_seconds: 30}
monitoring: {pol_seconds: 30}
slurm: {sbatch: {time: "${hours}:00:00", partitoin: x}, max_parallel: many}
hours: ???
sweep:
  type: product
  params: {slurm.max_parallel: 3}
  groups: 7
"""


def test_a_sweep_that_cannot_be_read_hides_no_fault_of_the_config(
    plan_of: PlanOf,
) -> None:
    code, _, said = plan_of(UNREADABLE_SWEEP)

    assert code == 3
    assert "sweep" in said
    assert "config/exp.yaml:4: did you mean `monitoring`?" in said
    assert "did you mean `poll_seconds`?" in said


def test_of_a_sweep_that_cannot_be_read_nothing_is_said_that_a_job_may_mend(
    plan_of: PlanOf,
) -> None:
    exp = """
project: {name: "{stage}", base_output_dir: out}
backend: {class_name: Python, module: "${aux.of}.train", underscores: maybe}
slurm: {sbatch: {time: soon}}
sweep: {parms: {a: 1}, configs: [{backend.underscores: keep, slurm.sbatch.time: 60}]}
"""
    code, _, said = plan_of(exp)

    assert code == 3
    assert "the plan has 1 error" in said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("stagee != 'b'", "`stagee` is not known; did you mean `stage`?"),
        ("stage != 'b' and", "does not parse: invalid syntax"),
        (
            "stage > 1",
            "`stage > 1` orders str and int, which have no common order, for stage=a",
        ),
    ],
)
def test_a_filter_that_cannot_be_read_is_told_before_any_job(
    written: str, said: str, plan_of: PlanOf
) -> None:
    exp = HEAD + f'    - {{stage: a, backend: trian}}\n  filter: "{written}"\n'
    code, _, told = plan_of(exp)
    of_filter = f"  - sweep.filter: `{written}`: {said}\n    config/exp.yaml:7\n"
    assert (code, told) == (3, f"error: the plan has 1 error\n{of_filter}")


def test_a_filter_that_needs_the_config_and_cannot_be_read_hides_no_condition(
    plan_of: PlanOf,
) -> None:
    configs = """\
    - {stage: a, start_conditions: [{class_name: FileExist}]}
    - {stage: b, backend.class_name: Nul}
  filter: "${backend.lr} > lrr"
"""
    _, _, told = plan_of(HEAD + configs)
    assert "the plan has 3 errors" in told
    assert "`lrr` is not known" in told
    assert "there is no condition `FileExist`" in told
    assert "b backend.class_name: " in told


def test_a_plan_with_errors_has_places_and_holes_in_the_json(plan_of: PlanOf) -> None:
    code, out, _ = plan_of(EXP, "--json")
    told = json.loads(out)
    places = [one["place"] for one in told["errors"]]
    assert (code, len(places)) == (3, 5)
    assert places[:2] == ["config/exp.yaml:11", "config/exp.yaml:12"]
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


def test_a_key_with_a_dot_in_it_beside_a_mistake_is_no_crash(plan_of: PlanOf) -> None:
    exp = (
        "project: {name: x, base_output_dir: out}\nbackend: {class_name: 'Null'}\n"
        "a.b: 1\nc: {d.e: '${oc.eval:1/0}', f: '${nowhere}'}\n${oc.eval:1}: 2\n"
    )
    code, _, said = plan_of(exp)
    assert code == 3
    assert "${nowhere} names no key of the config" in said


def test_what_follows_from_a_value_that_does_not_resolve_is_not_told_as_well(
    plan_of: PlanOf,
) -> None:
    exp = (
        "project: {name: x, base_output_dir: out}\nlr: ${nowhere}\n"
        "backend: {class_name: Command, command: [train, '${lr}']}\n"
    )
    _, _, said = plan_of(exp)
    assert said.startswith("error: the plan has 1 error\n  - x lr: ${nowhere} names")


LITERALS = """
project: {name: "x{index}", base_output_dir: out}
lr: 1e-3
note: ""
backend: {class_name: Command, command: [echo, "${lr}", "${note}"]}
"""


def test_a_list_without_brackets_is_refused_with_its_line(plan_of: PlanOf) -> None:
    sweep = "sweep:\n  params:\n    lr: 1e-3, 3e-3, 5e-3\n"
    (error,) = json.loads(plan_of(LITERALS + sweep, "--json")[1])["errors"]
    assert (error["where"], error["place"]) == ("lr", "config/exp.yaml:8")
    assert "`lr: [1e-3, 3e-3, 5e-3]`" in error["hint"]


def test_text_among_numbers_is_counted_over_its_jobs(plan_of: PlanOf) -> None:
    sweep = "sweep: {params: {lr: [1e-3, auto], note: [a, b, c]}}\n"
    found = json.loads(plan_of(LITERALS + sweep, "--json")[1])
    assert not found["errors"]
    (warning,) = (one for one in found["warnings"] if one["where"] == "lr")
    assert warning["message"] == (
        "is the text `auto`, and was the number `1e-3` (and for 2 more jobs)"
    )


@pytest.mark.parametrize(
    "text", [r"\\${sibling.stable.name}", "{{sibling.stable.name}}", r"\\${aux.x}"]
)
def test_a_reference_of_another_program_does_not_reach_the_command(
    plan_of: PlanOf, text: str
) -> None:
    exp = LITERALS.replace('note: ""', f'note: "{text}"')
    (error,) = json.loads(plan_of(exp, "--json")[1])["errors"]
    assert error["where"] == "backend"
    assert "as it is written" in error["message"]
