"""autoexp-plan --check-cluster: what a cluster says of a plan, and the exit code."""

from __future__ import annotations

import json

import pytest

from autoexp_tui.cli import plan as command
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.plan import check_json, format_check
from autoexp_tui.config.planning import PlanningAnswer
from autoexp_tui.executors.slurm.check import Checked, ClusterCheck
from autoexp_tui.executors.slurm.refusals import parse_refusal
from autoexp_tui.executors.slurm.text import ClusterFacts
from autoexp_tui.model.specs import ExecutorSpec
from tests.model.builders import job, plan

NOW = 1_800_000_000.0
FACTS = ClusterFacts(cluster="elwe", version="23.11.4")
TAKEN = Checked(
    jobs=("a", "b"),
    options={"partition": "gpu", "gpus": 4, "time": "02:00:00"},
    verdict="taken",
    sent="sbatch --test-only job.sh",
    said="Job 1 to start at ...",
    starts_at=NOW + 7200,
    nodes="n1",
    partition="gpu",
)
REFUSED = Checked(
    jobs=tuple("cdefg"),
    options={"partition": "nope"},
    verdict="refused",
    sent="sbatch --test-only job.sh",
    said="invalid partition specified: nope",
    refused=parse_refusal("invalid partition specified: nope", {"partition": "nope"}),
)


def answered(*checks: Checked) -> ClusterCheck:
    return ClusterCheck(facts=FACTS, checks=checks)


def test_what_would_be_taken_says_when_and_where_it_starts() -> None:
    text = format_check(answered(TAKEN), NOW)
    assert "elwe, Slurm 23.11.4" in text
    assert "✓ 2 jobs    would start expected " in text
    assert "on n1 in gpu   (partition gpu, gpus 4, time 02:00:00)" in text


def test_what_would_be_refused_names_jobs_option_reason_and_next_step() -> None:
    lines = format_check(answered(TAKEN, REFUSED), NOW).splitlines()[2:]
    assert lines == [
        "  ✗ 5 jobs    would be refused: c, d, e and 2 more",
        "      slurm.sbatch.partition: there is no partition `nope`",
        "      Slurm said: invalid partition specified: nope",
        "      `sinfo -o %R` lists them.",
    ]


def test_scripts_get_the_same() -> None:
    (one,) = json.loads(json.dumps(check_json(answered(REFUSED))))["checks"]
    assert one["jobs"] == list("cdefg")
    assert one["refused"]["where"] == "slurm.sbatch.partition"


@pytest.mark.parametrize(("check", "code"), [(TAKEN, 0), (REFUSED, 3)])
def test_the_exit_code_says_whether_something_would_be_refused(
    check: Checked,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "autoexp_tui.executors.slurm.check.check_cluster", lambda *_: answered(check)
    )
    made = plan(job("a"), executor=ExecutorSpec(class_name="SlurmClient"))
    result = PlanningAnswer(plan=made)
    assert command.show_check(result, Options(json=True)) == code
    assert json.loads(capsys.readouterr().out)["cluster"]["name"] == "elwe"


def test_a_plan_for_this_machine_has_no_cluster_to_ask(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = plan(job("a"), executor=ExecutorSpec(class_name="LocalClient"))
    code = run_guarded(
        lambda _: command.show_check(PlanningAnswer(plan=made), Options()), []
    )
    assert code == 2
    assert "slurm=generic" in capsys.readouterr().err
