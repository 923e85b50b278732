"""The script that sbatch gets, and its options: nothing of a value is ever run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from autoexp_tui.executors.slurm.script import (
    AROUND,
    PLACEHOLDERS,
    build_sbatch_arguments,
    format_launcher,
    read_template,
    render,
    with_grace,
)
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.specs import Scalar
from tests.executors.wrapper_runs import until

VALUES = {name: f"<{name}>" for name in PLACEHOLDERS} | {
    "command": "python3 wrapper.py 0.json",
    "job_name": "train_lr0.1",
    "session": "k7f2",
}
HOSTILE = (
    "$(echo pwned >&2)",
    "`echo pwned >&2`",
    "; echo pwned >&2;",
    "'; echo pwned >&2; '",
    '"; echo pwned >&2; "',
    "\necho pwned >&2\n",
    "\\$(echo pwned >&2)\\",
    "\\`echo pwned >&2\\`",
    "a echo pwned",
    "x & echo pwned >&2 |",
    "${IFS}$HOME*~!#",
    "two words",
    "-rf",
    "",
)
CONTEXTS = (
    "printf %s {job_name}",
    'printf %s "{job_name}"',
    "printf %s '{job_name}'",
    'value={job_name}; printf %s "$value"',
    "# don't: {session}\nprintf %s {job_name}",
)
WILD = (
    *CONTEXTS,
    "# {job_name}",
    "echo on # {job_name}",
    "cat <<EOF\n{job_name} and don't '{job_name}' \"{job_name}\"\n# {job_name}\nEOF",
    "cat <<'EOF'\n{job_name}\nEOF",
    "x='\n# {job_name}\n'",
    'x="\n# {job_name}\n"',
    "x=a\\ #{job_name}",
    "x={cwd}#{job_name}",
    "x=`printf %s {job_name}`",
    'x="$(printf %s "{job_name}")"',
    'x="$(printf %s {job_name})"',
    "x=\"$(printf %s '{job_name}')\"",
)


def run(script: str, shell: str = "bash") -> subprocess.CompletedProcess[str]:
    words = [shell, "-c", script]
    # Nobody makes a file there, wherever a value may point.
    return subprocess.run(words, cwd="/proc", capture_output=True, text=True)


# ------------------------------------------------------------------------- the script
def test_a_launcher_quotes_paths_with_spaces_and_lets_an_array_find_its_file() -> None:
    launcher = format_launcher("/my env/python", wrapper="/w'r.py", tasks="/a b/tok")
    for env, number in (("", 0), ("SLURM_ARRAY_TASK_ID=7; ", 7)):
        words = run(f"{env}printf '%s\\n' {launcher}").stdout.splitlines()
        assert words == ["/my env/python", "/w'r.py", f"/a b/tok/{number}.json"]


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_value_is_the_same_text_in_quotes_and_outside(context: str) -> None:
    for value in HOSTILE:
        ran = run(render(context, VALUES | {"job_name": value, "session": value}))
        assert (ran.stdout, ran.stderr) == (value, "")


@pytest.mark.parametrize("context", WILD)
def test_nothing_of_a_value_is_run(context: str) -> None:
    for value in HOSTILE:
        script = render(context, VALUES | {"job_name": value, "cwd": "/cwd"})
        for shell in ("bash", "sh"):
            assert "pwned" not in run(script, shell).stderr.splitlines(), value


# -------------------------------------------------------------------------- a template
def test_a_template_that_cannot_work_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for template, says in (
        (b"exec {command}\n", "{} is no script"),
        (b"#!/bin/bash\necho hello\n", "{} has no {{command}}"),
        (b"#!/bin/bash\n# {command}\n", "{} has no {{command}}"),
        (b"#!/bin/bash\n#SBATCH --array=0-3\n{command}\n", "{} sets --array"),
        (b"#!/bin/sh\n\xff {command}\n", "it is no text"),
        (b"#!/bin/sh\n#SBATCH -n 1 --error=e\n{command}\n", "{} sets --error"),
        (b"#!/bin/sh\nsrun {command}\n", "keeps a shell above {{command}}"),
    ):
        path.write_bytes(template)
        with pytest.raises(UsageError, match=re.escape(says.format(path))):
            read_template(str(path))


def test_a_template_with_modules_a_container_and_braces_of_the_shell_is_fine(
    tmp_path: Path,
) -> None:
    text = (
        "#!/bin/bash -l\n#SBATCH --time=10 -J x -o y\nmodule load python\n"
        '"${BASH}" "${command}"; f() { :; }; echo {a,b}\n'
        "exec srun apptainer exec image.sif {command}\n"
    )
    (tmp_path / "t").write_text(text)
    assert read_template(str(tmp_path / "t")) == text
    assert render(text, VALUES) == text.replace(" {command}", f" {VALUES['command']}")


# ---------------------------------------------------------------------------- options
def arguments(**options: Scalar) -> tuple[str, ...]:
    return build_sbatch_arguments(
        name="train-tok",
        output="/log/slurm-%j.out",
        script="/s/job.sh",
        options=options,
    )


def test_a_single_job_is_one_line_of_options() -> None:
    """Null and false leave one out; a signal goes to the wrapper."""
    assert arguments(
        partition="main", exclusive=True, time=60, qos=None, hold=False
    ) == (
        *("sbatch", "--parsable", "--job-name=train-tok"),
        *("--output=/log/slurm-%j.out", "--open-mode=append"),
        *("--partition=main", "--exclusive", "--time=60", "/s/job.sh"),
    )
    for given_signal in ("USR1@300", "B:USR1@300"):
        assert "--signal=B:USR1@300" in arguments(signal=given_signal)


# --------------------------------------------------------------------- signals to srun
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


def test_the_shell_stands_around_srun_alone_and_once() -> None:
    for command, stands in (
        ("srun --mpi=none python train.py", True),
        ("/opt/slurm/bin/srun python train.py", True),
        ("", False),
        ("python srun", False),
        ("apptainer exec x.sif srun", False),
        ("srun --jobid=77 python", False),
        ("srun --jobid 77 python", False),
    ):
        words = tuple(command.split())
        expected = (*AROUND, *words) if stands else words
        assert with_grace(words) == with_grace(expected) == expected


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


def started(root: Path, scancel: str, **env: str) -> subprocess.Popen[str]:
    """A step that runs, with a scancel of ours in the place of Slurm's."""
    tool = root / "scancel"
    tool.write_text(scancel)
    tool.chmod(0o755)
    path = f"{root}:{os.environ['PATH']}"
    process = around(["sh", "-c", TASK], root, PATH=path, **env)
    assert said_by(process) == "up\n"
    return process


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> None:
    """What goes on until then ends as it should: nobody killed it."""
    os.killpg(process.pid, signal.SIGUSR2)
    assert process.wait(30) == 5


def test_a_signal_that_srun_passes_on_goes_to_it(tmp_path: Path) -> None:
    with started(tmp_path, SCANCEL_THAT_FAILS) as process:
        os.killpg(process.pid, signal.SIGUSR1)
        assert said_by(process) == "heard\n"
        end(process)
    early = "trap 'exit 5' USR1; kill -USR1 $PPID; sleep 100 & wait"  # as it starts
    with around(["sh", "-c", early]) as process:
        assert process.wait(30) == 5


def test_the_status_of_srun_is_handed_on() -> None:
    for status in (0, 3, 127, 137, 143):
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
    number: signal.Signals, env: dict[str, str], job: str, tmp_path: Path
) -> None:
    with started(tmp_path, SCANCEL_THAT_TELLS, **env) as process:
        os.killpg(process.pid, number)
        assert said_by(process) == f"--signal={number.name[3:]} {job}\n"
        end(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_follows_upon_the_first_takes_no_task_its_time(
    number: signal.Signals, tmp_path: Path
) -> None:
    with started(tmp_path, SLOW_SCANCEL) as process:
        os.killpg(process.pid, signal.SIGTERM)
        assert until((tmp_path / "begun").exists)
        os.killpg(process.pid, number)
        (tmp_path / "go").touch()
        assert said_by(process) == "--signal=TERM 41\n"
        asked = f"--signal={number.name[3:]} 41\n"
        assert said_by(process) == ("heard\n" if "USR1" in number.name else asked)
        end(process)


def test_where_slurm_cannot_ask_srun_is_asked(tmp_path: Path) -> None:
    no_job = {"SLURM_JOB_ID": ""}
    for scancel, env in ((SCANCEL_THAT_FAILS, {}), (SCANCEL_THAT_TELLS, no_job)):
        with started(tmp_path, scancel, **env) as process:
            os.killpg(process.pid, signal.SIGTERM)
            assert said_by(process) == "killed\n"
            assert process.wait(30) == 9
