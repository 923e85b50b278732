"""torchrun's words, the nodes it runs on, and what is refused before it starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from autoexp_tui.backends.torchrun import ON_A_NODE
from autoexp_tui.executors.slurm.script import AROUND
from tests.backends.backend_configs import found, launched, refused, slurm
from tests.support.refusals import read_refusals

MEGATRON = {"class_name": "MegatronTorchrun", "script": "pretrain_gpt.py"}
SRUN = (
    *AROUND, "srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1",
    "--cpu-bind=none", "--kill-on-bad-exit=1",
    "sh", "-c", ON_A_NODE, "torchrun-on-a-node",
)  # fmt: skip
TWO = slurm(nodes=2, gpus_per_node=4)


def megatron(**torchrun: object) -> Mapping[str, object]:
    return {**MEGATRON, "torchrun": torchrun}


EVERY_OPTION = {
    "nproc_per_node": "gpu", "rdzv_endpoint": "n1:29500", "rdzv_id": 7,
    "max_restarts": 3, "tee": 3, "log_dir": "logs", "monitor_interval": 0.5,
    "no_python": True, "run_path": False, "role": None,
}  # fmt: skip
LAUNCHES = [
    pytest.param(
        megatron(nproc_per_node=4), {},
        (
            "torchrun", "--nnodes", "1", "--nproc_per_node", "4", "--standalone",
            "pretrain_gpt.py",
        ),
        id="one node meets by itself",
    ),
    pytest.param(
        MEGATRON, slurm(gpus_per_node="a100:8"),
        (
            "torchrun", "--nnodes", "1", "--nproc_per_node", "8", "--standalone",
            "pretrain_gpt.py",
        ),
        id="processes are the GPUs that Slurm is asked for",
    ),
    pytest.param(
        MEGATRON, TWO,
        (
            *SRUN, "torchrun", "--nnodes", "2", "--nproc_per_node", "4",
            "--rdzv_backend", "c10d", "pretrain_gpt.py",
        ),
        id="on two nodes srun starts one on each",
    ),
    pytest.param(
        megatron(**EVERY_OPTION), {},
        (
            "torchrun", "--nnodes", "1", "--nproc_per_node", "gpu",
            "--rdzv_endpoint", "n1:29500", "--rdzv_id", "7", "--max_restarts", "3",
            "--tee", "3", "--log_dir", "logs", "--monitor_interval", "0.5",
            "--no_python", "pretrain_gpt.py",
        ),
        id="options are spelled as all releases know them",
    ),
    pytest.param(
        {**megatron(nproc_per_node=1), "python": "/env/bin/python"}, {},
        (
            "/env/bin/python", "-m", "torch.distributed.run", "--nnodes", "1",
            "--nproc_per_node", "1", "--standalone", "pretrain_gpt.py",
        ),
        id="an interpreter starts it as a module",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "asked", "words"), LAUNCHES)
def test_the_words_that_start_it(
    backend: Mapping[str, object],
    asked: Mapping[str, object],
    words: tuple[str, ...],
) -> None:
    assert launched(backend, slurm=asked).command == words


@pytest.mark.parametrize(
    "launcher",
    [{"launcher_cmd": "srun"}, {"srun_opts": "--mpi=none"}, {"launcher_cmd": ["srun"]}],
)
def test_a_launcher_of_the_configs_starts_the_nodes(
    launcher: Mapping[str, object],
) -> None:
    command = launched(MEGATRON, slurm={**TWO, **launcher}).command

    assert command[:3] == ("sh", "-c", ON_A_NODE)


def test_srun_may_be_left_to_the_user() -> None:
    assert launched(megatron(srun=False), slurm=TWO).command[:2] == ("sh", "-c")


def test_the_parts_of_a_run_may_be_started_by_hand() -> None:
    options = {"nnodes": 2, "nproc_per_node": 1, "node_rank": 1, "master_addr": "a"}

    command = launched(megatron(**options)).command

    assert command[5:7] == ("--rdzv_backend", "static")
    assert "sh" not in command


@pytest.mark.parametrize(
    ("torchrun", "slurm_section", "where", "message"),
    read_refusals(__file__, "what_would_fail_on_the_nodes_is_told_in_the_plan"),
)
def test_what_would_fail_on_the_nodes_is_told_in_the_plan(
    torchrun: Mapping[str, object],
    slurm_section: Mapping[str, object] | None,
    where: str,
    message: str,
) -> None:
    problems = refused(megatron(**torchrun), slurm=slurm_section or {})

    assert found(problems[0]) == (where, message)


# --------------------------------------------------------------------- the fixed text
def on_a_node(tmp_path: Path, words: list[str], **env: str) -> list[str]:
    """What a command finds behind the text: its words, and torchrun's variables."""
    tool = tmp_path / "scontrol"
    tool.write_text('#!/bin/sh\necho "${3%%,*}"\necho other\n')
    tool.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-c", ON_A_NODE, "torchrun-on-a-node", *words],
        env={"PATH": path, **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [str(ran.returncode), *(ran.stdout + ran.stderr).splitlines()]


STEP = {
    "SLURM_JOB_ID": "41234", "SLURM_STEP_NODELIST": "n07,n08", "SLURM_NODEID": "1",
    "SLURM_RESTART_COUNT": "2",
}  # fmt: skip


def test_nodes_meet_at_the_first_of_the_step(tmp_path: Path) -> None:
    found = on_a_node(tmp_path, ["env"], **STEP)

    assert {
        "PET_NODE_RANK=1", "PET_MASTER_ADDR=n07", "PET_MASTER_PORT=11234",
        "PET_RDZV_ENDPOINT=n07:11234", "PET_RDZV_ID=41234.2",
        "APPTAINERENV_PET_RDZV_ENDPOINT=n07:11234",
        "SINGULARITYENV_PET_NODE_RANK=1",
    } <= set(found)  # fmt: skip


def test_without_scontrol_it_is_where_srun_ran(tmp_path: Path) -> None:
    env = {**STEP, "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7", "SLURM_STEP_NODELIST": ""}

    assert "PET_MASTER_ADDR=10.0.0.7" in on_a_node(tmp_path, ["env"], **env)


def test_words_of_the_command_are_never_read_by_the_shell(tmp_path: Path) -> None:
    words = ["printf", "%s\n", "$(id)", "a b", "; exit 3", "`id`"]

    assert on_a_node(tmp_path, words, **STEP) == [
        "0", "$(id)", "a b", "; exit 3", "`id`",
    ]  # fmt: skip


def test_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    assert on_a_node(tmp_path, ["sh", "-c", "exit 9"], **STEP) == ["9"]


def test_outside_of_slurm_it_says_so(tmp_path: Path) -> None:
    assert on_a_node(tmp_path, ["true"]) == [
        "64", "torchrun on several nodes: this is no step of a Slurm job",
    ]  # fmt: skip
