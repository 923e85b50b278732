"""autoexp-sessions show ID JOB: all that a session knows of one job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from autoexp_tui.cli.job_reasons import why_of
from autoexp_tui.cli.session_verbs.show import brief_json
from autoexp_tui.model.masking import mask_text, mask_value, mask_values
from autoexp_tui.model.moment import wall_time
from autoexp_tui.model.resubmission import dependants
from autoexp_tui.model.wording import (
    CAUSES,
    cause_of_end,
    clock_time,
    duration,
    number,
    sentence,
)
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from autoexp_tui.cli.session_verbs.probe import Sight
    from autoexp_tui.conditions.kinds import Condition
    from autoexp_tui.events.events import MetricsNoted
    from autoexp_tui.model.masking import MaskRules
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.state import Attempt, ConditionStatus, JobRecord

_UNSET = object()
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
    for role, specs, statuses in (
        ("start", job.spec.start_conditions, job.start),
        ("cancel", job.spec.cancel_conditions, job.cancel),
    ):
        for line in _condition_lines(role, specs, statuses, now):
            yield mask_text(line, sight.mask)
    for attempt in job.attempts:
        yield from _attempt_lines(attempt, job, sight)
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
    from autoexp_tui.conditions.describe import describe

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
def _attempt_lines(attempt: Attempt, job: JobRecord, sight: Sight) -> Iterator[str]:
    now = sight.now
    yield _line(f"attempt {attempt.number}", ", ".join(_course(attempt, now)))
    why = sentence(attempt.why, now) if attempt.why else ""
    ordered = sentence(attempt.ordered_why, now) if attempt.ordered_why else ""
    for what, text in (
        ("values", _values_text(job, attempt, sight.mask)),
        ("ordered", ordered),
        ("why", "" if attempt.why == job.why else why),
        ("log", attempt.log_path),
        ("last line", attempt.evidence),
        *(("evidence", place) for place in attempt.captures),
    ):
        if text:
            yield f"{'':<10} {what}: {clean(text)}"


def _values_text(job: JobRecord, attempt: Attempt, mask: MaskRules) -> str:
    """The values of an attempt that are not the plan's in each of them."""
    values, planned = job.values_of(attempt), job.planned_values
    return ", ".join(
        mask_text(f"{key}={values[key]}", mask)
        + (f" (planned: {_mask_planned(key, planned.get(key), mask)})" if own else "")
        for key in job.changed_keys
        if key in values
        for own in [planned.get(key, _UNSET) != values[key]]
    )


def _mask_planned(key: str, planned: object, mask: MaskRules) -> object:
    return "not set" if planned is None else mask_value(key, planned, mask)


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
    found = newest_metrics(job, live)
    if found is None:
        return ""
    head = f"step {found.step}/{found.total}" if found.total else f"step {found.step}"
    told = [f"{name} {_spelled(value)}" for name, value in found.values.items()]
    return ", ".join([head, *told])


@dataclass(frozen=True, slots=True)
class _Metrics:
    """What an attempt's log has told."""

    step: int
    total: int | None
    values: Mapping[str, float | str]


def newest_metrics(job: JobRecord, live: Live | None) -> _Metrics | None:
    """The engine's own newest values where it tells them, else the recorded ones."""
    if live is not None and live.step is not None:
        return _Metrics(live.step, live.total, live.metrics)
    noted = job.noted
    return _Metrics(noted.step, noted.total, noted.values) if noted else None


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
    now = sight.now
    return {
        **brief_json(job, sight),
        **values_json(job, sight),
        "stage": job.spec.stage,
        "since": wall_time(job.since, now),
        "asks": _ask_json(job),
        "start_conditions": _conditions_json(
            job.spec.start_conditions, job.start, sight
        ),
        "cancel_conditions": _conditions_json(
            job.spec.cancel_conditions, job.cancel, sight
        ),
        "log_path": job.attempt.log_path if job.attempt else "",
        "output_dir": job.spec.output_dir,
        "metadata": dict(job.metadata),
        "behind": _behind(job, sight),
    }


def _ask_json(job: JobRecord) -> str | None:
    asks = job.ask is not None and job.ask.approved is None
    return job.ask.prompt if asks and job.ask is not None else None


def _conditions_json(
    specs: Sequence[Condition],
    statuses: Sequence[ConditionStatus | None],
    sight: Sight,
) -> list[dict[str, object]]:
    from autoexp_tui.conditions.describe import describe

    now = sight.now
    return [
        {
            "what": mask_text(describe(spec), sight.mask),
            "result": status.result.value if status else None,
            "since": wall_time(status.since, now) if status else None,
            "why": sentence(status.why, now) if status else "",
            "waived": status.waived if status else "",
        }
        for spec, status in zip(specs, statuses, strict=False)
    ]


def _utc(t: float | None, now: float) -> float | None:
    return None if t is None else wall_time(t, now)


def values_json(job: JobRecord, sight: Sight) -> dict[str, object]:
    """With which values a job runs, what came of it, and both of each attempt."""
    live = sight.live.get(job.name)
    return {
        "values": mask_values(job.spec.parameters, sight.mask),
        "planned_values": mask_values(job.planned_values, sight.mask),
        "metrics": _metrics_json(newest_metrics(job, live)),
        "runs": [_attempt_json(one, job, live, sight) for one in job.attempts],
    }


def _metrics_json(found: _Metrics | MetricsNoted | None) -> dict[str, object] | None:
    if found is None:
        return None
    values = {
        # JSON has no nan and no infinity: they are text, as in the journal.
        name: value if isinstance(value, str) or isfinite(value) else str(value)
        for name, value in found.values.items()
    }
    return {"step": found.step, "total": found.total, "values": values}


def _attempt_json(
    attempt: Attempt, job: JobRecord, live: Live | None, sight: Sight
) -> dict[str, object]:
    now = sight.now
    newest = attempt is job.attempt and job.noted_of(attempt) is job.noted
    metrics = newest_metrics(job, live) if newest else job.noted_of(attempt)
    return {
        "attempt": attempt.number,
        "values": mask_values(job.values_of(attempt), sight.mask),
        "fingerprint": attempt.fingerprint,
        "metrics": _metrics_json(metrics),
        "ordered_at": wall_time(attempt.ordered_at, now),
        "ordered_why": sentence(attempt.ordered_why, now)
        if attempt.ordered_why
        else "",
        "began_at": _utc(attempt.began_at, now),
        "ended_at": _utc(attempt.ended_at, now),
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
