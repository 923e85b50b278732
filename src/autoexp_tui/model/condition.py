"""What every condition is, and how it is judged.

Judging is pure: it reads only the facts of its own keys and never raises. Whoever asks
decides what follows: a condition with `blocking` False holds no job back, and FAIL of a
cancel condition means "never". What nobody could look at is *unknown*: WAIT, and
neither a timeout, nor `Not`, nor the end of a writer turns that into an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import ClassVar, Final, Self, TypeAlias, TypeVar

from autoexp_tui.model.facts import Fact, FactKey, Facts, JobFact, JobKey, Moment
from autoexp_tui.model.kinds import Kind, KindTable, is_ours, tell_error
from autoexp_tui.model.states import TERMINAL, JobState, Result, Verdict, Why
from autoexp_tui.model.wording import short
from autoexp_tui.text.sanitize import clean

T = TypeVar("T")
NameJobs: TypeAlias = Callable[[Sequence[str]], str]
"""How jobs are named together, for example by their stage."""


_ARG_LIMIT: Final = 1000

UNTIMED: Final = frozenset(
    {"not_looked", "look_failed", "no_answer", "bad_condition", "files_unsure"}
)
"""Codes of a WAIT that no timeout ends: nobody knows what there is."""

UNKNOWN: Final = UNTIMED | {"own_failed", "no_metric", "metric_held"}
"""Codes of a WAIT that says nothing about the world; `Not` passes them on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalContext:
    job: str
    waiting_lived: float | None = None
    """When (lived) the wait began; None: the job does not wait, no timeout runs."""
    action: str = ""
    """`<rule>/<index>` of the action whose condition it is, for `Cooldown`."""
    attempts: int | None = None
    """What `MaxAttempts` counts instead of the job's own attempts."""
    grace_seconds: float = 60.0
    """How long after its writer's end a file may still appear."""
    asked_lived: float | None = None
    """When the approval was asked: its timeout runs from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Kind):
    kinds: ClassVar[KindTable[Condition]] = KindTable(
        "condition",
        {
            "conditions.files": "file_exists:FileExists file_content:FileContent "
            "log_pattern:LogPattern",
            "conditions.jobs": "job_state:JobStateIs max_attempts:MaxAttempts "
            "time:TimeReached cooldown:Cooldown command:CommandPasses "
            "approval:Approval metadata:MetadataIs metric:MetricIs",
            "conditions.custom_conditions": "own:OwnCondition",
            "conditions.kinds": "composite:Composite not:Not",
        },
    )

    timeout_code: ClassVar[str] = "start_timeout"
    runs_theirs: ClassVar[bool] = False
    """Whether it asks code of the user's, which may raise anything."""
    lasts: ClassVar[bool] = False
    """Whether it cannot cease to hold, once it holds, as a line logged."""

    timeout_seconds: float | None = None
    """FAIL after this long in WAITING, not counting time without an engine."""
    blocking: bool = True
    """False: a FAIL or WAIT of this one does not hold the job back, only shows."""
    description: str = ""

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        """The facts that judging for `job` (and one of its actions) may read."""
        yield from ()

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        """What it says, its time-out apart."""
        raise NotImplementedError(type(self).__name__)

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        """When (lived) it may say something else, its time-out apart."""
        yield from ()

    def with_writers(self, owner: Callable[[str], str]) -> Self:
        """The same with the job that writes its file or log, by the path's owner."""
        return self

    def list_parts(self) -> tuple[Condition, ...]:
        return ()

    def replace_parts(self, parts: tuple[Condition, ...]) -> Self:
        """The same made of other parts, as many as it has."""
        return self

    def name_object(self) -> str:
        """What it waits for, in a few words."""
        raise NotImplementedError(type(self).__name__)

    def name_subject(self, name_jobs: NameJobs) -> str:
        """What it is about, shorter still: `iter_8000/done.txt`."""
        return self.name_object()

    def list_sources(self) -> Iterator[str]:
        """Where it looks, in full: paths, jobs, commands; not cleaned."""
        yield from ()

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        """Whether it cannot cease to hold, as things are, once it holds."""
        return self.lasts

    def find_deadline(self, ctx: EvalContext) -> float | None:
        """When (lived) its time-out ends the wait; None: never."""
        if self.timeout_seconds is None or ctx.waiting_lived is None:
            return None
        return ctx.waiting_lived + self.timeout_seconds


def walk(spec: Condition) -> Iterator[Condition]:
    yield spec
    for part in _list_parts(spec):
        yield from walk(part)


def change_parts(
    spec: Condition, change: Callable[[Condition], Condition]
) -> Condition:
    """The same with every part that has no parts changed; itself where none is."""
    old = _list_parts(spec)
    if not old:
        return change(spec)
    new = tuple(change_parts(part, change) for part in old)
    return spec if all(map(is_, new, old)) else spec.replace_parts(new)


def _list_parts(spec: Condition) -> tuple[Condition, ...]:
    return _ask(spec, lambda one: (*one.list_parts(),), lambda _: ())


def _ask(
    spec: Condition,
    question: Callable[[Condition], T],
    excuse: Callable[[Exception], T],
) -> T:
    """The answer; `excuse` for what somebody else's code raises."""
    try:
        return question(spec)
    except Exception as error:
        if is_ours(type(spec)) and not spec.runs_theirs:
            raise
        return excuse(error)


def needs(spec: Condition, job: str, action: str = "") -> frozenset[FactKey]:
    found: set[FactKey] = set()
    for part in walk(spec):
        found |= _ask(part, lambda one: {*one.keys(job, action)}, lambda _: set())
    return frozenset(found)


def describe(spec: Condition) -> str:
    """What a condition waits for, in a few words; its own description if it has one."""
    return spec.description or _ask(
        spec, lambda one: one.name_object(), lambda _: spec.kind
    )


def describe_subject(spec: Condition, name_jobs: NameJobs) -> str:
    return spec.description or _ask(
        spec, lambda one: one.name_subject(name_jobs), lambda _: spec.kind
    )


def is_final(spec: Condition, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
    return _ask(spec, lambda one: one.is_final(facts, now, ctx), lambda _: False)


def evaluate(spec: Condition, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
    """What `spec` says, given `facts`, at `now`. Never raises: one of somebody else's
    that raises cannot say. WAIT becomes FAIL once its time-out has passed, unless the
    facts are unknown."""
    what = getattr(spec, "class_path", spec.kind)
    return _ask(
        spec,
        lambda one: _judge(one, facts, now, ctx),
        lambda error: say_wait("own_failed", what=what, problem=tell_error(error)),
    )


def _judge(spec: Condition, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
    verdict = spec.evaluate(facts, now, ctx)
    deadline, why = spec.find_deadline(ctx), verdict.why
    if verdict.result is not Result.WAIT or why.code in UNTIMED:
        return verdict
    if deadline is None or now.lived < deadline:
        return verdict
    detail = why.arg("detail") or why.arg("problem")
    seen = f"{short(why)}: {detail}" if detail else None
    if not detail and dict(why.args).keys() & {"exit", "value", "size", "text"}:
        seen = short(why)
    args = {"seconds": spec.timeout_seconds, "what": describe(spec), "seen": seen}
    return say_fail(spec.timeout_code, **args)


def find_wake(
    spec: Condition, facts: Facts, now: Moment, ctx: EvalContext
) -> float | None:
    """When (lived), later than now, the verdict may change although no fact does; None:
    never, while nobody sets the wall clock."""
    found: list[float | None] = []
    for part in walk(spec):
        found.append(_ask(part, lambda one: one.find_deadline(ctx), lambda _: None))
        found += _ask(
            part, lambda one: [*one.list_moments(facts, now, ctx)], lambda _: []
        )
    return min((at for at in found if at is not None and at > now.lived), default=None)


def say(result: Result, code: str, **args: str | float | None) -> Verdict:
    """A verdict as a journal can hold it; arguments that are None or empty go."""
    known: list[tuple[str, str | float]] = []
    for name, value in args.items():
        if isinstance(value, str):
            known += [(name, clean(value, limit=_ARG_LIMIT))] if value else []
        elif value is not None:
            known.append((name, value if math.isfinite(value) else str(value)))
    return Verdict(result, Why(code, tuple(known)))


say_pass: Final = partial(say, Result.PASS)
say_wait: Final = partial(say, Result.WAIT)
say_fail: Final = partial(say, Result.FAIL)


def read_fact(fact: Fact | None, kind: type[T], what: str) -> T | Verdict:
    if fact is None:
        return say_wait("not_looked", what=what)
    if silence := fact.silence:
        place, since = silence.place, silence.since
        return say_wait("no_answer", place=place, since=since, what=what)
    if fact.error:
        return say_wait("look_failed", error=fact.error, what=what)
    if isinstance(fact.value, kind):
        return fact.value
    return say_wait("look_failed", error="the answer is of another kind", what=what)


def job_fact(facts: Facts, name: str) -> JobFact | Verdict:
    return read_fact(facts.get(JobKey(name)), JobFact, name)


def find_ended_job(facts: Facts, name: str) -> JobFact | None:
    job = job_fact(facts, name) if name else None
    return job if isinstance(job, JobFact) and job.state in TERMINAL else None


def held_back(
    facts: Facts, name: str, what: str, code: str = "upstream_held"
) -> Verdict | None:
    """WAIT for what only a job can bring that nobody has asked to run."""
    job = job_fact(facts, name) if name else None
    if isinstance(job, JobFact) and job.state in _NOT_CHOSEN:
        return say_wait(code, what=what, job=name)
    return None


_NOT_CHOSEN: Final = frozenset({JobState.PLANNED, JobState.HELD})


def find_grace_end(job: JobFact, ctx: EvalContext) -> float:
    """Until when (lived) what an ended job wrote may still appear."""
    return (job.ended_lived or 0.0) + ctx.grace_seconds


def all_of(verdicts: Iterable[Verdict], passed: Verdict) -> Verdict:
    """One that fails decides; then one that is surely not so; then an unknown one."""
    verdicts = list(verdicts)
    waiting = [verdict for verdict in verdicts if verdict.result is Result.WAIT]
    known = [verdict for verdict in waiting if verdict.why.code not in UNKNOWN]
    return first(verdicts, Result.FAIL) or next(iter(known + waiting), passed)


def first(verdicts: Iterable[Verdict], result: Result) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict.result is result), None)


def end_of(job: JobFact) -> dict[str, str | float | None]:
    return {"state": job.state, "cause": job.cause, "step": job.step}
