"""The backends: a command, a script for bash, a Python program, Megatron-LM, nothing.

The arguments of a program: see `arguments`. `MegatronTorchrun` and `MegatronFsdp` are
started by torchrun: `backend.megatron` holds Megatron's own arguments by their
destinations (`lr`, `train_iters`), `backend.torchrun` torchrun's options;
`megatron.aux` is for the config alone. What arguments ask of each other is Megatron's
own to check, when it starts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final, cast

from autoexp_tui.backends import environment, torchrun
from autoexp_tui.backends.arguments import Arguments
from autoexp_tui.backends.base import (
    FILLED_TEXT,
    Backend,
    Check,
    Config,
    check_one_given,
    check_texts,
    choice_of,
    format_word,
    is_word_list,
    read_section,
)
from autoexp_tui.model.errors import Problem


class NullBackend(Backend):
    """Runs `true`: for plans that are only looked at, and for tests."""

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return ("true",)


_WORDS: Final = Check(
    lambda value: bool(value) and is_word_list(value),
    "is {!r}, not a list of words",
    'command: [./train.sh, "--lr", "${backend.lr}"]; class_name: Bash runs `script`',
)
_SCRIPT: Final = FILLED_TEXT._replace(
    message="is {!r}, not the text of a script",
    hint="script: |\n  ./prepare.sh\n  ./train.sh",
)


class CommandBackend(Backend):
    """A command as a list of words; no shell sees it."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return _WORDS.require("command", backend.get("command"))

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return tuple(map(format_word, cast("Sequence[object]", backend["command"])))


class BashBackend(Backend):
    """A shell script that the user wrote, run by `bash -c`. Nothing of ours is pasted
    into it but what its own `${...}` name. Bash's own variables are written `$NAME`,
    since `${NAME}` belongs to the config."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return _SCRIPT.require("script", backend.get("script"))

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return ("bash", "-c", str(backend["script"]))


_UNDERSCORES: Final = choice_of(("dash", "keep"))
_POSITIONAL: Final = Check(is_word_list, "must be a list of texts or numbers")


class PythonBackend(Backend):
    """`python -m module verb --key value ... positional ...`."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return [
            *check_one_given(backend, "module", "script"),
            *check_texts(backend, "module", "script", "python", "verb"),
            *_UNDERSCORES.find("underscores", backend.get("underscores")),
            *_POSITIONAL.find("positional", backend.get("positional")),
            *self._arguments.check(backend, "args", backend.get("args")),
        ]

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        # The interpreter that runs us, unless the command runs elsewhere.
        default = "python" if environment.is_elsewhere(backend) else sys.executable
        verb = [str(backend["verb"])] if backend.get("verb") else []
        dashes = backend.get("underscores") != "keep"
        positional = cast("Sequence[object]", backend.get("positional") or ())
        return (
            str(backend.get("python") or default),
            *format_program(backend),
            *verb,
            *self._arguments.words(backend, "args", backend.get("args"), dashes=dashes),
            *map(format_word, positional),
        )


def format_program(backend: Config) -> tuple[str, ...]:
    """`-m MODULE`, or the script."""
    module = backend.get("module")
    return ("-m", str(module)) if module else (str(backend["script"]),)


_KEY: Final = "megatron"
_AUX: Final = "aux"
_CONNECTIONS: Final = "CUDA_DEVICE_MAX_CONNECTIONS"
_SWITCHES: Final[Mapping[str, str]] = {
    "megatron": "use_megatron_fsdp",
    "torch": "use_torch_fsdp2",
    "custom": "use_custom_fsdp",
}
"""Of `fsdp`: the argument that turns each kind on; `custom` is the older name."""
_KIND: Final = choice_of(tuple(_SWITCHES))
_OFF: Final[Mapping[str, str]] = {
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
_SPELLINGS: Final[Mapping[str, str]] = {
    "fp4": "--fp4-format", "fp8": "--fp8-format", "nccl_ub": "--use-nccl-ub",
    "override_opt_param_scheduler": "--override-opt_param-scheduler",
    "use_checkpoint_opt_param_scheduler": "--use-checkpoint-opt_param-scheduler",
}  # fmt: skip
"""Flags that are not spelled like their destinations, where no schema tells them."""


class MegatronTorchrun(Backend):
    """`torchrun ... SCRIPT --arguments`, with tensor, pipeline, data parallelism."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return [
            *check_one_given(backend, "script", "module"),
            *check_texts(backend, "script", "module", "python"),
            *torchrun.check_options(backend, config),
            *self._arguments.check(backend, _KEY, self._collect(backend)),
        ]

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        words = self._arguments.words(
            backend, _KEY, self._collect(backend), off=_OFF, spellings=_SPELLINGS
        )
        return (*torchrun.command(backend, config), *format_program(backend), *words)

    def outside(self, backend: Config, config: Config) -> Sequence[str]:
        return torchrun.outside(backend, config)

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        """Kernels begin in their order; overlapped all-to-alls need the opposite."""
        overlaps = read_section(backend, _KEY).get("overlap_moe_expert_parallel_comm")
        return {_CONNECTIONS: "32" if overlaps else "1"}

    def _collect(self, backend: Config) -> object:
        """`megatron` without `aux`, or whatever stands in its place."""
        given = backend.get(_KEY)
        if given is not None and not isinstance(given, Mapping):
            return given
        return {key: value for key, value in (given or {}).items() if key != _AUX}


class MegatronFsdp(MegatronTorchrun):
    """The same with parameters sharded over the data-parallel processes. `fsdp`:
    `megatron` (the default), `torch` (FSDP2), or `custom`, as releases before 0.13 call
    Megatron's own."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        wrong = _KIND.find("fsdp", backend.get("fsdp"))
        return [*wrong, *super().problems(backend, config)]

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        """What FSDP needs: streams that do not wait for each other. 8 is CUDA's own
        default; it is set because 1 may come from a login shell."""
        return {_CONNECTIONS: "8"}

    def _collect(self, backend: Config) -> object:
        """With the argument that turns its kind on."""
        args = super()._collect(backend)
        switch = _SWITCHES.get(str(backend.get("fsdp") or "megatron"))
        return args | {switch: True} if switch and isinstance(args, dict) else args
