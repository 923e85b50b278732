"""autoexp-sessions show ID JOB: all that a session knows of one job.

It is gathered once, as programs get it; the lines for people are made of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from autoexp_tui.cli.job_reasons import describe_job
from autoexp_tui.cli.session_verbs.probe import Sight
from autoexp_tui.model.condition import Condition, describe
from autoexp_tui.model.masking import mask_text, mask_value, mask_values
from autoexp_tui.model.outputs import NotedMetrics
from autoexp_tui.model.resubmission import dependants
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.state import Attempt, ConditionStatus, JobRecord
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import CAUSES, format_cause_of_end, sentence
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import clock_time, duration, format_number, wall_time

Record = dict[str, Any]
_UNSET = object()
_RESULTS = {"pass": "passes", "wait": "waits", "fail": "fails"}


def job_json(job: JobRecord, sight: Sight) -> Record:
    """The job for programs."""
    spec, ask = job.spec, job.ask
    return {
        **brief_json(job, sight),
        **values_json(job, sight),
        "stage": spec.stage,
        "since": wall_time(job.since, sight.now),
        "asks": ask.prompt if ask is not None and ask.approved is None else None,
        "start_conditions": _list_conditions(spec.start_conditions, job.start, sight),
        "cancel_conditions": _list_conditions(
            spec.cancel_conditions, job.cancel, sight
        ),
        "log_path": job.attempt.log_path if job.attempt else "",
        "output_dir": spec.output_dir,
        "metadata": dict(job.metadata),
        "behind": _find_behind(job, sight),
    }


def brief_json(job: JobRecord, sight: Sight) -> Record:
    """A job in short, as `show` of its session tells it."""
    brief = describe_job(job, sight.live.get(job.name), sight.now)
    evidence = [place for attempt in job.attempts for place in attempt.captures]
    return {**brief, "evidence": evidence}


def values_json(job: JobRecord, sight: Sight) -> Record:
    """With which values a job runs, what came of it, and both of each attempt."""
    return {
        "values": mask_values(job.spec.parameters, sight.mask),
        "planned_values": mask_values(job.list_planned_values, sight.mask),
        "metrics": _metrics_json(job.noted, sight.live.get(job.name)),
        "runs": [_attempt_json(one, job, sight) for one in job.attempts],
    }


def _list_conditions(
    specs: Sequence[Condition],
    statuses: Sequence[ConditionStatus | None],
    sight: Sight,
) -> list[Record]:
    return [
        {
            "what": mask_text(describe(spec), sight.mask),
            "result": status.result.value if status else None,
            "since": wall_time(status.since, sight.now) if status else None,
            "why": sentence(status.why, sight.now) if status else "",
            "waived": status.waived if status else "",
        }
        for spec, status in zip(specs, statuses, strict=False)
    ]


def _metrics_json(
    noted: NotedMetrics | None, live: Live | None = None
) -> Record | None:
    """The engine's own newest values where it tells them, else the recorded ones."""
    told: Mapping[str, float | str]
    if live is not None and live.step is not None:
        step, total, told = live.step, live.total, live.metrics
    elif noted is not None:
        step, total, told = noted.step, noted.total, noted.values
    else:
        return None
    values = {
        # JSON has no nan and no infinity: they are text, as in the journal.
        name: value if isinstance(value, str) or isfinite(value) else str(value)
        for name, value in told.items()
    }
    return {"step": step, "total": total, "values": values}


def _attempt_json(attempt: Attempt, job: JobRecord, sight: Sight) -> Record:
    now, noted = sight.now, job.find_noted(attempt)
    is_newest = attempt is job.attempt and noted is job.noted
    live = sight.live.get(job.name) if is_newest else None
    began, ended = attempt.began_at, attempt.ended_at
    return {
        "attempt": attempt.number,
        "values": mask_values(job.values_of(attempt), sight.mask),
        "fingerprint": attempt.fingerprint,
        "metrics": _metrics_json(noted, live),
        "ordered_at": wall_time(attempt.ordered_at, now),
        "ordered_why": _explain(attempt.ordered_why, now),
        "began_at": None if began is None else wall_time(began, now),
        "ended_at": None if ended is None else wall_time(ended, now),
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "cause": attempt.cause.value if attempt.cause else None,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "why": _explain(attempt.why, now),
        "node": attempt.node,
        "executor_id": attempt.executor_id,
        "log_path": attempt.log_path,
        "last_line": attempt.evidence,
        "evidence": list(attempt.captures),
    }


def _explain(why: Why | None, now: float) -> str:
    return sentence(why, now) if why else ""


def _find_behind(job: JobRecord, sight: Sight) -> list[str]:
    """Jobs that wait for this one and have not ended, directly or not."""
    below = dependants(sight.state.jobs.values())
    found = [job.name]
    for name in found:
        found += [one for one in below.get(name, ()) if one not in found]
    return [name for name in found[1:] if not sight.state.jobs[name].ended]


def job_lines(record: Record, job: JobRecord, sight: Sight) -> Iterator[str]:
    """What `job_json` tells, for people, a line each; every text cleaned."""
    stage = f"  stage {clean(record['stage'])}" if record["stage"] else ""
    yield f"{clean(job.name)}{stage}"
    for what, text in _list_facts(record, job, sight):
        yield f"{what:<10} {clean(text)}"


def _list_facts(
    record: Record, job: JobRecord, sight: Sight
) -> Iterator[tuple[str, str]]:
    now = wall_time(sight.now, sight.now)
    since = f" since {clock_time(record['since'], now)}" if job.since else ""
    yield "state", f"{record['state'].lower()}{since}"
    if job.cause is not None:
        yield "cause", format_cause_of_end(job.cause, job.state)
    if record["why"]:
        yield "why", record["why"]
    if record["asks"] is not None:
        yield "asks", record["asks"] or "for approval"
    for role in ("start", "cancel"):
        for index, one in enumerate(record[f"{role}_conditions"], 1):
            text = f"{one['what']}: {_describe_status(one, now)}"
            yield f"{role} {index}", mask_text(text, sight.mask)
    for run, attempt in zip(record["runs"], job.attempts, strict=True):
        yield f"attempt {run['attempt']}", ", ".join(_describe_run(run, now))
        facts = (
            ("values", ", ".join(_list_own_values(attempt, job, sight))),
            ("ordered", run["ordered_why"]),
            ("why", "" if attempt.why == job.why else run["why"]),
            ("log", run["log_path"]),
            ("last line", run["last_line"]),
            *(("evidence", place) for place in run["evidence"]),
        )
        yield from (("", f"{what}: {text}") for what, text in facts if text)
    if found := record["metrics"]:
        total = f"/{found['total']}" if found["total"] else ""
        values = (f"{k} {_format_value(v)}" for k, v in found["values"].items())
        yield "metrics", ", ".join([f"step {found['step']}{total}", *values])
    if found := record["metadata"]:
        yield "metadata", ", ".join(f"{key}={found[key]}" for key in found)
    yield "output", record["output_dir"]
    if record["behind"]:
        yield "behind it", ", ".join(record["behind"])


def _format_value(value: float | str) -> str:
    return value if isinstance(value, str) else format_number(value)


def _describe_status(condition: Record, now: float) -> str:
    if condition["result"] is None:
        return "not looked at yet"
    since = clock_time(condition["since"], now)
    if condition["waived"]:
        return f"waived since {since}: {condition['waived']}"
    return f"{_RESULTS[condition['result']]} since {since}: {condition['why']}"


def _list_own_values(attempt: Attempt, job: JobRecord, sight: Sight) -> Iterator[str]:
    """The values of an attempt that are not the plan's in each of them."""
    values, planned, mask = job.values_of(attempt), job.list_planned_values, sight.mask
    for key in job.list_changed_keys:
        if key not in values:
            continue
        text = mask_text(f"{key}={values[key]}", mask)
        if planned.get(key, _UNSET) != values[key]:
            before = planned.get(key)
            shown = "not set" if before is None else mask_value(key, before, mask)
            text += f" (planned: {shown})"
        yield text


def _describe_run(run: Record, now: float) -> Iterator[str]:
    """What became of an attempt, in the order of time."""
    began, ended = run["began_at"], run["ended_at"]
    if began is None:
        yield f"ordered {clock_time(run['ordered_at'], now)}"
    else:
        yield f"began {clock_time(began, now)}"
    if ended is not None:
        took = f" after {duration(ended - began)}" if began is not None else ""
        yield f"ended {clock_time(ended, now)}{took}"
    if run["outcome"] is not None:
        cause = f" ({CAUSES[run['cause']]})" if run["cause"] else ""
        yield f"{run['outcome'].lower()}{cause}"
    if run["exit_code"] is not None:
        yield f"exit code {run['exit_code']}"
    if run["signal"] is not None:
        yield f"signal {run['signal']}"
    if run["node"]:
        yield f"node {run['node']}"
    if run["executor_id"]:
        yield f"id {run['executor_id']}"
