"""The shell around srun: who is asked to end, and how the step's end comes through."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.srun_wrapper import AROUND, with_grace
from tests.executors.wrapper_runs import until

TASK = """\
trap 'echo heard' USR1
trap 'exit 5' USR2
trap 'echo killed; exit 9' TERM HUP
echo up
n=0
while [ $((n += 1)) -lt 1000 ]; do sleep 0.02; done
"""
"""Goes on longer than a test, and not for ever: who waits for more fails."""
SCANCEL_THAT_TELLS = '#!/bin/sh\necho "$@"\n'
SLOW_SCANCEL = """\
#!/bin/sh
touch begun
while ! [ -e go ]; do sleep 0.02; done
echo "$@"
"""
SCANCEL_THAT_FAILS = "#!/bin/sh\nexit 1\n"
OF_AN_ARRAY = {"SLURM_ARRAY_JOB_ID": "41", "SLURM_ARRAY_TASK_ID": "7"}

Start = Callable[..., subprocess.Popen[str]]


@pytest.mark.parametrize(
    "command",
    [
        ("srun", "--mpi=none", "python", "train.py"),
        ("/opt/slurm/bin/srun", "python", "train.py"),
    ],
)
def test_the_shell_stands_around_srun(command: Sequence[str]) -> None:
    assert with_grace(command) == (*AROUND, *command)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("python", "srun"),
        ("apptainer", "exec", "x.sif", "srun"),
        (*AROUND, "srun", "python"),
        ("srun", "--jobid=77", "python"),
        ("srun", "--jobid", "77", "python"),
    ],
)
def test_other_commands_stay_as_they_are(command: Sequence[str]) -> None:
    assert with_grace(command) == command


# ------------------------------------------------------------------------ the shell
def around(
    words: list[str], cwd: Path | None = None, **env: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*AROUND, *words],
        cwd=cwd,
        env={**os.environ, "SLURM_JOB_ID": "41", **env},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def running(tmp_path: Path) -> Start:
    """A step that runs, with a scancel of ours in the place of Slurm's."""

    def started(scancel: str, **env: str) -> subprocess.Popen[str]:
        tool = tmp_path / "scancel"
        tool.write_text(scancel)
        tool.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        process = around(["sh", "-c", TASK], tmp_path, PATH=path, **env)
        assert said_by(process) == "up\n"
        return process

    return started


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> None:
    """What goes on until then ends as it should: nobody killed it."""
    os.killpg(process.pid, signal.SIGUSR2)
    assert process.wait(30) == 5


def test_a_signal_that_srun_passes_on_goes_to_it(running: Start) -> None:
    with running(SCANCEL_THAT_FAILS) as process:
        os.killpg(process.pid, signal.SIGUSR1)
        assert said_by(process) == "heard\n"
        end(process)


def test_a_signal_that_comes_as_srun_starts_goes_to_it_too() -> None:
    early = "trap 'exit 5' USR1; kill -USR1 $PPID; sleep 100 & wait"
    with around(["sh", "-c", early]) as process:
        assert process.wait(30) == 5


@pytest.mark.parametrize("status", [0, 3, 127, 137, 143])
def test_the_status_of_srun_is_handed_on(status: int) -> None:
    with around(["sh", "-c", f"exit {status}"]) as process:
        assert process.wait(30) == status


@pytest.mark.parametrize(
    ("env", "job"),
    [
        ({}, "41"),
        ({**OF_AN_ARRAY, "SLURM_JOB_ID": "48"}, "41_7"),
        (OF_AN_ARRAY, "41_7"),
    ],
    ids=["a job", "a task of an array", "the task that has the array's id"],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_slurm_is_told_to_ask_the_tasks_and_srun_is_spared(
    number: signal.Signals, env: dict[str, str], job: str, running: Start
) -> None:
    with running(SCANCEL_THAT_TELLS, **env) as process:
        os.killpg(process.pid, number)
        name = number.name.removeprefix("SIG")
        assert said_by(process) == f"--signal={name} {job}\n"
        end(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_follows_upon_the_first_takes_no_task_its_time(
    number: signal.Signals, running: Start, tmp_path: Path
) -> None:
    with running(SLOW_SCANCEL) as process:
        os.killpg(process.pid, signal.SIGTERM)
        assert until((tmp_path / "begun").exists)
        os.killpg(process.pid, number)
        (tmp_path / "go").touch()
        assert said_by(process) == "--signal=TERM 41\n"
        name = number.name.removeprefix("SIG")
        asked = number is not signal.SIGUSR1
        assert said_by(process) == (f"--signal={name} 41\n" if asked else "heard\n")
        end(process)


@pytest.mark.parametrize(
    ("scancel", "env"),
    [(SCANCEL_THAT_FAILS, {}), (SCANCEL_THAT_TELLS, {"SLURM_JOB_ID": ""})],
    ids=["Slurm does not answer", "this is no job"],
)
def test_where_slurm_cannot_ask_srun_is_asked(
    scancel: str, env: dict[str, str], running: Start
) -> None:
    with running(scancel, **env) as process:
        os.killpg(process.pid, signal.SIGTERM)
        assert said_by(process) == "killed\n"
        assert process.wait(30) == 9
