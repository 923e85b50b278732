"""What Megatron-LM refuses when it starts, told while the plan is made.

The rules are those of `validate_args` in megatron/training/arguments.py, as far as they
follow from the arguments alone. A value that is not known (left out and without a
schema, or known only when it runs) breaks no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autoexp_tui.backends.messages import problem
from autoexp_tui.model.errors import Problem

KEY: Final = "megatron"

DEFAULTS: Final[Mapping[str, object]] = {
    "tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 1,
    "context_parallel_size": 1, "expert_model_parallel_size": 1,
    "ckpt_format": "torch_dist", "optimizer": "adam",
    "gradient_accumulation_fusion": True, "num_distributed_optimizer_instances": 1,
    "data_parallel_sharding_strategy": "optim_grads_params",
    "outer_dp_sharding_strategy": "no_shard", "megatron_fsdp_version": 1,
    "untie_embeddings_and_output_weights": False,
}  # fmt: skip
"""Where no schema tells them."""

REFUSALS: Final[Mapping[str, str]] = {
    "add_bias_linear": "--disable-bias-linear",
    "add_position_embedding": "--no-position-embedding",
    "align_param_gather": "--no-align-param-gather",
    "apply_rope_fusion": "--no-rope-fusion",
    "barrier_with_L1_time": "--no-barrier-with-level-1-timing",
    "bert_binary_head": "--bert-no-binary-head",
    "bias_dropout_fusion": "--no-bias-dropout-fusion",
    "bias_gelu_fusion": "--no-bias-gelu-fusion",
    "bias_swiglu_fusion": "--no-bias-swiglu-fusion",
    "check_for_nan_in_loss_and_grad": "--no-check-for-nan-in-loss-and-grad",
    "ckpt_fully_parallel_save": "--no-ckpt-fully-parallel-save",
    "create_attention_mask_in_dataloader": "--no-create-attention-mask-in-dataloader",
    "data_sharding": "--no-data-sharding",
    "enable_one_logger": "--no-one-logger",
    "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "gradient_reduce_div_fusion": "--no-gradient-reduce-div-fusion",
    "masked_softmax_fusion": "--no-masked-softmax-fusion",
    "mmap_bin_files": "--no-mmap-bin-files",
    "overlap_p2p_comm": "--no-overlap-p2p-communication",
    "perform_initialization": "--no-initialization",
    "torch_fsdp2_reshard_after_forward": "--torch-fsdp2-no-reshard-after-forward",
    "use_gloo_process_groups": "--disable-gloo-process-groups",
}
"""Flags that turn off what is on, where no schema tells them."""
SPELLINGS: Final[Mapping[str, str]] = {
    "fp4": "--fp4-format", "fp8": "--fp8-format", "nccl_ub": "--use-nccl-ub",
    "override_opt_param_scheduler": "--override-opt_param-scheduler",
    "use_checkpoint_opt_param_scheduler": "--use-checkpoint-opt_param-scheduler",
}  # fmt: skip
"""Flags that are not spelled like their destinations, where no schema tells them."""

_FSDP_OPTIMIZERS: Final = ("sgd", "adam")
_TORCH_FORMATS: Final = ("torch_dist", "torch_dcp")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Megatron's arguments of one job, with the defaults of what is left out."""

    given: Mapping[str, object]
    defaults: Mapping[str, object]
    world: int | None
    """Processes in all; None: not known."""
    shape: str = ""
    """The same in words."""

    def of(self, key: str) -> object:
        """A value; None: not known, or none."""
        value = self.given.get(key)
        return self.defaults.get(key) if value is None else value

    def number(self, key: str) -> int | None:
        """A whole number above 0; None: it is none."""
        value = self.of(key)
        if isinstance(value, bool):
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return value if isinstance(value, int) and value > 0 else None

    def is_on(self, key: str) -> bool:
        """Whether a switch is on, or a value is there."""
        return self.of(key) not in (None, False, 0, "")


def at(key: str, message: str, hint: str = "") -> Problem:
    """A finding at one of Megatron's arguments."""
    return problem(f"{KEY}.{key}", message, hint)


def common(args: Arguments) -> Iterator[Problem]:
    """What holds however Megatron is started."""
    yield from _parallel(args)
    yield from _batches(args)
    yield from _experts(args)
    yield from _divided(args)
    yield from _together(args)


# ---------------------------------------------------------------------------- numbers
_MODEL: Final = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
)


def _size_of_a_copy(args: Arguments) -> int | None:
    """Processes that hold one copy of the model between them."""
    size = 1
    for key in _MODEL:
        number = args.number(key)
        if number is None:
            return None
        size *= number
    return size


def _parallel(args: Arguments) -> Iterator[Problem]:
    size = _size_of_a_copy(args)
    if size is None or args.world is None or args.world % size == 0:
        return
    named = " x ".join(f"{args.number(key)}" for key in _MODEL)
    message = f"does not divide the {args.world} processes ({args.shape})"
    hint = "tensor x pipeline x context parallel must divide them"
    yield at(_MODEL[0], f"x pipeline x context parallel = {named} {message}", hint)


def _batches(args: Arguments) -> Iterator[Problem]:
    """Every copy takes equally many micro batches of a step."""
    size, world = _size_of_a_copy(args), args.world
    if size is None or world is None or world % size:
        return
    if any(map(args.is_on, ("rampup_batch_size", "decrease_batch_size_if_needed"))):
        return
    copies = world // size
    total, micro = args.number("global_batch_size"), args.number("micro_batch_size")
    if total and micro and total % (micro * copies):
        message = f"is {total}, not divisible by micro_batch_size {micro} x {copies}"
        yield at("global_batch_size", f"{message} copies of the model")


def _experts(args: Arguments) -> Iterator[Problem]:
    expert, experts = args.number("expert_model_parallel_size"), args.of("num_experts")
    if expert is None or expert == 1:
        return
    key = "expert_model_parallel_size"
    if experts is None:
        yield at(key, f"is {expert}, and num_experts is not given")
    elif isinstance(experts, int) and experts % expert:
        yield at(key, f"is {expert}, which does not divide num_experts {experts}")
    tensor = args.number("expert_tensor_parallel_size")
    tensor = tensor or args.number("tensor_model_parallel_size")
    pipeline = args.number("pipeline_model_parallel_size")
    if args.world and tensor and pipeline and args.world % (tensor * expert * pipeline):
        message = f"is {expert}: with {tensor} tensor and {pipeline} pipeline parallel"
        message += f" it does not divide the {args.world} processes ({args.shape})"
        yield at(key, message)


def _divided(args: Arguments) -> Iterator[Problem]:
    """Sizes of the model that are cut into equal parts."""
    tensor = args.number("tensor_model_parallel_size") or 1
    heads = args.number("num_attention_heads")
    if heads and heads % tensor:
        hint = f"a multiple of tensor_model_parallel_size {tensor}"
        yield at("num_attention_heads", f"is {heads}", hint)
    hidden = args.number("hidden_size")
    if hidden and heads and hidden % heads and args.of("kv_channels") is None:
        hint = f"a multiple of num_attention_heads {heads}, or give kv_channels"
        yield at("hidden_size", f"is {hidden}", hint)
    context, length = args.number("context_parallel_size"), args.number("seq_length")
    if context and context > 1 and length and length % (2 * context):
        hint = f"a multiple of twice context_parallel_size, {2 * context}"
        yield at("seq_length", f"is {length}", hint)
    positions = args.number("max_position_embeddings")
    if length and positions and positions < length:
        message = f"is {positions}, less than seq_length {length}"
        yield at("max_position_embeddings", message)
    yield from _layers(args)


_UNEVEN: Final = (
    "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
    "pipeline_model_parallel_layout", "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split", "heterogeneous_layers_config_path",
    "hybrid_layer_pattern", "hybrid_override_pattern",
)  # fmt: skip


def _layers(args: Arguments) -> Iterator[Problem]:
    stages = args.number("pipeline_model_parallel_size")
    layers = args.number("num_layers")
    if not stages or not layers or any(args.is_on(key) for key in _UNEVEN):
        return
    if layers % stages:
        hint = f"a multiple of pipeline_model_parallel_size {stages}"
        yield at("num_layers", f"is {layers}", hint)


# --------------------------------------------------------------------------- together
_APART: Final = (
    ("fp16", "bf16"),
    ("fp4", "fp8"),
    ("train_iters", "train_samples"),
    ("lr_decay_iters", "lr_decay_samples"),
    ("lr_warmup_fraction", "lr_warmup_iters"),
    ("lr_warmup_fraction", "lr_warmup_samples"),
    ("mock_data", "data_path"),
    ("mock_data", "train_data_path"),
    ("data_path", "train_data_path"),
    ("use_megatron_fsdp", "use_torch_fsdp2"),
)
_NEEDS: Final = (
    ("overlap_param_gather", "overlap_grad_reduce"),
    ("overlap_param_gather_with_optimizer_step", "overlap_param_gather"),
    ("fsdp_manual_registration", "nccl_ub"),
    ("tp_comm_overlap", "sequence_parallel"),
)


def _together(args: Arguments) -> Iterator[Problem]:
    for first, second in _APART:
        if args.is_on(first) and args.is_on(second):
            yield at(second, f"does not go with {first}", "leave one of them out")
    for key, needed in _NEEDS:
        if args.is_on(key) and not args.is_on(needed):
            yield at(key, f"needs {needed}", f"{needed}: true")
    shards = ("use_distributed_optimizer", "use_megatron_fsdp", "use_custom_fsdp")
    is_sharded = any(map(args.is_on, shards)) or args.of("optimizer") == "dist_muon"
    if args.is_on("overlap_param_gather") and not is_sharded:
        hint = "use_distributed_optimizer: true"
        yield at("overlap_param_gather", "needs use_distributed_optimizer", hint)


# -------------------------------------------------------------------------------- fsdp
def megatron_fsdp(args: Arguments) -> Iterator[Problem]:
    """What Megatron's own FSDP asks for."""
    if args.of("ckpt_format") not in (None, "fsdp_dtensor"):
        message = f"is {args.of('ckpt_format')}; Megatron-FSDP saves fsdp_dtensor alone"
        yield at("ckpt_format", message, "ckpt_format: fsdp_dtensor")
    if args.of("optimizer") not in (None, *_FSDP_OPTIMIZERS):
        listed = ", ".join(_FSDP_OPTIMIZERS)
        message = f"is {args.of('optimizer')}; Megatron-FSDP knows {listed}"
        yield at("optimizer", message)
    key = "use_distributed_optimizer"
    if args.number("megatron_fsdp_version") == 2 and args.is_on(key):
        yield at(key, "does not go with megatron_fsdp_version 2", f"{key}: false")
    strategy = args.of("data_parallel_sharding_strategy")
    yield from _about_strategy(args, strategy)
    for key in ("hybrid_context_parallel", "moe_single_grouped_weight"):
        if args.is_on(key):
            yield at(key, "does not go with Megatron-FSDP")


def _about_strategy(args: Arguments, strategy: object) -> Iterator[Problem]:
    interval = "check_weight_hash_across_dp_replicas_interval"
    if strategy == "optim_grads_params" and args.of(interval) is not None:
        yield at(interval, "does not go with sharded parameters (optim_grads_params)")
    if strategy == "no_shard" and args.is_on("init_model_with_meta_device"):
        message = "does not go with data_parallel_sharding_strategy no_shard"
        yield at("init_model_with_meta_device", message)
    if strategy != "optim_grads_params" and (
        args.of("outer_dp_sharding_strategy") == "optim"
    ):
        hint = "data_parallel_sharding_strategy: optim_grads_params"
        message = f"is optim, and data_parallel_sharding_strategy is {strategy}"
        yield at("outer_dp_sharding_strategy", message, hint)


def torch_fsdp2(args: Arguments) -> Iterator[Problem]:
    """What FSDP2 of PyTorch asks for in Megatron."""
    for key in ("pipeline_model_parallel_size", "expert_model_parallel_size"):
        if (args.number(key) or 1) > 1:
            yield at(key, f"is {args.number(key)}; with torch FSDP2 it is 1")
    for key in ("use_distributed_optimizer", "fp16"):
        if args.is_on(key):
            yield at(key, "does not go with torch FSDP2", f"{key}: false")
    if args.is_on("gradient_accumulation_fusion"):
        hint = "gradient_accumulation_fusion: false"
        yield at("gradient_accumulation_fusion", "is on; torch FSDP2 has none", hint)
    if args.of("ckpt_format") not in (None, *_TORCH_FORMATS):
        message = f"is {args.of('ckpt_format')}; torch FSDP2 saves "
        yield at("ckpt_format", message + " or ".join(_TORCH_FORMATS))
    key = "untie_embeddings_and_output_weights"
    if args.of(key) is False:
        yield at(key, "must be on with torch FSDP2", f"{key}: true")


def plain(args: Arguments) -> Iterator[Problem]:
    """What only goes with one of the FSDPs, where there is none."""
    switches = ("use_megatron_fsdp", "use_custom_fsdp", "use_torch_fsdp2")
    for switch in switches:
        if args.is_on(switch):
            hint = "class_name: MegatronFsdp"
            yield at(switch, "is for the back end MegatronFsdp, which sees to it", hint)
    formats = {"fsdp_dtensor": "Megatron-FSDP", "torch_dcp": "torch FSDP2"}
    owner = formats.get(str(args.of("ckpt_format")))
    if owner and not any(map(args.is_on, switches)):
        yield at("ckpt_format", f"is {args.of('ckpt_format')}, which is for {owner}")
