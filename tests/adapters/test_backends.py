from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import pytest

from autoexp_tui.adapters.backends import launch
from autoexp_tui.core.errors import Problem
from autoexp_tui.plan.ports import Launch, SpecRefused


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


def launched(backend: object, **config: object) -> Launch:
    return launch({"backend": backend, **config}, "/w")


def refused(backend: object) -> Problem:
    with pytest.raises(SpecRefused) as caught:
        launched(backend)
    return caught.value.problems[0]


def test_null_runs_true() -> None:
    assert launched({"class_name": "NullBackend"}) == Launch(
        command=("true",), cwd="/w"
    )


def test_python_runs_a_module_with_a_verb_and_flags() -> None:
    backend = {
        "class_name": "Python",
        "module": "my.train",
        "verb": "train",
        "args": {"train_iters": 100, "lr": 1e-4, "name": "a b", "seeds": [1, 2]},
        "positional": ["in.txt", 3],
    }

    assert launched(backend).command == (
        sys.executable, "-m", "my.train", "train", "--train-iters", "100", "--lr",
        "0.0001", "--name", "a b", "--seeds", "1", "2", "in.txt", "3",
    )  # fmt: skip


def test_true_is_the_bare_flag_and_false_and_null_leave_it_out() -> None:
    args = {"amp": True, "compile": False, "load": None}
    backend = {"class_name": "Python", "script": "t.py", "python": "py3", "args": args}

    assert launched(backend).command == ("py3", "t.py", "--amp")


def test_underscores_may_be_kept() -> None:
    backend = {
        "class_name": "Python",
        "script": "t.py",
        "python": "p",
        "underscores": "keep",
        "args": {"learning_rate": 1},
    }

    assert launched(backend).command == ("p", "t.py", "--learning_rate", "1")


def test_a_command_is_its_words_and_no_shell_sees_them() -> None:
    backend = {"class_name": "Command", "command": ["./t", "$HOME; rm -rf x", 3, True]}

    assert launched(backend).command == ("./t", "$HOME; rm -rf x", "3", "true")


def test_a_script_is_run_by_bash() -> None:
    backend = {"class_name": "Bash", "script": "a; b"}

    assert launched(backend).command == ("bash", "-c", "a; b")


def test_the_environment_is_text_and_null_leaves_a_name_out() -> None:
    backend = {"class_name": "Null", "env": {"A": 1, "B": True, "C": None, "D": "x"}}

    assert launched(backend).env == {"A": "1", "B": "true", "D": "x"}


@pytest.mark.parametrize(
    ("cwd", "where"), [("sub", "/w/sub"), ("/else", "/else"), ("..", "/"), (None, "/w")]
)
def test_a_relative_cwd_starts_where_planning_did(cwd: str | None, where: str) -> None:
    assert launched({"class_name": "Null", "cwd": cwd}).cwd == where


def test_a_key_that_a_backend_does_not_know_is_the_users() -> None:
    assert launched({"class_name": "Null", "megatron": {"lr": 1}}).command == ("true",)


def test_a_class_of_ones_own_makes_the_command() -> None:
    backend = {"class_name": f"{__name__}:Mine", "image": "sif"}

    assert launched(backend, lr=3).command == ("run", "sif", "3")


def test_a_class_of_ones_own_finds_its_own_problems() -> None:
    assert refused({"class_name": f"{__name__}:Mine"}).where == "backend.image"


@pytest.mark.parametrize(
    ("backend", "where", "message", "hint"),
    [
        (None, "backend", "is missing", "backend: {class_name"),
        ("x", "backend", "is 'x', not a mapping", "backend: {class_name"),
        ({}, "backend.class_name", "is missing", "backends: "),
        (
            {"class_name": "Pythn"},
            "backend.class_name",
            "there is no backend `Pythn`",
            "did you mean `Python`?; your own: pkg.mod:Class",
        ),
        ({"class_name": "Python"}, "backend", "needs module or script", ""),
        (
            {"class_name": "Python", "module": "a", "script": "b"},
            "backend",
            "module and script are both given",
            "",
        ),
        (
            {"class_name": "Python", "module": 3},
            "backend.module",
            "is 3, not text",
            "",
        ),
        (
            {"class_name": "Python", "module": "m", "args": [1]},
            "backend.args",
            "is [1], not a mapping",
            "args: ",
        ),
        (
            {"class_name": "Python", "module": "m", "args": {"a": {"b": 1}}},
            "backend.args.a",
            "is a mapping or a nested list; flags take plain values",
            "",
        ),
        (
            {"class_name": "Python", "module": "m", "underscores": "no"},
            "backend.underscores",
            "is 'no'; it may be dash or keep",
            "",
        ),
        (
            {"class_name": "Command", "command": "a b"},
            "backend.command",
            "is text, not a list",
            "write its words as a list, or use class_name: Bash with `script`",
        ),
        (
            {"class_name": "Command"},
            "backend.command",
            "must be a list of words",
            "command: ",
        ),
        (
            {"class_name": "Bash", "script": " "},
            "backend.script",
            "must be the text of a script",
            "script: |",
        ),
        (
            {"class_name": "Null", "env": {"A": [1]}},
            "backend.env.A",
            "is [1]; a variable is text or a number",
            "",
        ),
        (
            {"class_name": "no.such.module:X"},
            "backend.class_name",
            "`no.such.module:X` cannot be made: No module named 'no'",
            "the module must be importable",
        ),
        (
            {"class_name": f"{__name__}:Half"},
            "backend.class_name",
            f"`{__name__}:Half` has no function command",
            "see autoexp_tui.adapters.backends.Backend",
        ),
    ],
)
def test_a_bad_backend_says_where_what_and_the_next_step(
    backend: object, where: str, message: str, hint: str
) -> None:
    found = refused(backend)

    assert (found.where, found.message) == (where, message)
    assert found.hint.startswith(hint)
