"""What one line of a training log says: step, loss, and the usual companions.

Works on *folded* bytes (`fold`): lower case, `=` as `:`, quotes as spaces, every
bracket or comma as `|`, and what is not ASCII as `?`, so that Megatron's columns,
`key=value` pairs, dicts, JSON lines and progress bars read alike. Folding keeps
lengths: offsets are those of the log itself.

Not read: epochs, CSV, values that stand on another line than their name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

STEP: Final = "step"
TOTAL: Final = "total"
LOSS: Final = "loss"
EVAL_LOSS: Final = "eval_loss"
LEARNING_RATE: Final = "learning_rate"
TOKENS_PER_SECOND: Final = "tokens_per_second"
GRAD_NORM: Final = "grad_norm"

MARKS: Final = (b"loss", b"step", b"iter")
"""A line without any of these says nothing to us."""


def _folding() -> bytes:
    table = bytearray(range(128)) + bytearray(b"?" * 128)
    for upper in range(ord("A"), ord("Z") + 1):
        table[upper] = upper + 32
    for chars, folded in ((b"\r", b"\n"), (b"'\"\t", b" "), (b",;[]{}", b"|")):
        for char in chars:
            table[char] = folded[0]
    table[ord("=")] = ord(":")
    return bytes(table)


_FOLD: Final = _folding()


def fold(data: bytes) -> bytes:
    """`data` as the parser reads it; the same length."""
    return data.translate(_FOLD)


Span: TypeAlias = tuple[int, int]


class Reading(NamedTuple):
    """What a line says. A tuple: thousands are made a second."""

    step: int | None
    total: int | None
    values: dict[str, float]
    evaluation: bool = False
    """It speaks of an evaluation: its step is the trained model's at best."""
    passed_over: int = 0
    """Lines like it, right before it, that were not read."""


class Places(NamedTuple):
    """Where the numbers of a reading stand in the line."""

    spans: Mapping[str, Span]
    """By name, `step` and `total` included."""
    scales: Mapping[str, float]
    """What the unit of a value multiplies it by, where it is not 1."""


@dataclass(slots=True)
class _Notes:
    """What was found in a line so far."""

    values: dict[str, float] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, value: float, span: Span) -> None:
        """Keep a value; the first of a name counts."""
        if name not in self.values:
            self.values[name] = value
            self.spans[name] = span


@dataclass(frozen=True, slots=True)
class _Counter:
    """A step counter, and where it stands."""

    at: int
    step: int | None
    total: int | None
    spans: Mapping[str, Span] | None


_NO_COUNTER: Final = _Counter(0, None, None, MappingProxyType({}))


# Repetitions are possessive, so that a long run of digits or blanks is gone over once.
_NUMBER = (
    rb"(?P<number>[-+]?(?:\d++(?:\.\d*+)?+(?:e[-+]?\d++)?+|\.\d++(?:e[-+]?\d++)?+"
    rb"|nan|inf(?:inity)?+))(?![\w%])"
)
_COUNT = rb"(\d{1,3}(?:\|\d{3})++(?![\d|])|\d++)"
_RATE = (
    rb"(\d{1,3}(?:\|\d{3})++(?:\.\d++)?+|\d++(?:\.\d*+)?+(?:e[-+]?\d++)?+)"
    rb" ?([km]?)(?!\w)"
)
_IS = rb"(?: *+(?::|->) *+\|?+ *+| ++(?:is ++|of ++)?+)"

_STEP: Final = re.compile(
    rb"(?:step|iter(?:ation)?+)[ :#]*+" + _COUNT + rb"(?!\.?\d|[\w%])"
    rb"(?: *+(?:/|of) *+" + _COUNT + rb"(?!\.?\d|[\w%]))?"
)
_LOSS: Final = re.compile(
    rb"loss(?:[ _](?:value|avg|mean))?(?P<kind>[ _/](?:train|val|eval|test|dev)\w*)?"
    + _IS
    + rb"(?:tensor\( *+)?+"
    + _NUMBER
)
_LEARNING_RATE: Final = re.compile(rb"(?:learning[ _-]rate|lr)" + _IS + _NUMBER)
_GRAD_NORM: Final = re.compile(rb"grad(?:ient)?[ _-]?norm" + _IS + _NUMBER)
_TOKENS: Final = re.compile(
    rb"(?:tok(?:en)?s?(?: per |/|_per_)s(?:ec(?:ond)?)?(?![/\w])\)?|tps)" + _IS + _RATE
)
_TOKENS_AFTER: Final = re.compile(_RATE.replace(rb"(?!\w)", rb"") + rb" *$")
_BAR: Final = re.compile(rb"(?<![\w.+-])(\d+)/(\d+) \|\d")
_PREAMBLE: Final = re.compile(
    rb"[^a-z]*(?:(?:info|debug|rank|global|train(?:ing|er)?|main|t|z)\b[^a-z]*)*"
)
_WORDS: Final = re.compile(rb"[a-z]+")
_NAMES: Final = re.compile(rb"[a-z]++(?:-[a-z]++)*+")
"""Words; those that a hyphen joins are one."""
_AFTER_NUMBER: Final = re.compile(rb"[0-9)]+")


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


_EVALUATION: Final = re.compile(
    rb"(?<![\w/.\\-])(?:(?:cross-?)?valid(?:ation)?|val|eval(?:uation|uating)?|test(?:ing)?"
    rb"|held[- _]?out)(?![\w/.\\-])"
)
_EVALUATION_MARKS: Final = (b"val", b"test", b"held")
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
_NO_LOSSES: Final = frozenset({"no_loss"})
_NO_STEP_WORDS: Final = _words("per every each next") | _EVALUATION_WORDS
"""What before `step` makes it something else than the counter."""


def read_line(
    low: bytes, start: int, end: int, *, has_values: bool = False
) -> tuple[Reading, Places | None] | None:
    """What the line `low[start:end]` of folded bytes says; None: nothing.

    A bare step counter counts when the line has a total or values (`has_values`: it
    has others than we look for), or begins with it. There are no places when more
    than the text around the numbers decided.
    """
    notes = _Notes()
    evaluation = _evaluates(low, start, end)
    _read_losses(low, start, end, notes, evaluation=evaluation)
    counter = _find_step(low, start, end)
    if notes.values or counter is not None:
        _read_companions(low, start, end, notes)
    valued = bool(notes.values) or has_values
    if counter is None and valued:
        counter = _bar_step(low, start, end)
    if counter is None:
        return _reading(_NO_COUNTER, notes, evaluation) if notes.values else None
    alone = evaluation or not (counter.total or _leads(low, start, counter.at))
    if not valued and alone:
        return None
    return _reading(counter, notes, evaluation)


def _reading(
    counter: _Counter,
    notes: _Notes,
    evaluation: bool,  # noqa: FBT001
) -> tuple[Reading, Places | None]:
    reading = Reading(counter.step, counter.total, notes.values, evaluation)
    if counter.spans is None or not notes.values:
        return reading, None
    return reading, Places({**notes.spans, **counter.spans}, notes.scales)


# -------------------------------------------------------------------------- step
def _find_step(low: bytes, start: int, end: int) -> _Counter | None:
    """The first step counter of the line."""
    for mark in (b"iter", b"step"):
        for at in _places(low, mark, start, end):
            match = _STEP.match(low, at, end)
            if match and _names_a_step(low, start, at):
                return _counter(match)
    return None


def _places(low: bytes, mark: bytes, start: int, end: int) -> Iterator[int]:
    at = low.find(mark, start, end)
    while at >= 0:
        yield at
        at = low.find(mark, at + len(mark), end)


def _counter(match: re.Match[bytes]) -> _Counter:
    spans = {STEP: match.span(1)}
    if match[2]:
        spans[TOTAL] = match.span(2)
    total = _count(match[2]) if match[2] else None
    return _Counter(match.start(), _count(match[1]), total, spans)


def _count(text: bytes) -> int:
    return int(text.replace(b"|", b"")[:18])


def _names_a_step(low: bytes, start: int, at: int) -> bool:
    """Whether the word at `at` is a step counter and not the end of another name."""
    if at == start:
        return True
    before = low[max(start, at - 16) : at]
    tie = before[-1:]
    if tie.isalnum() or tie in b"/.-":
        return False
    words = _WORDS.findall(before)
    last = words[-1] if words and before.rstrip(b" _").endswith(words[-1]) else b""
    if tie == b"_":
        return last in (b"global", b"train", b"training", b"optimizer")
    return last not in _NO_STEP_WORDS


def _bar_step(low: bytes, start: int, end: int) -> _Counter | None:
    """The counter of a progress bar; one that starts anew each epoch is none."""
    if low.find(b"poch", start, end) >= 0:
        return None
    match = _BAR.search(low, start, end)
    if match is None:
        return None
    spans = {STEP: match.span(1), TOTAL: match.span(2)}
    return _Counter(match.start(), _count(match[1]), _count(match[2]), spans)


def _leads(low: bytes, start: int, at: int) -> bool:
    """Whether nothing but times and levels stands before a bare step counter."""
    return _PREAMBLE.fullmatch(low, start, at) is not None


# -------------------------------------------------------------------------- losses
def _read_losses(
    low: bytes, start: int, end: int, notes: _Notes, *, evaluation: bool
) -> None:
    for at in _places(low, b"loss", start, end):
        match = _LOSS.match(low, at, end)
        name = _loss_name(low, start, at, match["kind"]) if match else None
        if match is None or name is None:
            continue
        if name == LOSS and evaluation and b"train" not in _qualifier(low, start, at):
            name = EVAL_LOSS
        notes.add(name, float(match["number"]), match.span("number"))


def _loss_name(low: bytes, start: int, at: int, kind: bytes | None) -> str | None:
    """`loss`, `eval_loss`, or the own name of another loss; None: it is none."""
    if kind:
        return LOSS if kind[1:].startswith(b"train") else EVAL_LOSS
    before = _qualifier(low, start, at).replace(b"held out ", b"heldout ")
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
    name = plain_name(f"{tied.rsplit(b' ', 1)[-1].decode()}{gap}loss")
    return None if name in _NO_LOSSES else name


@functools.lru_cache(maxsize=1024)
def plain_name(name: str) -> str:
    """A metric's name as we write it: `Held-out loss` is `heldout_loss`."""
    joined = re.sub(r"(?<=\w)-(?=\w)", "", name.lower())
    return re.sub(r"[\W_]+", "_", joined).strip("_")


def _qualifier(low: bytes, start: int, at: int) -> bytes:
    """The words before a name, back to the last sign or number."""
    begin = max(start, at - 32)
    begin = max(begin, low.rfind(b"|", begin, at) + 1, low.rfind(b":", begin, at) + 1)
    return _AFTER_NUMBER.split(low[begin:at])[-1]


def _evaluates(low: bytes, start: int, end: int) -> bool:
    """Whether the line as a whole speaks of an evaluation.

    A name of one value (`val loss: 2.0`) does not make the whole line one.
    """
    if all(low.find(mark, start, end) < 0 for mark in _EVALUATION_MARKS):
        return False
    for match in _EVALUATION.finditer(low, start, end):
        loss = low.find(b"loss", match.end(), min(end, match.end() + 6))
        between = low[match.end() : loss]
        if loss < 0 or b"|" in between or not _LOSS.match(low, loss, end):
            return True
    return False


# ---------------------------------------------------------------------- companions
def _read_companions(low: bytes, start: int, end: int, notes: _Notes) -> None:
    for name, marks, regex in _NAMED:
        for at in _places_of_first(low, marks, start, end):
            match = regex.match(low, at, end)
            if match and _begins_name(low, start, at):
                notes.add(name, float(match["number"]), match.span("number"))
    for at in _places_of_first(low, (b"tok", b"tps"), start, end):
        _read_rate(low, start, at, end, notes)


_NAMED: Final = (
    (LEARNING_RATE, (b"learning", b"lr"), _LEARNING_RATE),
    (GRAD_NORM, (b"grad",), _GRAD_NORM),
)


def _places_of_first(
    low: bytes, marks: tuple[bytes, ...], start: int, end: int
) -> Iterator[int]:
    for mark in marks:
        yield from _places(low, mark, start, end)


def _begins_name(low: bytes, start: int, at: int) -> bool:
    before = low[max(start, at - 1) : at]
    return not before.isalnum() and before not in (b"_", b"-", b".")


def _read_rate(low: bytes, start: int, at: int, end: int, notes: _Notes) -> None:
    match = _TOKENS.match(low, at, end) or _rate_before(low, start, at, end)
    if match is None or not _begins_name(low, start, at):
        return
    if TOKENS_PER_SECOND in notes.values:
        return
    scale = _SCALES[match[2]]
    value = float(match[1].replace(b"|", b"")) * scale
    notes.add(TOKENS_PER_SECOND, value, match.span(1))
    if scale != 1.0:
        notes.scales[TOKENS_PER_SECOND] = scale


def _rate_before(low: bytes, start: int, at: int, end: int) -> re.Match[bytes] | None:
    """`51200 tok/s`: the number stands before its unit."""
    if not low.startswith((b"tok/s", b"tokens/s"), at, end):
        return None
    return _TOKENS_AFTER.search(low, max(start, at - 16), at)


_SCALES: Final = {b"": 1.0, b"k": 1e3, b"m": 1e6}
