"""Arguments of programs: asked for, kept in files, and written as the program reads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.backends.argument_import import (
    Source,
    fetch_schema,
    format_group,
    format_schema,
)
from autoexp_tui.backends.argument_probe import extract_schema
from autoexp_tui.backends.arguments import (
    Action,
    Rendered,
    Schema,
    SchemaRenderer,
    decode_schema,
)
from autoexp_tui.model.errors import AutoexpError, UsageError
from tests.backends.parser_like_megatron import get_parser
from tests.support.refusals import read_refusals

LIKE_MEGATRON = Path(__file__).with_name("parser_like_megatron.py")
Fetch = Callable[..., dict[str, Any]]


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    """What is fetched of a program of this text."""

    def run(text: str, function: str = "f", **given: Any) -> dict[str, Any]:
        path = tmp_path / "train.py"
        path.write_text("import argparse, os, sys, threading, time\n" + text)
        return fetch_schema(
            Source(target=f"{path}:{function}", **{"limit_seconds": 60, **given})
        )

    return run


@pytest.mark.parametrize("function", ["add_arguments", "get_parser", "get_args"])
def test_a_parser_is_had_however_the_function_makes_it(function: str) -> None:
    found = fetch_schema(Source(target=f"{LIKE_MEGATRON}:{function}", limit_seconds=60))
    by_dest = decode_schema(found).by_dest
    assert by_dest["kernel"][0].choices == ["fast", "exact"]
    assert by_dest["apply_rope_fusion"][0].action == "false"
    assert by_dest["rampup_batch_size"][0].nargs == 3
    assert by_dest["lr"][0].group == "training"
    both = ["--global-batch-size", "--gbs"]
    assert by_dest["global_batch_size"][0].options == both


@pytest.mark.parametrize("module", ["train", "megatron.arguments"])
def test_a_module_is_imported_from_further_directories_and_none_of_ours_hides_it(
    tmp_path: Path, module: str
) -> None:
    path = (tmp_path / module.replace(".", "/")).with_suffix(".py")
    path.parent.mkdir(exist_ok=True)
    path.write_text("def f(p):\n    p.add_argument('--x', type=int, default=3)\n")
    found = fetch_schema(Source(target=f"{module}:f", paths=(str(tmp_path),)))
    assert found["defaults"] == {"x": 3}


VERBS = """
def f():
    p = argparse.ArgumentParser()
    p.add_subparsers().add_parser('fit').add_argument('--lr')
    return p
"""


def test_the_arguments_of_one_sub_command(fetch: Fetch) -> None:
    assert fetch(VERBS, verb="fit")["defaults"] == {"lr": None}
    for verb, problem, hint in (
        ("", "it has sub-commands: fit", "name one: --verb VERB"),
        ("fitt", "no sub-command `fitt`", "did you mean `fit`?"),
    ):
        with pytest.raises(UsageError, match=problem) as caught:
            fetch(VERBS, verb=verb)
        assert caught.value.hint == hint


NOISY = """
print('hello'); os.write(1, b'noise')
threading.Thread(target=time.sleep, args=(1000,)).start()
def f(p):
    print('again')
    p.add_argument('--a', default=object(), help='a\\x1b[31m red\\n  b 5%%')
    p.add_argument('--b', default=(1, 2))
    p.add_argument('--c', default=float('inf'))
    p.add_argument('--d', default='7', type=int)
    p.add_argument('--e', default=argparse.SUPPRESS)
"""


def test_noise_is_not_in_the_way_help_is_cleaned_and_plain_defaults_kept(
    fetch: Fetch,
) -> None:
    found = fetch(NOISY)
    assert found["defaults"] == {"b": [1, 2], "d": 7}
    assert decode_schema(found).actions[0].help == "a red b 5%"


@pytest.mark.parametrize(
    ("text", "given", "kind", "message", "hint"),
    read_refusals(__file__, "what_gives_no_parser_is_told_with_the_next_step"),
)
def test_what_gives_no_parser_is_told_with_the_next_step(
    fetch: Fetch,
    text: str,
    given: dict[str, Any],
    kind: str,
    message: str,
    hint: str,
) -> None:
    with pytest.raises(AutoexpError) as caught:
        fetch(text, **given)
    assert type(caught.value).__name__ == kind
    assert caught.value.problem.startswith(message)
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("target", ["train", ":f", "train:"])
def test_a_target_without_both_halves_is_told(target: str) -> None:
    with pytest.raises(UsageError, match="names no function"):
        fetch_schema(Source(target=target))


def test_files_are_the_same_again_and_the_group_tells_what_each_argument_is() -> None:
    source = Source(target=f"{LIKE_MEGATRON}:get_parser")
    found, other = fetch_schema(source), fetch_schema(source)
    text = format_group(found, "gpt")
    assert format_schema(found) == format_schema(other)
    assert text == format_group(other, "gpt")
    assert json.loads(format_schema(found)) == found
    loaded = yaml.safe_load(text)
    assert {key: loaded[key] for key in found["defaults"]} == found["defaults"]
    assert set(loaded) == set(decode_schema(found).by_dest)
    for lines in (
        f"# {'-' * 20} training\n\n# The rate.\n# --lr FLOAT\nlr: null\n",
        "# --optimizer {adam, sgd}\noptimizer: adam\n",
        "# --betas FLOAT\nbetas: [0.9, 0.95]\n",
        "# --no-rope-fusion\napply_rope_fusion: true\n",
        "kernel: null # the program's own default is no plain value\n",
    ):
        assert lines in text


def schema_of(parser: argparse.ArgumentParser) -> Schema:
    return decode_schema(described(parser))


def described(parser: argparse.ArgumentParser) -> dict[str, Any]:
    return {"autoexp_schema": 1, "source": "train.py", **extract_schema(parser)}


def small(*arguments: tuple[str, Mapping[str, Any]], **given: Any) -> Schema:
    return schema_of(parser_of(*arguments, **given))


def parser_of(
    *arguments: tuple[str, Mapping[str, Any]], **given: Any
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(**given)
    for name, how in arguments:
        parser.add_argument(name, **how)
    return parser


def test_texts_that_a_config_would_read_otherwise_are_kept_as_they_are() -> None:
    texts = {"--a": "${x}", "--b": "???", "--c": "yes: no # x"}
    arguments = [(name, {"default": text}) for name, text in texts.items()]
    made = parser_of(*arguments, ("--d", {"required": True}))
    wanted = {"a": "\\${x}", "b": None, "c": "yes: no # x", "d": "???"}
    assert yaml.safe_load(format_group(described(made), "x")) == wanted


PARSER = get_parser()
SCHEMA = schema_of(PARSER)


def rendered(args: Mapping[str, object], schema: Schema = SCHEMA) -> Rendered:
    return SchemaRenderer(schema, "megatron").render(args)


WHOLE = st.integers(-(10**12), 10**12)
REAL = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=12).filter(lambda text: text != "--" and "\0" not in text)
ITEM = TEXT.filter(lambda text: not text.startswith("-"))
SWITCHES = ("bf16", "fp16", "apply_rope_fusion", "nccl_ub", "check_nan")
SIZED: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("num_layers", "seq_length"), WHOLE),
    **dict.fromkeys(("lr", "min_lr"), REAL),
    **dict.fromkeys(("save", "wandb", "resume"), TEXT),
    **dict.fromkeys(SWITCHES, st.booleans()),
    "optimizer": st.sampled_from(["adam", "sgd"]),
    "betas": st.lists(REAL, min_size=1, max_size=4),
    "rampup_batch_size": st.lists(WHOLE, min_size=3, max_size=3),
    "data_path": st.lists(ITEM, max_size=4),
    "profile_ranks": st.lists(WHOLE, min_size=1, max_size=3),
    "tag": st.lists(ITEM, min_size=1, max_size=3),
    "log_level": st.integers(0, 5),
    "mode": st.sampled_from(["eval", "train"]),
}


@given(st.fixed_dictionaries({}, optional=SIZED))
def test_the_program_reads_back_what_the_config_says(args: dict[str, object]) -> None:
    found = rendered(args)
    assert found.problems == ()
    values = vars(PARSER.parse_args(list(found.words)))
    assert {key: values[key] for key in args} == args


USUAL = {"bf16": False, "lr": None, "apply_rope_fusion": True, "seq_length": 2048}


@pytest.mark.parametrize(("args", "words"), [
    ({"lr": 3e-4, "bf16": True}, "--lr 0.0003 --bf16"),
    ({**USUAL, "min_lr": 0, "betas": [0.9, 0.95]}, ""),
    ({"apply_rope_fusion": False, "check_nan": False},
     "--no-rope-fusion --no-check-nan"),
    ({"betas": [0.9, 0.99], "min_lr": -1e-5}, "--betas 0.9 0.99 --min-lr=-1e-05"),
    ({"betas": [-1e-5]}, "--betas -0.00001"),
    ({"train_iters": 25000.0, "nccl_ub": True}, "--train-iters 25000 --use-nccl-ub"),
    # keys may be spelled as the flags are
    ({"use_nccl_ub": True, "gbs": 64}, "--use-nccl-ub --global-batch-size 64"),
    ({"no_rope_fusion": True}, "--no-rope-fusion"),
    ({"kernel": "exact", "wandb": "online"}, "--kernel exact --wandb"),
    ({"mode": "eval", "log_level": 2}, "--mode-eval --log-level --log-level"),
    ({"expert_freq": "([1]*3)"}, "--expert-freq ([1]*3)"),
    ({"data_path": []}, "--data-path"),
])  # fmt: skip
def test_a_value_becomes_the_words_that_the_program_knows(
    args: Mapping[str, object], words: str
) -> None:
    assert rendered(args) == Rendered(tuple(words.split()))


@pytest.mark.parametrize(
    ("args", "where", "message", "hint"),
    read_refusals(__file__, "a_wrong_argument_says_where_what_and_the_next_step"),
)
def test_a_wrong_argument_says_where_what_and_the_next_step(
    args: Mapping[str, object], where: str, message: str, hint: str
) -> None:
    (problem,) = rendered(args).problems
    assert problem.where == f"backend.megatron.{where}"
    assert (problem.message, problem.hint) == (message, hint)


POSITIONS = small(("source", {}), ("target", {"nargs": "?"}), ("--xs", {"nargs": "*"}))
RANKS = Schema(
    actions=tuple(Action(dest=d, nargs="?", type="int") for d in ("rank", "steps")),
    defaults={"rank": 5},
)
NEEDED = small(("--data", {"required": True}))
ALWAYS = small(("--fast", {"action": "store_true", "default": True}))
NEVER = small(("--no-r", {"action": "store_false", "dest": "r", "default": None}))
LEVELS = small(
    *(
        (flag, {"action": "append_const", "const": const, "dest": "levels"})
        for flag, const in (("--low", 1), ("--high", 3))
    )
)
EITHER = argparse.ArgumentParser()
_GROUP = EITHER.add_mutually_exclusive_group(required=True)
_GROUP.add_argument("--a")
_GROUP.add_argument("--b", action="store_true")


NO_FLAG = "which the program has no flag for"
LACKS = "is missing; the program does not start without it"


@pytest.mark.parametrize(
    ("schema", "args", "outcome"),
    [
        (NEEDED, {"data": "x"}, ["--data", "x"]),
        (NEEDED, {}, [f".data {LACKS}"]),
        (schema_of(EITHER), {"b": True}, ["--b"]),
        (schema_of(EITHER), {"b": False}, [" one of a, b is needed"]),
        # arguments by position come last, in the program's order, none left out before
        (POSITIONS, {"target": "-b", "source": "a"}, ["--", "a", "-b"]),
        (POSITIONS, {"source": "a", "xs": [1]}, ["--xs", "1", "--", "a"]),
        (POSITIONS, {"target": "b"}, [f".source {LACKS}"]),
        (RANKS, {"rank": 5, "steps": 7}, ["--", "5", "7"]),
        (ALWAYS, {"fast": False}, [f".fast is false, {NO_FLAG}"]),
        (NEVER, {"r": False}, ["--no-r"]),
        (NEVER, {"r": True}, [f".r is true, {NO_FLAG}"]),
        # type=bool calls only the empty text false
        (small(("--old", {"type": bool})), {"old": False}, ["--old", ""]),
        (LEVELS, {"levels": None}, []),
        (LEVELS, {"levels": [1, 3]}, [f".levels is [1, 3], {NO_FLAG}"]),
        (SCHEMA, {"betas": [True]}, [".betas is [True], which --betas does not take"]),
    ],
)
def test_what_a_program_needs_has_no_flag_for_or_reads_otherwise(
    schema: Schema, args: Mapping[str, object], outcome: list[str]
) -> None:
    found = rendered(args, schema)
    said = [f"{one.where} {one.message}" for one in found.problems]
    wrong = [one.removeprefix("backend.megatron") for one in said]
    assert (wrong or list(found.words)) == outcome
