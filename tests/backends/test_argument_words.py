"""parse(command(config)) == config: the program reads back what the config says."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.backends.argument_probe import extract_schema
from autoexp_tui.backends.argument_schema import Action, Schema, decode_schema
from autoexp_tui.backends.arguments import Rendered, SchemaRenderer
from tests.backends.parser_like_megatron import get_parser
from tests.support.refusals import read_refusals


def schema_of(parser: argparse.ArgumentParser) -> Schema:
    return decode_schema(
        {"autoexp_schema": 1, "source": "train.py", **extract_schema(parser)}
    )


PARSER = get_parser()
SCHEMA = schema_of(PARSER)


def rendered(args: Mapping[str, object], schema: Schema = SCHEMA) -> Rendered:
    return SchemaRenderer(schema, "megatron").render(args)


def read_back(args: Mapping[str, object]) -> Mapping[str, object]:
    """What the program's own parser makes of the words, where the config says it."""
    found = rendered(args)
    assert found.problems == ()
    values = vars(PARSER.parse_args(list(found.words)))
    return {key: values[key] for key in args}


WHOLE = st.integers(-(10**12), 10**12)
REAL = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=12).filter(lambda text: text != "--" and "\0" not in text)
ITEM = TEXT.filter(lambda text: not text.startswith("-"))
SIZED: dict[str, st.SearchStrategy[Any]] = {
    "num_layers": WHOLE,
    "seq_length": WHOLE,
    "lr": REAL,
    "min_lr": REAL,
    "save": TEXT,
    "wandb": TEXT,
    "resume": TEXT,
    "optimizer": st.sampled_from(["adam", "sgd"]),
    "betas": st.lists(REAL, min_size=1, max_size=4),
    "rampup_batch_size": st.lists(WHOLE, min_size=3, max_size=3),
    "data_path": st.lists(ITEM, max_size=4),
    "profile_ranks": st.lists(WHOLE, min_size=1, max_size=3),
    "tag": st.lists(ITEM, min_size=1, max_size=3),
    "log_level": st.integers(0, 5),
    "mode": st.sampled_from(["eval", "train"]),
    **dict.fromkeys(
        ("bf16", "fp16", "apply_rope_fusion", "nccl_ub", "check_nan"), st.booleans()
    ),
}


@given(st.fixed_dictionaries({}, optional=SIZED))
def test_the_program_reads_back_what_the_config_says(args: dict[str, object]) -> None:
    assert read_back(args) == args


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"lr": 3e-4, "bf16": True}, ["--lr", "0.0003", "--bf16"]),
        ({"bf16": False, "lr": None}, []),
        ({"apply_rope_fusion": False}, ["--no-rope-fusion"]),
        ({"apply_rope_fusion": True}, []),
        ({"check_nan": False}, ["--no-check-nan"]),
        ({"betas": [0.9, 0.99]}, ["--betas", "0.9", "0.99"]),
        ({"betas": [0.9, 0.95]}, []),
        ({"seq_length": 2048, "min_lr": 0}, []),
        ({"min_lr": -1e-5}, ["--min-lr=-1e-05"]),
        ({"betas": [-1e-5]}, ["--betas", "-0.00001"]),
        ({"train_iters": 25000.0}, ["--train-iters", "25000"]),
        ({"nccl_ub": True}, ["--use-nccl-ub"]),
        ({"use_nccl_ub": True}, ["--use-nccl-ub"]),
        ({"no_rope_fusion": True}, ["--no-rope-fusion"]),
        ({"gbs": 64}, ["--global-batch-size", "64"]),
        ({"kernel": "exact"}, ["--kernel", "exact"]),
        ({"wandb": "online"}, ["--wandb"]),
        ({"mode": "eval"}, ["--mode-eval"]),
        ({"log_level": 2}, ["--log-level", "--log-level"]),
        ({"expert_freq": "([1]*3)"}, ["--expert-freq", "([1]*3)"]),
        ({"data_path": []}, ["--data-path"]),
    ],
)
def test_a_value_becomes_the_words_that_the_program_knows(
    args: Mapping[str, object], words: list[str]
) -> None:
    assert rendered(args) == Rendered(tuple(words))


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


def small(add: Callable[[argparse.ArgumentParser], object]) -> Schema:
    parser = argparse.ArgumentParser()
    add(parser)
    return schema_of(parser)


def test_a_missing_argument_that_the_program_needs_is_told() -> None:
    schema = small(lambda p: p.add_argument("--data", required=True))

    (problem,) = rendered({}, schema).problems

    assert problem.where == "backend.megatron.data"
    assert problem.message == "is missing; the program does not start without it"
    assert rendered({"data": "x"}, schema).problems == ()


def test_an_exclusive_group_may_need_one() -> None:
    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--a")
        group.add_argument("--b", action="store_true")

    assert rendered({"b": False}, small(add)).problems[0].message == (
        "one of a, b is needed"
    )
    assert rendered({"b": True}, small(add)).words == ("--b",)


def test_arguments_by_position_come_last_and_in_the_programs_order() -> None:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source")
        parser.add_argument("target", nargs="?")
        parser.add_argument("--xs", nargs="*")

    schema = small(add)
    args = {"target": "-b", "source": "a", "xs": [1]}

    assert rendered(args, schema).words == ("--xs", "1", "--", "a", "-b")
    problems = rendered({"target": "b"}, schema).problems
    assert [problem.where for problem in problems] == [
        "backend.megatron.source", "backend.megatron.target",
    ]  # fmt: skip


def test_a_switch_that_cannot_be_turned_off_is_told() -> None:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--fast", action="store_true", default=True)

    (problem,) = rendered({"fast": False}, small(add)).problems

    assert problem.message == "is false, which the program has no flag for"
    assert problem.hint == "has --fast"


def test_a_switch_that_only_turns_off_what_was_never_on_is_told() -> None:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--no-round", action="store_false", dest="r", default=None)

    assert rendered({"r": False}, small(add)).words == ("--no-round",)
    assert len(rendered({"r": True}, small(add)).problems) == 1


def test_type_bool_calls_only_the_empty_text_false() -> None:
    schema = small(lambda p: p.add_argument("--old", type=bool, default=True))

    assert rendered({"old": False}, schema).words == ("--old", "")


def test_a_value_that_the_program_would_read_as_a_file_is_joined() -> None:
    parser = argparse.ArgumentParser(fromfile_prefix_chars="@")
    parser.add_argument("--name")

    assert rendered({"name": "@me"}, schema_of(parser)).words == ("--name=@me",)


def test_values_of_other_kinds_are_not_confused() -> None:
    renderer = SchemaRenderer(SCHEMA, "megatron")

    assert renderer.render({"num_layers": 1}).problems == ()
    assert len(renderer.render({"num_layers": True}).problems) == 1
    assert len(renderer.render({"betas": [True]}).problems) == 1
    assert renderer.render({"betas": [1]}).problems == ()


def test_a_position_that_holds_its_default_keeps_the_place_before_another() -> None:
    schema = Schema(
        actions=(
            Action(dest="rank", nargs="?", type="int"),
            Action(dest="steps", nargs="?", type="int"),
        ),
        defaults={"rank": 5},
    )
    found = SchemaRenderer(schema, "args").render({"rank": 5, "steps": 7})
    assert found == Rendered(("--", "5", "7"))


LEVELS = argparse.ArgumentParser()
LEVELS.add_argument("--low", action="append_const", const=1, dest="levels")
LEVELS.add_argument("--high", action="append_const", const=3, dest="levels")


@pytest.mark.parametrize("value", [2, [1, 3], True])
def test_values_that_flags_add_are_refused(value: object) -> None:
    (found,) = rendered({"levels": value}, schema_of(LEVELS)).problems
    assert found.message == (
        f"is {value!r}; --low, --high: no config can add values by flags"
    )
    assert rendered({"levels": None}, schema_of(LEVELS)) == Rendered(())
