"""Whose process sends a command: a job's, by each of its marks, or a person's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.model.commands import Sender
from autoexp_tui.storage import inbox
from autoexp_tui.storage.inbox import check_sender, describe_sender, job_of
from autoexp_tui.storage.processes import COOKIE, read_start
from autoexp_tui.storage.user_files import note_place


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    for name in (COOKIE, "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def process(*argv: str, **env: str) -> Iterator[int]:
    """A process that lives for a while."""
    code = "import sys; print(flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child.pid
    finally:
        child.communicate()


def claim(state_dir: Path, fields: dict[str, str], *, ended: bool = False) -> None:
    attempt = state_dir / "k7f2" / "attempts" / "train" / "2"
    attempt.mkdir(parents=True)
    (attempt / "claim").write_text(json.dumps(fields))
    (attempt / "begin.0.json").write_text("{}")
    if ended:
        (attempt / "exit.0.json").write_text("{}")


def test_a_person_s_process_is_no_job_s(tmp_path: Path) -> None:
    sender = describe_sender(tmp_path)
    assert (sender.job, sender.pid) == ("", os.getpid())
    assert sender.user
    assert check_sender(sender, tmp_path) == sender


def test_the_wrapper_s_variable_tells_the_attempt(tmp_path: Path) -> None:
    place = "/state/k7f2/attempts/train/2"
    with process(**{COOKIE: place}) as pid:
        assert job_of(pid, tmp_path) == "attempt 2 of train, session k7f2"


def test_a_supervisor_tells_it_where_the_environment_is_empty(tmp_path: Path) -> None:
    script = tmp_path / "wrapper.py"
    script.write_text("import sys; print(flush=True); sys.stdin.read()")
    task = "/state/k7f2/attempts/train/2/task.ab.json"
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(script), "--detach", task],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert job_of(child.pid, tmp_path) == "attempt 2 of train, session k7f2"
    child.communicate()


@pytest.mark.parametrize("field", ["slurm_job", "executor_id"])
def test_a_slurm_job_of_ours_is_known_by_its_claim(tmp_path: Path, field: str) -> None:
    claim(tmp_path, {field: "53"})
    with process(SLURM_JOB_ID="53") as pid:
        assert job_of(pid, tmp_path) == "attempt 2 of train, session k7f2"


def test_a_slurm_job_of_a_session_elsewhere_is_known_too(tmp_path: Path) -> None:
    other = tmp_path / "other"
    claim(other, {"slurm_job": "53"})
    note_place(other)
    with process(SLURM_JOB_ID="53") as pid:
        job = job_of(pid, tmp_path / "state")
    assert job == "attempt 2 of train, session k7f2"


def test_a_sender_tells_its_terminal_and_whence_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.5 5022 10.0.0.9 22")
    monkeypatch.setattr(os, "ttyname", lambda _descriptor: "/dev/pts/3")
    sender = describe_sender(tmp_path)
    assert (sender.tty, sender.ssh_client) == ("pts/3", "10.0.0.5")


def test_an_allocation_of_one_s_own_is_no_job(tmp_path: Path) -> None:
    claim(tmp_path, {"slurm_job": "53"})
    with process(SLURM_JOB_ID="54") as pid:
        assert job_of(pid, tmp_path) == ""


def test_a_number_that_an_ended_attempt_had_is_free_again(tmp_path: Path) -> None:
    claim(tmp_path, {"slurm_job": "53"}, ended=True)
    with process(SLURM_JOB_ID="53") as pid:
        assert job_of(pid, tmp_path) == ""


@pytest.mark.parametrize(
    "line",
    [
        "0::/system.slice/slurmstepd.scope/job_53/step_0/user/task_0\n",
        "7:cpuset:/slurm/uid_1000/job_53/step_batch\n3:cpu:/\n",
    ],
)
def test_the_cgroup_tells_the_slurm_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    claim(tmp_path, {"slurm_job": "53"})
    proc = tmp_path / "proc"
    (proc / str(os.getpid())).mkdir(parents=True)
    (proc / str(os.getpid()) / "cgroup").write_text(line)
    monkeypatch.setattr(inbox, "_PROC", proc)
    assert job_of(os.getpid(), tmp_path) == "attempt 2 of train, session k7f2"


def test_a_command_without_a_sender_is_in_doubt(tmp_path: Path) -> None:
    assert check_sender(None, tmp_path).doubt == "unnamed"


def test_a_sender_that_says_it_is_no_job_is_looked_at(tmp_path: Path) -> None:
    with process(**{COOKIE: "/state/k7f2/attempts/train/2"}) as pid:
        started = read_start(pid) or ""
        sender = replace(describe_sender(tmp_path), pid=pid, started=started)
        assert check_sender(sender, tmp_path).job


def test_the_shell_stands_for_a_cockpit_that_was_left(tmp_path: Path) -> None:
    shell = read_start(os.getpid()) or ""
    sender = replace(
        describe_sender(tmp_path), started="1", leader=os.getpid(), leader_started=shell
    )
    assert (check_sender(sender, tmp_path).doubt, sender.job) == ("", "")


def test_a_sender_of_which_nothing_lives_is_in_doubt(tmp_path: Path) -> None:
    gone = replace(describe_sender(tmp_path), started="1", leader_started="1")
    assert check_sender(gone, tmp_path).doubt == "ended"


def test_of_another_host_the_sender_s_own_word_stands(tmp_path: Path) -> None:
    there = replace(describe_sender(tmp_path), host="login2", boot="b")
    assert check_sender(there, tmp_path) == replace(there, checked=False)


def test_a_sender_reads_as_who_and_from_where() -> None:
    sender = Sender(user="ada", host="login1", tty="pts/3", ssh_client="10.0.0.5")
    assert str(sender) == "ada on login1 (pts/3, from 10.0.0.5)"
