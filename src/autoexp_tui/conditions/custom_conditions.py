"""Conditions of the user's own: a class of theirs says what it needs and what it says.

    class EnoughDone:
        def __init__(self, path: str, lines: int = 10) -> None: ...
        def needs(self, job: str) -> Iterable[FactKey]: ...
        def evaluate(self, facts: Facts, now: float) -> Verdict: ...
        def wake_at(self, facts: Facts, now: float) -> float | None: ...

`wake_at` may be left out. Their code runs in the engine, so it gets facts and gives a
verdict and does nothing else; it is called only once everything outside that it needs
is known. Whatever it raises is a reason to wait with words, never a fault of the
engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Final, Literal, Protocol, TypeVar, cast, get_args

from autoexp_tui.model.condition import Condition, EvalContext, NameJobs, said
from autoexp_tui.model.facts import Fact, FactKey, Facts, Moment, OutsideKey
from autoexp_tui.model.sentences import CODES
from autoexp_tui.model.states import Result, Verdict, Why, why
from autoexp_tui.model.wording import sentence

T = TypeVar("T")

_KEYS: Final = get_args(FactKey)
_OUTSIDE: Final = get_args(OutsideKey)


class OwnClass(Protocol):
    """What a condition of one's own has to have."""

    def needs(self, job: str) -> Iterable[FactKey]:
        """The facts that judging for `job` may read; a pure function of its fields."""
        ...

    def evaluate(self, facts: Facts, now: float) -> Verdict:
        """What it says of them at `now` (UTC seconds); looks at nothing else."""
        ...


class OwnFailed(Exception):
    """A class of the user's cannot be used; the text says why."""


def says(result: Result | str, text: str) -> Verdict:
    """A verdict in one's own words.

    Args:
        result: `pass`, `wait` or `fail`.
        text: the reason, a phrase that reads after the condition's name.

    Raises:
        ValueError: there is no such result.
    """
    return Verdict(Result(result), why("own_says", text=text))


def load_class(class_path: str) -> Callable[..., OwnClass]:
    """The class of `pkg.mod:Class`.

    Raises:
        OwnFailed: it cannot be imported, or is no such class.
    """
    module, _, name = class_path.partition(":")
    try:
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the user's module may raise anything
        raise OwnFailed(_describe_error(error)) from error
    for needed in ("needs", "evaluate"):
        if not callable(getattr(found, needed, None)):
            raise OwnFailed(f"{class_path} has no {needed}()")
    return cast("Callable[..., OwnClass]", found)


def make(class_path: str, fields: Mapping[str, object]) -> OwnClass:
    """The condition, made of its fields.

    Raises:
        OwnFailed: the class cannot be used, or does not take these fields.
    """
    kind = load_class(class_path)
    try:
        return kind(**fields)
    except Exception as error:  # the user's constructor may raise anything
        raise OwnFailed(_describe_error(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCondition(Condition):
    """A class of the user's, made of `fields`: `pkg.mod:Class`."""

    kind: Literal["own"] = "own"
    class_path: str
    fields: Mapping[str, object] = field(default_factory=dict)

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        try:
            yield from _list_needs(self, job)
        except OwnFailed:
            return

    def name_object(self) -> str:
        return self.class_path

    def name_subject(self, name_jobs: NameJobs) -> str:
        return self.class_path.rpartition(":")[2]

    def list_sources(self) -> Iterator[str]:
        yield f"what {self.class_path} asks for"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        return said(evaluate_own(self, facts, now.utc, ctx.job))

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        at = find_own_wake(self, facts, now.utc, ctx.job)
        if at is not None:
            yield now.convert_to_lived(at)


def evaluate_own(spec: OwnCondition, facts: Facts, now: float, job: str) -> Verdict:
    """What it says; WAIT with the reason when it cannot, or needs what is unknown."""
    try:
        keys = _list_needs(spec, job)
        unknown = _find_unknown(keys, facts)
        if unknown is not None:
            return unknown
        made = _make_own(spec)
        return _check_verdict(_call(lambda: made.evaluate(_Named(facts, keys), now)))
    except OwnFailed as error:
        problem = why("own_failed", what=spec.class_path, problem=str(error))
        return Verdict(Result.WAIT, problem)


def find_own_wake(
    spec: OwnCondition, facts: Facts, now: float, job: str
) -> float | None:
    """When it may say something else although no fact changes."""
    try:
        made, keys = _make_own(spec), _list_needs(spec, job)
        wake = getattr(made, "wake_at", None)
        if wake is None or _find_unknown(keys, facts) is not None:
            return None
        at = _call(lambda: wake(_Named(facts, keys), now))
    except OwnFailed:
        return None
    return float(at) if isinstance(at, int | float) else None


# ------------------------------------------------------------------------ the parts
def _make_own(spec: OwnCondition) -> OwnClass:
    made = _hold_made(
        spec.class_path, json.dumps(spec.fields, sort_keys=True, default=repr)
    )
    if isinstance(made, OwnFailed):
        raise made
    return made


@lru_cache(maxsize=4096)
def _hold_made(class_path: str, fields: str) -> OwnClass | OwnFailed:
    try:
        return make(class_path, json.loads(fields))
    except OwnFailed as error:
        return error


def _list_needs(spec: OwnCondition, job: str) -> frozenset[FactKey]:
    made = _make_own(spec)
    keys = _call(lambda: frozenset(made.needs(job)))
    for key in keys:
        if not isinstance(key, _KEYS):
            raise OwnFailed(f"needs() names {key!r:.80}, which is no key of a fact")
    return keys


def _find_unknown(keys: Iterable[FactKey], facts: Facts) -> Verdict | None:
    """WAIT for what nobody could look at: the class never sees it."""
    for key in sorted((key for key in keys if isinstance(key, _OUTSIDE)), key=repr):
        fact = facts.get(key)
        if fact is None:
            return Verdict(Result.WAIT, why("not_looked", what=_name_key(key)))
        if fact.silence is not None:
            place, since = fact.silence.place, fact.silence.since
            return Verdict(Result.WAIT, why("no_answer", place=place, since=since))
        if fact.error:
            reason = why("look_failed", error=fact.error, what=_name_key(key))
            return Verdict(Result.WAIT, reason)
    return None


def _name_key(key: FactKey) -> str:
    named = getattr(key, "path", None) or getattr(key, "pattern", None)
    return str(named or " ".join(getattr(key, "command", ())))


class _Named:
    """The facts that `needs()` names, and no others."""

    def __init__(self, facts: Facts, keys: frozenset[FactKey]) -> None:
        self._facts = facts
        self._keys = keys

    def get(self, key: FactKey) -> Fact | None:
        """The newest fact for `key`.

        Raises:
            KeyError: `needs()` does not name it.
        """
        if key not in self._keys:
            raise KeyError(f"{key} is not among what needs() names")
        return self._facts.get(key)


def _call(call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:  # the user's code may raise anything
        raise OwnFailed(_describe_error(error)) from error


def _check_verdict(verdict: object) -> Verdict:
    """A verdict whose reason we have words for."""
    if not isinstance(verdict, Verdict) or not isinstance(verdict.why, Why):
        raise OwnFailed(f"evaluate() gave {verdict!r:.80}, which is no Verdict")
    if verdict.why.code in CODES:
        return verdict
    return Verdict(verdict.result, why("own_says", text=sentence(verdict.why, 0.0)))


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
