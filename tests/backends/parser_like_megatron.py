"""A parser with every shape of argument that a large training program has."""

from __future__ import annotations

import argparse
import enum


class Kernel(enum.Enum):
    """Values that are named one way and written another."""

    fast = 1
    exact = 2


def pattern(text: str) -> object:
    """A type of the program's own: a number, or a list as text."""
    return text if "[" in text else int(text)


def add_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add to a parser in groups, as Megatron does."""
    sizes = parser.add_argument_group("sizes", "How large the model is.")
    add = sizes.add_argument
    add("--num-layers", type=int, default=None, help="Layers of the transformer.")
    add("--seq-length", type=int, default=2048, help="Tokens of a sample, %(default)s")
    add("--expert-freq", type=pattern, default=1)
    training = parser.add_argument_group("training")
    add = training.add_argument
    add("--lr", type=float, default=None, help="The rate.")
    add("--min-lr", type=float, default=0.0)
    add("--train-iters", type=int, default=None)
    add("--global-batch-size", "--gbs", type=int, default=None)
    add("--rampup-batch-size", nargs=3, type=int, default=None)
    add("--optimizer", choices=["adam", "sgd"], default="adam")
    add("--betas", nargs="+", type=float, default=[0.9, 0.95])
    add("--data-path", nargs="*", default=None)
    add("--save", type=str, default=None)
    add("--profile-ranks", action="append", type=int, default=None)
    add("--log-level", action="count", default=0)
    add("--tag", action="extend", nargs="+", default=None)
    switches = parser.add_argument_group("switches")
    add = switches.add_argument
    add("--bf16", action="store_true", help="Train in bfloat16.")
    add("--fp16", action="store_true")
    add("--use-megatron-fsdp", action="store_true")
    add("--no-rope-fusion", action="store_false", dest="apply_rope_fusion")
    add("--use-nccl-ub", action="store_true", dest="nccl_ub")
    add("--check-nan", action=argparse.BooleanOptionalAction, default=True)
    add("--kernel", type=lambda t: Kernel[t], choices=list(Kernel), default=Kernel.fast)
    add("--wandb", nargs="?", const="online", default=None)
    add("--mode-eval", action="store_const", dest="mode", const="eval")
    add("--mode-train", action="store_const", dest="mode", const="train")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--resume", default=None)
    one.add_argument("--from-scratch", action="store_true")
    return parser


def get_parser() -> argparse.ArgumentParser:
    """A parser made here."""
    return add_arguments(argparse.ArgumentParser(allow_abbrev=False))


def get_args() -> argparse.Namespace:
    """Parses the command line, as many programs do in one function."""
    return get_parser().parse_args()
