"""The configs that come with the package: planned, and their commands really run."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    Composite,
    Cooldown,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    Not,
)
from autoexp_tui.config.planning import PlanningAnswer, PlanningRequest, run_planning
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import ResultSpec
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.probes.config_files import find_shipped
from tests.e2e.campaign import result_of, run_command

SMALL = (
    "train_iters=40",
    "warmup_iters=5",
    "save_interval=10",
    "cooldown_from=30",
    "cooldown_checkpoint=iter_00000030",
    "sweep.groups.0.groups.0.params.lr=[1e-3,2e-3]",
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
STAGES = {
    "linear": {"stable": 2, "cooldown": 2},
    "branching": {"": 1, "halfway": 1, "final": 1},
    "progressive": {"stable": 1, "decay": 3},
    "chain": {"foundation": 2, "pretrain": 2, "midtrain": 2, "anneal": 2},
    "ensemble": {"train": 3, "evaluate": 3, "ensemble": 1},
    "push_and_pull": {"stable": 1, "cooldown": 1},
    "side_by_side": {"small": 3, "large": 2},
}
"""Example -> jobs of each stage."""
WAITS = {
    "linear": {("stable", "cooldown")},
    "branching": {("", "halfway"), ("", "final")},
    "progressive": {("stable", "decay")},
    "chain": {
        ("foundation", "pretrain"),
        ("pretrain", "midtrain"),
        ("midtrain", "anneal"),
    },
    "ensemble": {("train", "evaluate"), ("evaluate", "ensemble")},
    "push_and_pull": {("stable", "cooldown")},
    "side_by_side": set(),
}
"""Example -> which stage waits for which."""
PLACE = "/some/where"
"""Nothing is written there: these plans are only looked at."""


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


@cache
def asked(ref: str, *overrides: str) -> PlanningAnswer:
    request = PlanningRequest(config_ref=ref, overrides=overrides, cwd=PLACE)
    return answer_request(replace(request, config_dir=str(find_shipped("config"))))


def planned(ref: str, *overrides: str) -> Plan:
    answer = asked(ref, *overrides)
    assert answer.errors == ()
    assert answer.plan is not None
    return answer.plan


def job(plan: Plan, name: str) -> JobSpec:
    return next(one for one in plan.jobs if one.name == name)


def test_the_default_experiment_is_ten_jobs() -> None:
    plan = planned("exp")

    assert [one.name for one in plan.jobs] == [
        "lr1e-3_stable",
        "lr1e-3_cooldown",
        "lr1e-3_evaluate",
        "lr3e-3_stable",
        "lr3e-3_cooldown",
        "lr3e-3_evaluate",
        "lr5e-3_stable",
        "lr5e-3_cooldown",
        "lr5e-3_evaluate",
        "report",
    ]
    assert plan.warnings == ()
    assert plan.executor.class_name == "LocalClient"


def test_a_cooldown_waits_for_its_own_stable_runs_checkpoint() -> None:
    cooldown = job(planned("exp"), "lr3e-3_cooldown")
    checkpoint = f"{PLACE}/outputs/exp/lr3e-3_stable/checkpoints/iter_00008000"

    assert cooldown.start_conditions == (
        FileExists(
            path=f"{checkpoint}/done.txt", writer="lr3e-3_stable", timeout_seconds=3600
        ),
        MetadataIs(
            job="lr3e-3_stable",
            key="checkpoint_iteration",
            op=">=",
            value=8000,
            timeout_seconds=3600,
        ),
    )
    assert cooldown.cancel_conditions == (
        JobStateIs(jobs=("lr3e-3_stable",), state="FAILED"),
        LogPattern(
            log_path=f"{PLACE}/outputs/exp/logs/lr3e-3_stable/current.log",
            pattern="FATAL|Traceback",
            writer="lr3e-3_stable",
        ),
    )
    assert cooldown.command[-2:] == ("--load", checkpoint)
    assert cooldown.depends_on == ("lr3e-3_stable",)


def test_the_report_waits_for_every_evaluation_and_for_a_person() -> None:
    report = job(planned("exp"), "report")
    places = [f"{PLACE}/outputs/exp/lr{lr}_evaluate" for lr in ("1e-3", "3e-3", "5e-3")]
    results = tuple(f"{place}/results.json" for place in places)
    summaries = tuple(f"{place}/summary.txt" for place in places)
    evaluations = ("lr1e-3_evaluate", "lr3e-3_evaluate", "lr5e-3_evaluate")

    assert report.start_conditions == (
        JobStateIs(jobs=evaluations, state="COMPLETED", timeout_seconds=7200),
        Approval(prompt="Write the report from these results?", show_files=summaries),
    )
    assert report.command[3:8] == ("report", "--results", *results)
    assert report.depends_on == evaluations


def test_what_the_rules_of_the_default_experiment_say_of_its_jobs() -> None:
    plan = planned("exp", "train_iters=500")
    evaluation = plan.rules_of(job(plan, "lr1e-3_evaluate"))
    totals = {one.stage: one.progress_total for one in plan.jobs}

    assert evaluation.result == ResultSpec(metric="heldout_loss", mode="last")
    assert {plan.rules_of(one).anomalies.flat_share for one in plan.jobs} == {None}
    assert totals == {"stable": 500, "cooldown": 500, "evaluate": None, "report": None}


def test_a_diverging_run_is_told_apart_from_its_healthy_sibling() -> None:
    plan = planned("experiments/diverging")
    ill = job(plan, "lr0.3_stable").command
    well = job(plan, "lr3e-3_stable").command

    assert plan.warnings == ()
    assert ill[ill.index("--clip-grad") + 1] == "0"
    assert well[well.index("--clip-grad") + 1] == "1.0"
    assert plan.monitoring.anomalies.nan == "kill"
    assert job(plan, "lr0.3_cooldown").family == job(plan, "lr0.3_stable").family


def test_a_flaky_run_is_tried_again_at_most_three_times() -> None:
    plan = planned("experiments/flaky")
    rule = plan.monitoring.state_events[0]

    assert plan.warnings == ()
    assert "--crash-at" in job(plan, "lr3e-3_stable").command
    assert "--crash-at" not in job(plan, "lr3e-3_cooldown").command
    assert rule.state == "crash"
    assert rule.actions == (
        Restart(
            reason="crash",
            from_checkpoint=True,
            conditions=(MaxAttempts(max_attempts=3), Cooldown(cooldown_seconds=2)),
        ),
    )


def test_experiments_do_not_share_directories() -> None:
    names = ("diverging", "flaky", "waiting", *STAGES)
    refs = ("exp", *(f"experiments/{name}" for name in names))
    assert len({planned(ref).base_output_dir for ref in refs}) == len(refs)


def kinds_of(conditions: Iterable[Condition]) -> Iterator[type]:
    for one in conditions:
        yield type(one)
        if isinstance(one, Composite):
            yield from kinds_of(one.conditions)
        elif isinstance(one, Not):
            yield from kinds_of((one.condition,))


def test_there_is_an_example_of_each_start_condition() -> None:
    plan = planned("experiments/waiting")
    kinds = {kind for job in plan.jobs for kind in kinds_of(job.start_conditions)}

    assert plan.warnings == ()
    assert kinds == {*Condition.kinds.values()} - {MaxAttempts, Cooldown}


@pytest.mark.slow
def test_what_the_examples_wait_for_comes_about(tmp_path: Path) -> None:
    words = ("--config-ref", "experiments/waiting", "--approve=all", "--json")
    run = run_command(tmp_path, "run", *words)
    assert run.returncode == 0, run.stderr
    jobs = result_of(run.stdout).values()
    assert [job["state"] for job in jobs] == ["COMPLETED"] * 13


def test_the_cluster_template_takes_a_partition_or_leaves_it_to_the_cluster() -> None:
    plan = planned("exp", "slurm=generic", "slurm.sbatch.partition=gpu")
    without = planned("exp", "slurm=generic")

    assert plan.executor.class_name == "SlurmClient"
    assert plan.jobs[0].resources.time_limit_seconds == 3600
    assert plan.jobs[0].resources.options["partition"] == "gpu"
    assert "partition" not in without.jobs[0].resources.options


@pytest.mark.parametrize(
    ("overrides", "command"),
    [
        (["backend=noop"], ("true",)),
        (["backend=bash", "backend.script='echo ${lr}'"], ("bash", "-c", "echo 0.001")),
        (["backend=command", "backend.command=[a,'${lr}']"], ("a", "0.001")),
        (
            ["backend=python", "backend.script=t.py", "backend.python=py"],
            ("py", "t.py"),
        ),
    ],
)
def test_each_backend_template_makes_its_command(
    overrides: list[str], command: tuple[str, ...]
) -> None:
    plan = planned("exp", "~sweep", "project.name=one", *overrides)

    assert [one.command for one in plan.jobs] == [command]


def test_the_planned_commands_do_what_the_experiment_says(tmp_path: Path) -> None:
    result = run_planning(
        PlanningRequest(
            cwd=str(tmp_path), config_dir=str(find_shipped("config")), overrides=SMALL
        )
    )
    result.raise_errors()
    assert result.plan is not None
    for one in result.plan.jobs:
        Path(one.output_dir).mkdir(parents=True)
        environment = {**os.environ, **one.env, "AUTOEXP_RESUME": "0"}
        subprocess.run(one.command, cwd=one.cwd, env=environment, check=True)
    report = json.loads((tmp_path / "outputs/exp/report/report.json").read_text())

    assert report
    assert (tmp_path / "outputs/exp/report/report.md").is_file()


@pytest.mark.parametrize("example", STAGES)
def test_it_plans_as_documented_and_its_stages_wait_in_their_family(
    example: str,
) -> None:
    plan = planned(f"experiments/{example}")
    assert Counter(job.stage for job in plan.jobs) == STAGES[example]
    assert plan.warnings == ()
    jobs = {job.name: job for job in plan.jobs}
    waits = [(e.before, e.after) for e in plan.edges if e.mode == "waits"]
    assert {(jobs[a].stage, jobs[b].stage) for a, b in waits} == WAITS[example]
    if example in {"linear", "chain"}:
        assert all(jobs[a].family == jobs[b].family for a, b in waits)
    assert f"config/experiments/{example}.yaml" in DOCS.read_text("utf-8")


def test_checkpoints_of_a_cooldown_follow_from_the_last_step() -> None:
    (stable, cooldown) = planned("experiments/linear").jobs[:2]
    assert stable.progress_total == 1500
    loaded = cooldown.command[cooldown.command.index("--load") + 1]
    assert loaded == f"{stable.output_dir}/checkpoints/iter_00001200"
    assert cooldown.command[cooldown.command.index("--decay-iters") + 1] == "300"


def test_each_scale_starts_at_its_own_checkpoint() -> None:
    loads = [
        job.command[job.command.index("--load") + 1].rpartition("/")[2]
        for job in planned("experiments/progressive").jobs
        if job.stage == "decay"
    ]
    assert loads == ["iter_00000480", "iter_00000800", "iter_00001280"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "overrides"),
    [
        ("linear", ["train_iters=50", "save_interval=10"]),
        ("branching", ["train_iters=20", "save_interval=10"]),
        ("ensemble", ["train_iters=20", "save_interval=10"]),
        (
            "push_and_pull",
            [
                *("train_iters=50", "save_interval=10", "cooldown_from=40"),
                "cooldown_checkpoint=iter_00000040",
                "sweep.groups.0.configs.0.backend.args.crash_at=25",
            ],
        ),
    ],
)
def test_it_runs_to_its_end(tmp_path: Path, example: str, overrides: list[str]) -> None:
    configs = ("-C", str(find_shipped("config")))
    place = (*configs, "--config-ref", f"experiments/{example}")
    run = run_command(tmp_path, "run", "--json", *place, "warmup_iters=5", *overrides)
    assert run.returncode == 0, run.stderr
    jobs = result_of(run.stdout)
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
    assert len(jobs) == len(planned(f"experiments/{example}").jobs)
