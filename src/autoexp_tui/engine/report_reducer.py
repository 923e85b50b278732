"""What a report about a task means: the truth matrix, pure. What the executor says
ended it sets the cause even over exit 0; our own cancels are our own record; a task is
lost only after the executor answered without it for long enough."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

from autoexp_tui.engine.executor_port import ExitRecord, TaskPhase, TaskReport
from autoexp_tui.events import events
from autoexp_tui.model.event import pick
from autoexp_tui.model.state import Attempt, JobRecord
from autoexp_tui.model.states import (
    BEGUN,
    UNANSWERED,
    Cause,
    JobState,
    Outcome,
    Why,
    why,
)
from autoexp_tui.text.log_lines import find_memory_line
from autoexp_tui.text.sanitize import clean

_OWN_KILLS = frozenset({Cause.NAN, Cause.STALL, Cause.KILL_CRITERION})
"""Causes of our cancels that mean the job failed, rather than that it was cancelled."""

_NOTE_LIMIT = 500
"""Characters of a wrapper's note that are kept."""


def find_begin(job: JobRecord, report: TaskReport) -> events.RunBegan | None:
    attempt = find_attempt(job, report.attempt)
    began = report.began
    if attempt is None or attempt.outcome or began is None or began.run <= attempt.run:
        return None
    return events.RunBegan(
        job=report.job,
        attempt=attempt.number,
        node=report.node or began.host,
        partition=report.partition or began.partition,
        **pick(began, "run", "began_at", "executor_id", "pid", "log_path", "log_start"),
        gpus=began.gpus,
    )


def find_change(
    job: JobRecord, report: TaskReport
) -> events.RunRequeued | events.RunSuspended | events.RunResumed | None:
    """The event for a begun run that the executor queued again, stopped for a while,
    or let go on."""
    attempt = job.attempt
    if attempt is None or attempt.number != report.attempt or job.state not in BEGUN:
        return None
    run: dict[str, Any] = {"job": job.name, "attempt": attempt.number}
    run["run"] = attempt.run
    if report.requeued:
        return events.RunRequeued(**run, why=why("requeued", reason=report.reason))
    stopped = job.state is JobState.SUSPENDED
    if report.phase is not (TaskPhase.RUNNING if stopped else TaskPhase.SUSPENDED):
        return None
    return events.RunResumed(**run) if stopped else events.RunSuspended(**run)


def has_ended(job: JobRecord, report: TaskReport, lost_after_seconds: float) -> bool:
    """Whether the report is enough to end the attempt."""
    attempt = find_attempt(job, report.attempt)
    if attempt is None or (attempt.outcome and attempt.outcome is not Outcome.LOST):
        return False
    if report.exited is not None:
        return attempt.run <= report.exited.run
    # Whoever looked before it arrived, be it for the second time, did not see it.
    being_sent = attempt is job.attempt and job.state in UNANSWERED
    if attempt.outcome is Outcome.LOST or being_sent:
        return False
    return report.phase is TaskPhase.ENDED and report.gone_for >= lost_after_seconds


def is_forgotten(job: JobRecord, report: TaskReport, lost_after_seconds: float) -> bool:
    """Whether the executor forgot the task before it began. It may be sent again under
    the same attempt: whichever start claims that first is the only one."""
    attempt = find_attempt(job, report.attempt)
    return (
        report.unclaimed
        and attempt is not None
        and attempt.run < 0
        and attempt.outcome is None
        and not attempt.is_told_to_end
        and job.state is JobState.QUEUED
        and report.gone_for >= lost_after_seconds
    )


def decide_end(
    job: JobRecord, report: TaskReport, utc: float, evidence: str = "", tail: str = ""
) -> events.AttemptEnded:
    """The end of an attempt that `has_ended`; `tail`: the end of its log."""
    attempt = find_attempt(job, report.attempt)
    if attempt is None:
        raise ValueError(f"{job.name} has no attempt {report.attempt}")
    outcome, cause, reason = _find_outcome(attempt, report, tail)
    exited = report.exited
    return events.AttemptEnded(
        job=job.name,
        attempt=report.attempt,
        outcome=outcome,
        cause=cause,
        exit_code=exited.exit_code if exited else None,
        signal=exited.signal if exited else None,
        ended_at=exited.ended_at if exited else utc,
        why=reason,
        evidence="" if outcome is Outcome.COMPLETED else evidence,
        rerun=report.rerun and cause is Cause.NODE_FAIL,
    )


def find_attempt(job: JobRecord, number: int) -> Attempt | None:
    if 0 < number <= len(job.attempts):
        return job.attempts[number - 1]
    return None


def _find_outcome(
    attempt: Attempt, report: TaskReport, tail: str
) -> tuple[Outcome, Cause | None, Why | None]:
    if attempt.finished:
        return Outcome.COMPLETED, None, attempt.cancel_why
    exited = report.exited
    if (
        attempt.cancel_cause is Cause.STALL
        and exited is not None
        and exited.exit_code == 0
        and exited.asked is False
        and report.cause in _OF_A_KILL
    ):
        return Outcome.COMPLETED, None, why("well_before_the_kill")
    if attempt.cancel_cause is not None:
        failed = attempt.cancel_cause in _OWN_KILLS
        outcome = Outcome.FAILED if failed else Outcome.CANCELLED
        return outcome, attempt.cancel_cause, attempt.cancel_why
    if report.cause is not None:
        return _explain_by_executor(report.cause, report)
    if exited is not None:
        short = _find_memory_kill(exited, tail)
        if short:
            return _explain_by_executor(
                Cause.OUT_OF_MEMORY, replace(report, reason=short)
            )
        return _explain_by_exit(exited)
    # No trace of it is left, or what is left was removed or changed by somebody.
    what = report.tampering
    if not what and attempt.run >= 0 and report.began is None:
        what = "the records of its run were removed"
    lost = why("lost_records", what=what) if what else None
    return Outcome.LOST, Cause.LOST, lost or why("lost", seconds=report.gone_for)


_KILLED_BY_A_SHELL = 128 + signal.SIGKILL
"""How a shell, or srun, says that its command was killed."""


def _find_memory_kill(exited: ExitRecord, tail: str) -> str:
    """Who says that a killed run was killed for memory; empty when nobody does."""
    killed = exited.signal == signal.SIGKILL or exited.exit_code == _KILLED_BY_A_SHELL
    if not killed or exited.asked:
        return ""
    if exited.oom_kills:
        return "the kernel killed it"
    return "its log says so" if find_memory_line(tail) else ""


_OF_A_KILL = frozenset({None, Cause.USER})
"""What an executor says ended a task whose kill came too late."""


def _explain_by_executor(
    cause: Cause, report: TaskReport
) -> tuple[Outcome, Cause | None, Why | None]:
    if cause is Cause.USER:
        args = {"by": report.by} if report.by else {}
        return Outcome.CANCELLED, cause, why("cancelled_outside", **args)
    reason = why(cause.value, node=report.node, reason=report.reason)
    return Outcome.FAILED, cause, reason


def _explain_by_exit(exited: ExitRecord) -> tuple[Outcome, Cause | None, Why | None]:
    if exited.signal is not None:
        name = name_signal(exited.signal)
        reason = why("signal", signal=name, **_quote_note(exited))
        return Outcome.FAILED, Cause.SIGNAL, reason
    if exited.exit_code == 0:
        return Outcome.COMPLETED, None, None
    code = -1 if exited.exit_code is None else exited.exit_code
    reason = why("exit_code", code=code, **_quote_note(exited))
    return Outcome.FAILED, Cause.EXIT_CODE, reason


def _quote_note(exited: ExitRecord) -> dict[str, str]:
    """The wrapper's note as an argument of a reason, where there is one."""
    return {"note": clean(exited.note, limit=_NOTE_LIMIT)} if exited.note else {}


def name_signal(number: int) -> str:
    """`SIGKILL` for 9; the number for one this machine does not know."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
