"""The names of metrics, and the one spelling of a metric that goes by several."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

STEP: Final = "step"
LOSS: Final = "loss"
EVAL_LOSS: Final = "eval_loss"
LEARNING_RATE: Final = "learning_rate"
TOKENS_PER_SECOND: Final = "tokens_per_second"
GRAD_NORM: Final = "grad_norm"

_ALIASES: Final = {
    **dict.fromkeys(("iteration", "iter", "global_step"), STEP),
    **dict.fromkeys(("lm_loss", "train_loss"), LOSS),
    **dict.fromkeys(("val_loss", "validation_loss", "test_loss"), EVAL_LOSS),
    **dict.fromkeys(("tokens_s", "tok_s", "tps"), TOKENS_PER_SECOND),
    "lr": LEARNING_RATE,
    "gradient_norm": GRAD_NORM,
}


@lru_cache(maxsize=1024)
def plain_name(name: str) -> str:
    """A metric's name as we write it: `Held-out loss` is `heldout_loss`."""
    joined = re.sub(r"(?<=\w)-(?=\w)", "", name.lower())
    return re.sub(r"[\W_]+", "_", joined).strip("_")


@lru_cache(maxsize=1024)
def canonical_name(name: str) -> str:
    """The one name of a metric that goes by several: `lr` is `learning_rate`.

    The known ones: `step`, `loss`, `eval_loss`, `learning_rate`, `tokens_per_second`,
    `grad_norm`; others keep their own, as `plain_name` writes it.
    """
    key = plain_name(name)
    return _ALIASES.get(key, key)
