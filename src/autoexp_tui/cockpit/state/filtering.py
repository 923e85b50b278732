"""What a person types after `/`: words to find, comparisons to hold.

`failed lr>1e-3` keeps jobs that have *failed* somewhere in name, stage, state or
parameters, and whose one parameter ending in `lr` is above 1e-3. Where the front end
was given the sweep's own expression language, a text that reads as one is one of its
expressions, and is refused with a reason where it is none; plain words are never
refused. Nothing here evaluates Python.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from autoexp_tui.cockpit.state.parameters import format_value

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView


Values: TypeAlias = Mapping[str, object]


class Test(Protocol):
    """A compiled expression."""

    @property
    def names(self) -> Sequence[str]:
        """What it asks of a job."""
        ...

    def __call__(self, values: Values) -> bool:
        """Whether it holds; ValueError where it does not apply."""
        ...


Expression: TypeAlias = Callable[[str], Test]
"""Compiles an expression of the sweep's language; ValueError when it is none."""


_TERM: Final = re.compile(r"^([\w.+~@/-]+?)(==|!=|<=|>=|=|<|>|:)(.+)$")


_KEYWORD: Final = re.compile(r"\b(and|or|not|in)\b")


_SIGN: Final = re.compile(r"[<>]|[!=]=")


_SIGN_APART: Final = re.compile(r"(^|\s)([<>=!]=|[<>=])|([<>=!]=|[<>=])(\s|$)|[()]")
"""What no list of words and comparisons has: brackets, a sign that stands apart."""


_UNFINISHED: Final = re.compile(r"([<>=!(,:]|\b(and|or|not|in))\s*$")


_NAMED: Final = 8
"""Names that are listed where none is near."""


_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
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


def compile_filter(text: str, expression: Expression | None = None) -> Filter | None:
    """The filter that `text` asks for; None for an empty one.

    Raises:
        FilterError: it reads as an expression of the sweep's language and is none.
    """
    stripped = text.strip()
    if not stripped:
        return None
    words = _of_words(stripped)
    if expression is None or not (_meant(stripped) or _KEYWORD.search(stripped)):
        return words
    try:
        test = expression(stripped)
    except ValueError as error:
        if _meant(stripped):
            raise FilterError(str(error)) from None
        return words
    if not _meant(stripped):
        return Filter(stripped, lambda job: _safely(test, job, words.keeps))
    return Filter(
        stripped, lambda job: _safely(test, job, lambda _: False), tuple(test.names)
    )


def _meant(text: str) -> bool:
    """Whether an expression is meant, and not words that happen to be in one."""
    if _SIGN_APART.search(text):
        return True
    return bool(_KEYWORD.search(text) and _SIGN.search(text))


def _of_words(text: str) -> Filter:
    terms = [_term(word) for word in text.split()]
    keys = (match[1] for word in text.split() if (match := _TERM.match(word)))
    return Filter(text, lambda job: all(term(job) for term in terms), tuple(keys))


def _safely(
    test: Callable[[Values], bool], job: JobView, otherwise: Callable[[JobView], bool]
) -> bool:
    """What an expression says of a job; where it does not apply, what words say."""
    try:
        return bool(test(list_values(job)))
    except (ValueError, TypeError, KeyError):
        return otherwise(job)


def check_names(wanted: Filter | None, jobs: Iterable[JobView]) -> None:
    """Refuse a filter that asks for a name which no job has.

    Raises:
        FilterError: says which, and what was probably meant.
    """
    if wanted is None:
        return
    missing = set(wanted.names)
    known: dict[str, None] = {}
    for job in jobs:
        if not missing:
            return
        had = list_values(job)
        missing.difference_update(had)
        known.update(dict.fromkeys(had))
    if missing and known:
        name = next(name for name in wanted.names if name in missing)
        raise FilterError(f"no job has `{name}`{_meant_instead(name, known)}")


def _meant_instead(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    tails = list(dict.fromkeys(key.lstrip("+~").rsplit(".", 1)[-1] for key in known))
    near = get_close_matches(name, [*tails, *known], n=1, cutoff=0.7)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; there are {', '.join(tails[:_NAMED])} ..."


def is_unfinished(text: str) -> bool:
    """Whether more has to be typed before anything can be said of it."""
    return bool(_UNFINISHED.search(text)) or text.count("(") > text.count(")")


def list_values(job: JobView) -> dict[str, object]:
    """What a filter may ask of a job: parameters, metrics, and a few of its own."""
    noted = job.record.noted
    told = {
        name: float(value) for name, value in (noted.values if noted else {}).items()
    }
    live = dict(job.live.metrics) if job.live else {}
    parameters = job.record.spec.parameters
    return {
        **told,
        **live,
        **_bare_tails(parameters),
        **parameters,
        "name": job.name,
        "stage": job.stage,
        "state": job.look.value,
        "family": job.record.spec.family,
        "cause": job.record.cause.value if job.record.cause else "",
        "node": job.attempt.node if job.attempt else "",
        "id": job.attempt.executor_id if job.attempt else "",
        "step": job.step,
    }


def _bare_tails(parameters: Values) -> Values:
    """`lr` for `optim.lr`, where only one key ends so."""
    tails: dict[str, list[str]] = {}
    for key in parameters:
        tails.setdefault(key.lstrip("+~").rsplit(".", 1)[-1], []).append(key)
    return {tail: parameters[keys[0]] for tail, keys in tails.items() if len(keys) == 1}


def _term(word: str) -> Callable[[JobView], bool]:
    match = _TERM.match(word)
    if match is None:
        wanted = word.lower()
        return lambda job: wanted in build_haystack(job)
    key, sign, value = match.groups()
    value = value.strip("\"'")
    return lambda job: _compares(_lookup(job, key), sign, value)


def _lookup(job: JobView, key: str) -> object:
    """The value under a key, or under the one key that ends in `.key`."""
    return list_values(job).get(key)


def _compares(value: object, sign: str, wanted: str) -> bool:
    if value is None:
        return False
    try:
        return _COMPARE[sign](float(str(value)), float(wanted))
    except ValueError:
        same = format_value(value).lower() == wanted.lower()
        return same if sign in ("=", "==", ":") else not same if sign == "!=" else False


def build_haystack(job: JobView) -> str:
    """All that a bare word is looked for in, in lower case."""
    spec = job.record.spec
    parameters = " ".join(
        f"{key}={format_value(value)}" for key, value in spec.parameters.items()
    )
    why = job.record.cause.value.replace("_", " ") if job.record.cause else ""
    node = job.attempt.node if job.attempt else ""
    return f"{spec.name} {spec.stage} {job.look} {why} {node} {parameters}".lower()
