"""What an executor offers is known before anything is submitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cli.executors import find_launcher, find_offer, make_executor
from autoexp_tui.executors.local import executor as local
from autoexp_tui.model.specs import ExecutorSpec, Plan
from autoexp_tui.storage.session_dir import SessionDir
from tests.support.campaigns import plan_of, planned


def plan(
    class_name: str = "LocalClient", parallel: int = 0, **settings: int | str
) -> Plan:
    executor = ExecutorSpec(
        class_name=class_name, max_parallel=parallel, settings=settings
    )
    return replace(plan_of(planned(4)), executor=executor)


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")


def test_this_machine_offers_its_slots_and_gpus_within_the_plan_s_own_limit() -> None:
    assert find_offer(plan(slots=5)) == (5, 2)
    assert find_offer(plan())[0] == local.count_cpus()
    assert find_offer(plan(parallel=3, slots=5))[0] == 3
    assert find_offer(plan(parallel=9, slots=5))[0] == 5


def test_the_directory_of_the_slots_is_the_one_that_the_plan_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = make_executor(plan(slots_dir="seats"), SessionDir(tmp_path / "k7f2"))
    assert isinstance(made, local.LocalExecutor)
    assert made._settings.slots_dir == tmp_path / "seats"


def test_of_a_cluster_only_the_plan_s_limit_is_known() -> None:
    assert find_offer(plan("SlurmClient", parallel=7)) == (7, None)


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
    assert find_launcher(plan(launcher_cmd=launcher, srun_opts=options)) == words
