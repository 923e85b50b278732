"""What an engine is built with, and what its machine or cluster offers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.assemble import resume_session, start_session
from autoexp_tui.cli.doctor import examine_slurm
from autoexp_tui.cli.executors import (
    find_beside_parallel,
    find_launcher,
    find_offer,
    make_executor,
)
from autoexp_tui.cli.options import Options
from autoexp_tui.cli.plan import check_json, format_check, show_check
from autoexp_tui.config.planning import PlanningAnswer
from autoexp_tui.engine.loop import Engine
from autoexp_tui.executors.local import executor as local
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.executors.slurm.refusals import Checked, ClusterCheck, parse_refusal
from autoexp_tui.executors.slurm.text import ClusterFacts
from autoexp_tui.model.commands import Order, StopEngine
from autoexp_tui.model.specs import ExecutorSpec, Plan
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.output_dir_lock import Owner, take_ownership
from autoexp_tui.storage.session_dir import SessionDir
from tests.executors.slurm_scripted import CONFIG, ScriptedCommands, says
from tests.model.builders import job, plan

Say = Callable[..., tuple[int, str, str]]


def planned(root: Path) -> Plan:
    """One job, whose engine may be still for long."""
    out, state = str(root / "out" / "a"), str(root / "state")
    made = plan(job("a", fingerprint="f1", output_dir=out), state_dir=state)
    rules = replace(made.monitoring, lock_stale_seconds=1234.0)
    return decode_plan(encode_plan(replace(made, monitoring=rules)))


SEARCH = {
    "repository": "dry_run",
    "lock_stale_seconds": 120.0,
    "ideas": {"agent": ["a"]},
    "implement": {"agent": ["a"]},
    "evaluate": {"command": ["true"]},
}


def stop(engine: Engine, command_id: str) -> None:
    engine.order(Order(command_id=command_id, command=StopEngine()))
    engine.run()


def test_what_other_work_left_does_not_count_nor_any_by_force_and_a_lease_is_as_set(
    tmp_path: Path,
) -> None:
    for at, (fingerprint, force, foreign) in enumerate(
        [("f2", False, True), ("f1", False, False), ("f1", True, True)]
    ):
        root = tmp_path / str(at)
        left = Owner(session="old", state_dir="s", job="a", fingerprint=fingerprint)
        take_ownership(root / "out" / "a", left)
        options = Options(state_dir=str(root / "state"), force=force)
        engine = start_session(planned(root), lambda _: None, options)
        stop(engine, "first")
        assert engine.state.jobs["a"].foreign_files is foreign
    (manifest,) = (root / "state").glob("*/plan.json")
    session = SessionDir(manifest.parent)
    stop(resume_session(session, lambda _: None, Options()), "second")
    holder = LeaseWatch(session).find_holder()
    assert holder is not None
    assert (holder.epoch, holder.stale_seconds) == (2, 1234.0)
    found = replace(planned(tmp_path / "s"), tree=SEARCH)
    own = start_session(found, lambda _: None, Options(state_dir=str(tmp_path / "t")))
    stop(own, "third")
    (manifest,) = (tmp_path / "t").glob("*/plan.json")
    holder = LeaseWatch(SessionDir(manifest.parent)).find_holder()
    assert holder is not None
    assert holder.stale_seconds == 120.0


def with_executor(
    class_name: str = "LocalClient", parallel: int = 0, **settings: int | str
) -> Plan:
    spec = ExecutorSpec(class_name=class_name, max_parallel=parallel, settings=settings)
    return plan(job("a"), executor=spec)


def test_a_machine_offers_slots_and_gpus_within_the_plan_s_limit_a_cluster_that_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    assert find_offer(with_executor(slots=5)) == (5, 2)
    assert find_offer(with_executor())[0] == local.count_cpus()
    assert find_offer(with_executor(parallel=3, slots=5))[0] == 3
    assert find_offer(with_executor(parallel=9, slots=5))[0] == 5
    assert find_offer(with_executor("SlurmClient", parallel=7)) == (7, None)
    monkeypatch.chdir(tmp_path)
    seats = with_executor(slots_dir="seats")
    made = make_executor(seats, SessionDir(tmp_path / "k7f2"))
    assert isinstance(made, local.LocalExecutor)
    assert made._settings.slots_dir == tmp_path / "seats"
    assert find_beside_parallel(with_executor()) == local.count_cpus()
    assert find_beside_parallel(with_executor("SlurmClient", beside_parallel=3)) == 3


@pytest.mark.parametrize(
    ("launcher", "options", "words"),
    [
        ("", "", ()),
        ("", "--mpi=none", ("srun", "--mpi=none")),
        ("srun -v", "--mpi=none", ("srun", "--mpi=none", "-v")),
        ("/slurm/bin/srun", "--mpi=none", ("/slurm/bin/srun", "--mpi=none")),
        ("box exec", "--mpi=none", ("srun", "--mpi=none", "box", "exec")),
        ("box 'a b'", "", ("box", "a b")),
    ],
)
def test_options_go_to_the_srun_that_is_there_or_bring_one(
    launcher: str, options: str, words: tuple[str, ...]
) -> None:
    made = with_executor(launcher_cmd=launcher, srun_opts=options)
    assert find_launcher(made) == words


NOW = 1_800_000_000.0
NO_PARTITION = "invalid partition specified: nope"
SENT = "sbatch --test-only job.sh"
TAKEN = Checked(
    jobs=("a", "b"),
    options={"partition": "gpu", "gpus": 4, "time": "02:00:00"},
    verdict="taken",
    sent=SENT,
    said="Job 1 to start at ...",
    starts_at=NOW + 7200,
    nodes="n1",
    partition="gpu",
)
REFUSED = Checked(
    jobs=tuple("cdefg"),
    options={"partition": "nope"},
    verdict="refused",
    sent=SENT,
    said=NO_PARTITION,
    refused=parse_refusal(NO_PARTITION, {"partition": "nope"}),
)


def answered(*checks: Checked) -> ClusterCheck:
    facts = ClusterFacts(cluster="elwe", version="23.11.4")
    return ClusterCheck(facts=facts, checks=checks)


def test_what_a_cluster_would_take_and_refuse_is_told_with_the_next_step() -> None:
    text = format_check(answered(TAKEN, REFUSED), NOW)
    assert "elwe, Slurm 23.11.4" in text
    assert "✓ 2 jobs    would start expected " in text
    assert "on n1 in gpu   (partition gpu, gpus 4, time 02:00:00)" in text
    assert text.splitlines()[2:] == [
        "  ✗ 5 jobs    would be refused: c, d, e and 2 more",
        "      there is no partition `nope` (slurm.sbatch.partition). Slurm said: "
        "invalid partition specified: nope. `sinfo -o %R` lists them",
    ]
    (one,) = json.loads(json.dumps(check_json(answered(REFUSED))))["checks"]
    assert one["jobs"] == list("cdefg")
    assert one["refused"]["where"] == "slurm.sbatch.partition"


def test_the_exit_code_says_whether_a_cluster_would_refuse_something(
    monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    asked = "autoexp_tui.executors.slurm.refusals.check_cluster"
    for check, kind, code, said in (
        (TAKEN, "SlurmClient", 0, '"name": "elwe"'),
        (REFUSED, "SlurmClient", 3, '"name": "elwe"'),
        (TAKEN, "LocalClient", 2, "slurm=generic"),
    ):
        monkeypatch.setattr(asked, lambda *_, check=check: answered(check))
        made = PlanningAnswer(plan=with_executor(kind))
        shown = say(
            lambda _, made=made: show_check(made, made.plan, Options(json=True))
        )
        assert (shown[0], said in shown[1] + shown[2]) == (code, True)


COMMANDS = {"sbatch", "squeue", "scancel", "scontrol", "sacct"}
NO_CLUSTER = "scontrol: fatal: Could not establish a configuration source\n"
BARE = CONFIG.replace("accounting_storage/slurmdbd", "accounting_storage/none")
REFUSED_SACCT = says(stderr="sacct: error: Connection refused\n", status=1)


@pytest.mark.parametrize(
    ("programs", "config", "sacct", "what", "grade", "said"),
    [
        (COMMANDS, says(CONFIG), says(), "slurm", "ok", "of elwe answers, 23.11.4"),
        (COMMANDS, says(CONFIG), says(), "arrays", "ok", "up to 1000 jobs an array"),
        (COMMANDS, says(CONFIG), says(), "accounting", "ok", "sacct answers"),
        (COMMANDS, says(CONFIG), says(), "shared state", "hint", "srun -N1"),
        (COMMANDS - {"scancel"}, says(CONFIG), says(), "scancel", "missing", "PATH"),
        (set(), says(CONFIG), says(), "slurm", "hint", "no sbatch"),
        (COMMANDS, says(stderr=NO_CLUSTER, status=1), says(), "slurm", "hint", "_CONF"),
        (
            COMMANDS,
            says(status=None),
            says(),
            "slurm",
            "hint",
            "not answer within 10 s",
        ),
        (COMMANDS, says(BARE), says(), "accounting", "hint", "by their own records"),
        (
            *(COMMANDS, says(BARE.replace("300", "5")), says(), "MinJobAge"),
            *("hint", "MinJobAge=60"),
        ),
        (COMMANDS, says(CONFIG), REFUSED_SACCT, "accounting", "hint", "Connection ref"),
    ],
)
def test_the_doctor_tells_what_of_a_cluster_is_there_and_what_mends_the_rest(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: set[str],
    config: Ran,
    sacct: Ran,
    what: str,
    grade: str,
    said: str,
) -> None:
    monkeypatch.setattr(shutil, "which", {name: name for name in programs}.get)
    commands = ScriptedCommands({"scontrol": config, "sacct": sacct})
    found = {one.what: one for one in examine_slurm(tmp_path, commands)}
    assert found[what].grade == grade
    assert said in found[what].format()
    if found["slurm"].grade != "ok" or what == "scancel":
        return
    assert "missing" not in {one.grade for one in found.values()}
