"""What lines of logs say: the names of metrics, and the line that tells of an error."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from autoexp_tui.text.sanitize import clean

_TELLING = re.compile(
    r"^\S*(?:Error|Exception|Interrupt)\b|\b(?:FATAL|fatal|error:|Error:|ERROR|"
    r"Killed|CANCELLED|Out of memory|oom_kill|Segmentation fault|No such file)"
)
_LIMIT = 300
"""Characters of evidence that are kept."""
_NOT_A_NUMBER = re.compile(r"loss\W+[^|,]{0,12}\b(?:nan|inf)\b", re.IGNORECASE)


def find_nan_line(tail: str) -> str:
    """The first line of `tail` whose loss is no number, cleaned; empty for none."""
    line = next(filter(_NOT_A_NUMBER.search, tail.splitlines()), "")
    return clean(line).strip()[:_LIMIT]


_SHORT_OF_MEMORY = re.compile(
    r"\boom[-_ ]kill|out-of-memory handler|exceeded (?:job |step )?memory limit|"
    r"Out of memory: Kill|Memory cgroup out of memory",
    re.IGNORECASE,
)
"""What the kernel and Slurm write of a process that was killed for memory."""


def find_memory_line(tail: str) -> str:
    """The last line of `tail` that tells of a kill for memory; empty for none."""
    return next(filter(_SHORT_OF_MEMORY.search, reversed(tail.splitlines())), "")


def has_error(line: str) -> bool:
    """Whether a line tells of something that went wrong."""
    return _TELLING.search(line) is not None


def find_error_line(tail: str) -> str:
    """The last line of `tail` that names an error, else its last line, cleaned."""
    lines = [line for line in tail.splitlines() if line.strip()]
    telling = [line for line in lines if has_error(line)]
    chosen = telling[-1] if telling else (lines[-1] if lines else "")
    return clean(chosen).strip()[:_LIMIT]


STEP: Final = "step"
LOSS: Final = "loss"
EVAL_LOSS: Final = "eval_loss"
LEARNING_RATE: Final = "learning_rate"
TOKENS_PER_SECOND: Final = "tokens_per_second"
GRAD_NORM: Final = "grad_norm"
MAIN_METRICS: Final = frozenset(
    (LOSS, EVAL_LOSS, LEARNING_RATE, TOKENS_PER_SECOND, GRAD_NORM)
)
RUN_URL: Final = "run_url"
"""The key of a job's metadata for the page that shows its run."""
_ALIASES: Final = {
    **dict.fromkeys(("iteration", "iter", "global_step"), STEP),
    **dict.fromkeys(("lm_loss", "train_loss"), LOSS),
    **dict.fromkeys(("val_loss", "validation_loss", "test_loss"), EVAL_LOSS),
    **dict.fromkeys(
        (
            "tps",
            *(
                f"{tokens}_{per}{second}"
                for tokens in ("tok", "toks", "token", "tokens")
                for per in ("", "per_")
                for second in ("s", "sec", "second")
            ),
        ),
        TOKENS_PER_SECOND,
    ),
    **dict.fromkeys(("lr", "train_lr", "train_learning_rate"), LEARNING_RATE),
    **dict.fromkeys(("gradient_norm", "train_grad_norm"), GRAD_NORM),
}


@lru_cache(maxsize=1024)
def normalize_name(name: str) -> str:
    """A metric's name as we write it: `Held-out loss` is `heldout_loss`."""
    joined = re.sub(r"(?<=\w)-(?=\w)", "", name.lower())
    return re.sub(r"[\W_]+", "_", joined).strip("_")


@lru_cache(maxsize=1024)
def find_canonical_name(name: str) -> str:
    """The one name of a metric that goes by several: `lr` is `learning_rate`."""
    key = normalize_name(name)
    return _ALIASES.get(key, key)
