"""Programs are asked for their arguments, however they behave when imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from autoexp_tui.backends.argument_import import (
    Source,
    fetch_schema,
    format_group,
    format_schema,
)
from autoexp_tui.backends.argument_schema import decode_schema
from autoexp_tui.model.errors import EnvironmentFailed, UsageError

LIKE_MEGATRON = Path(__file__).with_name("parser_like_megatron.py")


def program(tmp_path: Path, text: str) -> str:
    """A file of a program."""
    path = tmp_path / "train.py"
    path.write_text("import argparse, os, sys, threading, time\n" + text)
    return str(path)


def schema(tmp_path: Path, text: str, function: str = "f") -> dict[str, object]:
    target = f"{program(tmp_path, text)}:{function}"
    return fetch_schema(Source(target=target, limit_seconds=60))


# ---------------------------------------------------------------------- ways to have it
@pytest.mark.parametrize("function", ["add_arguments", "get_parser", "get_args"])
def test_a_parser_is_had_however_the_function_makes_it(function: str) -> None:
    found = fetch_schema(Source(target=f"{LIKE_MEGATRON}:{function}", limit_seconds=60))

    by_dest = decode_schema(found).by_dest
    assert by_dest["kernel"][0].choices == ["fast", "exact"]
    assert by_dest["apply_rope_fusion"][0].action == "false"
    assert by_dest["rampup_batch_size"][0].nargs == 3
    assert by_dest["lr"][0].group == "training"
    assert by_dest["global_batch_size"][0].options == [
        "--global-batch-size", "--gbs",
    ]  # fmt: skip


def test_a_module_is_imported_from_further_directories(tmp_path: Path) -> None:
    program(tmp_path, "def f(p):\n    p.add_argument('--x', type=int, default=3)\n")

    found = fetch_schema(Source(target="train:f", paths=(str(tmp_path),)))

    assert found["defaults"] == {"x": 3}


def test_modules_of_ours_do_not_hide_those_of_the_program(tmp_path: Path) -> None:
    package = tmp_path / "megatron"
    package.mkdir()
    (package / "arguments.py").write_text("def f(p):\n    p.add_argument('--x')\n")

    found = fetch_schema(Source(target="megatron.arguments:f", paths=(str(tmp_path),)))

    assert found["defaults"] == {"x": None}


def test_the_arguments_of_one_sub_command(tmp_path: Path) -> None:
    text = (
        "def f():\n    p = argparse.ArgumentParser()\n    s = p.add_subparsers()\n"
        "    s.add_parser('fit').add_argument('--lr')\n    return p\n"
    )
    target = f"{program(tmp_path, text)}:f"

    assert fetch_schema(Source(target=target, verb="fit"))["defaults"] == {"lr": None}
    with pytest.raises(UsageError, match="it has sub-commands: fit") as caught:
        fetch_schema(Source(target=target))
    assert caught.value.hint == "name one: --verb VERB"
    with pytest.raises(UsageError, match="no sub-command `fitt`") as caught:
        fetch_schema(Source(target=target, verb="fitt"))
    assert caught.value.hint == "did you mean `fit`?"


def test_only_plain_defaults_are_kept(tmp_path: Path) -> None:
    found = schema(
        tmp_path,
        "def f(p):\n"
        "    p.add_argument('--a', default=object())\n"
        "    p.add_argument('--b', default=(1, 2))\n"
        "    p.add_argument('--c', default=float('inf'))\n"
        "    p.add_argument('--d', default='7', type=int)\n"
        "    p.add_argument('--e', default=argparse.SUPPRESS)\n",
    )

    assert found["defaults"] == {"b": [1, 2], "d": 7}


def test_what_a_program_prints_and_starts_is_not_in_the_way(tmp_path: Path) -> None:
    text = (
        "print('hello'); os.write(1, b'noise')\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "def f(p):\n    print('again')\n    p.add_argument('--x')\n"
    )

    assert schema(tmp_path, text)["defaults"] == {"x": None}


def test_help_that_would_steer_a_terminal_is_cleaned(tmp_path: Path) -> None:
    text = "def f(p):\n    p.add_argument('--x', help='a\\x1b[31m red\\n  b 5%%')\n"

    assert decode_schema(schema(tmp_path, text)).actions[0].help == "a red b 5%"


# ------------------------------------------------------------------ what goes wrong
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f():\n    return 3\n", "it gave back a int, not a parser"),
        ("def f(a, b):\n    pass\n", "it takes 2 arguments; a parser is all"),
        ("f = 3\n", "it is a int, neither function nor parser"),
        ("def f(p):\n    raise KeyError('x')\n", "it failed: KeyError: 'x'"),
        ("raise SystemExit(3)\n", "it ended Python with 3"),
        ("def f(:\n", "it failed: SyntaxError"),
    ],
)
def test_what_is_no_parser_is_told(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        schema(tmp_path, text)

    assert caught.value.problem.startswith(message)


def test_a_misspelled_function_is_told_with_the_one_that_is_there(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError) as caught:
        schema(tmp_path, "def get_parser():\n    pass\n", "get_paser")

    assert caught.value.hint == "did you mean `get_parser`?"


def test_a_module_that_is_missing_says_how_to_have_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        schema(tmp_path, "import no_such_gpu_library\n")

    assert caught.value.problem == (
        "cannot be imported: No module named 'no_such_gpu_library'"
    )
    assert "--python PATH" in caught.value.hint


def test_an_import_that_hangs_is_ended(tmp_path: Path) -> None:
    target = f"{program(tmp_path, 'time.sleep(1000)')}:f"

    with pytest.raises(EnvironmentFailed) as caught:
        fetch_schema(Source(target=target, limit_seconds=1.5))

    assert caught.value.problem == "the import took longer than 1.5 s"


def test_an_import_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    text = "sys.stderr.write('no device\\n'); sys.stderr.flush(); os.abort()\n"

    with pytest.raises(EnvironmentFailed, match="without an answer: no device"):
        schema(tmp_path, text)


def test_an_interpreter_that_is_not_there_is_told() -> None:
    with pytest.raises(EnvironmentFailed, match="cannot be started"):
        fetch_schema(Source(target="a:b", python="/none/python"))


@pytest.mark.parametrize("target", ["train", ":f", "train:"])
def test_a_target_without_both_halves_is_told(target: str) -> None:
    with pytest.raises(UsageError, match="names no function"):
        fetch_schema(Source(target=target))


# -------------------------------------------------------------------------------- files
def test_both_files_are_the_same_again() -> None:
    source = Source(target=f"{LIKE_MEGATRON}:get_parser")
    one, other = fetch_schema(source), fetch_schema(source)

    assert format_schema(one) == format_schema(other)
    assert format_group(one, "gpt") == format_group(other, "gpt")
    assert json.loads(format_schema(one)) == one


def test_the_group_tells_of_each_argument_what_it_is() -> None:
    found = fetch_schema(Source(target=f"{LIKE_MEGATRON}:get_parser"))
    text = format_group(found, "gpt")
    loaded = yaml.safe_load(text)

    assert {key: loaded[key] for key in found["defaults"]} == found["defaults"]
    assert set(loaded) == set(decode_schema(found).by_dest)
    assert (
        "# -------------------- training\n\n# The rate.\n# --lr FLOAT\nlr: null\n"
        in text
    )
    assert "# --optimizer {adam, sgd}\noptimizer: adam\n" in text
    assert "# --betas FLOAT\nbetas: [0.9, 0.95]\n" in text
    assert "# --no-rope-fusion\napply_rope_fusion: true\n" in text
    assert "kernel: null # the program's own default is no plain value\n" in text


def test_texts_that_a_config_would_read_otherwise_are_kept_as_they_are(
    tmp_path: Path,
) -> None:
    found = schema(
        tmp_path,
        "def f(p):\n"
        "    p.add_argument('--a', default='${x}')\n"
        "    p.add_argument('--b', default='???')\n"
        "    p.add_argument('--c', default='yes: no # x')\n"
        "    p.add_argument('--d', required=True)\n",
    )

    assert yaml.safe_load(format_group(found, "x")) == {
        "a": "\\${x}", "b": None, "c": "yes: no # x", "d": "???",
    }  # fmt: skip
