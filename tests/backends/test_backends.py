"""What backends run, in containers, virtual environments and conda or without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.backends.base import Places
from autoexp_tui.backends.environment import BECOME
from autoexp_tui.backends.torchrun import ON_A_NODE
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import Launch
from tests.backends.backend_configs import found, launched, refused, slurm
from tests.executors.wrapper_runs import Attempt
from tests.support.refusals import read_refusals


class Half:
    """A backend of a user's own, without its second function."""

    def problems(self, backend: Any, config: Any) -> Sequence[Problem]:
        return ()


class Mine(Half):
    """One with all that it needs."""

    def problems(self, backend: Any, config: Any) -> Sequence[Problem]:
        if "image" in backend:
            return ()
        return (Problem("is missing", where="backend.image"),)

    def command(self, backend: Any, config: Any) -> Sequence[str]:
        return ("run", str(backend["image"]), str(config["lr"]))


class Failing(Mine):
    def problems(self, backend: Any, config: Any) -> Sequence[Problem]:
        raise KeyError("lr")


class Ending(Mine):
    def problems(self, backend: Any, config: Any) -> Sequence[Problem]:
        raise SystemExit("no\n\x20GPU")


class Unmade:
    def __init__(self) -> None:
        raise RuntimeError("no GPU here")


class Odd:
    """One that answers what its section says."""

    def problems(self, backend: Any, config: Any) -> Any:
        return backend.get("problems", ())

    def command(self, backend: Any, config: Any) -> Any:
        return backend.get("command", ("run",))

    def outside(self, backend: Any, config: Any) -> Any:
        return backend.get("outside", ())

    def environment(self, backend: Any, config: Any) -> Any:
        return backend.get("environment", {})


PYTHON = {"class_name": "Python", "script": "t.py", "python": "p"}
ARGS = {"train_iters": 9, "lr": 1e-4, "name": "a b", "seeds": [1, 2]}
VERB = {"class_name": "Python", "module": "my.train", "verb": "train", "args": ARGS}
SPELLED = ["--train-iters", "9", "--lr", "0.0001", "--name", "a b", "--seeds", "1", "2"]
COMMAND = {"class_name": "Command", "command": ["./t", "$HOME; rm -rf x", 3, True]}
RUN = {"class_name": "Command", "command": ["./train", "a b"]}
LIVE = ("conda", "run", "--no-capture-output")


@pytest.mark.parametrize(("backend", "words"), [
    *(({"class_name": name, "megatron": {"lr": 1}}, ["true"])
      for name in ("null", "NullBackend", "null_backend", "Null")),
    (COMMAND, ["./t", "$HOME; rm -rf x", "3", "true"]),
    ({"class_name": "Bash", "script": "a; b"}, ["bash", "-c", "a; b"]),
    ({**VERB, "positional": ["in.txt", 3]},
     [sys.executable, "-m", "my.train", "train", *SPELLED, "in.txt", "3"]),
    ({**PYTHON, "args": {"amp": True, "compile": False, "load": None}},
     ["p", "t.py", "--amp"]),
    ({**PYTHON, "underscores": "keep", "args": {"learning_rate": 1}},
     ["p", "t.py", "--learning_rate", "1"]),
    *(({**PYTHON, "python": None, **around}, ["python", "t.py"])
      for around in ({"venv": "/v"}, {"container": "/i"})),
    ({**RUN, "venv": "/v"},
     ["/v/bin/python", "-I", "-S", "-c", BECOME, "/v", "./train", "a b"]),
    ({**RUN, "conda": {"prefix": "/c"}}, [*LIVE, "-p", "/c", "./train", "a b"]),
    ({**RUN, "conda": {"env": "t"}}, [*LIVE, "-n", "t", "./train", "a b"]),
    ({**RUN, "conda": {"env": "t", "program": "/o/micromamba"}},
     ["/o/micromamba", "run", "-n", "t", "./train", "a b"]),
])  # fmt: skip
def test_what_a_backend_runs(backend: Mapping[str, object], words: list[str]) -> None:
    command = list(launched(backend).command)
    is_around = "python" in backend and backend["python"] is None
    assert (command[-len(words) :] if is_around else command) == words


def test_variables_are_text_null_leaves_one_out_and_cwd_starts_where_planning_did() -> (
    None
):
    env = {"A": 1, "B": True, "C": None, "D": "x"}
    made = launched({"class_name": "NullBackend", "env": env})
    texts = {"A": "1", "B": "true", "D": "x"}
    assert made == Launch(command=("true",), cwd="/w", env=texts)
    for cwd, where in (("sub", "/w/sub"), ("/else", "/else"), ("..", "/")):
        assert launched({"class_name": "Null", "cwd": cwd}).cwd == where


def test_a_class_of_ones_own_finds_problems_makes_words_and_variables() -> None:
    plain = {"class_name": f"{__name__}:Mine"}
    assert refused(plain)[0].where == "backend.image"
    made = launched({**plain, "image": "sif"}, lr=3)
    assert made == Launch(command=("run", "sif", "3"), cwd="/w")
    own = {"outside": ["srun"], "environment": {"A": "1", "B": "2"}, "env": {"B": 3}}
    made = launched({"class_name": f"{__name__}:Odd", **own, "venv": "/v"})
    assert made.command[:2] == ("srun", "/v/bin/python")
    assert made.command[-1] == "run"
    assert made.env == {"A": "1", "B": "3"}


@pytest.mark.parametrize(
    ("backend", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_backend_says_where_what_and_the_next_step"),
)
def test_a_bad_backend_says_where_what_and_the_next_step(
    backend: object, where: str, message: str, hint: str
) -> None:
    told = refused(backend)[0]
    assert found(told) == (where, message)
    assert told.hint.startswith(hint.replace("THIS_FILE", __file__))


@pytest.mark.parametrize(("name", "answer", "wanted"), [
    ("problems", "x", "TypeError: 'x' is no list of Problem"),
    ("command", 3, "TypeError: 3 is no list of words"),
    ("outside", 3, "TypeError: 3 is no list of words"),
    ("environment", 3, "AttributeError: 'int' object has no attribute 'items'"),
])  # fmt: skip
def test_an_answer_that_cannot_be_used_is_told(
    name: str, answer: object, wanted: str
) -> None:
    (told,) = refused({"class_name": f"{__name__}:Odd", name: answer})
    assert told.message == f"`{__name__}:Odd` failed in {name}: {wanted}"


def boxed(**container: object) -> Mapping[str, object]:
    return {**RUN, "container": {"runtime": "apptainer", **container}}


FULL = boxed(
    image="docker://org/img:1", runtime="/opt/bin/singularity", nv=True,
    binds=["/data", "rel:/x:ro"], workdir="/code", options=["--no-home"],
)  # fmt: skip


@pytest.mark.parametrize(("backend", "words"), [
    (boxed(image="/i/t.sif"), "apptainer exec --bind /w --pwd /w /i/t.sif"),
    ({**RUN, "container": "t.sif"}, "apptainer exec --bind /w --pwd /w /w/t.sif"),
    (boxed(image="/i", bind_run=False), "apptainer exec --pwd /w /i"),
    ({**RUN, "container": False}, ""),
    (FULL, "/opt/bin/singularity exec --nv --bind /data --bind /w/rel:/x:ro --bind /w "
           "--pwd /code --no-home docker://org/img:1"),
])  # fmt: skip
def test_all_about_a_container_becomes_a_word(
    backend: Mapping[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert launched(backend).command == (*words.split(), "./train", "a b")


def test_directories_of_the_run_are_bound_unless_an_outer_one_is() -> None:
    backend = boxed(image="/i", binds=["/scratch:/scratch"])
    project, logs = {"base_output_dir": "/scratch/out"}, {"log_dir": "/logs/here"}
    places = Places("/home/me/proj", "/state/autoexp")
    command = launched(backend, places, project=project, slurm=logs).command
    binds = [bound for word, bound in pairwise(command) if word == "--bind"]
    run = ["/logs/here", "/state/autoexp", "/home/me/proj"]
    assert binds == ["/scratch:/scratch", *run]
    (told,) = refused(boxed(image="/i"), Places("/w,x", "/w,x/s"))
    assert told.message == "/w,x cannot be bound: it has a comma or a colon in it"


def test_variables_reach_the_inside_whatever_is_in_them_and_how_closed_it_is() -> None:
    inside = {"A": "x,y=1", "B": None}
    made = launched({**boxed(image="/i", env=inside), "env": {"C": 1}})
    assert made.env == {"C": "1", "APPTAINERENV_A": "x,y=1"}
    closed = boxed(image="/i", options=["--cleanenv"], runtime="singularity")
    made = launched({**closed, "env": {"C": 1}})
    assert made.env == {"C": "1", "SINGULARITYENV_C": "1"}


def test_srun_stands_outside_of_the_container_and_the_venv_inside() -> None:
    torchrun = {"class_name": "MegatronTorchrun", "script": "t.py", "venv": "/v"}
    asked = slurm(nodes=2, gpus_per_node=1)
    command = launched({**boxed(image="/i"), **torchrun}, slurm=asked).command
    order = ("srun", ON_A_NODE, "apptainer", "/v/bin/python", "torchrun")
    places = [command.index(word) for word in order]
    assert places == sorted(places)


def test_auto_takes_the_runtime_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for runtime in ("singularity", "apptainer"):
        (tmp_path / runtime).mkdir()
        (tmp_path / runtime / runtime).touch(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / runtime), prepend=":")
        assert launched({**RUN, "container": "/i"}).command[0] == runtime


@pytest.mark.parametrize(("around", "where", "message"), [
    *(({"container": container}, f"container{key}", message)
      for container, key, message in read_refusals(
          __file__, "a_wrong_container_says_where_and_what")),
    *read_refusals(__file__, "a_wrong_environment_says_where_and_what"),
])  # fmt: skip
def test_a_wrong_container_or_environment_says_where_and_what(
    around: Mapping[str, object], where: str, message: str
) -> None:
    assert found(refused({**RUN, **around})[0]) == (f"backend.{where}", message)


GONE = boxed(image="/none.sif", binds=["/none/data"])
URI = boxed(image="docker://x")
BLIND = "the job asks for GPUs, and the container is shown none"


@pytest.mark.parametrize(("backend", "asked", "told"), [
    (GONE, {}, ["/none.sif is not here", "/none/data is not here"]),
    (boxed(image=sys.executable), {}, []),
    (URI, slurm(gpus_per_node=4), [BLIND]),
    (boxed(image="docker://x", nv=True), slurm(gpus_per_node=4), []),
    ({**RUN, "venv": "/none"}, {}, ["/none/bin/python is not here"]),
    ({**URI, "venv": "/none"}, {}, []),  # inside nobody looks
])  # fmt: skip
def test_what_is_not_here_and_gpus_that_are_not_shown_are_only_warned_about(
    backend: Mapping[str, object], asked: Mapping[str, object], told: list[str]
) -> None:
    assert [one.message for one in launched(backend, slurm=asked).warnings] == told
    conda = launched({**RUN, "conda": {"prefix": "/none"}}).warnings
    assert "/none is not here" in [one.message for one in conda]


FAKE = """\
#!/bin/sh
# In the place of a container's runtime: leaves its options, runs the command.
[ "$1" = exec ] || exit 2
while [ "$1" != /image.sif ]; do echo "option $1"; shift; done
shift
exec "$@"
"""


def test_a_job_in_a_container_and_a_venv_ends_as_its_command_does(
    tmp_path: Path,
) -> None:
    venv = tmp_path / "home/venv"
    made_by = [sys.executable, "-m", "venv", "--without-pip", str(venv)]
    subprocess.run(made_by, check=True, timeout=120)
    runtime = tmp_path / "apptainer"
    runtime.write_text(FAKE)
    runtime.chmod(0o755)
    seen = "sys.prefix, e['VIRTUAL_ENV'], os.getcwd(), e['A'], sys.argv[1]"
    code = f"import os, sys; e = os.environ; print({seen}); sys.exit(6)"
    around = boxed(image="/image.sif", runtime=str(runtime), nv=True)
    own = {"command": ["python", "-c", code, "$HOME; x"], "env": {"A": "x y"}}
    made = launched({**around, **own, "venv": str(venv)}, Places(str(tmp_path)))
    attempt = Attempt(tmp_path)
    absent = launched({**RUN, "command": ["no-such-program"], "venv": str(venv)})
    assert subprocess.run(absent.command, timeout=60).returncode == 127
    run = attempt.run("", command=made.command, env=made.env, cwd=made.cwd)
    assert run == 6
    lines = attempt.log.read_text().splitlines()
    assert lines[-1] == f"{venv} {venv} {tmp_path} x y $HOME; x"
    assert "option --nv" in lines
