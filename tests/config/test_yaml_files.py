from __future__ import annotations

import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from autoexp_tui.config.yaml_files import YamlFiles, parse_yaml
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose


def problem_of(text: str) -> Problem:
    with pytest.raises(CannotCompose) as caught:
        parse_yaml(text, "exp.yaml")
    return caught.value.problems[0]


def test_a_file_is_parsed_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x: 1")
    files = YamlFiles()
    for _ in range(3):
        files.load(str(path))
    path.write_text("x: 22")
    files.load(str(path))

    assert files.parsed == 2


def test_each_reader_gets_a_container_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x: 1")
    loaded = YamlFiles().load(str(path))
    OmegaConf.update(loaded.container(), "x", 5)

    assert loaded.container() == {"x": 1}


def test_an_exponent_without_a_dot_is_a_number() -> None:
    assert parse_yaml("x: 1e-4", "exp.yaml") == {"x": 1e-4}


def test_an_empty_file_is_an_empty_config(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("# nothing\n")

    assert YamlFiles().load(str(path)).container() == {}


def test_an_unquoted_reference_says_quote_it_with_its_line() -> None:
    problem = problem_of("a: 1\nload: {sibling.stable.output_dir}\n")

    assert problem.where == "exp.yaml:2"
    assert problem.message == (
        "{sibling.stable.output_dir} is a YAML mapping, not a reference"
    )
    assert problem.hint == 'quote it: "{sibling.stable.output_dir}"'


@pytest.mark.parametrize(
    "line",
    [
        "load: {sibling.stable.output_dir}/x",
        "load: {sibling[_stage=stable].output_dir}",
        "- {all.evaluate.name}, b",
    ],
)
def test_an_unquoted_reference_that_does_not_parse_says_quote_it(line: str) -> None:
    problem = problem_of(f"{line}\n")

    assert problem.where == "exp.yaml:1"
    assert problem.hint.startswith("quote it")


def test_a_flow_mapping_with_values_is_no_reference() -> None:
    assert parse_yaml("x: {a.b: 1, c: null}", "e") == {"x": {"a.b": 1, "c": None}}


@pytest.mark.parametrize(
    ("text", "line", "words", "hint"),
    [
        ("a: 1\n\tb: 2\n", 2, "'\\t'", "spaces"),
        ("a: 1\na: 2\n", 2, "duplicate key a", "keep one"),
        ("a: [1, 2\nb: 3\n", 2, "that begins in line 1", "close the [ of line 1"),
        ("a: {b: 1\nc: 3\n", 2, "that begins in line 1", "close the { of line 1"),
        ("a: [1\nb: ${c}\n", 2, "is not YAML", "close the [ of line 1"),
        ("a: b\n c: d\n", 2, "is not YAML", "check indentation"),
        ("a: x: y\n", 1, "mapping values are not allowed", "quote text"),
        ("a: [${b}]\n", 1, "is not YAML", "quote the value"),
        ("time: 1:30:00\n", 1, "base 60", 'quote it: "1:30:00"'),
    ],
)
def test_broken_yaml_names_line_reason_and_next_step(
    text: str, line: int, words: str, hint: str
) -> None:
    problem = problem_of(text)

    assert problem.where == f"exp.yaml:{line}"
    assert words in problem.message
    assert hint in problem.hint


def loading(path: Path) -> Problem:
    with pytest.raises(CannotCompose) as caught:
        YamlFiles().load(str(path))
    return caught.value.problems[0]


def test_a_broken_interpolation_is_found_by_line(tmp_path: Path) -> None:
    path = tmp_path / "exp.yaml"
    path.write_text('a: 1\nb: ["${c", 2]\n')
    problem = loading(path)

    assert problem.where.endswith("exp.yaml:2")
    assert "'${c' does not parse" in problem.message


def test_a_file_that_is_no_utf8_says_so(tmp_path: Path) -> None:
    path = tmp_path / "exp.yaml"
    path.write_bytes(b"a: \xff")

    assert "not UTF-8" in loading(path).message


def test_a_file_with_one_word_is_no_config(tmp_path: Path) -> None:
    path = tmp_path / "exp.yaml"
    path.write_text("hello")

    assert "holds only 'hello'" in loading(path).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    path = tmp_path / "exp.yaml"
    path.write_text("a: 1")
    path.chmod(0)

    assert "Permission denied" in loading(path).message
