"""What one line of a training log says: step, epoch, loss, and any number with a name.
Works on *folded* lines, so that Megatron's columns, `key=value` pairs, dicts, JSON
lines and progress bars read alike. Of numbers with a name those are metrics that are no
time, host, id, version, place in code nor how far something is. Not read: CSV, values
on another line than their name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from autoexp_tui.text.log_lines import (
    EVAL_LOSS,
    GRAD_NORM,
    LEARNING_RATE,
    LOSS,
    MAIN_METRICS,
    TOKENS_PER_SECOND,
    find_canonical_name,
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
    epoch: tuple[int, int | None] | None = None
    """Which epoch, and of how many."""
    bar: tuple[int, int] | None = None
    """Of a bar that starts anew each epoch: what is done, and all of it."""


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


# Repetitions are possessive, so that a long run of digits or blanks is gone over once.
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
_RATE_UNIT: Final = re.compile(
    _ALONE + rb"(?:tok(?:en)?s?(?: per |/|_per_)s(?:ec(?:ond)?)?(?![/\w])\)?|tps(?!\w))"
)
_RATE_BEHIND: Final = re.compile(_IS + _RATE + rb"(?!\w)")
_RATE_BEFORE: Final = re.compile(_RATE + rb" *$")
_SCALES: Final = {b"": 1.0, b"k": 1e3, b"m": 1e6}
_PREAMBLE: Final = re.compile(
    rb"(?:[diwef]\d{4} [\d:.]++ ++\d++ [\w.]++:\d++\|)?"  # glog
    rb"[^a-z]*(?:(?:info|debug|rank|global|train(?:ing|er)?|main|t|z)\b[^a-z]*)*"
)
_LAST_WORD: Final = re.compile(rb"([a-z]*)[ _]*$")
_LOSS_NEXT: Final = re.compile(
    rb"[ _/]?loss(?:[ _](?:value|avg|mean|is))?+ *+(?::|->|[-+.\d]|nan|inf)"
)
"""What makes a word of evaluations before it a name of one value."""
_EVALUATION: Final = re.compile(
    rb"(?<![\w/.\\-])(?:(?:cross-?)?valid(?:ation)?|val|eval(?:uation|uating)?"
    rb"|test(?:ing)?|held[- _]?out)(?![\w/.\\-])"
)
_STEP_WORDS: Final = split_words("global train training optimizer")
"""What may be tied to `step` by `_`."""
_NO_STEP_WORDS: Final = split_words("per every each next") | EVALUATION_WORDS
"""What before `step` makes it something else than the counter."""


_BAR_OF_EPOCH: Final = re.compile(
    rb"[ |:-]*+(?:\d++%(?:\|[^|]*+\|)?)? *+(\d++) ?/ ?(\d++)(?![\w.%/])"
)
_EPOCH: Final = re.compile(
    rb"(?<![a-z0-9_])epoch[ :#]*+\|?+ *+(?P<epoch>\d++)(?!\.\d|\w)"
    rb"(?: *+(?:/|of) *+(?P<most>\d++)| ++\| *+(?P<all>\d++)(?= *+(?:\||$)))?+"
)
_TUNE: Final = re.compile(
    rb"(?P<epoch>\d++)\|\d++\|(?=loss:)(?P<most>(?!))?(?P<all>(?!))?"
)
"""As torchtune describes its bar."""
_TIMM: Final = re.compile(
    rb"train: (?P<epoch>\d++)(?= \| *+\d++/\d++ \()(?P<most>(?!))?(?P<all>(?!))?"
)
_KERAS: Final = re.compile(rb" *+(\d++)/(\d++) ++(?:\|[:>.]++\||\?\?\?|- )")
_WRITER: Final = re.compile(rb"_writer\.py:\d++\| \|(\d++)()\| ")
"""The step as `clu.metric_writers` logs it: flax, T5X."""
_PLANNED: Final = re.compile(rb"(?<!\w)total optimization steps : (\d++)")
"""Of Hugging Face's Trainer: what its bar, which has no name, goes up to."""
_OF_THE_RUN: Final = frozenset((LEARNING_RATE, GRAD_NORM, TOKENS_PER_SECOND, "epoch"))
"""What an evaluation tells of the run, and not of itself."""
_UNITS: Final = (
    rb"(?! *+(?:[kmgt]?i?b|[mun]?s|secs?|seconds?|min(?:ute)?s?|h|h(?:ou)?rs?|days?|it"
    rb"|[a-z]++(?:/[a-z]++)++(?! *+(?::|->)| ++\d)|of|/)(?!\w))"
)
_ANY: Final = (
    rb"(?P<number>[-+]?(?:\d{1,3}(?:\|\d{3})++(?!\d)(?:\.\d++)?+"
    rb"|\d++(?:\.\d*+)?+(?:e[-+]?\d++)?+|\.\d++(?:e[-+]?\d++)?+|nan|inf(?:inity)?+))"
    rb"(?P<percent>%?+)(?=[ |()]|[.:]?(?: |$))" + _UNITS
)
"""A number that stands for itself, without a unit; per cent are one."""
_MEAN: Final = re.compile(rb" *+\( *+(?P<number>[\d.]++(?:e[-+]?\d++)?+) *+\)")
"""What stands behind a number for the mean so far."""
_NAMED: Final = re.compile(
    rb"(?<![\w./\\@-])(?:(?<!:)|(?=loss))(?P<name>[a-z][\w@/.()-]*+"
    rb"(?: (?!(?:nan|inf)\b(?! iter))[a-z(][\w@/()-]*+){0,7}+)"
    rb"(?P<gap> *+(?::|->) *+\|?+ *+(?:tensor\( *+)?+| ++)" + _ANY
)
"""A name, a sign and a number; without a sign they must fill a cell, but for the main
metrics."""
_MOST_NUMBERS: Final = 256
"""Of one line."""
_WORD: Final = re.compile(rb"[a-z]++")


def may_say_something(line: str) -> bool:
    """Whether a folded line is worth reading: a quick look, thrice as quick at a `str`
    as at bytes."""
    return (
        "loss" in line
        or "step" in line
        or "iter" in line
        or "poch" in line
        or "accur" in line
        or "perplex" in line
        or "reward" in line
        or "%|" in line
        or line[:1] == "|" == line[-1:]  # the row of a table, a dict
        or line[:9] == "---------"
    )


def is_rule(line: bytes) -> bool:
    """Whether a line is the upper or lower edge of a table."""
    return line[:9] == b"---------" and not line.strip(b"-")


def read_line(line: bytes, *, has_values: bool = False) -> Reading | None:
    """What a folded line says. A bare step counter counts when the line has a total or
    values (`has_values`: it has others than we look for), or begins with it."""
    evaluation = _is_evaluation(line)
    counter = _find_counter(line)
    epoch, bar = _find_epoch(line)
    values = _read_named(line, counter or epoch, bar, evaluation=evaluation)
    if values or counter:
        values |= _read_rate(line)
    has_values = has_values or bool(values)
    if counter is None and bar is None and has_values and b"poch" not in line:
        counter = _BAR.search(line)
        if counter and b"step" not in line:
            bar = int(counter[1][:18]), int(counter[2][:18])
    step, total = _read_counter(counter) if counter else (None, None)
    leads = total or (counter and _PREAMBLE.fullmatch(line, 0, counter.start()))
    if not has_values and (evaluation or not leads):
        step = total = None
    if step is None and not (values or epoch):
        return _read_plan(line, evaluation=evaluation)
    which = _read_epoch(epoch) if epoch else None
    return Reading(step, total, values, evaluation, which, bar)


def _read_plan(line: bytes, *, evaluation: bool) -> Reading | None:
    """What a line tells that has neither numbers nor a step: how many steps there will
    be, or how far a bar is."""
    if planned := _PLANNED.search(line):
        return Reading(None, int(planned[1][:18]), {})
    bar = _BAR.search(line) if b"%|" in line and not evaluation else None
    done = (int(bar[1][:18]), int(bar[2][:18])) if bar else None
    return Reading(None, None, {}, bar=done) if done else None


def _read_counter(counter: _Found) -> tuple[int, int | None]:
    step, total = (text and text.replace(b"|", b"")[:18] for text in counter.groups())
    return int(step), int(total) if total else None


def _read_epoch(epoch: _Found) -> tuple[int, int | None]:
    most = epoch["most"] or epoch["all"]
    return int(epoch["epoch"][:18]), int(most[:18]) if most else None


def _read_number(match: _Found, line: bytes = b"") -> float:
    """The number of a match; with its line the mean so far that stands behind it."""
    mean = _MEAN.match(line, match.end()) if line else None
    return float((mean or match)["number"].replace(b"|", b""))


def _find_epoch(line: bytes) -> tuple[_Found | None, tuple[int, int] | None]:
    """(match of the epoch, what of it is done and of how much). One that tells neither
    how many there are nor how much is done is none."""
    if keras := _KERAS.match(line):
        return None, (int(keras[1][:18]), int(keras[2][:18]))
    is_told = line.find(b"poch") >= 0
    epoch = _EPOCH.search(line) if is_told else _TUNE.match(line) or _TIMM.match(line)
    if epoch is None or not _PREAMBLE.fullmatch(line, 0, epoch.start()):
        return None, None
    bar = (_BAR if epoch.re is _TUNE else _BAR_OF_EPOCH).search(line, epoch.end())
    if epoch.re is not _TUNE and bar and bar.start() != epoch.end():
        bar = None
    if not (bar or epoch["most"] or epoch["all"]):
        return None, None
    return epoch, (int(bar[1][:18]), int(bar[2][:18])) if bar else None


def _read_named(
    line: bytes, place: _Found | None, bar: object, *, evaluation: bool
) -> dict[str, float]:
    """The numbers of a metric line, by name. A line is one that has a loss, or whose
    numbers are usual ones beside a step or an epoch (`place`, `bar`), or that says
    nothing else."""
    begin, end = place.span() if place else (0, 0)
    found = islice(_find_pairs(line), _MOST_NUMBERS)
    pairs = [one for one in found if not begin <= one[1].start("number") < end]
    if not pairs:
        return {}
    named: dict[str, float] = {}
    others: dict[str, tuple[str, float]] = {}
    for name, match in pairs:
        own = _find_own_name(match["name"]) if is_loss(name) else name
        if evaluation and name == LOSS and b"train" not in match["name"]:
            name, own = EVAL_LOSS, f"eval_{own}"
        elif evaluation and not (
            is_loss(name)
            or name in _OF_THE_RUN
            or name.partition("_")[0].encode() in EVALUATION_WORDS
        ):
            name = f"eval_{name}"
        number = _read_number(match, line if evaluation else b"")
        if name in (LOSS, EVAL_LOSS) and own != name:
            others.setdefault(own, (name, number))
        else:
            named.setdefault(name, number)
    for own, (name, number) in others.items():  # where `loss` is, `nll_loss` is not it
        named.setdefault(own if name in named else name, number)
    has_score = any(map(is_score, named))
    is_telling = has_score or not _OF_THE_RUN.isdisjoint(named)
    if (
        any(map(is_loss, named))
        or bar
        or (place and (place.re is _WRITER or is_telling))
        or (has_score and line.find(b"poch") >= 0 and _EPOCH.search(line))
    ):
        return named
    if line[:1] == b"|" and "epoch" in named:
        return named
    is_whole = place or all(map(is_plain_score, named))
    spans = [(begin, end), *(match.span() for _, match in pairs)]
    return named if is_whole and not any(_find_words(line, spans)) else {}


def _find_own_name(words: bytes) -> str:
    """What a loss is called where it stands: `nll_loss`, `loss`."""
    own = [word for word in words.split() if b"loss" in word]
    return normalize_name(own[-1].decode())


def _find_pairs(line: bytes) -> Iterator[tuple[str, _Found]]:
    """(name, match) of each number that has a name which may be a metric's."""
    has_bar = line.find(b"%|") >= 0 and _BAR.search(line)
    for match in _NAMED.finditer(line):
        words, gap, _, percent = match.groups()
        name = name_number(words, tied=b" " not in gap)
        if not name or (percent and (has_bar or is_loss(name))):
            continue
        is_known = name in MAIN_METRICS or is_loss(name)
        is_apart = is_known or not gap.isspace() or _is_cell(line, match)
        if is_apart or is_plain_score(name):
            yield name, match


def _is_cell(line: bytes, match: _Found) -> bool:
    """Whether a match fills what stands between two signs."""
    before, behind = line[: match.start()].rstrip(), line[match.end() :].lstrip()
    return before[-1:] in (b"", b"|") and behind[:1] in (b"", b"|")


def _find_words(line: bytes, spans: list[tuple[int, int]]) -> Iterator[bytes]:
    """The words of a line that stand in none of some spans, and mean something."""
    for begin, end in spans:
        line = line[:begin] + b" " * (end - begin) + line[end:]
    words = _WORD.findall(_PREAMBLE.sub(b" ", line, 1))
    return (word for word in words if word not in FILL_WORDS)


def _find_counter(line: bytes) -> _Found | None:
    """The first step counter of the line: its step and its total; iterations go before
    steps."""
    if b"_writer" in line and (match := _WRITER.search(line)):
        return match
    found = [one for one in _STEP.finditer(line) if _is_counter(line, one.start())]
    iterations = [one for one in found if one[0].startswith(b"iter")]
    return next(iter(iterations or found), None)


def _is_counter(line: bytes, at: int) -> bool:
    """Whether the words before a step's name let it count the run's own steps."""
    before = line[max(0, at - 16) : at]
    last = _LAST_WORD.search(before)
    word = last[1] if last else b""
    return word in _STEP_WORDS if before.endswith(b"_") else word not in _NO_STEP_WORDS


def _is_evaluation(line: bytes) -> bool:
    """Whether the line as a whole speaks of an evaluation; a name of one value does
    not."""
    if b"val" not in line and b"test" not in line and b"held" not in line:
        return False
    for match in _EVALUATION.finditer(line):
        if not _LOSS_NEXT.match(line, match.end()):
            return True
    return False


def _read_rate(line: bytes) -> dict[str, float]:
    """The tokens a second, before or behind their unit, also in thousands."""
    if b"tok" not in line and b"tps" not in line:
        return {}
    for unit in _RATE_UNIT.finditer(line):
        before = max(0, unit.start() - 16), unit.start()
        match = _RATE_BEHIND.match(line, unit.end())
        if match := match or _RATE_BEFORE.search(line, *before):
            value = float(match[1].replace(b"|", b"")) * _SCALES[match[2]]
            return {TOKENS_PER_SECOND: value}
    return {}


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


_ROW: Final = re.compile(
    rb"\|( *+)([a-z][\w@./ -]*?) *\| *"
    rb"([-+]?(?:\d++(?:\.\d*+)?+(?:e[-+]?\d++)?+|\.\d++|nan|inf)|) *\|"
)
_COUNTERS: Final = ("total_timesteps", "timesteps", "step", "iterations", "epoch")
_MOST_ROWS: Final = 256


class Table:
    """Rows of one name and one number between lines of dashes, as stable-baselines3's
    logger prints them (`common/logger.py`, HumanOutputFormat): those of a group are
    indented below its name. Without a counter of steps they say nothing: they may be a
    config."""

    def __init__(self) -> None:
        self._group = ""
        self._rows: dict[str, float] = {}

    def add_row(self, line: bytes) -> bool:
        """Whether a folded line is a row; then it is kept."""
        row = _ROW.fullmatch(line) if line[:1] == b"|" else None
        if row is None:
            return False
        indent, name, number = row[1], row[2].decode(), row[3]
        if not number:
            self._group = name if name.endswith("/") else ""
        elif len(self._rows) < _MOST_ROWS:
            group = self._group if len(indent) > 1 else ""
            self._rows[f"{group}{name}"] = float(number)
        return True

    def close(self) -> Reading | None:
        """What the rows since the last line of dashes say; they are forgotten."""
        rows, self._rows, self._group = self._rows, {}, ""
        last = {key.rpartition("/")[2]: key for key in rows}
        counter = next((last[name] for name in _COUNTERS if name in last), None)
        if counter is None:
            return None
        step = rows.pop(counter)
        named = ((find_canonical_name(key), value) for key, value in rows.items())
        values = {name: value for name, value in named if is_metric(name)}
        return Reading(int(step), None, values) if step < 1e18 else None
