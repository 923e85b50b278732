"""The throw-away cluster starts again what fails, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.daemons import ClusterError, Daemons
from tests.slurm.keeper import KEEPER, recorded
from tests.slurm.processes import Process, process_of
from tests.slurm.programs import why_no_memory_limits
from tests.slurm.settings import Settings

pytestmark = pytest.mark.slurm

HERE = Path(__file__).parent


def until(is_so: Callable[[], object], patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def process_in(file: Path) -> Process:
    """The process that wrote its pid into `file`."""
    until(lambda: file.exists() and file.read_text().strip())
    process = process_of(int(file.read_text()))
    assert process is not None
    return process


def test_a_start_of_accounting_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, failing = Daemons.start, ["false"]

    def fails_once(
        daemons: Daemons, name: str, argv: list[str], env: Mapping[str, str]
    ) -> None:
        first = name == "slurmdbd" and failing
        start(daemons, name, [failing.pop()] if first else argv, env)

    monkeypatch.setattr(Daemons, "start", fails_once)
    with Cluster(Settings(nodes=1, gpus=0)) as cluster:
        assert cluster.run("sacct", "-X", "-n", check=False).returncode == 0
    assert not failing


def test_a_job_that_ignores_sigterm_is_cleared_at_once(bare_cluster: Cluster) -> None:
    job = bare_cluster.submit("trap '' TERM; while :; do sleep 1; done")
    bare_cluster.wait_for_state(job, "RUNNING")
    bare_cluster.run("scancel", job)
    began = time.monotonic()
    bare_cluster.clear()
    assert time.monotonic() - began < bare_cluster.settings.kill_wait_s - 2


def test_the_caller_s_own_settings_of_slurm_are_not_heard(
    bare_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_CONF", "SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_FORMAT"):
        monkeypatch.setenv(name, "/nowhere")
    left = {name for name, value in bare_cluster.env.items() if value == "/nowhere"}
    assert left == set()


def small() -> Settings:
    return Settings(nodes=1, accounting=False)


def test_a_cluster_that_is_down_has_left_nothing(tmp_path: Path) -> None:
    with Cluster(small()) as own:
        # A child that leaves its job's session is found all the same.
        own.submit(f"setsid sh -c 'echo $$ > {tmp_path}/pid; sleep 600' & sleep 600")
        job = process_in(tmp_path / "pid")
        processes = [*recorded(own.home).values(), job]
    assert [p for p in processes if p.is_alive()] == []
    assert not own.home.exists()


def test_a_cluster_ends_with_the_killed_process_that_owns_it(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.slurm.cluster import Cluster, Settings;"
        "c = Cluster(Settings(nodes=1, accounting=False)); c.up();"
        f"c.submit('echo $$ > {tmp_path}/pid; sleep 600');"
        "print(c.home, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=HERE.parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        home = Path(owner.stdout.readline().strip())
        processes = [*recorded(home).values(), process_in(tmp_path / "pid")]
        owner.send_signal(signal.SIGKILL)
    assert len(processes) == 5
    assert all(process.ends_within(10.0) for process in processes)
    until(lambda: not home.exists())


def test_a_cluster_takes_its_cgroups_with_it() -> None:
    if reason := why_no_memory_limits():
        pytest.skip(reason)
    prefix = f"t{os.getpid()}x"
    settings = Settings(
        nodes=1, node_prefix=prefix, accounting=False, memory_limits=True
    )
    cgroup = Path(f"/sys/fs/cgroup/memory/slurm_{prefix}1")
    with Cluster(settings) as own:
        own.submit("sleep 600")
        until(cgroup.exists)
        recorded(own.home)[KEEPER].send(signal.SIGTERM)
        until(lambda: not cgroup.exists())


def test_daemons_end_with_a_killed_keeper(tmp_path: Path) -> None:
    with Cluster(small()) as own:
        own.submit(f"echo $$ > {tmp_path}/pid; sleep 600")
        job = process_in(tmp_path / "pid")
        processes = recorded(own.home)
        processes[KEEPER].send(signal.SIGKILL)
        assert all(process.ends_within(10.0) for process in processes.values())
    assert not job.is_alive()


def test_a_cluster_is_not_made_over_other_files() -> None:
    with pytest.raises(ClusterError, match="files that are no cluster's"):
        Cluster(small(), HERE).up()
    assert (HERE / "cluster.py").exists()
