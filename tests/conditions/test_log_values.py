"""Where values of logs may stand in commands and paths, and which values may."""

from __future__ import annotations

import re

import pytest

from autoexp_tui.conditions.log_values import (
    Refused,
    check_command_value,
    check_one_name,
    explain_never,
    find_unsafe,
    is_plain,
)


def never(*words: str) -> str:
    """Why no value may stand in the place of `{k}`."""
    at = next(at for at, word in enumerate(words) if "{k}" in word)
    match = re.search(re.escape("{k}"), words[at])
    assert match is not None
    return explain_never(words, at, *match.span())


@pytest.mark.parametrize("words", [
    ("convert", "{k}"), ("convert", "--from={k}"),
    ("timeout", "5", "nice", "convert", "{k}"),
    ("timeout", "-s", "KILL", "5m", "convert", "-v", "{k}"),
    ("env", "A=b", "-u", "LD_PRELOAD", "convert", "{k}"),
    ("ssh", "-q", "--", "node", "convert", "{k}"),
    ("sudo", "-u", "root", "convert", "{k}"), ("sudo", "-n", "--", "convert", "{k}"),
    ("srun", "--overlap", "python", "eval.py", "{k}"),
    ("srun", "--gpus=1", "convert", "{k}"),
    ("docker", "run", "image", "convert", "{k}"),
    ("python", "-u", "train.py", "--lr", "{k}"),
    ("python", "-m", "package.eval", "{k}"), ("bash", "train.sh", "{k}"),
    ("uv", "run", "python", "train.py", "{k}"), ("sh", "-c", "echo $1", "--", "{k}"),
    ("python", "train.py", "--lr", "{k}"),
])  # fmt: skip
def test_a_value_may_be_a_word_or_end_an_option(words: tuple[str, ...]) -> None:
    assert never(*words) == ""


@pytest.mark.parametrize(("words", "why"), [
    (("timeout", "5", "nice", "bash", "-lc", "ls {k}"), "blanks"),
    (("ssh", "node", "ls {k}"), "blanks"), (("sh", "-c", "ls\t{k}"), "blanks"),
    (("python3", "-Ic", "{k}"), "behind -Ic"), (("bash", "-c", "{k}"), "behind -c"),
    (("perl", "-ne", "{k}"), "behind -ne"), (("node", "--eval={k}"), "behind --eval"),
    (("node", "--eval", "{k}"), "behind --eval"), (("{k}", "a"), "program"),
    (("env", "{k}"), "program"), (("env", "A=b", "--", "{k}"), "program"),
    (("timeout", "5", "nice", "-n", "10", "{k}"), "program"),
    (("timeout", "-s", "KILL", "5", "{k}"), "program"),
    (("/usr/bin/ssh", "node", "{k}"), "program"),
    (("ssh", "-i", "key", "node", "{k}"), "program"),
    (("sudo", "-u", "root", "{k}"), "program"),
    (("sudo", "-n", "convert", "{k}"), "program"),
    (("srun", "-p", "gpu", "{k}"), "program"),
    (("srun", "--partition", "gpu", "{k}"), "program"),
    (("srun", "--partition", "gpu", "env", "{k}"), "program"),
    (("stdbuf", "-o", "l", "{k}"), "program"), (("chroot", "/x", "{k}"), "program"),
    (("flock", "/l", "{k}"), "program"), (("docker", "run", "image", "{k}"), "program"),
    (("bash", "{k}"), "program"), (("python3.11", "-u", "{k}"), "program"),
    (("python", "-m", "{k}"), "program"),
    (("srun", "-n", "1", "python", "{k}"), "program"),
    (("find", ".", "-execdir", "{k}"), "behind -execdir"),
    (("python", "-cprint({k})"), "part of a word"),
    (("ls", "/o/{k}"), "part of a word"), (("ls", "{k}/x"), "part of a word"),
    (("train", "lr={k}"), "part of a word"), (("train", "-x={k}"), "part of a word"),
    (("train", "--x={k}/y"), "part of a word"),
])  # fmt: skip
def test_a_value_is_never_a_program_a_script_or_a_part(
    words: tuple[str, ...], why: str
) -> None:
    assert why in never(*words)


@pytest.mark.parametrize("value", ["a", "/o/iter_8000", "1e-4", "a@b:c,d%e=f+g"])
def test_these_are_plain(value: str) -> None:
    assert is_plain(value)
    assert check_command_value(("x", "{k}"), 1, value) == value


@pytest.mark.parametrize(
    "value",
    ["", "-rf", "--x", "a b", "a;b", "$(x)", "`x`", "a\nb", "~", "*", "é", "a\n"],
)
def test_these_are_not(value: str) -> None:
    assert not is_plain(value)
    with pytest.raises(Refused):
        check_command_value(("x", "{k}"), 1, value)


def test_behind_two_dashes_any_value_stands_but_where_words_are_joined() -> None:
    behind = ("sh", "-c", "echo $1", "--", "{k}")
    assert check_command_value(behind, 4, "-a; b") == "-a; b"
    with pytest.raises(Refused):
        check_command_value(("ssh", "node", "--", "ls", "{k}"), 4, "a; b")


@pytest.mark.parametrize("value", ["..", ".", "", "a/b", "/a", "a\0"])
def test_a_name_in_a_path_is_no_path(value: str) -> None:
    with pytest.raises(Refused):
        check_one_name(value)


def test_a_value_in_a_script_is_found() -> None:
    script = ("bash", "-c", "python t.py --load=/x;reboot")
    assert find_unsafe(script, ("/x;reboot",)) == "/x;reboot"
    assert find_unsafe(script, ("/x", "elsewhere;")) == ""
    assert find_unsafe(("python", "t.py", "/x;reboot"), ("/x;reboot",)) == ""
