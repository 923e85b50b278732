"""Megatron's command line and variables, and torchrun's words, nodes and text."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from autoexp_tui.backends.argument_probe import extract_schema
from autoexp_tui.backends.base import Places
from autoexp_tui.backends.torchrun import ON_A_NODE
from autoexp_tui.executors.slurm.script import AROUND
from tests.backends.backend_configs import found, launched, refused, slurm
from tests.backends.parser_like_megatron import get_parser
from tests.support.refusals import read_refusals

Config = Mapping[str, object]
TORCHRUN = {"class_name": "MegatronTorchrun", "script": "pretrain_gpt.py"}
BASE = {**TORCHRUN, "torchrun": {"nproc_per_node": 8}}
FSDP = {**BASE, "class_name": "MegatronFsdp"}
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


def megatron(base: Config = BASE, /, **args: object) -> Config:
    return {**base, "megatron": args}


def torchrun(**options: object) -> Config:
    return {**TORCHRUN, "torchrun": options}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A root of configs with the schema of a program."""
    words = extract_schema(get_parser())
    schema = {"autoexp_schema": 1, "source": "train.py", **words}
    (tmp_path / "args").mkdir()
    (tmp_path / "args/gpt.schema.json").write_text(json.dumps(schema))
    return Places("/w", "", (str(tmp_path),))


MANY: dict[str, object] = {
    "lr": 1e-4, "train_iters": 100, "bf16": True, "fp16": False, "load": None,
    "data_path": ["0.3", "a", "0.7", "b"], "min_lr": -1e-5, "apply_rope_fusion": False,
    "bias_gelu_fusion": True, "override_opt_param_scheduler": True, "fp8": "hybrid",
    "aux": {"tokens": 5, "nested": {"x": [1]}},
}  # fmt: skip
SPELLED = (
    "--lr 0.0001 --train-iters 100 --bf16 --data-path 0.3 a 0.7 b --min-lr=-1e-05 "
    "--no-rope-fusion --override-opt_param-scheduler --fp8-format hybrid"
)
PYTHON = {"class_name": "Python", "script": "pretrain_gpt.py", "schema": "gpt"}
TORCH: Config = {"gradient_accumulation_fusion": False, "untie_embeddings": True}


@pytest.mark.parametrize(("backend", "words"), [
    (megatron(**MANY), SPELLED),
    (megatron(FSDP, ckpt_format="fsdp_dtensor"),
     "--ckpt-format fsdp_dtensor --use-megatron-fsdp"),
    ({**FSDP, "fsdp": "custom"}, "--use-custom-fsdp"),
    (megatron({**FSDP, "fsdp": "torch"}, **TORCH),
     "--no-gradient-accumulation-fusion --untie-embeddings --use-torch-fsdp2"),
    (megatron({**BASE, "schema": "gpt"}, nccl_ub=True, apply_rope_fusion=False,
              seq_length=2048, aux={}), "--use-nccl-ub --no-rope-fusion"),
    ({**PYTHON, "args": {"global_batch_size": 8}, "positional": ["x"],
      "underscores": "keep"}, "--global-batch-size 8 x"),
])  # fmt: skip
def test_arguments_are_as_the_program_takes_them(
    backend: Config, words: str, places: Places
) -> None:
    command = launched(backend, places).command
    assert " ".join(command[command.index("pretrain_gpt.py") + 1 :]) == words


@pytest.mark.parametrize(("backend", "value"), [
    (BASE, "1"),
    (megatron(FSDP, ckpt_format="fsdp_dtensor"), "8"),
    (megatron(overlap_moe_expert_parallel_comm=True), "32"),
    ({**BASE, "env": {CONNECTIONS: 4}}, "4"),
    ({**BASE, "env": {CONNECTIONS: None}}, None),
])  # fmt: skip
def test_connections_are_what_the_kind_of_parallelism_needs(
    backend: Config, value: str | None
) -> None:
    assert launched(backend).env.get(CONNECTIONS) == value


@pytest.mark.parametrize(
    ("backend", "where", "message", "hint"),
    read_refusals(__file__, "a_wrong_megatron_says_where_what_and_the_next_step"),
)
def test_a_wrong_megatron_says_where_what_and_the_next_step(
    backend: Config, where: str, message: str, hint: str, places: Places
) -> None:
    base = {} if "class_name" in backend else FSDP
    (problem,) = refused({**base, "schema": "gpt", **backend}, places)
    assert found(problem) == (f"backend.{where}", message)
    assert hint in problem.hint


@pytest.mark.parametrize(("text", "reason"), [
    ("{", "Expecting property name"),
    ("[]", "it has no `autoexp_schema`"),
    ('{"autoexp_schema": 9}', "its version is 9, not 1"),
    ('{"autoexp_schema": 1}', "KeyError('arguments')"),
])  # fmt: skip
def test_a_broken_schema_is_told_with_its_path_and_how_to_make_one(
    text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.schema.json"
    path.write_text(text)
    (problem,) = refused({**BASE, "schema": str(path)})
    assert problem.message.startswith(f"{path} is no schema of arguments: ")
    assert reason in problem.message
    (problem,) = refused({**BASE, "schema": "gpt"})
    assert problem.hint.startswith("`autoexp-import-args MODULE:FUNCTION --name NAME`")


TWO = slurm(nodes=2, gpus_per_node=4)
STEPS = (
    "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none "
    "--kill-on-bad-exit=1 sh -c"
)
SRUN = (*AROUND, *STEPS.split(), ON_A_NODE, "torchrun-on-a-node")
ON_TWO = "--nnodes 2 --nproc_per_node 4 --rdzv_backend c10d pretrain_gpt.py"
ALONE = "--nnodes 1 --nproc_per_node 4 --standalone pretrain_gpt.py"
EVERY_OPTION = {
    "nproc_per_node": "gpu", "rdzv_endpoint": "n1:29500", "rdzv_id": 7,
    "max_restarts": 3, "tee": 3, "log_dir": "logs", "monitor_interval": 0.5,
    "no_python": True, "run_path": False, "role": None,
}  # fmt: skip
SPELLED_OUT = (
    "--nnodes 1 --nproc_per_node gpu --rdzv_endpoint n1:29500 --rdzv_id 7 "
    "--max_restarts 3 --tee 3 --log_dir logs --monitor_interval 0.5 --no_python "
    "pretrain_gpt.py"
)
BY_HAND = {"nnodes": 2, "nproc_per_node": 1, "node_rank": 1, "master_addr": "a"}


@pytest.mark.parametrize(("backend", "asked", "start", "words"), [
    (torchrun(nproc_per_node=4), {}, ["torchrun"], ALONE),
    (TORCHRUN, slurm(gpus_per_node="a100:4"), ["torchrun"], ALONE),
    (TORCHRUN, TWO, [*SRUN, "torchrun"], ON_TWO),
    *((TORCHRUN, {**TWO, **own}, [*SRUN[-4:], "torchrun"], ON_TWO) for own in (
        {"launcher_cmd": "srun"}, {"srun_opts": "--mpi=none"},
        {"launcher_cmd": ["srun"]})),
    (torchrun(srun=False), TWO, [*SRUN[-4:], "torchrun"], ON_TWO),
    (torchrun(**EVERY_OPTION), {}, ["torchrun"], SPELLED_OUT),
    ({**torchrun(nproc_per_node=4), "python": "/env/bin/python"}, {},
     ["/env/bin/python", "-m", "torch.distributed.run"], ALONE),
    ({**BASE, "script": None, "module": "my.pretrain", "megatron": {"lr": 1}}, {},
     ["torchrun"], "--nnodes 1 --nproc_per_node 8 --standalone -m my.pretrain --lr 1"),
    (torchrun(**BY_HAND), {}, ["torchrun"],
     "--nnodes 2 --nproc_per_node 1 --rdzv_backend static --node_rank 1 "
     "--master_addr a pretrain_gpt.py"),
])  # fmt: skip
def test_the_words_that_start_it(
    backend: Config, asked: Config, start: list[str], words: str
) -> None:
    command = launched(backend, slurm=asked).command
    assert command == (*start, *words.split())


@pytest.mark.parametrize(
    ("options", "slurm_section", "where", "message"),
    read_refusals(__file__, "what_would_fail_on_the_nodes_is_told_in_the_plan"),
)
def test_what_would_fail_on_the_nodes_is_told_in_the_plan(
    options: Config, slurm_section: Config | None, where: str, message: str
) -> None:
    problems = refused(torchrun(**options), slurm=slurm_section or {})
    assert found(problems[0]) == (where, message)


STEP = {
    "SLURM_JOB_ID": "41234", "SLURM_STEP_NODELIST": "n07,n08", "SLURM_NODEID": "1",
    "SLURM_RESTART_COUNT": "2",
}  # fmt: skip


def test_nodes_meet_at_the_first_of_the_step_and_the_exit_code_is_the_command_s(
    tmp_path: Path,
) -> None:
    tool = tmp_path / "scontrol"
    tool.write_text('#!/bin/sh\necho "${3%%,*}"\necho other\n')
    tool.chmod(0o755)

    def run(*words: str, **env: str) -> tuple[int, list[str]]:
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **env}
        command = ["sh", "-c", ON_A_NODE, "torchrun-on-a-node", *words]
        ran = subprocess.run(command, env=env, capture_output=True, text=True)
        return ran.returncode, (ran.stdout + ran.stderr).splitlines()

    assert {
        "PET_NODE_RANK=1", "PET_MASTER_ADDR=n07", "PET_MASTER_PORT=11234",
        "PET_RDZV_ENDPOINT=n07:11234", "PET_RDZV_ID=41234.2",
        "APPTAINERENV_PET_RDZV_ENDPOINT=n07:11234",
        "SINGULARITYENV_PET_NODE_RANK=1",
    } <= set(run("env", **STEP)[1])  # fmt: skip
    alone = {**STEP, "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7", "SLURM_STEP_NODELIST": ""}
    assert "PET_MASTER_ADDR=10.0.0.7" in run("env", **alone)[1]
    hostile = ["$(id)", "a b", "; exit 3", "`id`"]  # never read by the shell
    assert run("printf", "%s\n", *hostile, **STEP) == (0, hostile)
    assert run("sh", "-c", "exit 9", **STEP) == (9, [])
    no_step = "torchrun on several nodes: this is no step of a Slurm job"
    assert run("true") == (64, [no_step])
