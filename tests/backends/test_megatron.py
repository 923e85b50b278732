"""Megatron's command line, its variables, and what it would refuse when it starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from autoexp_tui.backends.argument_probe import described
from autoexp_tui.backends.backends import Places
from tests.backends.backend_configs import found, launched, refused, slurm
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


@pytest.mark.parametrize(
    "name",
    ["MegatronTorchrun", "MegatronTorchrunBackend", "megatron_torchrun"],
)
def test_the_name_may_be_spelled_as_classes_or_as_groups_are(name: str) -> None:
    assert arguments({**BASE, "class_name": name}) == []


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


DTENSOR = {"ckpt_format": "fsdp_dtensor"}


@pytest.mark.parametrize(
    ("backend", "where", "message"),
    [
        (
            megatron(tensor_model_parallel_size=4, pipeline_model_parallel_size=4),
            "tensor_model_parallel_size",
            "x pipeline x context parallel = 4 x 4 x 1 does not divide the 8 processes"
            " (1 x 8 processes)",
        ),
        (
            megatron(global_batch_size=20, micro_batch_size=1),
            "global_batch_size",
            "is 20, not divisible by micro_batch_size 1 x 8 copies of the model",
        ),
        (
            megatron(expert_model_parallel_size=4),
            "expert_model_parallel_size",
            "is 4, and num_experts is not given",
        ),
        (
            megatron(expert_model_parallel_size=4, num_experts=6),
            "expert_model_parallel_size",
            "is 4, which does not divide num_experts 6",
        ),
        (
            megatron(
                expert_model_parallel_size=8, num_experts=8,
                tensor_model_parallel_size=2,
            ),
            "expert_model_parallel_size",
            "is 8: with 2 tensor and 1 pipeline parallel it does not divide the 8 "
            "processes (1 x 8 processes)",
        ),
        (
            megatron(num_attention_heads=6, tensor_model_parallel_size=4),
            "num_attention_heads",
            "is 6",
        ),
        (megatron(hidden_size=100, num_attention_heads=8), "hidden_size", "is 100"),
        (megatron(seq_length=1022, context_parallel_size=2), "seq_length", "is 1022"),
        (
            megatron(seq_length=4096, max_position_embeddings=2048),
            "max_position_embeddings",
            "is 2048, less than seq_length 4096",
        ),
        (megatron(num_layers=6, pipeline_model_parallel_size=4), "num_layers", "is 6"),
        (megatron(bf16=True, fp16=True), "bf16", "does not go with fp16"),
        (
            megatron(train_iters=1, train_samples=2),
            "train_samples",
            "does not go with train_iters",
        ),
        (
            megatron(overlap_param_gather=True, use_distributed_optimizer=True),
            "overlap_param_gather",
            "needs overlap_grad_reduce",
        ),
        (
            megatron(overlap_param_gather=True, overlap_grad_reduce=True),
            "overlap_param_gather",
            "needs use_distributed_optimizer",
        ),
        (
            megatron(use_megatron_fsdp=True),
            "use_megatron_fsdp",
            "is for the back end MegatronFsdp, which sees to it",
        ),
        (
            megatron(ckpt_format="torch_dcp"),
            "ckpt_format",
            "is torch_dcp, which is for torch FSDP2",
        ),
        (
            fsdp(),
            "ckpt_format",
            "is torch_dist; Megatron-FSDP saves fsdp_dtensor alone",
        ),
        (
            fsdp(**DTENSOR, optimizer="muon"),
            "optimizer",
            "is muon; Megatron-FSDP knows sgd, adam",
        ),
        (
            fsdp(**DTENSOR, megatron_fsdp_version=2, use_distributed_optimizer=True),
            "use_distributed_optimizer",
            "does not go with megatron_fsdp_version 2",
        ),
        (
            fsdp(**DTENSOR, use_torch_fsdp2=True),
            "use_torch_fsdp2",
            "does not go with use_megatron_fsdp",
        ),
        (
            fsdp(
                **DTENSOR, data_parallel_sharding_strategy="optim",
                outer_dp_sharding_strategy="optim",
            ),
            "outer_dp_sharding_strategy",
            "is optim, and data_parallel_sharding_strategy is optim",
        ),
        (
            fsdp(
                **DTENSOR, data_parallel_sharding_strategy="no_shard",
                init_model_with_meta_device=True,
            ),
            "init_model_with_meta_device",
            "does not go with data_parallel_sharding_strategy no_shard",
        ),
        (
            fsdp(**DTENSOR, check_weight_hash_across_dp_replicas_interval=10),
            "check_weight_hash_across_dp_replicas_interval",
            "does not go with sharded parameters (optim_grads_params)",
        ),
        (
            fsdp(**DTENSOR, fsdp_manual_registration=True),
            "fsdp_manual_registration",
            "needs nccl_ub",
        ),
        (
            fsdp("torch", pipeline_model_parallel_size=2),
            "pipeline_model_parallel_size",
            "is 2; with torch FSDP2 it is 1",
        ),
    ],
)  # fmt: skip
def test_what_megatron_would_refuse_is_told_in_the_plan(
    backend: Mapping[str, object], where: str, message: str
) -> None:
    told = refused(backend)

    assert (f"backend.megatron.{where}", message) in map(found, told)


def test_everything_that_torch_fsdp2_asks_for_is_told_at_once() -> None:
    told = refused(fsdp("torch", fp16=True, ckpt_format="fsdp_dtensor"))

    assert [problem.where.rpartition(".")[2] for problem in told] == [
        "fp16", "gradient_accumulation_fusion", "ckpt_format",
        "untie_embeddings_and_output_weights",
    ]  # fmt: skip


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


def test_of_a_wrong_kind_of_fsdp_only_what_every_kind_refuses_is_told() -> None:
    told = refused({**fsdp(ckpt_format="zarr", bf16=True, fp16=True), "fsdp": "torhc"})

    assert [found(problem)[0] for problem in told] == [
        "backend.fsdp",
        "backend.megatron.bf16",
    ]


@pytest.mark.parametrize(
    ("backend", "connections", "message"),
    [
        (fsdp(**DTENSOR), 1, "is 1, which FSDP refuses"),
        (
            megatron(tensor_model_parallel_size=2), 8,
            "is 8; tensor and context parallelism need 1",
        ),
    ],
)  # fmt: skip
def test_connections_that_megatron_refuses_are_told(
    backend: Mapping[str, object], connections: int, message: str
) -> None:
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    (problem,) = refused({**backend, "env": {name: connections}})

    assert found(problem) == (f"backend.env.{name}", message)


def test_processes_that_only_the_node_knows_break_no_rule() -> None:
    args = {"tensor_model_parallel_size": 3, "global_batch_size": 7}
    backend = {**BASE, "torchrun": {"nproc_per_node": "gpu"}, "megatron": args}

    assert launched(backend).command[4] == "gpu"


def test_all_nodes_count_for_the_processes() -> None:
    args = {"tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 2}
    backend = {**BASE, "torchrun": {}, "megatron": args}

    launched(backend, slurm=slurm(nodes=2, gpus_per_node=8))
    assert len(refused(backend, slurm=slurm(nodes=1, gpus_per_node=8))) == 1


@pytest.mark.parametrize("args", [3, [1], "x"])
def test_arguments_that_are_no_mapping_are_told(args: object) -> None:
    (problem,) = refused({**BASE, "megatron": args})

    assert found(problem) == ("backend.megatron", f"is {args!r}, not a mapping")


# -------------------------------------------------------------------------- schemas
@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A root of configs with the schema of a program."""
    schema = {"autoexp_schema": 1, "source": "train.py", **described(get_parser())}
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


def test_the_rules_know_the_defaults_of_the_schema(places: Places) -> None:
    (problem,) = refused({**fsdp(), "schema": "gpt"}, places)

    assert problem.where == "backend.megatron.ckpt_format"


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
