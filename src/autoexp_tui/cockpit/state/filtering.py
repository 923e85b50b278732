"""What a person types after `/`: words to find, comparisons to hold.

`failed lr>1e-3` keeps jobs that have *failed* somewhere in name, stage, state or
parameters, and whose one parameter ending in `lr` is above 1e-3. A text that reads as
an expression of the sweep's language is one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cockpit.state.parameters import format_value

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView

_TERM: Final = re.compile(r"^([\w.+~@/-]+?)(==|!=|<=|>=|=|<|>|:)(.+)$")
_KEYWORD: Final = re.compile(r"\b(and|or|not|in)\b")
_SIGN: Final = re.compile(r"[<>]|[!=]=")
_SIGN_APART: Final = re.compile(r"(^|\s)([<>=!]=|[<>=])|([<>=!]=|[<>=])(\s|$)|[()]")
"""What no list of words and comparisons has: brackets, a sign that stands apart."""
_UNFINISHED: Final = re.compile(r"([<>=!(,:]|\b(and|or|not|in))\s*$")
_NAMED: Final = 8
"""Names that are listed where none is near."""
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "=": operator.eq,
        "==": operator.eq,
        ":": operator.eq,
        "!=": operator.ne,
    }
)


class FilterError(ValueError):
    """What was typed asks for something that cannot be; a sentence says what."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter in force: its text, and what it keeps."""

    text: str
    keeps: Callable[[JobView], bool] = field(compare=False)
    names: tuple[str, ...] = field(default=(), compare=False)
    """What it asks of a job by name."""


def compile_filter(text: str) -> Filter | None:
    """The filter that `text` asks for; None for an empty one.

    Raises FilterError where it reads as an expression and is none: then a sign stands
    apart, and it is no list of words that happen to be in one.
    """
    from autoexp_tui.sweep.expression import compile_expression  # imported ahead

    text = text.strip()
    if not text:
        return None
    words = _compile_words(text)
    keyword = bool(_KEYWORD.search(text))
    meant = bool(_SIGN_APART.search(text)) or (keyword and bool(_SIGN.search(text)))
    if not (meant or keyword):
        return words
    try:
        test = compile_expression(text, dotted=True)
    except ValueError as error:
        if meant:
            raise FilterError(str(error)) from None
        return words

    def keeps(job: JobView) -> bool:
        try:
            return bool(test.evaluate(list_values(job)))
        except (ValueError, TypeError, KeyError):
            return not meant and words.keeps(job)

    return Filter(text, keeps, test.names if meant else ())


def _compile_words(text: str) -> Filter:
    matches = [(word.lower(), _TERM.match(word)) for word in text.split()]

    def holds(job: JobView, word: str, term: re.Match[str] | None) -> bool:
        if term is None:
            return word in _build_haystack(job)
        value, sign, wanted = list_values(job).get(term[1]), term[2], term[3]
        return _compare_values(value, sign, wanted.strip("\"'"))

    def keeps(job: JobView) -> bool:
        return all(holds(job, word, term) for word, term in matches)

    return Filter(text, keeps, tuple(term[1] for _, term in matches if term))


def check_names(wanted: Filter | None, jobs: Iterable[JobView]) -> None:
    """Raise FilterError for a name that no job has: which, and what was meant."""
    from difflib import get_close_matches

    missing = set(wanted.names) if wanted is not None else set()
    known: dict[str, None] = {}
    for job in jobs:
        if not missing:
            return
        own = list_values(job)
        missing.difference_update(own)
        known.update(dict.fromkeys(own))
    if wanted is None or not missing or not known:
        return
    name = next(name for name in wanted.names if name in missing)
    tails = list(dict.fromkeys(map(_find_tail, known)))
    near = get_close_matches(name, [*tails, *known], n=1, cutoff=0.7)
    listed = f"; there are {', '.join(tails[:_NAMED])} ..."
    hint = f"; did you mean `{near[0]}`?" if near else listed
    raise FilterError(f"no job has `{name}`{hint}")


def is_unfinished(text: str) -> bool:
    """Whether more has to be typed before anything can be said of it."""
    return bool(_UNFINISHED.search(text)) or text.count("(") > text.count(")")


def _find_tail(key: str) -> str:
    return key.lstrip("+~").rsplit(".", 1)[-1]


def list_values(job: JobView) -> dict[str, object]:
    """What a filter may ask of a job: parameters (`optim.lr` as `lr` too, where only
    one key ends so), metrics, and a few of its own."""
    parameters, attempt = job.record.spec.parameters, job.attempt
    tails = [*map(_find_tail, parameters)]
    short = dict(zip(tails, parameters.values(), strict=True))
    return {
        **job.list_metrics(),
        **{tail: value for tail, value in short.items() if tails.count(tail) == 1},
        **parameters,
        "name": job.name,
        "stage": job.stage,
        "state": job.look.value,
        "family": job.record.spec.family,
        "cause": job.record.cause.value if job.record.cause else "",
        "node": attempt.node if attempt else "",
        "id": attempt.executor_id if attempt else "",
        "step": job.step,
    }


def _compare_values(value: object, sign: str, wanted: str) -> bool:
    if value is None:
        return False
    try:
        return _COMPARE[sign](float(str(value)), float(wanted))
    except ValueError:
        pair = format_value(value).lower(), wanted.lower()
        return "<" not in sign and ">" not in sign and _COMPARE[sign](*pair)


def _build_haystack(job: JobView) -> str:
    """All that a bare word is looked for in, in lower case."""
    spec = job.record.spec
    values = (f"{key}={format_value(one)}" for key, one in spec.parameters.items())
    why = job.record.cause.value.replace("_", " ") if job.record.cause else ""
    node = job.attempt.node if job.attempt else ""
    words = f"{spec.name} {spec.stage} {job.look} {why} {node} {' '.join(values)}"
    return words.lower()
