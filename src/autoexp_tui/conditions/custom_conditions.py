"""Conditions of the user's own: a class of theirs says what it needs and what it says.

    class EnoughDone:
        def __init__(self, path: str, lines: int = 10) -> None: ...
        def needs(self, job: str) -> Iterable[FactKey]: ...
        def evaluate(self, facts: Facts, now: float) -> Verdict: ...
        def wake_at(self, facts: Facts, now: float) -> float | None: ...

`wake_at` may be left out. Their code runs in the engine, so it gets facts and gives a
verdict and does nothing else; it is called only once everything outside that it needs
is known. Whatever it raises is a reason to wait with words, never a fault of the
engine: see `model.condition.evaluate`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal, Protocol, get_args

from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    read_fact,
    said,
)
from autoexp_tui.model.facts import Fact, FactKey, Facts, Moment, OutsideKey
from autoexp_tui.model.kinds import TheirFault, tell_error
from autoexp_tui.model.sentences import CODES
from autoexp_tui.model.states import Result, Verdict, Why, why
from autoexp_tui.model.wording import sentence


class OwnClass(Protocol):
    """What a condition of one's own has to have."""

    def needs(self, job: str) -> Iterable[FactKey]:
        """The facts that judging for `job` may read; a pure function of its fields."""
        ...

    def evaluate(self, facts: Facts, now: float) -> Verdict:
        """What it says of them at `now` (UTC seconds); looks at nothing else."""
        ...


class OwnFailed(TheirFault):
    """A class of the user's cannot be used; the text says why."""


def says(result: Result | str, text: str) -> Verdict:
    """A verdict in one's own words.

    `result`: `pass`, `wait` or `fail`, else ValueError; `text`: the reason, a phrase
    that reads after the condition's name.
    """
    return Verdict(Result(result), why("own_says", text=text))


def make(class_path: str, fields: Mapping[str, object]) -> OwnClass:
    """The condition of the class `pkg.mod:Class`, made of fields; or `OwnFailed`."""
    module, _, name = class_path.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        made: OwnClass = found(**fields)
    except Exception as error:  # the user's module may raise anything
        raise OwnFailed(tell_error(error)) from error
    for needed in ("needs", "evaluate"):
        if not callable(getattr(made, needed, None)):
            raise OwnFailed(f"{class_path} has no {needed}()")
    return made


@lru_cache(maxsize=4096)
def _make_once(class_path: str, fields: str) -> OwnClass | OwnFailed:
    try:
        return make(class_path, json.loads(fields))
    except OwnFailed as error:  # kept too: what breaks is not imported at each look
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCondition(Condition, runs_theirs=True):
    """A class of the user's, made of `fields`: `pkg.mod:Class`."""

    kind: Literal["own"] = "own"
    class_path: str
    fields: Mapping[str, object] = field(default_factory=dict)

    def _make(self) -> OwnClass:
        fields = json.dumps(self.fields, sort_keys=True, default=repr)
        made = _make_once(self.class_path, fields)
        if isinstance(made, OwnFailed):
            raise made
        return made

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        for key in self._make().needs(job):
            if not isinstance(key, get_args(FactKey)):
                raise OwnFailed(f"needs() names {key!r:.80}, which is no key of a fact")
            yield key

    def name_object(self) -> str:
        return self.class_path

    def name_subject(self, name_jobs: NameJobs) -> str:
        return self.class_path.rpartition(":")[2]

    def list_sources(self) -> Iterator[str]:
        yield f"what {self.class_path} asks for"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        known = self._read_facts(facts, ctx.job)
        if isinstance(known, Verdict):
            return known
        return _check_verdict(self._make().evaluate(known, now.utc))

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        known = self._read_facts(facts, ctx.job)
        wake: Callable[..., object] | None = getattr(self._make(), "wake_at", None)
        if wake is not None and not isinstance(known, Verdict):
            at = wake(known, now.utc)
            if isinstance(at, int | float):
                yield now.convert_to_lived(at)

    def _read_facts(
        self, facts: Facts, job: str
    ) -> Mapping[FactKey, Fact | None] | Verdict:
        """What `needs()` names, and no more; WAIT for what nobody could look at."""
        keys = sorted({*self.keys(job, "")}, key=repr)
        for key in keys:
            if isinstance(key, get_args(OutsideKey)):
                named = getattr(key, "path", None) or getattr(key, "pattern", None)
                name = str(named or " ".join(getattr(key, "command", ())))
                value = read_fact(facts.get(key), object, name)
                if isinstance(value, Verdict):
                    return value
        return {key: facts.get(key) for key in keys}


def _check_verdict(verdict: object) -> Verdict:
    """A verdict with a reason that we have words for, and that a journal can hold."""
    if not isinstance(verdict, Verdict) or not isinstance(verdict.why, Why):
        raise OwnFailed(f"evaluate() gave {verdict!r:.80}, which is no Verdict")
    if verdict.why.code not in CODES:
        verdict = says(verdict.result, sentence(verdict.why, 0.0))
    return said(verdict)
