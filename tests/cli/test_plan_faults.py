"""Everything that is wrong with a config is told by one run of autoexp-plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.backends.argument_probe import extract_schema
from autoexp_tui.cli.plan import main
from tests.backends.parser_like_megatron import get_parser
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
  - job 10 (stage=hen) backend.load: references go in a ring: hen -> egg -> hen
    config/exp.yaml:18: one of these references has to go; a value written twice will do
"""
Said = tuple[int, str, str]
PlanOf = Callable[..., Said]


@pytest.fixture
def plan_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Callable[..., Said]
) -> PlanOf:
    """What autoexp-plan says of a config."""
    monkeypatch.chdir(tmp_path)
    schema = {"autoexp_schema": 1, "source": "t.py", **extract_schema(get_parser())}

    def run(exp: str, *argv: str) -> Said:
        train = "{class_name: 'Null', lr: 1, load: null, flag: false}"
        groups = {"backend__train": train, "backend__gpt": GPT}
        write_tree(tmp_path / "config", exp=exp, **groups)
        (tmp_path / "config/args").mkdir(exist_ok=True)
        (tmp_path / "config/args/gpt.schema.json").write_text(json.dumps(schema))
        return say(main, *argv)

    return run


def test_five_mistakes_are_told_at_once_each_with_its_place_and_the_mend(
    plan_of: PlanOf,
) -> None:
    assert plan_of(EXP) == (3, "", SAID)
    told = json.loads(plan_of(EXP, "--json")[1])
    places = [one["place"] for one in told["errors"]]
    assert len(places) == 5
    assert places[:2] == ["config/exp.yaml:11", "config/exp.yaml:12"]
    hole = {"stage": "unwanted", "filter": "stage != 'unwanted'"}
    hole["where"] = "sweep.groups.0.filter"
    holes = [{"parameters": {"backend.lr": lr}, **hole} for lr in (1e-4, 2e-4)]
    assert (told["holes"], told["holes_more"]) == (holes, 0)


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
slurm: {sbatch: {time: "1:00:00", partitoin: x}, max_parallel: many}
sweep:
  type: product
  params: {slurm.max_parallel: 3}
  groups: 7
"""
A_JOB_MAY_MEND = """
project: {name: "{stage}", base_output_dir: out}
backend: {class_name: Python, module: "${aux.of}.train", underscores: maybe}
slurm: {sbatch: {time: soon}}
sweep: {parms: {a: 1}, configs: [{backend.underscores: keep, slurm.sbatch.time: 60}]}
"""
NEEDS_THE_CONFIG = f"""{HEAD}\
    - {{stage: a, start_conditions: [{{class_name: FileExist}}]}}
    - {{stage: b, backend.class_name: Nul}}
  filter: "${{backend.lr}} > lrr"
"""
DOTTED = """
project: {name: x, base_output_dir: out}
backend: {class_name: 'Null'}
a.b: 1
c: {d.e: '${oc.eval:1/0}', f: '${nowhere}'}
${oc.eval:1}: 2
"""
UNREADABLE = ("sweep", "exp.yaml:4: did you mean `monitoring`?", "`poll_seconds`?")
CONDITION = ("`lrr` is not known", "there is no condition `FileExist`")


@pytest.mark.parametrize(
    ("exp", "said"),
    [
        (UNREADABLE_SWEEP, UNREADABLE),
        # nor is anything said of it that a job may mend
        (A_JOB_MAY_MEND, ("the plan has 1 error\n",)),
        # a filter over the config hides no condition
        (
            NEEDS_THE_CONFIG,
            ("the plan has 3 errors", "b backend.class_name:", *CONDITION),
        ),
        (DOTTED, ("${nowhere} names no key of the config",)),
    ],
    ids=["sweep", "mended", "filter", "dotted"],
)
def test_no_fault_hides_another_and_none_is_told_twice(
    exp: str, said: tuple[str, ...], plan_of: PlanOf
) -> None:
    code, _, told = plan_of(exp)
    assert code == 3
    assert [one for one in said if one not in told] == []


BESIDE = """
defaults: [{backend: gpt}, _self_]
project: {name: "${stage}_${backend.megatron.lr}", base_output_dir: out}
slurm: {max_paralel: 2, sbatch: {time: "01:00:00"}}
aux: {twice: "${oc.eval:'${backend.megatron.lr} * 2'}", again: "${aux.twice}"}
sweep:
  configs:
    - {stage: stable, backend.megatron.bf16: true}
"""
GPT = """
class_name: MegatronTorchrun
script: pretrain.py
schema: gpt
torchrun: {nproc_per_node: 1}
megatron: {lr: 1e-4, train_iters: 10, save: null, optimizer: adam, bf16: false}
"""


KEYS = "m.lrr: 1, slurm.sbatch.tiem: 1, m.train_iters: many"
CONDITIONS = "start_conditions: [{class_name: FileExists, path: x, pth: y}]"
BACKEND = "backend.class_name: Megatrn, backend.env: 3"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (KEYS, ["m.lrr", "slurm.sbatch.tiem"]),  # before any value
        ('m.save: "{nothing}", project.name: a/../b', ["m.save"]),  # before the name
        (
            f"m.train_iters: many, {CONDITIONS}",
            ["m.train_iters", "start_conditions.0.pth"],
        ),
        (BACKEND, ["backend.class_name", "backend.env"]),
    ],
)
def test_faults_of_one_step_are_told_at_once_with_those_of_the_config(
    entry: str, told: list[str], plan_of: PlanOf
) -> None:
    def spell(text: str) -> str:
        return f" {text}".replace(" m.", " backend.megatron.").strip()

    code, out, _ = plan_of(f"{BESIDE}    - {{stage: x, {spell(entry)}}}\n", "--json")
    found = sorted(error["where"] for error in json.loads(out)["errors"])
    assert code == 3
    assert found == sorted(["slurm.max_paralel", *map(spell, told)])
