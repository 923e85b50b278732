"""A fault of a job hides no other fault of it, and what only follows is not told."""

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
            f"{MEGATRON}.lrr: 1, {MEGATRON}.train_iters: many",
            [f"{MEGATRON}.lrr", f"{MEGATRON}.train_iters"],
            id="key and value",
        ),
        pytest.param(
            f"{MEGATRON}.lrr: 1, ++{MEGATRON}.micro_batch: 2, slurm.sbatch.time: soon",
            [f"{MEGATRON}.lrr", f"{MEGATRON}.micro_batch", "slurm.sbatch.time"],
            id="key, argument and option",
        ),
        pytest.param(
            f'{MEGATRON}.save: "{{sibling.stabel.name}}", {MEGATRON}.lr: fast',
            ["aux.twice", f"{MEGATRON}.lr", f"{MEGATRON}.save"],
            id="reference and value",
        ),
        pytest.param(
            f'{MEGATRON}.save: "{{nothing}}", {MEGATRON}.optimizer: adamm',
            [f"{MEGATRON}.optimizer", f"{MEGATRON}.save"],
            id="own reference and value",
        ),
        pytest.param(
            f"{MEGATRON}.lrr: 1, project.name: a/../b",
            [f"{MEGATRON}.lrr", "project.name"],
            id="key and name",
        ),
        pytest.param(
            f"project.name: a/../b, {MEGATRON}.train_iters: many",
            [f"{MEGATRON}.train_iters", "project.name"],
            id="name and value",
        ),
        pytest.param(
            f'project.name: "${{nothing}}", {MEGATRON}.train_iters: many',
            [f"{MEGATRON}.train_iters", "project.name"],
            id="name that stands for nothing, and value",
        ),
        pytest.param(
            f'{MEGATRON}.lrr: 1, {MEGATRON}.save: "{{nothing}}"',
            [f"{MEGATRON}.lrr", f"{MEGATRON}.save"],
            id="key and own reference",
        ),
        pytest.param(  # the value is looked at once Hydra takes the group
            "backend: trian, slurm.client.slots: many",
            ["override backend=trian"],
            id="group that hides a value",
        ),
        pytest.param(
            f"~{MEGATRON}.nothing: null, {MEGATRON}.train_iters: many",
            [f"override ~{MEGATRON}.nothing"],
            id="removal that hides a value",
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
        pytest.param(
            f"{MEGATRON}.save: {{a: 1}}, {MEGATRON}.train_iters: many",
            [f"{MEGATRON}.save", f"{MEGATRON}.train_iters"],
            id="mapping and value",
        ),
    ],
)
def test_faults_of_a_job_are_told_at_once_as_far_as_it_composes(
    entry: str, told: list[str], places_of: PlacesOf
) -> None:
    assert places_of(f"stage: x, {entry}") == told


def test_what_reads_a_misspelled_key_as_it_was_meant_is_no_fault(
    places_of: PlacesOf,
) -> None:
    # `aux.again`, the name and the argument read the key that was meant.
    entry = f'stage: x, {MEGATRON}.lrr: 1, {MEGATRON}.min_lr: "${{aux.again}}"'

    told = places_of(entry)
    assert told == [f"{MEGATRON}.lrr"]


def test_a_ring_hides_no_other_fault_of_its_jobs(places_of: PlacesOf) -> None:
    told = places_of(
        f'stage: hen, {MEGATRON}.save: "{{sibling.egg.{MEGATRON}.save}}", '
        f"{MEGATRON}.train_iters: many",
        f'stage: egg, {MEGATRON}.save: "{{sibling.hen.{MEGATRON}.save}}", '
        "slurm.sbatch.tiem: 1",
    )
    assert told == [
        f"{MEGATRON}.save",
        f"{MEGATRON}.train_iters",
        "slurm.sbatch.tiem",
    ]


def test_a_job_that_reads_a_failing_one_tells_its_own_faults(
    places_of: PlacesOf,
) -> None:
    told = places_of(
        f"stage: bad, {MEGATRON}.lrr: 1",
        f'stage: reader, {MEGATRON}.save: "{{sibling.bad.output_dir}}", '
        f"{MEGATRON}.train_iters: many",
    )
    assert told == [f"{MEGATRON}.lrr", f"{MEGATRON}.train_iters"]


def test_a_misspelled_key_does_not_hide_that_jobs_have_no_name(
    places_of: PlacesOf,
) -> None:
    nameless = EXP.replace('name: "${stage}_${backend.megatron.lr}", ', "")
    told = places_of(f"{MEGATRON}.lrr: 1", exp=nameless)
    assert told == [f"{MEGATRON}.lrr", "project.name"]
