"""autoexp-sessions show ID JOB: all that a session knows of one job."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

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
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.state import Attempt, ConditionStatus, JobRecord
    from autoexp_tui.model.verdicts import Why

    Statuses = Sequence[ConditionStatus | None]

_UNSET = object()
_RESULTS = {"pass": "passes", "wait": "waits", "fail": "fails"}


class Metrics(NamedTuple):
    """What an attempt's log has told."""

    step: int
    total: int | None
    values: Mapping[str, float | str]


def newest_metrics(job: JobRecord, live: Live | None) -> Metrics | None:
    """The engine's own newest values where it tells them, else the recorded ones."""
    if live is not None and live.step is not None:
        return Metrics(live.step, live.total, live.metrics)
    return _noted_metrics(job.noted)


def _noted_metrics(noted: MetricsNoted | None) -> Metrics | None:
    return Metrics(noted.step, noted.total, noted.values) if noted else None


# ------------------------------------------------------------------------------- text
def job_lines(job: JobRecord, sight: Sight) -> Iterator[str]:
    """The job for people, a line each; every text cleaned."""
    stage = f"  stage {clean(job.spec.stage)}" if job.spec.stage else ""
    yield f"{clean(job.name)}{stage}"
    for what, text in _job_facts(job, sight):
        yield f"{what:<10} {clean(text)}"


def _job_facts(job: JobRecord, sight: Sight) -> Iterator[tuple[str, str]]:
    now, live = sight.now, sight.live.get(job.name)
    since = f" since {clock_time(job.since, now)}" if job.since else ""
    yield "state", f"{job.state.value.lower()}{since}"
    if job.cause is not None:
        yield "cause", cause_of_end(job.cause, job.state)
    if why := why_of(job, live, now):
        yield "why", why
    if job.ask is not None and job.ask.approved is None:
        yield "asks", job.ask.prompt or "for approval"
    yield from _conditions("start", job.spec.start_conditions, job.start, sight)
    yield from _conditions("cancel", job.spec.cancel_conditions, job.cancel, sight)
    for attempt in job.attempts:
        yield f"attempt {attempt.number}", ", ".join(_course(attempt, now))
        for what, text in _attempt_facts(attempt, job, sight):
            if text:
                yield "", f"{what}: {text}"
    if found := newest_metrics(job, live):
        total = f"/{found.total}" if found.total else ""
        values = (f"{name} {_format(value)}" for name, value in found.values.items())
        yield "metrics", ", ".join([f"step {found.step}{total}", *values])
    if job.metadata:
        yield (
            "metadata",
            ", ".join(f"{key}={job.metadata[key]}" for key in job.metadata),
        )
    yield "output", job.spec.output_dir
    if behind := _find_behind(job, sight):
        yield "behind it", ", ".join(behind)


def _format(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _conditions(
    role: str, specs: Sequence[Condition], statuses: Statuses, sight: Sight
) -> Iterator[tuple[str, str]]:
    from autoexp_tui.conditions.base import describe

    for index, (spec, status) in enumerate(zip(specs, statuses, strict=False), 1):
        verdict = _describe_status(status, sight.now)
        yield f"{role} {index}", mask_text(f"{describe(spec)}: {verdict}", sight.mask)


def _describe_status(status: ConditionStatus | None, now: float) -> str:
    if status is None:
        return "not looked at yet"
    since = clock_time(status.since, now)
    if status.waived:
        return f"waived since {since}: {status.waived}"
    result = _RESULTS[status.result.value]
    return f"{result} since {since}: {sentence(status.why, now)}"


def _attempt_facts(
    attempt: Attempt, job: JobRecord, sight: Sight
) -> Iterator[tuple[str, str]]:
    yield "values", ", ".join(_own_values(attempt, job, sight))
    yield "ordered", _sentence(attempt.ordered_why, sight)
    yield "why", "" if attempt.why == job.why else _sentence(attempt.why, sight)
    yield "log", attempt.log_path
    yield "last line", attempt.evidence
    for place in attempt.captures:
        yield "evidence", place


def _sentence(why: Why | None, sight: Sight) -> str:
    return sentence(why, sight.now) if why else ""


def _own_values(attempt: Attempt, job: JobRecord, sight: Sight) -> Iterator[str]:
    """The values of an attempt that are not the plan's in each of them."""
    values, planned, mask = job.values_of(attempt), job.planned_values, sight.mask
    for key in job.changed_keys:
        if key not in values:
            continue
        text = mask_text(f"{key}={values[key]}", mask)
        if planned.get(key, _UNSET) != values[key]:
            before = planned.get(key)
            shown = "not set" if before is None else mask_value(key, before, mask)
            text += f" (planned: {shown})"
        yield text


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


def _find_behind(job: JobRecord, sight: Sight) -> list[str]:
    """Jobs that wait for this one and have not ended, directly or not."""
    below = dependants(sight.state.jobs.values())
    found = [job.name]
    for name in found:
        found += [one for one in below.get(name, ()) if one not in found]
    return [name for name in found[1:] if not sight.state.jobs[name].ended]


# ------------------------------------------------------------------------------ JSON
def job_json(job: JobRecord, sight: Sight) -> dict[str, object]:
    """The job for programs."""
    spec, ask = job.spec, job.ask
    return {
        **brief_json(job, sight),
        **values_json(job, sight),
        "stage": spec.stage,
        "since": wall_time(job.since, sight.now),
        "asks": ask.prompt if ask is not None and ask.approved is None else None,
        "start_conditions": _conditions_json(spec.start_conditions, job.start, sight),
        "cancel_conditions": _conditions_json(
            spec.cancel_conditions, job.cancel, sight
        ),
        "log_path": job.attempt.log_path if job.attempt else "",
        "output_dir": spec.output_dir,
        "metadata": dict(job.metadata),
        "behind": _find_behind(job, sight),
    }


def _conditions_json(
    specs: Sequence[Condition], statuses: Statuses, sight: Sight
) -> list[dict[str, object]]:
    from autoexp_tui.conditions.base import describe

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


def values_json(job: JobRecord, sight: Sight) -> dict[str, object]:
    """With which values a job runs, what came of it, and both of each attempt."""
    return {
        "values": mask_values(job.spec.parameters, sight.mask),
        "planned_values": mask_values(job.planned_values, sight.mask),
        "metrics": _metrics_json(newest_metrics(job, sight.live.get(job.name))),
        "runs": [_attempt_json(one, job, sight) for one in job.attempts],
    }


def _metrics_json(found: Metrics | None) -> dict[str, object] | None:
    if found is None:
        return None
    values = {
        # JSON has no nan and no infinity: they are text, as in the journal.
        name: value if isinstance(value, str) or isfinite(value) else str(value)
        for name, value in found.values.items()
    }
    return {"step": found.step, "total": found.total, "values": values}


def _attempt_json(attempt: Attempt, job: JobRecord, sight: Sight) -> dict[str, object]:
    now = sight.now
    noted = job.noted_of(attempt)
    newest = attempt is job.attempt and noted is job.noted
    metrics = _noted_metrics(noted)
    if newest:
        metrics = newest_metrics(job, sight.live.get(job.name))
    began, ended = attempt.began_at, attempt.ended_at
    return {
        "attempt": attempt.number,
        "values": mask_values(job.values_of(attempt), sight.mask),
        "fingerprint": attempt.fingerprint,
        "metrics": _metrics_json(metrics),
        "ordered_at": wall_time(attempt.ordered_at, now),
        "ordered_why": _sentence(attempt.ordered_why, sight),
        "began_at": None if began is None else wall_time(began, now),
        "ended_at": None if ended is None else wall_time(ended, now),
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "cause": attempt.cause.value if attempt.cause else None,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "why": _sentence(attempt.why, sight),
        "node": attempt.node,
        "executor_id": attempt.executor_id,
        "log_path": attempt.log_path,
        "last_line": attempt.evidence,
        "evidence": list(attempt.captures),
    }
