"""The worked examples of sweeps that are shipped: each plans, and they really run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.config.planning_messages import PlanningRequest
from autoexp_tui.model.specs import Plan
from autoexp_tui.probes.config_files import find_shipped
from tests.e2e.campaign import result_of, run_command

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


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


@cache
def planned(example: str) -> Plan:
    """The plan of an example; nothing is written."""
    request = PlanningRequest(config_ref=f"experiments/{example}", cwd="/some/where")
    answer = answer_request(request)
    assert answer.errors == ()
    assert answer.plan is not None
    return answer.plan


@pytest.mark.parametrize("example", STAGES)
def test_it_plans_as_documented_and_its_stages_wait_in_their_family(
    example: str,
) -> None:
    plan = planned(example)
    assert Counter(job.stage for job in plan.jobs) == STAGES[example]
    assert plan.warnings == ()
    jobs = {job.name: job for job in plan.jobs}
    waits = [(e.before, e.after) for e in plan.edges if e.mode == "waits"]
    assert {(jobs[a].stage, jobs[b].stage) for a, b in waits} == WAITS[example]
    if example in {"linear", "chain"}:
        assert all(jobs[a].family == jobs[b].family for a, b in waits)
    assert f"config/experiments/{example}.yaml" in DOCS.read_text("utf-8")


def test_no_two_examples_share_a_directory() -> None:
    assert len({planned(example).base_output_dir for example in STAGES}) == len(STAGES)


def test_checkpoints_of_a_cooldown_follow_from_the_last_step() -> None:
    (stable, cooldown) = planned("linear").jobs[:2]
    assert stable.progress_total == 1500
    loaded = cooldown.command[cooldown.command.index("--load") + 1]
    assert loaded == f"{stable.output_dir}/checkpoints/iter_00001200"
    assert cooldown.command[cooldown.command.index("--decay-iters") + 1] == "300"


def test_each_scale_starts_at_its_own_checkpoint() -> None:
    loads = [
        job.command[job.command.index("--load") + 1].rpartition("/")[2]
        for job in planned("progressive").jobs
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
    place = (
        "-C",
        str(find_shipped("config")),
        "--config-ref",
        f"experiments/{example}",
    )
    run = run_command(tmp_path, "run", "--json", *place, "warmup_iters=5", *overrides)
    assert run.returncode == 0, run.stderr
    jobs = result_of(run.stdout)
    assert {job["state"] for job in jobs.values()} == {"COMPLETED"}
    assert len(jobs) == len(planned(example).jobs)
