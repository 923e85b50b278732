"""What is kept of a run before a rule ends it: real processes, made-up tools."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.ports import Kept, Parting
from autoexp_tui.executors import evidence_probe
from autoexp_tui.executors.diagnostics import (
    LOG_BYTES,
    MOST_NODES,
    Evidence,
    LocalReach,
    SlurmReach,
    install_probe,
)
from autoexp_tui.executors.slurm.commands import Ran
from autoexp_tui.probes.clock import SystemClock
from tests.executors.slurm_scripted import ScriptedCommands, says
from tests.executors.wrapper_runs import until

PY_SPY = '#!/bin/sh\necho "Thread MainThread of $3: stuck_in_all_reduce"\n'
HANGS = "#!/bin/sh\necho begun; sleep 300 & wait\n"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it that looks at processes, until a test adds it."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("sh", "sleep"):
        (place / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(place))
    return place


def tool(tools: Path, name: str, script: str) -> None:
    (tools / name).write_text(script)
    (tools / name).chmod(0o755)


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process of the attempt that does nothing any more."""
    begun = tmp_path / "begun"
    code = f"import time; open({str(begun)!r}, 'w').close(); time.sleep(300)"
    environment = os.environ | {"AUTOEXP_ATTEMPT_DIR": str(tmp_path / "attempt")}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    assert until(begun.exists)
    yield process
    process.kill()
    process.wait()


def parting(tmp_path: Path, *, log_only: bool = False, seconds: float = 20) -> Parting:
    home = tmp_path / "attempt"
    return Parting(
        task=Task(
            job="a\x1b[31m",
            attempt=1,
            command=("train",),
            output_dir=str(tmp_path),
            log_dir=str(tmp_path),
            attempt_dir=str(home),
            executor_id="77_3",
        ),
        run=0,
        node="n1",
        log_path=str(tmp_path / "run.log"),
        directory=str(home / "evidence" / "1-stall"),
        reason="no step after 10",
        log_only=log_only,
        seconds=seconds,
    )


def local(tmp_path: Path) -> Evidence:
    return Evidence(LocalReach(install_probe(tmp_path / "scripts")), SystemClock())


def look(tmp_path: Path, **fields: object) -> Kept:
    return local(tmp_path).capture(parting(tmp_path, **fields))  # type: ignore[arg-type]


def text(kept: Kept, pattern: str) -> str:
    """What one kept file says."""
    (path,) = Path(kept.directory).glob(pattern)
    return path.read_text()


# ----------------------------------------------------------------------------- the log
def test_the_end_of_the_log_is_kept_without_what_could_steer_a_terminal(
    tmp_path: Path, tools: Path
) -> None:
    log = b"old\n" * LOG_BYTES + b"\x1b]0;title\x07step 10\r\nlast \xff\n"
    (tmp_path / "run.log").write_bytes(log)
    kept = look(tmp_path, log_only=True)
    tail = text(kept, "log-tail.txt")
    assert tail.endswith("old\nstep 10\nlast \ufffd\n")
    assert len(tail) <= LOG_BYTES
    assert sorted(os.listdir(kept.directory)) == ["log-tail.txt", "summary.txt"]


def test_a_log_that_is_not_there_is_told(tmp_path: Path, tools: Path) -> None:
    kept = look(tmp_path, log_only=True)
    assert kept.summary == "log: it is empty, or not there"


# ----------------------------------------------------------------------- the processes
def test_the_processes_of_the_attempt_are_listed(
    tmp_path: Path, tools: Path, hung: subprocess.Popen[bytes]
) -> None:
    kept = look(tmp_path)
    head, *rows = text(kept, "*/processes.txt").splitlines()
    assert head.split()[:3] == ["pid", "parent", "state"]
    (row,) = rows
    assert row.split()[:3] == [str(hung.pid), str(os.getpid()), "S"]
    assert row.endswith("time.sleep(300)")


def test_processes_below_the_command_are_found_though_they_bear_no_mark(
    hung: subprocess.Popen[bytes],
) -> None:
    found = evidence_probe.processes_of("/another", os.getpid())
    assert hung.pid in found
    assert evidence_probe.processes_of("/another", hung.pid) == [hung.pid]


def test_each_python_process_is_asked_for_its_stack(
    tmp_path: Path, tools: Path, hung: subprocess.Popen[bytes]
) -> None:
    tool(tools, "py-spy", PY_SPY)
    kept = look(tmp_path)
    said = text(kept, f"*/py-spy.{hung.pid}.txt")
    assert said == f"Thread MainThread of {hung.pid}: stuck_in_all_reduce\n"
    assert f"py-spy dump --pid {hung.pid}: py-spy.{hung.pid}.txt" in kept.summary


def test_what_a_tool_prints_cannot_steer_a_terminal(
    tmp_path: Path, tools: Path
) -> None:
    tool(tools, "nvidia-smi", "#!/bin/sh\nprintf 'a\\033[2Jb\\n'\n")
    assert text(look(tmp_path), "*/nvidia-smi.txt") == "ab\n"


# ---------------------------------------------------------------------- what is missing
def test_the_summary_says_which_tools_there_are_not(
    tmp_path: Path, tools: Path, hung: subprocess.Popen[bytes]
) -> None:
    summary = text(look(tmp_path), "summary.txt")
    assert "stacks: none, py-spy is not on PATH" in summary
    assert "GPUs: nothing, nvidia-smi is not on PATH" in summary
    assert summary.startswith("a, attempt 1, run 0\nended because: no step after 10\n")


def test_a_tool_that_is_not_allowed_to_look_is_told(
    tmp_path: Path, tools: Path, hung: subprocess.Popen[bytes]
) -> None:
    tool(tools, "py-spy", "#!/bin/sh\necho 'Permission denied' >&2; exit 1\n")
    kept = look(tmp_path)
    assert f"py-spy dump --pid {hung.pid}: failed (1)" in kept.summary
    assert text(kept, "*/py-spy.*.txt") == "Permission denied\n"


def test_a_tool_that_hangs_costs_no_more_than_its_time(
    tmp_path: Path, tools: Path, hung: subprocess.Popen[bytes]
) -> None:
    tool(tools, "py-spy", HANGS)
    tool(tools, "nvidia-smi", HANGS)
    begun = time.monotonic()
    kept = look(tmp_path, seconds=2.0)
    assert time.monotonic() - begun < 2.0
    assert kept.summary.count("not finished in time") == 2
    assert text(kept, "*/py-spy.*.txt") == "begun\n"
    assert until(lambda: not _running(str(tools / "py-spy")))


def _running(script: str) -> list[Path]:
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [path] if script.encode() in path.read_bytes() else []
    return found


def test_a_look_that_never_ends_is_ended(tmp_path: Path, tools: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text("import time; time.sleep(300)")
    kept = Evidence(LocalReach(probe), SystemClock()).capture(
        parting(tmp_path, seconds=1.0)
    )
    assert "processes: ran longer than" in kept.summary
    assert (Path(kept.directory) / "summary.txt").exists()


def test_a_disk_that_refuses_is_told(tmp_path: Path, tools: Path) -> None:
    (tmp_path / "attempt").write_text("in the way")
    kept = look(tmp_path)
    assert kept.directory == ""
    assert kept.summary.startswith("nothing could be kept: ")


def test_a_second_look_finds_the_place_of_the_first(
    tmp_path: Path, tools: Path
) -> None:
    assert look(tmp_path) == look(tmp_path)


def test_others_cannot_read_what_is_kept(tmp_path: Path, tools: Path) -> None:
    (tmp_path / "run.log").write_text("x\n")
    place = Path(look(tmp_path).directory)
    modes = {path.stat().st_mode & 0o077 for path in (place, *place.rglob("*"))}
    assert modes == {0}


# ------------------------------------------------------------------------------- Slurm
def by_slurm(
    tmp_path: Path, answer: Ran, squeue: Ran | None = None
) -> tuple[Kept, ScriptedCommands]:
    known = squeue or says("1234 2\n")
    commands = ScriptedCommands({"squeue": known, "srun": answer})
    reach = SlurmReach(tmp_path / "probe.py", "/opt/python", commands)
    return Evidence(reach, SystemClock()).capture(parting(tmp_path)), commands


def test_slurm_runs_the_look_beside_the_job_on_each_of_its_nodes(
    tmp_path: Path,
) -> None:
    _, commands = by_slurm(tmp_path, says())
    words = commands.ran[-1]
    assert words[:3] == ("srun", "--jobid=1234", "--overlap")
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1"} <= set(words)
    home = str(tmp_path / "attempt")
    python = words.index("/opt/python")
    assert words[python : python + 5] == (
        "/opt/python",
        "-I",
        str(tmp_path / "probe.py"),
        f"{home}/evidence/1-stall",
        home,
    )


def test_of_a_job_of_very_many_nodes_some_are_looked_at(tmp_path: Path) -> None:
    _, commands = by_slurm(tmp_path, says(), says("1234 1024\n"))
    assert f"--nodes={MOST_NODES}" in commands.ran[-1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says(status=1, stderr="Invalid job id\n"), "processes: srun: Invalid job id"),
        (says(status=3), "processes: srun: exit 3"),
        (says(status=None), "processes: not finished in time: srun did not answer"),
        (
            Ran(arguments=(), status=None, missing="srun is not on PATH"),
            "processes: srun is not on PATH",
        ),
    ],
)
def test_what_slurm_refuses_is_told(tmp_path: Path, answer: Ran, said: str) -> None:
    kept, _ = by_slurm(tmp_path, answer)
    assert said in kept.summary


@pytest.mark.parametrize("answer", [says(""), says(status=1, stderr="Invalid job")])
def test_a_job_that_slurm_does_not_know_is_not_looked_at(
    tmp_path: Path, answer: Ran
) -> None:
    kept, commands = by_slurm(tmp_path, says(), answer)
    assert "processes: not looked at: squeue" in kept.summary
    assert commands.calls["srun"] == 0
