"""What one line of a training log says: step, loss, and the usual companions. Works on
*folded* lines, so that Megatron's columns, `key=value` pairs, dicts, JSON lines and
progress bars read alike. Not read: epochs, CSV, values on another line than their
name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.text.log_lines import (
    EVAL_LOSS,
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    TOKENS_PER_SECOND,
    normalize_name,
)

_Found: TypeAlias = re.Match[bytes]


_SIGNS: Final = bytes.maketrans(b"\r'\"\t,;[]{}=", b"\n   ||||||:")
_FOLD: Final = (bytes(range(128)).lower() + b"?" * 128).translate(_SIGNS)


def fold(data: bytes) -> bytes:
    """`data` as the parser reads it; of the same length."""
    return data.translate(_FOLD)


def split_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(start, line without its end) of each line."""
    start = 0
    for line in data.split(b"\n"):
        yield start, line
        start += len(line) + 1


class Reading(NamedTuple):
    """What a line says. A tuple: thousands are made a second."""

    step: int | None
    total: int | None
    values: dict[str, float]
    evaluation: bool = False
    """It speaks of an evaluation: its step is the trained model's at best."""


# Repetitions are possessive, so that a long run of digits or blanks is gone over once.
_NUMBER = (
    rb"(?P<number>[-+]?(?:\d++(?:\.\d*+)?+(?:e[-+]?\d++)?+|\.\d++(?:e[-+]?\d++)?+"
    rb"|nan|inf(?:inity)?+))(?![\w%])"
)
_COUNT = rb"(\d{1,3}(?:\|\d{3})++(?![\d|])|\d++)"
_RATE = (
    rb"(\d{1,3}(?:\|\d{3})++(?:\.\d++)?+|\d++(?:\.\d*+)?+(?:e[-+]?\d++)?+)"
    rb" ?([km]?)"
)
_IS = rb"(?: *+(?::|->) *+\|?+ *+| ++(?:is ++|of ++)?+)"
_ALONE = rb"(?<![\w.-])"

_STEP: Final = re.compile(
    rb"(?<![a-z0-9/.-])(?:step|iter(?:ation)?+)[ :#]*+" + _COUNT + rb"(?!\.?\d|[\w%])"
    rb"(?: *+(?:/|of) *+" + _COUNT + rb"(?!\.?\d|[\w%]))?"
)
_BAR: Final = re.compile(rb"(?<![\w.+-])(\d+)/(\d+) \|\d")
_LOSS: Final = re.compile(
    rb"loss(?:[ _](?:value|avg|mean))?(?P<kind>[ _/](?:train|val|eval|test|dev)\w*)?"
    + _IS
    + rb"(?:tensor\( *+)?+"
    + _NUMBER
)
_LEARNING_RATE: Final = re.compile(
    _ALONE + rb"(?:learning[ _-]rate|lr)" + _IS + _NUMBER
)
_GRAD_NORM: Final = re.compile(_ALONE + rb"grad(?:ient)?[ _-]?norm" + _IS + _NUMBER)
_TOKENS: Final = re.compile(
    _ALONE
    + rb"(?:tok(?:en)?s?(?: per |/|_per_)s(?:ec(?:ond)?)?(?![/\w])\)?|tps)"
    + _IS
    + _RATE
    + rb"(?!\w)"
)
_TOKENS_UNIT: Final = re.compile(_ALONE + rb"tok(?:ens)?/s")
_TOKENS_BEFORE: Final = re.compile(_RATE + rb" *$")
_SCALES: Final = {b"": 1.0, b"k": 1e3, b"m": 1e6}
_PREAMBLE: Final = re.compile(
    rb"[^a-z]*(?:(?:info|debug|rank|global|train(?:ing|er)?|main|t|z)\b[^a-z]*)*"
)
_LAST_WORD: Final = re.compile(rb"([a-z]*)[ _]*$")
_NAMES: Final = re.compile(rb"[a-z]++(?:-[a-z]++)*+")
"""Words; those that a hyphen joins are one."""
_AFTER_NUMBER: Final = re.compile(rb"[0-9)]+")


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


_EVALUATION: Final = re.compile(
    rb"(?<![\w/.\\-])(?:(?:cross-?)?valid(?:ation)?|val|eval(?:uation|uating)?"
    rb"|test(?:ing)?|held[- _]?out)(?![\w/.\\-])"
)
_EVALUATION_WORDS: Final = _words(
    "val valid validation crossvalidation eval evaluation test testing dev"
)
_TRAINING_WORDS: Final = _words(
    "train training lm total ce entropy crossentropy xent nll mlm avg "
    "average mean running global batch step token model mse main overall"
)
"""What may be tied to `loss` by `_`, `/` or nothing, and still name the loss."""
_FILL_WORDS: Final = _words(
    "the a an this that its our my and with at in on for is of to has got now new "
    "current latest info debug epoch iter iteration rank worker trainer logger root"
)
"""What may stand before `loss`, apart from it, and still mean the loss."""
_STEP_WORDS: Final = _words("global train training optimizer")
"""What may be tied to `step` by `_`."""
_NO_STEP_WORDS: Final = _words("per every each next") | _EVALUATION_WORDS
"""What before `step` makes it something else than the counter."""


def may_say_something(line: bytes) -> bool:
    """Whether a folded line is worth reading: a quick look."""
    return b"loss" in line or b"step" in line or b"iter" in line


def read_line(line: bytes, *, has_values: bool = False) -> Reading | None:
    """What a folded line says. A bare step counter counts when the line has a total or
    values (`has_values`: it has others than we look for), or begins with it."""
    evaluation = _is_evaluation(line)
    values: dict[str, float] = {}
    for name, match in _find_losses(line, evaluation=evaluation):
        values.setdefault(name, float(match["number"]))
    counter = _find_counter(line)
    if values or counter:
        values |= _read_companions(line)
    has_values = has_values or bool(values)
    if counter is None and has_values and b"poch" not in line:
        counter = _BAR.search(line)  # one that starts anew each epoch is none
    if counter is None:
        return Reading(None, None, values, evaluation) if values else None
    texts = (text and text.replace(b"|", b"")[:18] for text in counter.groups())
    step, total = (int(text) if text else None for text in texts)
    leads = total or _PREAMBLE.fullmatch(line, 0, counter.start())
    if not has_values and (evaluation or not leads):
        return None
    return Reading(step, total, values, evaluation)


def _find_all(line: bytes, mark: bytes) -> Iterator[int]:
    at = line.find(mark)
    while at >= 0:
        yield at
        at = line.find(mark, at + len(mark))


def _find_counter(line: bytes) -> _Found | None:
    """The first step counter of the line: its step and its total."""
    for mark in (b"iter", b"step"):
        for at in _find_all(line, mark):
            if not (match := _STEP.match(line, at)):
                continue
            before = line[max(0, at - 16) : at]
            last = _LAST_WORD.search(before)
            word, is_tied = last[1] if last else b"", before.endswith(b"_")
            if word in _STEP_WORDS if is_tied else word not in _NO_STEP_WORDS:
                return match
    return None


def _find_losses(line: bytes, *, evaluation: bool) -> Iterator[tuple[str, _Found]]:
    """(name, match of its value) of each loss."""
    for at in _find_all(line, b"loss"):
        match = _LOSS.match(line, at)
        name = _name_loss(line, match) if match else None
        if match is None or name is None:
            continue
        if name == LOSS and evaluation and b"train" not in _find_qualifier(line, at):
            name = EVAL_LOSS
        yield name, match


def _name_loss(line: bytes, match: _Found) -> str | None:
    """`loss`, `eval_loss`, or the own name of another loss; None: it is none."""
    if match["kind"]:
        return LOSS if match["kind"][1:].startswith(b"train") else EVAL_LOSS
    before = _find_qualifier(line, match.start()).replace(b"held out ", b"heldout ")
    words = [name.replace(b"-", b"") for name in _NAMES.findall(before)]
    if not words:
        return LOSS
    if not _EVALUATION_WORDS.isdisjoint(words[-2:]):
        return EVAL_LOSS
    if words[-1] in _TRAINING_WORDS:
        return LOSS
    tied = before.rstrip(b" ")
    if tied != before and (words[-1] in _FILL_WORDS or not tied[-1:].isalnum()):
        return LOSS
    if tied == before and tied[-1:] not in b"_/-.":
        return None
    gap = "" if tied == before else " "
    name = normalize_name(f"{tied.rsplit(b' ', 1)[-1].decode()}{gap}loss")
    return None if name == "no_loss" else name


def _find_qualifier(line: bytes, at: int) -> bytes:
    """The words before a name, back to the last sign or number."""
    before = line[max(0, at - 32) : at]
    begin = max(before.rfind(b"|"), before.rfind(b":")) + 1
    return _AFTER_NUMBER.split(before[begin:])[-1]


def _is_evaluation(line: bytes) -> bool:
    """Whether the line as a whole speaks of an evaluation; a name of one value does
    not."""
    if b"val" not in line and b"test" not in line and b"held" not in line:
        return False
    for match in _EVALUATION.finditer(line):
        loss = line.find(b"loss", match.end(), match.end() + 6)
        between = line[match.end() : loss]
        if loss < 0 or b"|" in between or not _LOSS.match(line, loss):
            return True
    return False


def _read_companions(line: bytes) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, regex, mark in _COMPANIONS:
        for at in _find_all(line, mark):
            match = regex.match(line, at)
            if match:
                found.setdefault(name, float(match["number"]))
    rate = _find_rate(line)
    if rate:
        value = float(rate[1].replace(b"|", b"")) * _SCALES[rate[2]]
        found[TOKENS_PER_SECOND] = value
    return found


_COMPANIONS: Final = (
    (LEARNING_RATE, _LEARNING_RATE, b"learning"),
    (LEARNING_RATE, _LEARNING_RATE, b"lr"),
    (GRAD_NORM, _GRAD_NORM, b"grad"),
)


def _find_rate(line: bytes) -> _Found | None:
    """The tokens a second, before or behind their unit."""
    for mark in (b"tok", b"tps"):
        for at in _find_all(line, mark):
            match = _TOKENS.match(line, at)
            if match is None and _TOKENS_UNIT.match(line, at):
                match = _TOKENS_BEFORE.search(line, max(0, at - 16), at)
            if match:
                return match
    return None
