"""A cluster is asked once for each different set of resources, and told plainly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.check import check_cluster
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.model.specs import JobSpec, Plan, Resources, Scalar
from tests.executors.slurm_scripted import CONFIG, Answer, ScriptedCommands, says
from tests.model.builders import job, plan

WOULD = (
    "sbatch: Job 11 to start at 2026-11-20T18:50:49 using 1 processors on nodes n1 in "
    "partition main\n"
)


def asking(name: str, **options: Scalar) -> JobSpec:
    return replace(job(name), resources=Resources(options=options))


def cluster(sbatch: Answer) -> ScriptedCommands:
    return ScriptedCommands({"scontrol": says(CONFIG), "sbatch": sbatch})


def submitted(commands: ScriptedCommands) -> list[tuple[str, ...]]:
    return [words for words in commands.ran if words[0] == "sbatch"]


def test_jobs_that_ask_for_the_same_are_one_question() -> None:
    commands = cluster(says(stderr=WOULD))
    jobs = [asking("a", mem="1G"), asking("b", mem="2G"), asking("c", mem="1G")]
    found = check_cluster(plan(*jobs), commands)
    assert [one.jobs for one in found.checks] == [("a", "c"), ("b",)]
    sent = submitted(commands)
    assert len(sent) == 2
    assert all("--test-only" in words for words in sent)


def test_where_and_when_it_would_start_is_read() -> None:
    (one,) = check_cluster(plan(asking("a")), cluster(says(stderr=WOULD))).checks
    assert (one.verdict, one.nodes, one.partition) == ("taken", "n1", "main")
    assert one.starts_at is not None
    local = time.localtime(one.starts_at)
    assert time.strftime("%Y-%m-%dT%H:%M:%S", local) == "2026-11-20T18:50:49"


@pytest.mark.parametrize(
    ("answer", "verdict", "where"),
    [
        (says(), "taken", None),
        (
            says(stderr="sbatch: error: AssocMaxSubmitJobLimit\n", status=1),
            "not now",
            None,
        ),
        (
            says(stderr="sbatch: error: invalid partition specified: x\n", status=1),
            "refused",
            "slurm.sbatch.partition",
        ),
    ],
)
def test_a_refusal_names_its_option(
    answer: Ran, verdict: str, where: str | None
) -> None:
    found = check_cluster(plan(asking("a", partition="x")), cluster(answer))
    (one,) = found.checks
    assert (one.verdict, one.refused and one.refused.where) == (verdict, where)
    assert found.any_refused is (verdict == "refused")
    assert one.starts_at is None


def test_the_template_s_own_lines_are_asked_about_too(tmp_path: Path) -> None:
    template = tmp_path / "job.sh"
    template.write_text("#!/bin/bash\n#SBATCH --mem=9T\nexec {command}\n")
    seen: list[str] = []

    def sbatch(words: Sequence[str]) -> Ran:
        seen.append(Path(words[-1]).read_text())
        return says(stderr=WOULD)

    check_cluster(with_template(str(template)), cluster(sbatch))
    assert seen == ["#!/bin/bash\n#SBATCH --mem=9T\nexec true\n"]


def with_template(path: str) -> Plan:
    made = plan(asking("a"))
    settings = {"template_path": path}
    return replace(made, executor=replace(made.executor, settings=settings))


def test_a_template_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match="cannot read /nope"):
        check_cluster(with_template("/nope"), cluster(says(stderr=WOULD)))


@pytest.mark.parametrize(
    ("scontrol", "told"),
    [
        (says(status=None), "scontrol did not answer within 30 s"),
        (
            says(stderr="scontrol: fatal: Could not establish a configuration source"
                 "\n", status=1),
            "no cluster is set up on this machine",
        ),
        (
            Ran(arguments=("?",), status=None, missing="scontrol is not on PATH: x"),
            "scontrol is not on PATH",
        ),
    ],
)  # fmt: skip
def test_without_a_cluster_the_next_step_is_told(scontrol: Ran, told: str) -> None:
    commands = ScriptedCommands({"scontrol": scontrol, "sbatch": says()})
    with pytest.raises(EnvironmentFailed, match=told) as caught:
        check_cluster(plan(asking("a")), commands)
    assert caught.value.hint
    assert commands.calls["sbatch"] == 0


def test_a_controller_that_goes_away_in_between_is_no_refusal() -> None:
    away = says(stderr="sbatch: error: Unable to contact slurm controller\n", status=1)
    with pytest.raises(EnvironmentFailed, match="Unable to contact"):
        check_cluster(plan(asking("a")), cluster(away))
