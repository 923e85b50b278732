"""Files that would run away, or hold what no config holds, are refused in time."""

from __future__ import annotations

import gc
import time

import pytest

from autoexp_tui.config.yaml_files import MAX_DEPTH, parse_yaml
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose

CPU_SECONDS = 2.0
"""Far above what a refusal takes; what it stands against would take hours."""
DEEP = (
    "is nested more than 60 levels deep",
    "keep what belongs together in one mapping, and name it",
)
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
MERGED = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
)
TOO_MANY = (
    "stands for more than 500,000 values, aliases followed",
    "a sweep of params makes many jobs of few lines; aliases repeat values",
)


def problems_of(text: str) -> tuple[Problem, ...]:
    """What is said of a file, which takes next to no time."""
    gc.disable()  # as in the planning process; the heap of many tests is not meant
    begun = time.process_time()
    try:
        with pytest.raises(CannotCompose) as caught:
            parse_yaml(text, "exp.yaml")
        assert time.process_time() - begun < CPU_SECONDS
    finally:
        gc.enable()
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        pytest.param(LAUGHS, 6, *TOO_MANY, id="a billion laughs"),
        pytest.param(MERGED, 7, *TOO_MANY, id="a billion merges"),
        pytest.param("a: &a [1, *a]", 1, *DEEP, id="a list in itself"),
        pytest.param("a: " + "[" * 80 + "]" * 80, 1, *DEEP, id="lists"),
        pytest.param(
            "b: 1\na: '" + "${b." * 80 + "}" * 80 + "'", 2, *DEEP, id="interpolations"
        ),
        pytest.param(
            "a: '" + "${oc.eval:" * 300 + "}" * 300 + "'", 1, *DEEP, id="expressions"
        ),
        pytest.param(
            "a: 1\nb: " + "9" * 5000, 2,
            "is not YAML: this value cannot be read as !!int: 'b: " + "9" * 94 + "...'",
            "quote it, if it is text", id="a number of 5000 digits",
        ),
        pytest.param(
            "a: !!bool perhaps", 1,
            "is not YAML: this value cannot be read as !!bool: 'a: !!bool perhaps'",
            "quote it, if it is text", id="a tag that lies",
        ),
        *(
            pytest.param(
                f"a: {tag} x", 1,
                f"is not YAML: {tag} is no kind of value for configs: 'a: {tag} x'",
                "use text, numbers, true, false, null, lists and mappings", id=tag,
            )
            for tag in ("!!set", "!!timestamp", "!!python/object/apply:os.system")
        ),
        pytest.param(
            "a: =", 1, "is not YAML: !!value is no kind of value for configs: 'a: ='",
            "use text, numbers, true, false, null, lists and mappings", id="=",
        ),
        pytest.param(
            "null: 1", 1, "the key null is nothing to YAML",
            "write a key before the `:`, and quote it", id="null as a key",
        ),
        pytest.param(
            "? [a]\n: 1", 1,
            "is not YAML: found unhashable key (while constructing a mapping): '? [a]'",
            "check indentation, and quote text that holds : # { } [ ] or *",
            id="a list as a key",
        ),
        pytest.param(
            "a: 1\nb: \0", 2,
            "is not YAML: the character '\\x00' is not allowed", "take it out",
            id="a character that YAML lacks",
        ),
        pytest.param(
            "a: 1\n---\nb: 2", 2,
            "is not YAML: but found another document (expected a single document in "
            "the stream that begins in line 1): '---'",
            "a file is one document: take out the second `---`", id="two documents",
        ),
        pytest.param(
            "a: *b", 1, "is not YAML: found undefined alias 'b': 'a: *b'",
            "name it before with `&`; text that begins with * wants quotes",
            id="an alias of nothing",
        ),
        pytest.param(
            r'a: "\q"', 1,
            "is not YAML: found unknown escape character 'q' (while scanning a "
            r"""double-quoted scalar): 'a: "\\q"'""",
            "double the backslash, or use single quotes", id="an escape",
        ),
        pytest.param(
            "a: 1\na: 2", 2,
            "is not YAML: found duplicate key a (while constructing a mapping that "
            "begins in line 1): 'a: 2'",
            "keep one of the two", id="a key twice",
        ),
        pytest.param(
            "k" * 2000 + ": 1", 1,
            "is not YAML: mapping values are not allowed here: '" + "k" * 97 + "...'",
            "check indentation, and quote text that holds : # { } [ ] or *",
            id="a key of 2000 characters",
        ),
    ],
)  # fmt: skip
def test_what_no_config_holds_is_refused_by_line(
    text: str, line: int, message: str, hint: str
) -> None:
    assert problems_of(text)[0] == Problem(message, f"exp.yaml:{line}", hint=hint)


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 5000, "".join(" " * at + f"k{at}:\n" for at in range(2000))],
    ids=["brackets", "indented"],
)
def test_a_file_too_deep_for_the_parser_itself_is_refused(text: str) -> None:
    assert problems_of(text) == (Problem(DEEP[0], "exp.yaml", hint=DEEP[1]),)


def test_an_alias_deep_in_a_file_counts_with_what_it_stands_for() -> None:
    brackets = "[" * 40 + "]" * 40
    found = problems_of(f"a: &a {brackets}\nb: {'[' * 30}*a{']' * 30}\n")
    assert found[0].message == DEEP[0]


def test_as_many_levels_as_are_allowed_are_read() -> None:
    brackets = MAX_DEPTH - 2
    found = parse_yaml("a: " + "[" * brackets + "]" * brackets, "exp.yaml")
    assert str(found).count("[") == brackets


def test_an_alias_repeats_its_anchor() -> None:
    tree = parse_yaml("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n", "exp.yaml")
    assert tree == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


def test_many_interpolations_beside_one_another_are_read() -> None:
    assert parse_yaml("a: '" + "${b}" * 500 + "'", "exp.yaml")


@pytest.mark.parametrize("text", ['a: 1\nb: "x\\0y"\n', 'a: 1\n"b\\0": 1\n'])
def test_a_null_character_is_refused_at_its_line(text: str) -> None:
    (found,) = problems_of(text)
    assert (found.where, found.message) == ("exp.yaml:2", "holds a null character")
