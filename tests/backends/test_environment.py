"""Containers, virtual environments and conda around any backend's command."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from autoexp_tui.backends.base import Places
from autoexp_tui.backends.environment import BECOME
from autoexp_tui.backends.torchrun import ON_A_NODE
from tests.backends.backend_configs import found, launched, refused, slurm
from tests.executors.wrapper_runs import Attempt
from tests.support.refusals import read_refusals

RUN = {"class_name": "Command", "command": ["./train", "a b"]}
BOUND = ("--bind", "/w")
PWD = ("--pwd", "/w")


def boxed(**container: object) -> Mapping[str, object]:
    return {**RUN, "container": {"runtime": "apptainer", **container}}


def test_the_command_runs_in_the_image_where_it_would_run_outside() -> None:
    assert launched(boxed(image="/i/t.sif")).command == (
        "apptainer", "exec", *BOUND, *PWD, "/i/t.sif", "./train", "a b",
    )  # fmt: skip


def test_everything_about_a_container_becomes_a_word() -> None:
    backend = boxed(
        image="docker://org/img:1", runtime="/opt/bin/singularity", nv=True,
        binds=["/data", "rel:/x:ro"], workdir="/code", options=["--no-home"],
    )  # fmt: skip

    assert launched(backend).command[:-2] == (
        "/opt/bin/singularity", "exec", "--nv", "--bind", "/data",
        "--bind", "/w/rel:/x:ro", *BOUND, "--pwd", "/code", "--no-home",
        "docker://org/img:1",
    )  # fmt: skip


def test_a_container_may_be_an_image_alone_bind_nothing_or_be_none() -> None:
    alone = launched({**RUN, "container": "t.sif"}).command
    unbound = launched(boxed(image="/i", bind_run=False)).command

    assert (alone[1], alone[-3]) == ("exec", "/w/t.sif")
    assert "--bind" not in unbound
    assert launched({**RUN, "container": False}).command == ("./train", "a b")


def test_directories_of_the_run_are_bound_unless_an_outer_one_is() -> None:
    backend = boxed(image="/i", binds=["/scratch:/scratch"])
    places = Places("/home/me/proj", "/state/autoexp")
    config = {
        "project": {"base_output_dir": "/scratch/out"},
        "slurm": {"log_dir": "/logs/here"},
    }

    command = launched(backend, places, **config).command

    binds = [b for a, b in pairwise(command) if a == "--bind"]
    assert binds == [
        "/scratch:/scratch", "/logs/here", "/state/autoexp", "/home/me/proj",
    ]  # fmt: skip


def test_variables_reach_the_inside_whatever_is_in_them() -> None:
    backend = {**boxed(image="/i", env={"A": "x,y=1", "B": None}), "env": {"C": 1}}

    assert launched(backend).env == {"C": "1", "APPTAINERENV_A": "x,y=1"}


def test_a_closed_container_gets_the_jobs_variables_too() -> None:
    backend = boxed(image="/i", options=["--cleanenv"], runtime="singularity")

    env = launched({**backend, "env": {"C": 1}}).env

    assert env == {"C": "1", "SINGULARITYENV_C": "1"}


def test_srun_stands_outside_of_the_container() -> None:
    backend = {
        "class_name": "MegatronTorchrun", "script": "t.py",
        "container": {"image": "/i", "runtime": "apptainer"}, "venv": "/v",
    }  # fmt: skip

    command = launched(backend, slurm=slurm(nodes=2, gpus_per_node=1)).command

    assert command.index("srun") < command.index(ON_A_NODE)
    node, box = command.index(ON_A_NODE), command.index("apptainer")
    assert node < box < command.index("/v/bin/python") < command.index("torchrun")


@pytest.mark.parametrize(
    ("there", "runtime"),
    [
        (("apptainer", "singularity"), "apptainer"),
        (("singularity",), "singularity"),
        ((), "apptainer"),
    ],
)
def test_auto_takes_the_runtime_that_is_there(
    there: tuple[str, ...],
    runtime: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in there:
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert launched({**RUN, "container": "/i"}).command[0] == runtime


@pytest.mark.parametrize(
    ("container", "key", "message"),
    read_refusals(__file__, "a_wrong_container_says_where_and_what"),
)
def test_a_wrong_container_says_where_and_what(
    container: object, key: str, message: str
) -> None:
    assert found(refused({**RUN, "container": container})[0]) == (
        f"backend.container{key}", message,
    )  # fmt: skip


def test_a_directory_that_no_bind_can_name_is_told() -> None:
    (problem,) = refused(boxed(image="/i"), Places("/w,x", "/w,x/s"))

    assert problem.message == ("/w,x cannot be bound: it has a comma or a colon in it")


def test_what_is_not_here_is_only_warned_about(tmp_path: Path) -> None:
    image = tmp_path / "there.sif"
    image.touch()
    gone = launched(boxed(image="/none.sif", binds=["/none/data"])).warnings
    there = launched(boxed(image=str(image), runtime="apptainer")).warnings

    assert [problem.message for problem in gone] == [
        "/none.sif is not here",
        "/none/data is not here",
    ]
    assert there == ()


def test_gpus_that_the_container_does_not_show_are_warned_about() -> None:
    asked = slurm(gpus_per_node=4)
    blind = launched(boxed(image="docker://x"), slurm=asked).warnings
    seeing = launched(boxed(image="docker://x", nv=True), slurm=asked).warnings

    assert [problem.message for problem in blind] == [
        "the job asks for GPUs, and the container is shown none"
    ]
    assert seeing == ()


# ------------------------------------------------------------------- python's homes
def test_a_venv_is_put_in_front_of_the_command() -> None:
    assert launched({**RUN, "venv": "/v"}).command == (
        "/v/bin/python", "-I", "-S", "-c", BECOME, "/v", "./train", "a b",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("conda", "words"),
    [
        ({"prefix": "/c"}, ("conda", "run", "--no-capture-output", "-p", "/c")),
        ({"env": "t"}, ("conda", "run", "--no-capture-output", "-n", "t")),
        (
            {"env": "t", "program": "/o/bin/micromamba"},
            ("/o/bin/micromamba", "run", "-n", "t"),
        ),
    ],
)
def test_conda_runs_the_command(
    conda: Mapping[str, object], words: tuple[str, ...]
) -> None:
    assert launched({**RUN, "conda": conda}).command == (*words, "./train", "a b")


@pytest.mark.parametrize("around", [{"venv": "/v"}, {"container": "/i"}])
def test_python_is_that_of_the_environment(around: Mapping[str, object]) -> None:
    plain = {"class_name": "Python", "script": "t.py"}

    assert launched(plain).command[0] == sys.executable
    assert launched({**plain, **around}).command[-2:] == ("python", "t.py")


@pytest.mark.parametrize(
    ("around", "where", "message"),
    read_refusals(__file__, "a_wrong_environment_says_where_and_what"),
)
def test_a_wrong_environment_says_where_and_what(
    around: Mapping[str, object], where: str, message: str
) -> None:
    assert found(refused({**RUN, **around})[0]) == (f"backend.{where}", message)


def test_an_environment_that_is_not_here_is_only_warned_about() -> None:
    venv = launched({**RUN, "venv": "/none"}).warnings
    conda = launched({**RUN, "conda": {"prefix": "/none"}}).warnings

    assert [problem.message for problem in venv] == ["/none/bin/python is not here"]
    assert "/none is not here" in [problem.message for problem in conda]


def test_inside_a_container_nobody_looks_for_an_environment() -> None:
    assert launched({**boxed(image="docker://x"), "venv": "/none"}).warnings == ()


# ------------------------------------------------------------------------- for real
@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real one."""
    home = tmp_path_factory.mktemp("home") / "venv"
    made = [sys.executable, "-m", "venv", "--without-pip", str(home)]
    subprocess.run(made, check=True, timeout=120)
    return home


def ran(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("words", "status"), [(["sh", "-c", "exit 7"], 7), (["no-such-program"], 127)]
)
def test_the_exit_code_comes_through_the_venv(
    words: list[str], status: int, venv: Path
) -> None:
    backend = {"class_name": "Command", "command": words, "venv": str(venv)}

    assert ran(launched(backend).command).returncode == status


def test_a_signal_reaches_the_command_in_the_venv(venv: Path) -> None:
    words = ["sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.1; done"]
    backend = {"class_name": "Command", "command": words, "venv": str(venv)}
    command = launched(backend).command
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5


FAKE = """\
#!/bin/sh
# In the place of a container's runtime: leaves its options, runs the command.
[ "$1" = exec ] || exit 2
while [ "$1" != /image.sif ]; do echo "option $1"; shift; done
shift
exec "$@"
"""


def test_a_job_in_a_container_and_a_venv_ends_as_its_command_does(
    venv: Path, tmp_path: Path
) -> None:
    runtime = tmp_path / "apptainer"
    runtime.write_text(FAKE)
    runtime.chmod(0o755)
    seen = "sys.prefix, e['VIRTUAL_ENV'], os.getcwd(), e['A'], sys.argv[1]"
    code = f"import os, sys; e = os.environ; print({seen}); sys.exit(6)"
    backend = {
        "class_name": "Command", "command": ["python", "-c", code, "$HOME; x"],
        "env": {"A": "x y"}, "venv": str(venv),
        "container": {"image": "/image.sif", "runtime": str(runtime), "nv": True},
    }  # fmt: skip
    made = launched(backend, Places(str(tmp_path)))
    attempt = Attempt(tmp_path)

    status = attempt.run("", command=made.command, env=made.env, cwd=made.cwd)

    assert status == 6
    lines = attempt.log.read_text().splitlines()
    assert lines[-1] == f"{venv} {venv} {tmp_path} x y $HOME; x"
    assert "option --nv" in lines
