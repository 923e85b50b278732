"""The throw-away cluster is a real one, breaks as asked, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.daemons import ClusterError, Daemons, reserve_ports
from tests.slurm.keeper import KEEPER, recorded
from tests.slurm.processes import Process, process_of
from tests.slurm.programs import host_address, why_no_memory_limits
from tests.slurm.settings import Settings
from tests.slurm.shims import accepts_then_fails, accepts_then_hangs, counted, fails

pytestmark = pytest.mark.slurm

HERE = Path(__file__).parent
EVERYTHING = "--exclusive"
"""A job that takes whole nodes."""


def until(is_so: Callable[[], object], patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def accounted_state(cluster: Cluster, job: str) -> str:
    argv = ("sacct", "-X", "-n", "-P", "-S", "now-1hour", "-j", job, "-o", "State")
    return cluster.run(*argv, check=False).stdout.strip()


def process_in(file: Path) -> Process:
    """The process that wrote its pid into `file`."""
    until(lambda: file.exists() and file.read_text().strip())
    process = process_of(int(file.read_text()))
    assert process is not None
    return process


# -- starting


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


# -- jobs


def test_a_job_runs_to_its_end(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(f"echo done > {tmp_path}/out")
    cluster.wait_for_state(job, "COMPLETED")
    assert (tmp_path / "out").read_text() == "done\n"


def test_accounting_knows_an_ended_job(cluster: Cluster) -> None:
    job = cluster.submit("exit 3")
    until(lambda: accounted_state(cluster, job) == "FAILED")


def test_without_accounting_sacct_says_so(bare_cluster: Cluster) -> None:
    answer = bare_cluster.run("sacct", "-n", check=False)
    assert (answer.returncode, answer.stderr.strip()) == (
        1,
        "Slurm accounting storage is disabled",
    )


def test_jobs_run_on_several_nodes_at_once(bare_cluster: Cluster) -> None:
    bare_cluster.submit("sleep 60", EVERYTHING, "--nodes=4")
    until(
        lambda: bare_cluster.run("squeue", "-h", "-o", "%D %T").stdout == "4 RUNNING\n"
    )


def test_a_job_sees_the_devices_it_asked_for(
    bare_cluster: Cluster, tmp_path: Path
) -> None:
    job = bare_cluster.submit(
        f"echo $CUDA_VISIBLE_DEVICES > {tmp_path}/gpus", "--gres=gpu:2"
    )
    bare_cluster.wait_for_state(job, "COMPLETED")
    assert (tmp_path / "gpus").read_text() == "0,1\n"


def test_a_job_ends_at_its_time_limit(cluster: Cluster) -> None:
    job = cluster.submit("sleep 600", "--time=60")
    cluster.wait_for_state(job, "RUNNING")
    cluster.expire(job)
    cluster.wait_for_state(job, "TIMEOUT")


def test_a_job_above_its_memory_ends_out_of_memory(cgroup_cluster: Cluster) -> None:
    greedy = f'{sys.executable} -c "bytearray(200 << 20)"'
    job = cgroup_cluster.submit(greedy, "--mem=30")
    assert cgroup_cluster.wait_for_state(job, "OUT_OF_MEMORY", "FAILED", "COMPLETED")
    assert cgroup_cluster.state_of(job) == "OUT_OF_MEMORY"


# -- preemption


def test_a_job_of_main_gives_way_and_runs_again(bare_cluster: Cluster) -> None:
    job = bare_cluster.submit("sleep 60", EVERYTHING, "--nodes=4")
    bare_cluster.wait_for_state(job, "RUNNING")
    urgent = bare_cluster.submit("sleep 1", EVERYTHING, "--nodes=4", "-p", "urgent")
    bare_cluster.wait_for_state(job, "PENDING")
    bare_cluster.wait_for_state(urgent, "COMPLETED")
    bare_cluster.wait_for_state(job, "RUNNING")


def test_a_job_of_kill_gives_way_for_good(bare_cluster: Cluster) -> None:
    job = bare_cluster.submit("sleep 60", EVERYTHING, "--nodes=4", "-p", "kill")
    bare_cluster.wait_for_state(job, "RUNNING")
    bare_cluster.submit("true", EVERYTHING, "--nodes=4", "-p", "urgent")
    bare_cluster.wait_for_state(job, "PREEMPTED")


# -- faults


def test_a_lost_node_takes_its_jobs_with_it(cluster: Cluster, tmp_path: Path) -> None:
    command = f"echo $$ > {tmp_path}/pid; sleep 600"
    stays = cluster.submit(command, "-w", "n2", "--no-requeue")
    returns = cluster.submit("sleep 600", "-w", "n2", "--requeue")
    cluster.wait_for_state(returns, "RUNNING")
    process = process_in(tmp_path / "pid")
    cluster.node_stop("n2", with_steps=True)
    assert process.ends_within(5.0)
    cluster.wait_for_state(stays, "NODE_FAIL")
    cluster.wait_for_state(returns, "PENDING")


def test_a_job_survives_the_daemon_of_its_node(
    bare_cluster: Cluster, tmp_path: Path
) -> None:
    command = f"echo $$ > {tmp_path}/pid; sleep 600"
    job = bare_cluster.submit(command, "-w", "n3")
    process = process_in(tmp_path / "pid")
    bare_cluster.node_stop("n3")
    bare_cluster.node_start("n3")
    assert process.is_alive()
    assert bare_cluster.state_of(job) == "RUNNING"


@pytest.mark.parametrize("hard", [False, True])
def test_jobs_survive_a_controller_that_comes_back(
    bare_cluster: Cluster, hard: bool
) -> None:
    job = bare_cluster.submit("sleep 600")
    bare_cluster.wait_for_state(job, "RUNNING")
    if hard:
        bare_cluster.save(job)
    bare_cluster.ctld_restart(hard=hard)
    assert bare_cluster.state_of(job) == "RUNNING"


def test_a_stopped_controller_answers_nobody(bare_cluster: Cluster) -> None:
    bare_cluster.ctld_stop(hard=True)
    # Which of the two it says depends on when its connection broke.
    words = "Unable to contact slurm controller|Transport endpoint is not connected"
    with pytest.raises(ClusterError, match=words):
        bare_cluster.run("squeue")


def test_accounting_catches_up_with_what_it_missed(cluster: Cluster) -> None:
    cluster.dbd_stop()
    job = cluster.submit("true")
    cluster.wait_for_state(job, "COMPLETED")
    assert cluster.run("sacct", "-n", check=False).returncode == 1
    cluster.dbd_start()
    until(lambda: accounted_state(cluster, job) == "COMPLETED", 40.0)


def test_a_job_that_ignores_sigterm_is_cleared_at_once(bare_cluster: Cluster) -> None:
    job = bare_cluster.submit("trap '' TERM; while :; do sleep 1; done")
    bare_cluster.wait_for_state(job, "RUNNING")
    bare_cluster.run("scancel", job)
    began = time.monotonic()
    bare_cluster.clear()
    assert time.monotonic() - began < bare_cluster.settings.kill_wait_s - 2


# -- commands that misbehave


def test_a_shim_may_accept_and_never_answer(bare_cluster: Cluster) -> None:
    with (
        bare_cluster.shim("sbatch", accepts_then_hangs()),
        pytest.raises(subprocess.TimeoutExpired),
    ):
        bare_cluster.run("sbatch", "--hold", "--wrap=true", timeout_s=2.0)
    assert bare_cluster.run("squeue", "-h", "-o", "%T").stdout == "PENDING\n"


def test_a_shim_may_accept_and_say_that_it_did_not(bare_cluster: Cluster) -> None:
    with (
        bare_cluster.shim("sbatch", accepts_then_fails("Socket timed out", 1)),
        pytest.raises(ClusterError, match="Socket timed out"),
    ):
        bare_cluster.run("sbatch", "--hold", "--wrap=true")
    assert bare_cluster.run("squeue", "-h", "-o", "%T").stdout == "PENDING\n"


def test_a_shim_may_fail_without_doing_anything(bare_cluster: Cluster) -> None:
    text = 'sbatch: error: it\'s a "$HOME" %s'
    with bare_cluster.shim("sbatch", fails(text, 7)):
        answer = bare_cluster.run("sbatch", "--wrap=true", check=False)
    assert (answer.returncode, answer.stderr) == (7, text + "\n")
    assert bare_cluster.run("squeue", "-h").stdout == ""


def test_a_shim_counts_calls_and_passes_them_on(
    bare_cluster: Cluster, tmp_path: Path
) -> None:
    env = bare_cluster.env
    with bare_cluster.shim("scontrol", counted(tmp_path / "calls")):
        for _ in range(2):
            done = subprocess.run(
                ["scontrol", "ping"], env=env, capture_output=True, check=True
            )
            assert b"UP" in done.stdout
    bare_cluster.run("scontrol", "ping")
    assert (tmp_path / "calls").read_text() == "ping \nping \n"


def test_the_caller_s_own_settings_of_slurm_are_not_heard(
    bare_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_CONF", "SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_FORMAT"):
        monkeypatch.setenv(name, "/nowhere")
    left = {name for name, value in bare_cluster.env.items() if value == "/nowhere"}
    assert left == set()


# -- nothing left behind


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


def test_reserved_ports_are_given_once() -> None:
    address = host_address() or ""
    first, held = reserve_ports(address, 7)
    with closing(held):
        second, other = reserve_ports(address, 7)
        other.close()
    assert first != second


def test_the_command_brings_a_cluster_up_and_down() -> None:
    home = Path("/tmp") / f"autoexp-slurm-{os.getpid()}"

    def command(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.slurm.cluster", f"--home={home}", *argv],
            cwd=HERE.parents[1],
            capture_output=True,
            text=True,
            check=False,
        )

    up = command("up", "--no-accounting", "--nodes=1")
    try:
        assert f"export SLURM_CONF={home}/etc/slurm.conf" in up.stdout
        assert command("node-stop", "n1", "--with-steps").returncode == 0
        assert "slurmd.n1 ended" in command("status").stdout
    finally:
        down = command("down")
    assert (down.returncode, down.stderr, home.exists()) == (0, "", False)
