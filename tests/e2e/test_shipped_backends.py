"""The backends that come as config groups plan, alone and with others around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.config.planning import PlanningAnswer, PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.probes.config_files import find_shipped

EXPERIMENT = """\
defaults:
  - backend: megatron_torchrun
  - slurm: generic
  - _self_
project: {name: "lr${backend.megatron.lr}", base_output_dir: out}
monitoring: {state_dir: state}
slurm: {sbatch: {nodes: 2, gpus_per_node: 4}}
sweep:
  params:
    backend.megatron.lr: [1e-4, 2e-4]
"""


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with an experiment beside the groups that are shipped."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "gpt.yaml").write_text(EXPERIMENT)
    for name in ("backend", "slurm", "environment"):
        (config / name).symlink_to(find_shipped("config") / name)
    return tmp_path


def asked(place: Path, *overrides: str) -> PlanningAnswer:
    request = PlanningRequest(
        config_ref="gpt",
        overrides=("backend.script=/m/pretrain_gpt.py", *overrides),
        cwd=str(place),
    )
    return answer_request(request)


def jobs(place: Path, *overrides: str) -> tuple[JobSpec, ...]:
    answer = asked(place, *overrides)
    assert answer.errors == ()
    assert answer.plan is not None
    return answer.plan.jobs


def words_after(job: JobSpec, flag: str) -> str:
    return job.command[job.command.index(flag) + 1]


def test_a_sweep_over_megatrons_rate_starts_torchrun_on_both_nodes(place: Path) -> None:
    made = jobs(place)

    assert [words_after(job, "--lr") for job in made] == ["0.0001", "0.0002"]
    assert all("srun" in job.command for job in made)
    assert {job.env["CUDA_DEVICE_MAX_CONNECTIONS"] for job in made} == {"1"}


def test_fsdp_is_one_word_away(place: Path) -> None:
    (job, _) = jobs(place, "backend=megatron_fsdp")

    assert "--use-megatron-fsdp" in job.command
    assert words_after(job, "--ckpt-format") == "fsdp_dtensor"


def test_torch_fsdp2_is_what_its_comment_says(place: Path) -> None:
    (job, _) = jobs(
        place, "backend=megatron_fsdp", "backend.fsdp=torch",
        "+backend.megatron.gradient_accumulation_fusion=false",
        "backend.megatron.use_distributed_optimizer=false",
        "+backend.megatron.untie_embeddings_and_output_weights=true",
        "backend.megatron.ckpt_format=torch_dist",
        "backend.megatron.overlap_param_gather=false",
    )  # fmt: skip

    assert "--use-torch-fsdp2" in job.command


def test_a_container_and_a_venv_go_around_together(place: Path) -> None:
    (job, _) = jobs(
        place, "+environment=[apptainer,venv]", "backend.container.image=docker://x",
        "backend.venv=/v", "backend.container.runtime=apptainer",
    )  # fmt: skip

    order = [job.command.index(word) for word in ("apptainer", "/v/bin/python")]
    assert order == sorted(order)
    assert str(place) in job.command


def test_conda_goes_around(place: Path) -> None:
    (job, _) = jobs(place, "+environment=conda", "backend.conda.prefix=/envs/t")

    assert words_after(job, "-p") == "/envs/t"


def test_what_is_not_here_is_a_warning_of_the_plan(place: Path) -> None:
    answer = asked(place, "+environment=venv", "backend.venv=/none")

    (warning,) = [one for one in answer.warnings if one.where == "backend.venv"]
    assert warning.message == "/none/bin/python is not here (and for 1 more job)"
