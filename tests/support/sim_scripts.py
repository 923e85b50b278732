"""What each run of a simulated campaign does, from one seed.

Most go well; the others fail in every way that a run has: they crash, are killed, use
too much memory or time, diverge, hang, stand still, ask to be requeued, or vanish
without a record.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import Cause
from tests.support.fake_script import RunScript, Write
from tests.support.sim_plans import DONE_FILE, MOST_ATTEMPTS

Scripts = dict[str, Sequence[Sequence[RunScript]]]
"""Job -> attempts -> runs."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A run in the making."""

    spec: JobSpec
    rng: random.Random
    seconds: float
    usual: RunScript


def make_scripts(plan: Plan, rng: random.Random, *, pace: float = 1.0) -> Scripts:
    """What each attempt at each job will do."""
    return {
        spec.name: [_attempt(spec, rng, pace) for _ in range(MOST_ATTEMPTS)]
        for spec in plan.jobs
    }


def _attempt(spec: JobSpec, rng: random.Random, pace: float) -> Sequence[RunScript]:
    last = _run(spec, rng, pace)
    if rng.random() < 0.06:
        first = replace(_usual(spec, rng, pace).usual, ends="requeue")
        return (first, last)
    return (last,)


def _run(spec: JobSpec, rng: random.Random, pace: float) -> RunScript:
    made = _usual(spec, rng, pace)
    draw = rng.random()
    for share, fate in FATES:
        draw -= share
        if draw < 0:
            return fate(made)
    return made.usual


def _usual(spec: JobSpec, rng: random.Random, pace: float) -> _Run:
    seconds = rng.uniform(1.0, 60.0) * pace
    lines = [_line(share * seconds, step) for share, step in ((0.5, 50), (0.8, 80))]
    done = Write(at=0.8 * seconds, data=b"done", path=f"{spec.output_dir}/{DONE_FILE}")
    usual = RunScript(
        begin_delay=rng.choice([0.0, 0.0, 5.0]),
        record_lag=rng.choice([0.0, 0.0, 3.0, 8.0]),
        ignores_term=rng.random() < 0.1,
        seconds=seconds,
        writes=(*lines, done),
    )
    return _Run(spec, rng, seconds, usual)


def _line(at: float, step: int) -> Write:
    said = f"iteration {step}/100 | lm loss: {3.0 - step / 100:.3f}"
    return _says(at, f"{said}\nsaved checkpoint {step}")


def _says(at: float, text: str) -> Write:
    return Write(at=at, data=f"{text}\n".encode())


def _crash(run: _Run) -> RunScript:
    early = run.rng.random() * run.seconds
    fatal = _says(early * 0.9, "FATAL something broke")
    writes = (run.usual.writes[0], fatal)
    return replace(run.usual, seconds=early, exit_code=1, writes=writes)


def _overrun(run: _Run) -> RunScript:
    limit = run.spec.resources.time_limit_seconds
    return replace(run.usual, seconds=limit + 60.0 if limit else run.seconds)


def _stall(run: _Run) -> RunScript:
    """It says its first steps, and then it only lives."""
    limit = run.spec.resources.time_limit_seconds or 300.0
    return replace(run.usual, seconds=limit - 5.0, writes=(_line(0.5, 10),))


def _ends(**fields: Any) -> Callable[[_Run], RunScript]:
    return lambda run: replace(run.usual, **fields)


def _says_then(
    at: float, text: str, *, kept: int, **fields: Any
) -> Callable[[_Run], RunScript]:
    """It says that when a share of its time is over, after what it says as usual."""

    def fate(run: _Run) -> RunScript:
        told = _says(at * run.seconds, text)
        return replace(run.usual, writes=(*run.usual.writes[:kept], told), **fields)

    return fate


_NAN: Final = "iteration 60/100 | lm loss: nan\nsaved checkpoint 60"
_HANG: Final = "collective timed out after 1800 s"
FATES: Final[tuple[tuple[float, Callable[[_Run], RunScript]], ...]] = (
    (0.08, _crash),
    (0.02, lambda run: replace(run.usual, exit_code=run.rng.choice([2, 77]))),
    (0.02, _ends(exit_code=None, signal=9, writes=())),
    (0.02, _ends(ends="vanish", writes=())),
    (0.02, _ends(exit_code=None, signal=9, cause=Cause.OUT_OF_MEMORY)),
    (0.02, _overrun),
    (0.02, _says_then(0.6, _NAN, kept=1)),
    (0.02, _stall),
    (0.02, _says_then(0.6, _HANG, kept=1)),
    (0.01, _says_then(0.4, "cannot go on like this", kept=3)),
    (0.02, _says_then(0.9, "the loss is low enough", kept=3, exit_code=1)),
)
"""Which share of the runs comes to which end; the rest goes well."""
