"""autoexp-sessions show ID JOB: all that a session knows of one job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoexp_tui.cli.session_looking import brief_json, why_of
from autoexp_tui.core.clean import clean
from autoexp_tui.core.revival import dependants
from autoexp_tui.core.wording import (
    CAUSES,
    cause_of_end,
    clock_time,
    duration,
    number,
    sentence,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from autoexp_tui.cli.session_sight import Sight
    from autoexp_tui.core.condition_kinds import Condition
    from autoexp_tui.core.snapshot import Live
    from autoexp_tui.core.state import Attempt, ConditionStatus, JobRecord

_RESULTS = {"pass": "passes", "wait": "waits", "fail": "fails"}


def job_lines(job: JobRecord, sight: Sight) -> Iterator[str]:
    """The job for people, a line each; every text cleaned."""
    now, live = sight.now, sight.live.get(job.name)
    stage = f"  stage {clean(job.spec.stage)}" if job.spec.stage else ""
    yield f"{clean(job.name)}{stage}"
    since = f" since {clock_time(job.since, now)}" if job.since else ""
    yield _line("state", f"{job.state.value.lower()}{since}")
    if job.cause is not None:
        yield _line("cause", cause_of_end(job.cause, job.state))
    if why := why_of(job, live, now):
        yield _line("why", why)
    if job.ask is not None and job.ask.approved is None:
        yield _line("asks", job.ask.prompt or "for approval")
    yield from _condition_lines("start", job.spec.start_conditions, job.start, now)
    yield from _condition_lines("cancel", job.spec.cancel_conditions, job.cancel, now)
    for attempt in job.attempts:
        yield from _attempt_lines(attempt, job, now)
    yield from _rest(job, live, sight)


def _rest(job: JobRecord, live: Live | None, sight: Sight) -> Iterator[str]:
    if metrics := _metrics(job, live):
        yield _line("metrics", metrics)
    if job.metadata:
        told = ", ".join(f"{key}={value}" for key, value in job.metadata.items())
        yield _line("metadata", told)
    yield _line("output", job.spec.output_dir)
    if behind := _behind(job, sight):
        yield _line("behind it", ", ".join(behind))


def _line(what: str, text: str) -> str:
    return f"{what:<10} {clean(text)}"


# ------------------------------------------------------------------------ conditions
def _condition_lines(
    role: str,
    specs: Sequence[Condition],
    statuses: Sequence[ConditionStatus | None],
    now: float,
) -> Iterator[str]:
    from autoexp_tui.monitor.describing import describe

    for index, (spec, status) in enumerate(zip(specs, statuses, strict=False), 1):
        yield _line(f"{role} {index}", f"{describe(spec)}: {_verdict(status, now)}")


def _verdict(status: ConditionStatus | None, now: float) -> str:
    if status is None:
        return "not looked at yet"
    since = clock_time(status.since, now)
    if status.waived:
        return f"waived since {since}: {status.waived}"
    result = _RESULTS[status.result.value]
    return f"{result} since {since}: {sentence(status.why, now)}"


# -------------------------------------------------------------------------- attempts
def _attempt_lines(attempt: Attempt, job: JobRecord, now: float) -> Iterator[str]:
    yield _line(f"attempt {attempt.number}", ", ".join(_course(attempt, now)))
    why = sentence(attempt.why, now) if attempt.why else ""
    ordered = sentence(attempt.ordered_why, now) if attempt.ordered_why else ""
    for what, text in (
        ("ordered", ordered),
        ("why", "" if attempt.why == job.why else why),
        ("log", attempt.log_path),
        ("last line", attempt.evidence),
        *(("evidence", place) for place in attempt.captures),
    ):
        if text:
            yield f"{'':<10} {what}: {clean(text)}"


def _course(attempt: Attempt, now: float) -> Iterator[str]:
    """What became of an attempt, in the order of time."""
    began, ended = attempt.began_at, attempt.ended_at
    if began is None:
        yield f"ordered {clock_time(attempt.ordered_at, now)}"
    else:
        yield f"began {clock_time(began, now)}"
    if ended is not None:
        took = f" after {duration(ended - began)}" if began is not None else ""
        yield f"ended {clock_time(ended, now)}{took}"
    if attempt.outcome is not None:
        cause = f" ({CAUSES[attempt.cause]})" if attempt.cause else ""
        yield f"{attempt.outcome.value.lower()}{cause}"
    if attempt.exit_code is not None:
        yield f"exit code {attempt.exit_code}"
    if attempt.signal is not None:
        yield f"signal {attempt.signal}"
    if attempt.node:
        yield f"node {attempt.node}"
    if attempt.executor_id:
        yield f"id {attempt.executor_id}"


def _metrics(job: JobRecord, live: Live | None) -> str:
    """The engine's own newest values where it tells them, else the recorded ones."""
    values: Mapping[str, float | str]
    if live is not None and live.step is not None:
        step, total, values = live.step, live.total, live.metrics
    elif job.noted is not None:
        step, total, values = job.noted.step, job.noted.total, job.noted.values
    else:
        return ""
    head = f"step {step}/{total}" if total else f"step {step}"
    told = [f"{name} {_spelled(value)}" for name, value in values.items()]
    return ", ".join([head, *told])


def _spelled(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _behind(job: JobRecord, sight: Sight) -> list[str]:
    """Jobs that wait for this one and have not ended, directly or not."""
    below = dependants(sight.state.jobs.values())
    found = [job.name]
    for name in found:
        found += [one for one in below.get(name, ()) if one not in found]
    return [name for name in found[1:] if not sight.state.jobs[name].ended]


# ------------------------------------------------------------------------------ JSON
def job_json(job: JobRecord, sight: Sight) -> dict[str, object]:
    """The job for programs."""
    now, live = sight.now, sight.live.get(job.name)
    return {
        **brief_json(job, sight),
        "stage": job.spec.stage,
        "since": job.since,
        "asks": _ask_json(job),
        "start_conditions": _conditions_json(job.spec.start_conditions, job.start, now),
        "cancel_conditions": _conditions_json(
            job.spec.cancel_conditions, job.cancel, now
        ),
        "runs": [_attempt_json(attempt, now) for attempt in job.attempts],
        "log_path": job.attempt.log_path if job.attempt else "",
        "output_dir": job.spec.output_dir,
        "metadata": dict(job.metadata),
        "metrics": _metrics(job, live),
        "behind": _behind(job, sight),
    }


def _ask_json(job: JobRecord) -> str | None:
    asks = job.ask is not None and job.ask.approved is None
    return job.ask.prompt if asks and job.ask is not None else None


def _conditions_json(
    specs: Sequence[Condition],
    statuses: Sequence[ConditionStatus | None],
    now: float,
) -> list[dict[str, object]]:
    from autoexp_tui.monitor.describing import describe

    return [
        {
            "what": describe(spec),
            "result": status.result.value if status else None,
            "since": status.since if status else None,
            "why": sentence(status.why, now) if status else "",
            "waived": status.waived if status else "",
        }
        for spec, status in zip(specs, statuses, strict=False)
    ]


def _attempt_json(attempt: Attempt, now: float) -> dict[str, object]:
    return {
        "attempt": attempt.number,
        "ordered_at": attempt.ordered_at,
        "ordered_why": sentence(attempt.ordered_why, now)
        if attempt.ordered_why
        else "",
        "began_at": attempt.began_at,
        "ended_at": attempt.ended_at,
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "cause": attempt.cause.value if attempt.cause else None,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "why": sentence(attempt.why, now) if attempt.why else "",
        "node": attempt.node,
        "executor_id": attempt.executor_id,
        "log_path": attempt.log_path,
        "last_line": attempt.evidence,
        "evidence": list(attempt.captures),
    }
