"""Faults of one step of a job are told at once, with those of the config alone."""

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
project: {name: "${stage}_${backend.megatron.lr}", base_output_dir: out}
slurm: {sbatch: {time: "01:00:00"}}
aux: {twice: "${oc.eval:'${backend.megatron.lr} * 2'}", again: "${aux.twice}"}
sweep:
  configs:
    - {stage: stable, backend.megatron.bf16: true}
"""
TRAIN = """
class_name: MegatronTorchrun
script: pretrain.py
schema: gpt
torchrun: {nproc_per_node: 1}
megatron: {lr: 1e-4, train_iters: 10, save: null, optimizer: adam, bf16: false}
"""
MEGATRON = "backend.megatron"


PlacesOf = Callable[..., list[str]]


@pytest.fixture
def places_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    say: Callable[..., tuple[int, str, str]],
) -> PlacesOf:
    """The keys that a plan of some entries has errors at."""
    monkeypatch.chdir(tmp_path)

    def run(*entries: str, exp: str = EXP) -> list[str]:
        configs = "".join(f"    - {{{entry}}}\n" for entry in entries)
        write_tree(tmp_path / "config", exp=exp + configs, backend__train=TRAIN)
        head = {"autoexp_schema": 1, "source": "train.py"}
        (tmp_path / "config/args").mkdir()
        (tmp_path / "config/args/gpt.schema.json").write_text(
            json.dumps(head | extract_schema(get_parser()))
        )
        code, out, _ = say(main, "--json")
        assert code == 3
        return sorted(error["where"] for error in json.loads(out)["errors"])

    return run


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        pytest.param(
            f"{MEGATRON}.lrr: 1, slurm.sbatch.tiem: 1, {MEGATRON}.train_iters: many",
            [f"{MEGATRON}.lrr", "slurm.sbatch.tiem"],
            id="keys, before any value",
        ),
        pytest.param(
            f'{MEGATRON}.save: "{{nothing}}", project.name: a/../b',
            [f"{MEGATRON}.save"],
            id="own reference, before the name",
        ),
        pytest.param(
            f"{MEGATRON}.train_iters: many, "
            "start_conditions: [{class_name: FileExists, path: x, pth: y}]",
            [f"{MEGATRON}.train_iters", "start_conditions.0.pth"],
            id="condition and value",
        ),
        pytest.param(
            "backend.class_name: Megatrn, backend.env: 3",
            ["backend.class_name", "backend.env"],
            id="backend and environment",
        ),
    ],
)
def test_faults_of_one_step_are_told_at_once(
    entry: str, told: list[str], places_of: PlacesOf
) -> None:
    assert places_of(f"stage: x, {entry}") == told


def test_what_the_config_alone_has_wrong_is_told_beside_the_faults_of_jobs(
    places_of: PlacesOf,
) -> None:
    exp = EXP.replace("{sbatch:", "{max_paralel: 2, sbatch:")
    told = places_of(f"{MEGATRON}.lrr: 1", exp=exp)
    assert told == [f"{MEGATRON}.lrr", "slurm.max_paralel"]
