"""Conditions of the user's own: a class of theirs says what it needs and what it says.

    class EnoughDone:
        def __init__(self, path: str, lines: int = 10) -> None: ...
        def needs(self, job: str) -> Iterable[FactKey]: ...
        def evaluate(self, facts: Facts, now: float) -> Verdict: ...
        def wake_at(self, facts: Facts, now: float) -> float | None: ...

`wake_at` may be left out; `now` is in UTC seconds. Their code runs in the engine, so it
gets facts and gives a verdict and does nothing else; it is called only once everything
outside that it needs is known. What it raises is a reason to wait, with words, never a
fault of the engine: see `model.condition.evaluate`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any, get_args

from autoexp_tui.model.condition import Condition, EvalContext, NameJobs, read_fact, say
from autoexp_tui.model.facts import FactKey, Facts, Moment, OutsideKey
from autoexp_tui.model.kinds import TheirFault, tell_error
from autoexp_tui.model.states import Result, Verdict, Why, why
from autoexp_tui.model.wording import CODES, sentence


class OwnFailed(TheirFault):
    """A class of the user's cannot be used; the text says why."""


def says(result: Result | str, text: str) -> Verdict:
    """A verdict in one's own words: `pass`, `wait` or `fail` (else ValueError), and a
    phrase that reads after the condition's name."""
    return Verdict(Result(result), why("own_says", text=text))


def make(class_path: str, fields: Mapping[str, object]) -> Any:
    """The condition of the class `pkg.mod:Class`, made of fields; or `OwnFailed`."""
    module, _, name = class_path.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        made = found(**fields)
    except Exception as error:  # the user's module may raise anything
        raise OwnFailed(tell_error(error)) from error
    for needed in ("needs", "evaluate"):
        if not callable(getattr(made, needed, None)):
            raise OwnFailed(f"{class_path} has no {needed}()")
    return made


@lru_cache(maxsize=4096)
def _make_once(class_path: str, fields: str) -> Any:
    try:
        return make(class_path, json.loads(fields))
    except OwnFailed as error:  # kept too: what breaks is not imported at each look
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCondition(Condition, kind="own", runs_theirs=True):
    """A class of the user's, made of `fields`: `pkg.mod:Class`."""

    class_path: str
    fields: Mapping[str, object] = field(default_factory=dict)

    def _make(self) -> Any:
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
        if unknown := self._find_unknown(facts, ctx.job):
            return unknown
        verdict = self._make().evaluate(facts, now.utc)
        if not isinstance(verdict, Verdict) or not isinstance(verdict.why, Why):
            raise OwnFailed(f"evaluate() gave {verdict!r:.80}, which is no Verdict")
        if verdict.why.code not in CODES:  # a code that has words is kept
            verdict = says(verdict.result, sentence(verdict.why, 0.0))
        return say(verdict.result, verdict.why.code, **dict(verdict.why.args))

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        wake = getattr(self._make(), "wake_at", None)
        if wake is not None and not self._find_unknown(facts, ctx.job):
            at = wake(facts, now.utc)
            if isinstance(at, int | float):
                yield now.convert_to_lived(at)

    def _find_unknown(self, facts: Facts, job: str) -> Verdict | None:
        """WAIT for what `needs()` names and nobody could look at."""
        for key in sorted({*self.keys(job, "")}, key=repr):
            if isinstance(key, get_args(OutsideKey)):
                name = str(getattr(key, "path", getattr(key, "pattern", "")))
                value = read_fact(facts.get(key), object, name)
                if isinstance(value, Verdict):
                    return value
        return None
