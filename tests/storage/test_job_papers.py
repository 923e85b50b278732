"""How a job was made, read back from what planning kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from autoexp_tui.executors.job_details import build_script, read_job_details
from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan, Resources
from autoexp_tui.storage.provenance import (
    GitState,
    MadeFrom,
    ProvenanceRecord,
    RecordBuilder,
    save_record,
    write_provenance,
)
from tests.planning.plans import job, plan


def keep(made: Plan, place: Path, resolved: Any, written: Any) -> Path:
    """The record of the plan's one job."""
    builder = RecordBuilder()
    builder.add(0, resolved, written)
    return save_record(place, made.plan_id, builder.record(made.jobs, GitState()))


def read(made: Plan, spec: JobSpec) -> list[tuple[str, str, str, str]]:
    found = read_job_details(made, spec).entries
    return [(one.key, one.value, one.origin, one.written) for one in found]


def test_the_config_of_a_job_is_its_own_record_s_or_that_of_the_plan(
    tmp_path: Path,
) -> None:
    spec = job("a", parameters={"optim.lr": 1e-3})
    made = plan([spec], state_dir=str(tmp_path / "state"))
    resolved = {"optim": {"lr": 1e-3}, "train": {"iters": 800}}
    written = {"optim": {"lr": 1e-3}, "train": {"iters": "${oc.eval:8*100}"}}
    keep(made, tmp_path / "state", resolved, written)
    assert [entry[:3] for entry in read(made, spec)] == [
        ("optim.lr", "0.001", "swept"),
        ("train.iters", "800", "computed"),
    ]
    other = {"optim": {"lr": 2e-3}}
    changed = replace(
        spec,
        parameters={"optim.lr": 2e-3},
        planned={"optim.lr": 1e-3},
        config_record=str(keep(made, tmp_path / "other", other, other)),
    )
    assert read(made, changed) == [("optim.lr", "0.002", "changed", "planned: 0.001")]


def test_without_a_record_it_is_what_lies_beside_the_results(tmp_path: Path) -> None:
    spec = job("a", output_dir=str(tmp_path / "a"))
    made = plan([spec], state_dir=str(tmp_path))
    assert "was not kept" in read_job_details(made, spec).missing
    place = tmp_path / "a" / "provenance"
    place.mkdir(parents=True)
    (place / "resolved_config.yaml").write_text("seed: 3\n")
    assert [entry[0] for entry in read(made, spec)] == ["seed"]


def test_a_job_without_a_config_shows_what_it_was_made_from(tmp_path: Path) -> None:
    spec = job("a", output_dir=str(tmp_path / "a"))
    made = MadeFrom(asked_by="evaluation e12", commit="c1")
    by_hand = plan([spec], state_dir=str(tmp_path), config_ref="")
    write_provenance(by_hand, spec, ProvenanceRecord(made_from=made))
    assert read(by_hand, spec) == [
        ("config", "none: the session made it of its command", "given", ""),
        ("asked_by", "evaluation e12", "given", ""),
        ("commit", "c1", "given", ""),
    ]


def test_a_job_s_script_holds_its_command_an_option_a_line_and_its_template() -> None:
    spec = job("a", command=("python", "train.py", "--lr", "1e-3", "--name=a b"))
    told = [
        "# in the session's directory",
        "python \\",
        "  train.py \\",
        "  --lr 1e-3 \\",
        "  '--name=a b'",
    ]
    assert list(build_script(plan([spec]), spec)) == told
    options = Resources(gpus=4, options={"partition": "gpu"})
    made = plan([spec], executor=ExecutorSpec(class_name="SlurmClient"))
    lines = list(build_script(made, replace(spec, resources=options)))
    assert "# sbatch: --partition=gpu" in lines
    assert "exec python train.py --lr 1e-3 '--name=a b'" in lines
    settings = {"template_path": "/nowhere/job.sbatch"}
    made = plan([spec], executor=ExecutorSpec(class_name="Slurm", settings=settings))
    lines = list(build_script(made, spec))
    assert any("cannot read /nowhere/job.sbatch" in text for text in lines)
    assert lines[-4:] == told[1:]  # the command stays
