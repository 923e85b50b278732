"""Config files are read once, and what no config holds is refused by line, in time."""

from __future__ import annotations

import gc
import pickle
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from autoexp_tui.config.yaml_files import MAX_DEPTH, YamlFiles, parse_nodes
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from tests.support.refusals import read_refusals

CPU_SECONDS = 2.0
"""Far above what a refusal takes; what it stands against would take hours."""
DEEP = (
    "is nested more than 60 levels deep",
    "keep what belongs together in one mapping, and name it",
)
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
TOO_MANY = (
    "stands for more than 500,000 values, aliases followed",
    "a sweep of params makes many jobs of few lines; aliases repeat values",
)


def problems_of(text: str) -> tuple[Problem, ...]:
    """What is said of a file, which takes next to no time."""
    gc.disable()  # as in the planning process; the heap of many tests is not meant
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # Hypothesis may have raised it
    begun = time.thread_time()
    try:
        with pytest.raises(CannotCompose) as caught:
            parse_nodes(text, "exp.yaml")
        assert time.thread_time() - begun < CPU_SECONDS
    finally:
        gc.enable()
        sys.setrecursionlimit(limit)
    return caught.value.problems


def test_a_file_is_parsed_once_until_it_changes(tmp_path: Path) -> None:
    path, files = tmp_path / "a.yaml", YamlFiles()
    for text, tree in (("x: 1", {"x": 1}), ("x: 22", {"x": 22}), ("# no\n", {})):
        path.write_text(text)
        loaded = files.load(str(path))
        for _ in range(2):
            made = pickle.loads(loaded.blob)
            assert made == tree
            OmegaConf.update(made, "x", 5)  # each reader's container is its own
        assert files.load(str(path)) is loaded


@pytest.mark.parametrize(
    ("text", "line", "words", "hint"),
    read_refusals(__file__, "broken_yaml_names_line_reason_and_next_step"),
)
def test_broken_yaml_names_line_reason_and_next_step(
    text: str, line: int, words: str, hint: str
) -> None:
    (problem,) = problems_of(text)
    assert problem.where == f"exp.yaml:{line}"
    assert words in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(("written", "at", "message"), [
    (b'a: 1\nb: ["${c", 2]\n', ":2", "does not parse: no"),
    (b"a: \xff", "", "not UTF-8"), (b"hello", "", "holds only 'hello'"),
    (b"a: !!bool perhaps", "", "cannot be read"), (b"a: !!set {x}", ":1", "'set' is"),
    (b"a: " + b"9" * 5000, "", "Exceeds the limit"),
    (b"a: '" + b"${" * 400 + b"b" + b"}" * 400 + b"'", "", DEEP[0]),
], ids=["interpolation", "bytes", "word", "tag", "set", "digits", "deep"])  # fmt: skip
def test_a_file_that_is_no_config_says_so(
    written: bytes, at: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "exp.yaml"
    path.write_bytes(written)
    with pytest.raises(CannotCompose) as caught:
        YamlFiles().load(str(path))
    problem = caught.value.problems[0]
    assert problem.where.endswith(f"exp.yaml{at}")
    assert message in problem.message


@pytest.mark.parametrize(("text", "tree"), [
    ("x: 1e-4", {"x": 1e-4}), ("x: {a.b: 1, c: null}", {"x": {"a.b": 1, "c": None}}),
    ("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n",
     {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}),
    ("a: '" + "${b}" * 500 + "'", {"a": "${b}" * 500}),
], ids=["exponent", "flow mapping", "aliases", "interpolations"])  # fmt: skip
def test_yaml_means_what_omegaconf_takes_it_for(text: str, tree: object) -> None:
    assert parse_nodes(text, "exp.yaml")[1] == tree


KEY = (
    f"is not YAML: mapping values are not allowed here: '{'k' * 57}...'",
    "check indentation, and quote text that holds : # { } [ ] or *",
)


@pytest.mark.parametrize(("text", "line", "message", "hint"), [
    pytest.param(LAUGHS, 6, *TOO_MANY, id="a billion laughs"),
    ("a: &a [1, *a]", 1, *DEEP),
    (f"a: {'[' * 80}{']' * 80}", 1, *DEEP),
    # an alias deep in a file counts with what it stands for
    (f"a: &a {'[' * 40}{']' * 40}\nb: {'[' * 30}*a{']' * 30}\n", 2, *DEEP),
    pytest.param("k" * 2000 + ": 1", 1, *KEY, id="2000 characters"),
    *((*row, "") for row in read_refusals(
        __file__, "what_no_config_holds_is_refused_by_line")),
])  # fmt: skip
def test_what_no_config_holds_is_refused_by_line(
    text: str, line: int, message: str, hint: str
) -> None:
    found = problems_of(text)[0]
    assert (found.where, found.message) == (f"exp.yaml:{line}", message)
    assert not hint or found.hint == hint


@pytest.mark.parametrize("text", [
    "a: " + "[" * 1000, "".join(" " * at + f"k{at}:\n" for at in range(2000)),
], ids=["brackets", "indented"])  # fmt: skip
def test_a_file_too_deep_for_the_parser_itself_is_refused(text: str) -> None:
    (problem,) = problems_of(text)
    assert (problem.message, problem.hint) == DEEP
    # The line is known only if the interpreter's own limit leaves room to compose it.
    assert problem.where in ("exp.yaml", "exp.yaml:60")


def test_as_many_levels_as_are_allowed_are_read() -> None:
    brackets = MAX_DEPTH - 2
    _, found = parse_nodes("a: " + "[" * brackets + "]" * brackets, "exp.yaml")
    assert str(found).count("[") == brackets
