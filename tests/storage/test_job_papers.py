"""How a job was made, read back from what planning kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoexp_tui.executors.job_details import PaperReader, build_script
from autoexp_tui.model.specs import ExecutorSpec, Plan, Resources
from autoexp_tui.storage.provenance import GitState, RecordBuilder, save_record
from tests.planning.plans import job, plan

RESOLVED = {"optim": {"lr": 1e-3}, "train": {"iters": 800}}
WRITTEN = {"optim": {"lr": 1e-3}, "train": {"iters": "${oc.eval:8*100}"}}


def kept(tmp_path: Path) -> Plan:
    """A plan of one job, with the record of how it was made."""
    made = plan(
        [job("a", parameters={"optim.lr": 1e-3})], state_dir=str(tmp_path / "state")
    )
    builder = RecordBuilder()
    builder.add(0, RESOLVED, WRITTEN)
    save_record(
        Path(made.state_dir), made.plan_id, builder.record(made.jobs, GitState())
    )
    return made


def test_the_config_of_a_plan_is_read_from_its_record(tmp_path: Path) -> None:
    made = kept(tmp_path)
    found = PaperReader()(made, made.jobs[0]).entries
    assert [(one.key, one.value, one.origin) for one in found] == [
        ("optim.lr", "0.001", "swept"),
        ("train.iters", "800", "computed"),
    ]


def test_the_config_of_a_job_with_other_values_is_its_own(tmp_path: Path) -> None:
    made = kept(tmp_path)
    builder = RecordBuilder()
    builder.add(0, {"optim": {"lr": 2e-3}}, {"optim": {"lr": 2e-3}})
    record = builder.record(made.jobs, GitState())
    path = save_record(tmp_path / "other", "x", record)
    reader, spec = PaperReader(), made.jobs[0]
    assert reader(made, spec).entries[0].value == "0.001"
    changed = replace(
        spec,
        parameters={"optim.lr": 2e-3},
        planned={"optim.lr": 1e-3},
        config_record=str(path),
    )
    (entry,) = reader(made, changed).entries
    assert (entry.value, entry.origin) == ("0.002", "changed")
    assert entry.written == "planned: 0.001"


def test_a_job_that_ran_has_its_config_beside_its_results(tmp_path: Path) -> None:
    place = tmp_path / "a" / "provenance"
    place.mkdir(parents=True)
    (place / "resolved_config.yaml").write_text("seed: 3\n")
    made = plan([job("a", output_dir=str(tmp_path / "a"))], state_dir=str(tmp_path))
    assert PaperReader()(made, made.jobs[0]).entries[0].key == "seed"


def test_a_plan_that_came_without_its_record_says_so(tmp_path: Path) -> None:
    made = plan([job("a", output_dir=str(tmp_path / "a"))], state_dir=str(tmp_path))
    assert "was not kept" in PaperReader()(made, made.jobs[0]).missing


def test_a_command_stands_an_option_a_line() -> None:
    spec = job("a", command=("python", "train.py", "--lr", "1e-3", "--name=a b"))
    assert list(build_script(plan([spec]), spec)) == [
        "# in the session's directory",
        "python \\",
        "  train.py \\",
        "  --lr 1e-3 \\",
        "  '--name=a b'",
    ]


def test_a_cluster_s_script_holds_the_command_and_its_options() -> None:
    spec = job(
        "a",
        command=("python", "train.py"),
        resources=Resources(gpus=4, options={"partition": "gpu"}),
    )
    made = plan([spec], executor=ExecutorSpec(class_name="SlurmClient"))
    lines = list(build_script(made, spec))
    assert "# sbatch: --partition=gpu" in lines
    assert "exec python train.py" in lines


def test_a_template_that_is_gone_is_told_and_the_command_stays() -> None:
    spec = job("a", command=("python", "train.py"))
    settings = {"template_path": "/nowhere/job.sbatch"}
    made = plan([spec], executor=ExecutorSpec(class_name="Slurm", settings=settings))
    lines = list(build_script(made, spec))
    assert any("cannot read /nowhere/job.sbatch" in text for text in lines)
    assert lines[-1] == "  train.py"
