"""The throw-away cluster leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from tests.e2e.campaign import wait_until
from tests.slurm.cluster import Cluster
from tests.slurm.daemons import KEEPER, ClusterError, recorded
from tests.slurm.processes import Process, process_of
from tests.slurm.settings import Settings, why_no_memory_limits

pytestmark = pytest.mark.slurm

HERE = Path(__file__).parent
SMALL = Settings(nodes=1, accounting=False)


def process_in(file: Path) -> Process:
    """The process that wrote its pid into `file`."""
    wait_until(lambda: file.exists() and file.read_text().strip())
    process = process_of(int(file.read_text()))
    assert process is not None
    return process


def test_a_cluster_that_is_down_has_left_nothing(tmp_path: Path) -> None:
    with Cluster(SMALL) as own:
        # A child that leaves its job's session is found all the same.
        own.submit(f"setsid sh -c 'echo $$ > {tmp_path}/pid; sleep 600' & sleep 600")
        processes = [process_in(tmp_path / "pid"), *recorded(own.home).values()]
    assert not any(process.is_alive() for process in processes)
    assert not own.home.exists()


def test_a_cluster_ends_with_the_killed_process_that_owns_it(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.slurm.cluster import Cluster, Settings;"
        "c = Cluster(Settings(nodes=1, accounting=False)); c.up();"
        f"c.submit('echo $$ > {tmp_path}/pid; sleep 600');"
        "print(c.home, flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code]
    with Popen(argv, cwd=HERE.parents[1], stdin=PIPE, stdout=PIPE, text=True) as owner:
        assert owner.stdout is not None
        home = Path(owner.stdout.readline().strip())
        processes = [*recorded(home).values(), process_in(tmp_path / "pid")]
        owner.kill()
    assert len(processes) == 5
    assert all(process.ends_within(10.0) for process in processes)
    wait_until(lambda: not home.exists())


def test_a_cluster_takes_its_cgroups_with_it() -> None:
    if reason := why_no_memory_limits():
        pytest.skip(reason)
    name = f"t{os.getpid()}x"
    limited = Settings(nodes=1, node_prefix=name, accounting=False, memory_limits=True)
    cgroup = Path(f"/sys/fs/cgroup/memory/slurm_{name}1")
    with Cluster(limited) as own:
        own.submit("sleep 600")
        wait_until(cgroup.exists)
        recorded(own.home)[KEEPER].send(signal.SIGTERM)
        wait_until(lambda: not cgroup.exists())


def test_daemons_end_with_a_killed_keeper(tmp_path: Path) -> None:
    with Cluster(SMALL) as own:
        own.submit(f"echo $$ > {tmp_path}/pid; sleep 600")
        job = process_in(tmp_path / "pid")
        processes = recorded(own.home)
        processes[KEEPER].send(signal.SIGKILL)
        assert all(process.ends_within(10.0) for process in processes.values())
    assert not job.is_alive()


def test_a_cluster_is_not_made_over_other_files() -> None:
    with pytest.raises(ClusterError, match="files that are no cluster's"):
        Cluster(SMALL, HERE).up()
    assert (HERE / "cluster.py").exists()
