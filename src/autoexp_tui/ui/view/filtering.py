"""What a person types after `/`: words to find, comparisons to hold.

`failed lr>1e-3` keeps jobs that have *failed* somewhere in name, stage, state or
parameters, and whose one parameter ending in `lr` is above 1e-3. Where the front end
was given the sweep's own expression language, a text that it accepts is one of its
expressions. Nothing here evaluates Python.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.ui.view.parameters import spell

if TYPE_CHECKING:
    from autoexp_tui.ui.view.session import JobView

Values: TypeAlias = Mapping[str, object]
Expression: TypeAlias = Callable[[str], Callable[[Values], bool]]
"""Compiles an expression of the sweep's language; ValueError when it is none."""

_TERM: Final = re.compile(r"^([\w.+~@/-]+?)(==|!=|<=|>=|=|<|>|:)(.+)$")
_EXPRESSION: Final = re.compile(r"\b(and|or|not|in)\b|[()]")
"""What only the sweep's own language has."""
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


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter in force: its text, and what it keeps."""

    text: str
    keeps: Callable[[JobView], bool] = field(compare=False)


def compile_filter(text: str, expression: Expression | None = None) -> Filter | None:
    """The filter that `text` asks for; None for an empty one."""
    stripped = text.strip()
    if not stripped:
        return None
    if expression is not None and _EXPRESSION.search(stripped):
        try:
            test = expression(stripped)
        except ValueError:
            pass
        else:
            return Filter(stripped, lambda job: _safely(test, job))
    terms = [_term(word) for word in stripped.split()]
    return Filter(stripped, lambda job: all(term(job) for term in terms))


def _safely(test: Callable[[Values], bool], job: JobView) -> bool:
    """An expression that does not apply to a job does not keep it."""
    try:
        return bool(test(values(job)))
    except (ValueError, TypeError, KeyError):
        return False


def values(job: JobView) -> dict[str, object]:
    """What a filter may ask of a job: parameters, metrics, and a few of its own."""
    live = dict(job.live.metrics) if job.live else {}
    parameters = job.record.spec.parameters
    return {
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
        return lambda job: wanted in haystack(job)
    key, sign, value = match.groups()
    return lambda job: _compares(_lookup(job, key), sign, value)


def _lookup(job: JobView, key: str) -> object:
    """The value under a key, or under the one key that ends in `.key`."""
    return values(job).get(key)


def _compares(value: object, sign: str, wanted: str) -> bool:
    if value is None:
        return False
    try:
        return _COMPARE[sign](float(str(value)), float(wanted))
    except ValueError:
        same = spell(value).lower() == wanted.lower()
        return same if sign in ("=", "==", ":") else not same if sign == "!=" else False


def haystack(job: JobView) -> str:
    """All that a bare word is looked for in, in lower case."""
    spec = job.record.spec
    parameters = " ".join(
        f"{key}={spell(value)}" for key, value in spec.parameters.items()
    )
    why = job.record.cause.value.replace("_", " ") if job.record.cause else ""
    node = job.attempt.node if job.attempt else ""
    return f"{spec.name} {spec.stage} {job.look} {why} {node} {parameters}".lower()
