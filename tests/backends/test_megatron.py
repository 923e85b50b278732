"""Megatron's command line and its variables, with and without a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from autoexp_tui.backends.argument_probe import extract_schema
from autoexp_tui.backends.base import Places
from tests.backends.backend_configs import found, launched, refused
from tests.backends.parser_like_megatron import get_parser

BASE = {
    "class_name": "MegatronTorchrun",
    "script": "pretrain_gpt.py",
    "torchrun": {"nproc_per_node": 8},
}
FSDP = {**BASE, "class_name": "MegatronFsdp"}


def megatron(**args: object) -> Mapping[str, object]:
    return {**BASE, "megatron": args}


def fsdp(kind: str | None = None, **args: object) -> Mapping[str, object]:
    return {**FSDP, "fsdp": kind, "megatron": args}


def arguments(backend: Mapping[str, object], places: Places | None = None) -> list[str]:
    """The words behind the script."""
    command = launched(backend, places).command
    return list(command[command.index("pretrain_gpt.py") + 1 :])


def test_arguments_are_as_megatron_takes_them() -> None:
    args = {
        "lr": 1e-4, "train_iters": 100, "bf16": True, "fp16": False, "load": None,
        "data_path": ["0.3", "a", "0.7", "b"], "min_lr": -1e-5,
        "apply_rope_fusion": False, "bias_gelu_fusion": True,
        "override_opt_param_scheduler": True, "fp8": "hybrid",
        "aux": {"tokens": 5, "nested": {"x": [1]}},
    }  # fmt: skip

    assert arguments(megatron(**args)) == [
        "--lr", "0.0001", "--train-iters", "100", "--bf16",
        "--data-path", "0.3", "a", "0.7", "b", "--min-lr=-1e-05",
        "--no-rope-fusion", "--override-opt_param-scheduler", "--fp8-format", "hybrid",
    ]  # fmt: skip


def test_a_module_is_run_as_one() -> None:
    backend = {**BASE, "script": None, "module": "my.pretrain", "megatron": {"lr": 1}}

    assert launched(backend).command[-4:] == ("-m", "my.pretrain", "--lr", "1")


@pytest.mark.parametrize(
    ("backend", "value"),
    [
        (BASE, "1"),
        (FSDP | {"megatron": {"ckpt_format": "fsdp_dtensor"}}, "8"),
        (megatron(overlap_moe_expert_parallel_comm=True), "32"),
        (BASE | {"env": {"CUDA_DEVICE_MAX_CONNECTIONS": 4}}, "4"),
        (BASE | {"env": {"CUDA_DEVICE_MAX_CONNECTIONS": None}}, None),
    ],
)
def test_connections_are_what_the_kind_of_parallelism_needs(
    backend: Mapping[str, object], value: str | None
) -> None:
    assert launched(backend).env.get("CUDA_DEVICE_MAX_CONNECTIONS") == value


@pytest.mark.parametrize(
    ("kind", "args", "words"),
    [
        (None, {"ckpt_format": "fsdp_dtensor"},
         ["--ckpt-format", "fsdp_dtensor", "--use-megatron-fsdp"]),
        ("custom", {}, ["--use-custom-fsdp"]),
        ("torch", {
            "gradient_accumulation_fusion": False,
            "untie_embeddings_and_output_weights": True,
        }, ["--no-gradient-accumulation-fusion",
            "--untie-embeddings-and-output-weights", "--use-torch-fsdp2"]),
    ],
)  # fmt: skip
def test_fsdp_turns_its_own_kind_on(
    kind: str | None, args: Mapping[str, object], words: list[str]
) -> None:
    assert arguments(fsdp(kind, **args)) == words


def test_a_wrong_kind_of_fsdp_is_told() -> None:
    (problem,) = refused(fsdp("deepspeed"))

    assert found(problem) == (
        "backend.fsdp", "is 'deepspeed'; it may be megatron, torch, custom",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["deepspeed", ["torch"], {"kind": "torch"}, 3, True])
def test_a_wrong_kind_of_fsdp_hides_nothing_of_the_arguments(
    kind: object, places: Places
) -> None:
    wrong = {**fsdp(lr="fast", micro_batch=1), "fsdp": kind, "schema": "gpt"}

    assert [problem.where for problem in refused(wrong, places)] == [
        "backend.fsdp",
        "backend.megatron.lr",
        "backend.megatron.micro_batch",
    ]


@pytest.mark.parametrize("args", [3, [1], "x"])
def test_arguments_that_are_no_mapping_are_told(args: object) -> None:
    (problem,) = refused({**BASE, "megatron": args})

    assert found(problem) == ("backend.megatron", f"is {args!r}, not a mapping")


# -------------------------------------------------------------------------- schemas
@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A root of configs with the schema of a program."""
    schema = {
        "autoexp_schema": 1,
        "source": "train.py",
        **extract_schema(get_parser()),
    }
    (tmp_path / "args").mkdir()
    (tmp_path / "args/gpt.schema.json").write_text(json.dumps(schema))
    return Places("/w", "", (str(tmp_path),))


def test_with_a_schema_every_flag_is_spelled_as_the_program_spells_it(
    places: Places,
) -> None:
    args = {"nccl_ub": True, "apply_rope_fusion": False, "seq_length": 2048, "aux": {}}
    backend = {**megatron(**args), "schema": "gpt"}

    assert arguments(backend, places) == ["--use-nccl-ub", "--no-rope-fusion"]


@pytest.mark.parametrize(
    ("class_name", "key"), [("Python", "args"), ("MegatronTorchrun", "megatron")]
)
def test_with_a_schema_unknown_arguments_are_refused(
    class_name: str, key: str, places: Places
) -> None:
    backend = {**BASE, "class_name": class_name, "schema": "gpt", key: {"lrr": 1}}

    (problem,) = refused(backend, places)

    assert found(problem) == (f"backend.{key}.lrr", "is no argument of train.py")
    assert problem.hint == "did you mean `lr`?"


@pytest.mark.parametrize(
    ("backend", "where"),
    [
        ({"script": None, "scrip": "t.py"}, "backend"),
        ({"torchrun": {"nproc_per_nod": 1}}, "backend.torchrun.nproc_per_nod"),
    ],
)
def test_a_misspelled_key_of_the_backend_hides_no_mistyped_argument(
    backend: Mapping[str, object], where: str, places: Places
) -> None:
    given = {**megatron(lr="fast"), "schema": "gpt", **backend}

    assert {problem.where for problem in refused(given, places)} == {
        where,
        "backend.megatron.lr",
    }


def test_with_a_schema_python_takes_its_spelling(places: Places) -> None:
    args = {"global_batch_size": 8}
    backend = {
        "class_name": "Python", "script": "t.py", "underscores": "keep",
        "schema": "gpt", "args": args, "positional": ["x"],
    }  # fmt: skip

    assert launched(backend, places).command[2:] == ("--global-batch-size", "8", "x")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("gptt", "there is no schema `gptt`", "did you mean `gpt`?"),
        (3, "is 3, not a name", ""),
        ("args/none.json", "there is no schema `args/none.json`", "schemas: gpt"),
    ],
)
def test_a_schema_that_is_not_there_is_told(
    name: object, message: str, hint: str, places: Places
) -> None:
    (problem,) = refused({**BASE, "schema": name}, places)

    assert (problem.where, problem.message) == ("backend.schema", message)
    assert problem.hint == hint


def test_without_any_schema_the_hint_says_how_to_make_one() -> None:
    (problem,) = refused({**BASE, "schema": "gpt"})

    assert problem.hint.startswith("`autoexp-import-args MODULE:FUNCTION --name NAME`")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "it has no `autoexp_schema`"),
        ('{"autoexp_schema": 9}', "its version is 9, not 1"),
        ('{"autoexp_schema": 1}', "KeyError('arguments')"),
    ],
)
def test_a_broken_schema_is_told_with_its_path(
    text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.schema.json"
    path.write_text(text)

    (problem,) = refused({**BASE, "schema": str(path)})

    assert problem.message.startswith(f"{path} is no schema of arguments: ")
    assert reason in problem.message
