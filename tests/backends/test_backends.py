from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import Launch
from tests.backends.backend_configs import launched, refused
from tests.support.refusals import read_refusals


class Mine:
    """A backend of a user's own."""

    def problems(
        self, backend: Mapping[str, object], config: Mapping[str, object]
    ) -> Sequence[Problem]:
        if "image" in backend:
            return ()
        return (Problem("is missing", where="backend.image"),)

    def command(
        self, backend: Mapping[str, object], config: Mapping[str, object]
    ) -> Sequence[str]:
        return ("run", str(backend["image"]), str(config["lr"]))


class Half:
    """A backend without its second function."""

    def problems(self, backend: object, config: object) -> Sequence[Problem]:
        return ()


class Failing(Half):
    """One that breaks on what it is given."""

    def problems(self, backend: object, config: object) -> Sequence[Problem]:
        raise KeyError("lr")

    def command(self, backend: object, config: object) -> Sequence[str]:
        return ()


class Wordless(Half):
    """One whose command is a text."""

    def command(self, backend: object, config: object) -> Sequence[str]:
        return "train.sh"


class Ending(Half):
    """One that ends Python, on several lines."""

    def problems(self, backend: object, config: object) -> Sequence[Problem]:
        raise SystemExit("no\n\x20GPU")

    def command(self, backend: object, config: object) -> Sequence[str]:
        return ()


class Unmade:
    """One that cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no GPU here")


class Around(Mine):
    """One with all that a backend may have."""

    def outside(self, backend: object, config: object) -> Sequence[str]:
        return ("srun",)

    def environment(self, backend: object, config: object) -> Mapping[str, str]:
        return {"A": "1", "B": "2"}


class Odd(Around):
    """One that answers what its section says."""

    def problems(self, backend: Any, config: object) -> Any:
        return backend.get("problems", ())

    def command(self, backend: Any, config: object) -> Any:
        return backend.get("command", ("run",))

    def outside(self, backend: Any, config: object) -> Any:
        return backend.get("outside", ())

    def environment(self, backend: Any, config: object) -> Any:
        return backend.get("environment", {})


def test_null_runs_true() -> None:
    assert launched({"class_name": "NullBackend"}) == Launch(
        command=("true",), cwd="/w"
    )


PYTHON = {"class_name": "Python", "script": "t.py", "python": "p"}


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        *(
            ({"class_name": name, "megatron": {"lr": 1}}, ("true",))
            for name in ("null", "NullBackend", "null_backend", "Null")
        ),
        (
            {"class_name": "Command", "command": ["./t", "$HOME; rm -rf x", 3, True]},
            ("./t", "$HOME; rm -rf x", "3", "true"),
        ),
        ({"class_name": "Bash", "script": "a; b"}, ("bash", "-c", "a; b")),
        (
            {
                "class_name": "Python", "module": "my.train", "verb": "train",
                "args": {"train_iters": 9, "lr": 1e-4, "name": "a b", "seeds": [1, 2]},
                "positional": ["in.txt", 3],
            },
            (
                sys.executable, "-m", "my.train", "train", "--train-iters", "9",
                "--lr", "0.0001", "--name", "a b", "--seeds", "1", "2", "in.txt", "3",
            ),
        ),
        (
            {**PYTHON, "args": {"amp": True, "compile": False, "load": None}},
            ("p", "t.py", "--amp"),
        ),
        (
            {**PYTHON, "underscores": "keep", "args": {"learning_rate": 1}},
            ("p", "t.py", "--learning_rate", "1"),
        ),
    ],
)  # fmt: skip
def test_what_a_backend_runs(
    backend: Mapping[str, object], words: tuple[str, ...]
) -> None:
    assert launched(backend).command == words


def test_the_environment_is_text_and_null_leaves_a_name_out() -> None:
    backend = {"class_name": "Null", "env": {"A": 1, "B": True, "C": None, "D": "x"}}

    assert launched(backend).env == {"A": "1", "B": "true", "D": "x"}


@pytest.mark.parametrize(
    ("cwd", "where"), [("sub", "/w/sub"), ("/else", "/else"), ("..", "/"), (None, "/w")]
)
def test_a_relative_cwd_starts_where_planning_did(cwd: str | None, where: str) -> None:
    assert launched({"class_name": "Null", "cwd": cwd}).cwd == where


def test_a_class_of_ones_own_makes_the_command() -> None:
    backend = {"class_name": f"{__name__}:Mine", "image": "sif"}

    assert launched(backend, lr=3).command == ("run", "sif", "3")


def test_a_class_of_ones_own_finds_its_own_problems() -> None:
    assert refused({"class_name": f"{__name__}:Mine"})[0].where == "backend.image"


@pytest.mark.parametrize(
    ("backend", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_backend_says_where_what_and_the_next_step"),
)
def test_a_bad_backend_says_where_what_and_the_next_step(
    backend: object, where: str, message: str, hint: str
) -> None:
    found = refused(backend)[0]

    assert (found.where, found.message) == (where, message)
    assert found.hint.startswith(hint.replace("THIS_FILE", __file__))


def test_a_class_of_ones_own_may_set_variables_and_stand_outside() -> None:
    name = f"{__name__}:Around"
    made = launched(
        {"class_name": name, "image": "x", "env": {"B": 3}, "venv": "/v"}, lr=1
    )

    assert made.command[:2] == ("srun", "/v/bin/python")
    assert made.env == {"A": "1", "B": "3"}


@pytest.mark.parametrize(
    ("name", "answer", "wanted"),
    [
        ("problems", "x", "a list of Problem"),
        ("command", (), "a list of words"),
        ("outside", 3, "a list of words"),
        ("environment", 3, "a mapping"),
    ],
)
def test_an_answer_that_cannot_be_used_is_told(
    name: str, answer: object, wanted: str
) -> None:
    class_name = f"{__name__}:Odd"
    (found,) = refused({"class_name": class_name, name: answer})

    message = f"`{class_name}` gave {answer!r} as its {name}, not {wanted}"
    assert found.message == message
