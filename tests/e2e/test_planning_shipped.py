"""The configs that come with the package: planned, and their commands really run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.kinds import (
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
)
from autoexp_tui.config.planning import PlanningAnswer, PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.condition import Condition, walk
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.probes.config_files import find_shipped
from tests.e2e.campaign import result_of, run_command

SHIPPED = find_shipped("config")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
PLACE = "/some/where"
"""Nothing is written there: these plans are only looked at."""
Waits = set[tuple[str, str]]
EXAMPLES: dict[str, tuple[dict[str, int], Waits]] = {
    "linear": ({"stable": 2, "cooldown": 2}, {("stable", "cooldown")}),
    "branching": ({"": 1, "halfway": 1, "final": 1}, {("", "halfway"), ("", "final")}),
    "progressive": ({"stable": 1, "decay": 3}, {("stable", "decay")}),
    "chain": (
        dict.fromkeys(("foundation", "pretrain", "midtrain", "anneal"), 2),
        {("foundation", "pretrain"), ("pretrain", "midtrain"), ("midtrain", "anneal")},
    ),
    "ensemble": (
        {"train": 3, "evaluate": 3, "ensemble": 1},
        {("train", "evaluate"), ("evaluate", "ensemble")},
    ),
    "push_and_pull": ({"stable": 1, "cooldown": 1}, {("stable", "cooldown")}),
    "side_by_side": ({"small": 3, "large": 2}, set()),
}
"""Example -> jobs of each stage, and which stage waits for which."""


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


@cache
def ask(
    ref: str, *overrides: str, cwd: str = PLACE, configs: str = str(SHIPPED)
) -> PlanningAnswer:
    request = PlanningRequest(config_ref=ref, config_dir=configs, cwd=cwd)
    return answer_request(replace(request, overrides=overrides))


def planned(ref: str, *overrides: str) -> Plan:
    answer = ask(ref, *overrides)
    assert answer.errors == ()
    assert answer.plan is not None
    return answer.plan


def job(plan: Plan, name: str) -> JobSpec:
    return next(one for one in plan.jobs if one.name == name)


def word_after(spec: JobSpec, flag: str) -> str:
    return spec.command[spec.command.index(flag) + 1]


# --------------------------------------------------------------- the default experiment
def test_the_default_experiment_is_ten_jobs_under_its_rules() -> None:
    plan = planned("exp")
    stages = ("stable", "cooldown", "evaluate")
    trained = [f"lr{lr}_{stage}" for lr in ("1e-3", "3e-3", "5e-3") for stage in stages]
    assert [one.name for one in plan.jobs] == [*trained, "report"]
    assert plan.executor.class_name == "LocalClient"
    plan = planned("exp", "train_iters=500")
    totals = {one.stage: one.progress_total for one in plan.jobs}
    assert totals == {"stable": 500, "cooldown": 500, "evaluate": None, "report": None}


def test_a_cooldown_waits_for_its_own_stable_runs_checkpoint() -> None:
    cooldown, stable = job(planned("exp"), "lr3e-3_cooldown"), "lr3e-3_stable"
    checkpoint = f"{PLACE}/outputs/exp/{stable}/checkpoints/iter_00008000"
    assert cooldown.start_conditions == (
        FileExists(path=f"{checkpoint}/done.txt", writer=stable, timeout_seconds=3600),
        MetadataIs(
            job=stable,
            key="checkpoint_iteration",
            op=">=",
            value=8000,
            timeout_seconds=3600,
        ),
    )
    log = f"{PLACE}/outputs/exp/logs/{stable}/current.log"
    assert cooldown.cancel_conditions == (
        JobStateIs(jobs=(stable,), state="FAILED"),
        LogPattern(log_path=log, pattern="FATAL|Traceback", writer=stable),
    )
    assert cooldown.command[-2:] == ("--load", checkpoint)
    assert cooldown.depends_on == (stable,)


# ------------------------------------------------------------------------- the examples


def test_experiments_warn_of_nothing_and_share_no_directory() -> None:
    names = ("diverging", "flaky", "research", "waiting", *EXAMPLES)
    plans = [planned(ref) for ref in ("exp", *(f"experiments/{n}" for n in names))]
    assert [plan.name for plan in plans if plan.warnings] == []
    assert len({plan.base_output_dir for plan in plans}) == len(plans)
    (flaky,) = planned("experiments/flaky").monitoring.state_events
    (again,) = flaky.actions
    assert isinstance(again, Restart)
    assert again.conditions[0] == MaxAttempts(max_attempts=3)


def test_there_is_an_example_of_each_start_condition_and_each_comes_about(
    tmp_path: Path,
) -> None:
    plan = planned("experiments/waiting")
    starts = [one for job in plan.jobs for one in job.start_conditions]
    kinds = {type(part) for one in starts for part in walk(one)}
    of_actions = ("max_attempts", "cooldown")
    every = Condition.kinds
    assert kinds == {every[name] for name in every if name not in of_actions}
    words = ("--config-ref", "experiments/waiting", "--approve=all", "--json")
    run = run_command(tmp_path, "run", *words)
    assert run.returncode == 0, run.stderr
    states = [job["state"] for job in result_of(run.stdout).values()]
    assert states == ["COMPLETED"] * 13


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_plans_as_documented_and_its_stages_wait_in_their_family(
    example: str,
) -> None:
    plan = planned(f"experiments/{example}")
    stages, expected = EXAMPLES[example]
    assert Counter(job.stage for job in plan.jobs) == stages
    jobs = {job.name: job for job in plan.jobs}
    waits = [(e.before, e.after) for e in plan.edges if e.mode == "waits"]
    assert {(jobs[a].stage, jobs[b].stage) for a, b in waits} == expected
    if example in {"linear", "chain"}:
        assert all(jobs[a].family == jobs[b].family for a, b in waits)
    assert f"config/experiments/{example}.yaml" in DOCS.read_text("utf-8")


def test_a_cooldown_and_each_scale_start_at_their_own_checkpoint() -> None:
    stable, cooldown = planned("experiments/linear").jobs[:2]
    assert stable.progress_total == 1500
    checkpoint = f"{stable.output_dir}/checkpoints/iter_00001200"
    assert word_after(cooldown, "--load") == checkpoint
    assert word_after(cooldown, "--decay-iters") == "300"
    decays = planned("experiments/progressive").jobs[1:]
    loads = [Path(word_after(job, "--load")).name for job in decays]
    assert loads == ["iter_00000480", "iter_00000800", "iter_00001280"]


# ---------------------------------------------------------------- clusters and backends


@pytest.mark.parametrize(
    ("overrides", "command"),
    [
        (["noop"], ("true",)),
        (["bash", "backend.script='echo ${lr}'"], ("bash", "-c", "echo 0.001")),
        (["command", "backend.command=[a,'${lr}']"], ("a", "0.001")),
        (["python", "backend.script=t.py", "backend.python=py"], ("py", "t.py")),
    ],
)
def test_each_backend_template_makes_its_command(
    overrides: list[str], command: tuple[str, ...]
) -> None:
    backend, *others = overrides
    one = ("~sweep", "project.name=one", f"backend={backend}")
    plan = planned("exp", *one, *others)
    assert [job.command for job in plan.jobs] == [command]


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
APPTAINER = """
+environment=[apptainer,venv] backend.container.image=docker://x backend.venv=/v
backend.container.runtime=apptainer
"""


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ("", "srun --lr 0.0001"),
        ("backend=megatron_fsdp", "--ckpt-format fsdp_dtensor --use-megatron-fsdp"),
        (APPTAINER, "apptainer {root} /v/bin/python"),
        ("+environment=conda backend.conda.prefix=/envs/t", "-p /envs/t"),
    ],
)
def test_the_shipped_groups_around_megatron_make_a_command_of_these_words(
    tmp_path: Path, overrides: str, words: str
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "gpt.yaml").write_text(EXPERIMENT)
    for name in ("backend", "slurm", "environment"):
        (config / name).symlink_to(SHIPPED / name)
    given = ("backend.script=/m/pretrain_gpt.py", *overrides.split())
    answer = ask("gpt", *given, cwd=str(tmp_path), configs="")
    assert answer.errors == ()
    assert answer.plan is not None
    first, second = answer.plan.jobs
    found = " ".join(first.command)
    at = [found.find(word) for word in words.format(root=tmp_path).split()]
    assert at == sorted(at)
    assert min(at) >= 0
    assert word_after(second, "--lr") == "0.0002"
    assert first.env["CUDA_DEVICE_MAX_CONNECTIONS"]
