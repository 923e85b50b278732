"""Which names of numbers in log lines are metrics, and what they are called. A time, a
host, an id, a version, a place in code or how far something is are none."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from autoexp_tui.text.log_lines import (
    EVAL_LOSS,
    LOSS,
    find_canonical_name,
    normalize_name,
)


def split_words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


EVALUATION_WORDS: Final = split_words(
    "val valid validation crossvalidation eval evaluation test testing dev"
)
TRAINING_WORDS: Final = split_words(
    "train training lm total ce entropy crossentropy xent nll mlm avg "
    "average mean running global batch step token model mse main overall"
)
"""What may be tied to `loss` by `_`, `/` or nothing, and still name the loss."""
FILL_WORDS: Final = split_words(
    "the a an this that its our my and with at in on for is of to has got now new "
    "current latest info debug epoch iter iteration rank worker trainer logger root"
)
"""What may stand before a name, apart from it, and is no part of it."""
_BEFORE_TIED: Final = EVALUATION_WORDS | split_words("train learning grad gradient")
"""What belongs to the one word that a sign ties to its number."""
_LONGEST: Final = 100
_NO_METRICS: Final = split_words(
    "step steps iteration iterations iter micro_step global_step epochs gpu cuda "
    "device worker line job v_num localhost done complete completed progress total"
)
_NO_ENDS: Final = split_words(
    "eta elapsed remaining time date timestamp datetime seconds secs host hostname "
    "node port pid rank id jobid version seed percent py cc cpp cu rs go sh"
)
"""Last words of a name that is no metric."""
_LOSS: Final = re.compile(
    rb"(?P<before>.*?)(?<![a-z0-9])loss(?:[ _](?:value|avg|mean))?"
    rb"(?P<kind>[ _/](?:train|val|eval|test|dev)\w*)?"
)
_WORDS: Final = re.compile(rb"[a-z]++")
_SCORE: Final = re.compile(
    r"(?:^|_)(?:acc|accuracy|top_?\d+|f1|ppl|perplexity|rewards?|returns?|score|bleu|rouge\w?"
    r"|auc|auroc|map|miou|iou|precision|recall|mse|mae|rmse|psnr|ssim|fid|kl|wer|cer|bpb"
    r"|mcc|mfu)(?:_\d+)?(?:_mean|_avg|_std)?$|per_?s(?:ec(?:ond)?)?$|throughput|tflops"
)
_PLAIN: Final = (
    EVALUATION_WORDS
    | TRAINING_WORDS
    | split_words("best final top balanced macro micro")
)


@lru_cache(maxsize=4096)
def name_number(words: bytes, *, tied: bool) -> str:
    """What a number is called that stands behind `words`; empty: it is no metric.
    `tied`: nothing but a sign is between them, so that mostly the last word counts."""
    kept = words.split()
    if tied:
        first = len(kept) - 1
        while first and kept[first - 1] in _BEFORE_TIED:
            first -= 1
        kept = kept[first:]
    while len(kept) > 1 and kept[0] in FILL_WORDS:
        del kept[0]
    while len(kept) > 1 and kept[-1] in (b"is", b"of"):
        del kept[-1]
    if loss := _LOSS.fullmatch(b" ".join(kept)):
        return _name_loss(loss)
    if re.search(rb"\.[a-z]{1,3}$", kept[-1]):
        return ""  # a file
    name = find_canonical_name(b" ".join(kept).decode())
    return name if is_metric(name) and not is_loss(name) else ""


def _name_loss(match: re.Match[bytes]) -> str:
    """`loss`, `eval_loss`, or the own name of another loss; empty: it is none."""
    if match["kind"]:
        return LOSS if match["kind"][1:].startswith(b"train") else EVAL_LOSS
    before = match["before"].replace(b"held out ", b"heldout ").replace(b"-", b"")
    words = _WORDS.findall(before)
    if not EVALUATION_WORDS.isdisjoint(words[-2:]):
        return EVAL_LOSS
    if not words or words[-1] in TRAINING_WORDS | FILL_WORDS:
        return LOSS
    gap = " " if before.endswith(b" ") else ""
    name = normalize_name(f"{before.split()[-1].decode()}{gap}loss")
    return "" if name == "no_loss" else name


def is_loss(name: str) -> bool:
    return name.endswith("loss")


def is_metric(name: str) -> bool:
    """Whether a number of this name may be a metric."""
    last = name.rpartition("_")[2]
    is_none = name.encode() in _NO_METRICS or last.encode() in _NO_ENDS
    return not is_none and 0 < len(name) <= _LONGEST


@lru_cache(maxsize=4096)
def is_score(name: str) -> bool:
    """Whether a name alone tells that its number is a metric."""
    return _SCORE.search(name) is not None


def is_plain_score(name: str) -> bool:
    """Whether it is one of the usual ones, with nothing but usual words before it."""
    return is_score(name) and all(
        word.encode() in _PLAIN or is_score(word) for word in name.split("_")[:-1]
    )
