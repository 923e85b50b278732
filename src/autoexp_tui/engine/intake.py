"""What answers from the outside mean: each becomes events in the draft."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from autoexp_tui.core import events, ids
from autoexp_tui.core.effects import (
    RECOVERY,
    AddJob,
    CaptureEvidence,
    LookForCheckpoint,
    MoveCheckpoint,
    PlanJobs,
    SubmitTasks,
    TaskId,
)
from autoexp_tui.core.facts import Fact, LogKey, OutsideKey
from autoexp_tui.core.snapshot import InQueue
from autoexp_tui.core.specs import JobSpec
from autoexp_tui.core.state import JobRecord, PendingEffect
from autoexp_tui.core.states import Cause, JobState, Outcome
from autoexp_tui.core.verdicts import Why, why
from autoexp_tui.engine import join, judge
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import PROBE_SECONDS, Dispatcher
from autoexp_tui.engine.doubts import leave_in_doubt, warn_of_errand
from autoexp_tui.engine.evidence import nan_line, telling_line
from autoexp_tui.engine.executor_port import (
    Accepted,
    Busy,
    Rejected,
    TaskPhase,
    TaskReport,
    Uncertain,
)
from autoexp_tui.engine.log_rounds import LOG
from autoexp_tui.engine.log_troubles import LogTroubles
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.partings import captured, kept_too_late
from autoexp_tui.engine.ports import Kept
from autoexp_tui.engine.steer import obey, revive
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.monitor import checkpoints
from autoexp_tui.monitor.desk import Desk
from autoexp_tui.monitor.ending import end_job
from autoexp_tui.monitor.last_looks import end_look
from autoexp_tui.monitor.orders import order_effect
from autoexp_tui.monitor.reactions import end_attempt
from autoexp_tui.monitor.restarts import excluding

JOIN_SECONDS = 2.0
"""Before a plan is made again that needs what is still being planned."""
MOST_TOLD = 12
"""Jobs that are named where many join."""
BUSY_SECONDS = 10.0
"""Before an executor that is at its limit is asked again."""
FAULT_SECONDS = 5.0
"""Before an effect whose sending raised is sent again."""
TELL_AGAIN_SECONDS = 3600.0
"""Before a look that goes on failing in the same way is told of again."""


@dataclass(slots=True)
class Health:
    """How the outside answers; volatile, for people."""

    answered_at: float | None = None
    error: str = ""
    deposed: bool = False
    stop_when_idle: bool = False
    calls: int = 0
    queue: dict[str, InQueue] = field(default_factory=dict)
    """Job -> what the executor says of it while it waits there."""
    faults: dict[str, tuple[str, float]] = field(default_factory=dict)
    """What was looked at -> how that failed, and when it was told; monotonic."""


@dataclass(slots=True)
class Intake:
    """Holds what must be kept between two answers: ends whose log is still read."""

    dispatcher: Dispatcher
    telemetry: Telemetry
    health: Health
    outside: dict[OutsideKey, Fact]
    monotonic: Callable[[], float]
    lost_after_seconds: Callable[[], float]
    log_fault: Callable[[str], None]
    """Writes a traceback to the session's log."""
    ending: dict[TaskId, TaskReport] = field(default_factory=dict)
    drained: dict[TaskId, dict[str, seen.LogRead]] = field(default_factory=dict)
    """Of those, the sources that were read to their end."""
    troubles: LogTroubles = field(default_factory=LogTroubles)

    def take(self, desk: Desk, observation: Observation) -> list[str]:
        """Turn one observation into events; returns further jobs to judge."""
        match observation:
            case seen.Submitted():
                self._submitted(desk, observation)
            case seen.Probed():
                self._probed(desk, observation)
            case seen.Cancelled():
                self._cancelled(desk, observation)
            case seen.Composed():
                self._composed(desk, observation)
            case seen.Notified():
                self._notified(desk, observation)
            case seen.ErrandRun():
                self._errand_run(desk, observation)
            case seen.DoneNoted():
                self._done_noted(desk, observation)
            case seen.Captured():
                self._captured(desk, observation)
            case seen.CheckpointLooked():
                self._looked(desk, observation)
            case seen.CheckpointMoved():
                self._moved(desk, observation)
            case seen.FurtherPlanned():
                self._further_planned(desk, observation)
            case seen.Polled():
                self._polled(desk, observation)
            case seen.FactsSeen():
                return self._facts(desk, observation)
            case seen.PlaceHeard():
                _place_heard(desk, observation)
            case seen.LogsRead():
                return self._logs(desk, observation)
            case seen.OrdersTaken():
                for order in observation.orders:
                    obey(desk, order)
            case seen.Heartbeat():
                self.health.deposed = self.health.deposed or not observation.ours
            case seen.CallFailed():
                self._call_failed(desk, observation)
            case seen.JobsOpened():
                pass  # decides nothing: `rounds` reads their logs
            case _:
                assert_never(observation)
        return []

    # -------------------------------------------------------------------- effects
    def _submitted(self, desk: Desk, got: seen.Submitted) -> None:
        if got.effect_id not in desk.state.pending:
            return
        match got.answer:
            case Accepted() as answer:
                self._accepted(desk, got, answer)
            case Rejected() as answer:
                self._rejected(desk, got, answer)
            case Busy() as answer:
                self._busy(desk, got, answer)
            case Uncertain() as answer:
                self._doubt(desk, got.effect_id, got.token, answer)

    def _accepted(self, desk: Desk, got: seen.Submitted, answer: Accepted) -> None:
        desk.draft.emit(
            events.SubmissionAccepted(
                token=got.token,
                executor_ids=answer.executor_ids,
                submitted_at=answer.submitted_at,
            )
        )
        self._settle(desk, got.effect_id, "ok", _words(answer.sent, answer.said))

    def _busy(self, desk: Desk, got: seen.Submitted, answer: Busy) -> None:
        """Send it again later; what is too large for a limit, in two parts."""
        rest = self.monotonic() + BUSY_SECONDS
        self.dispatcher.landed(got.effect_id, rest_until=rest)
        code = "disk_refuses" if answer.disk else "busy"
        reason = why(code, message=answer.message, sent=answer.sent)
        self._explain(desk, got.token, reason)
        tasks = desk.state.tokens[got.token]
        if answer.fewer and len(tasks) > 1:
            detail = _words(answer.sent, answer.message)
            self._settle(desk, got.effect_id, "failed", detail)
            self._send_apart(desk, tasks, reason, most=(len(tasks) + 1) // 2)
        if not answer.disk:
            self.dispatcher.rest_alike(desk.state, tasks[0][0], rest)

    def _rejected(self, desk: Desk, got: seen.Submitted, answer: Rejected) -> None:
        detail = _words(answer.sent, answer.message)
        self._settle(desk, got.effect_id, "failed", detail)
        tasks = desk.state.tokens[got.token]
        if answer.cause is Cause.SUBMIT_ERROR and len(tasks) > 1:
            apart = why("sent_apart", message=answer.message)
            self._send_apart(desk, tasks, apart, most=1)
            return
        reason = why(answer.cause.value, message=answer.message)
        for job, number in tasks:
            self._end_unborn(desk, job, number, Outcome.FAILED, answer.cause, reason)

    def _send_apart(
        self, desk: Desk, tasks: tuple[TaskId, ...], reason: Why, *, most: int
    ) -> None:
        """Send in parts of at `most` so many what could not be sent together."""
        self._end_unwanted(desk, tasks)
        open_ = tuple(task for task in tasks if _is_open(desk, task))
        for first in range(0, len(open_), most):
            _order_submit(desk, open_[first : first + most], reason)

    def _end_unborn(
        self,
        desk: Desk,
        job: str,
        number: int,
        outcome: Outcome,
        cause: Cause,
        reason: Why | None,
    ) -> None:
        """End an attempt that the executor does not have."""
        attempt = judge.attempt_of(desk.job(job), number)
        if attempt is None or attempt.outcome is not None:
            return
        ended = events.AttemptEnded(
            job=job,
            attempt=number,
            outcome=outcome,
            cause=cause,
            ended_at=desk.now,
            why=reason,
        )
        end_attempt(desk, ended)

    def _doubt(self, desk: Desk, effect_id: str, token: str, answer: Uncertain) -> None:
        self.dispatcher.in_doubt.add(effect_id)
        rest = self.monotonic() + PROBE_SECONDS
        self.dispatcher.landed(effect_id, rest_until=rest)
        reason = why(
            "in_doubt",
            message=answer.message,
            at=desk.now,
            place=desk.policy.place,
            sent=answer.sent,
        )
        desk.draft.emit(events.SubmissionUncertain(token=token, why=reason))

    def _explain(self, desk: Desk, token: str, reason: Why) -> None:
        for name, _ in desk.state.tokens[token]:
            job = desk.job(name)
            if job.why is None or job.why.code != reason.code:
                desk.draft.emit(events.WaitExplained(job=name, why=reason))

    def _probed(self, desk: Desk, got: seen.Probed) -> None:
        if got.effect_id not in desk.state.pending:
            return
        for found in got.answer.found:
            if found.token == got.token:
                desk.draft.emit(
                    events.SubmissionAccepted(
                        token=got.token,
                        executor_ids=found.executor_ids,
                        submitted_at=found.submitted_at,
                        adopted=True,
                    )
                )
                self._settle(desk, got.effect_id, "ok", "found by its name")
                return
        if got.token in got.answer.absent:
            self._absent(desk, got)
        else:
            rest = self.monotonic() + PROBE_SECONDS
            self.dispatcher.landed(got.effect_id, rest_until=rest)

    def _absent(self, desk: Desk, got: seen.Probed) -> None:
        tasks = desk.state.tokens[got.token]
        attempts = [judge.attempt_of(desk.job(job), number) for job, number in tasks]
        desk.draft.emit(events.SubmissionAbsent(token=got.token))
        if all(a is None or a.outcome or a.told_to_end for a in attempts):
            self._settle(desk, got.effect_id, "ok", "never taken, no longer wanted")
            self._end_unwanted(desk, tasks)
            return
        self.dispatcher.in_doubt.discard(got.effect_id)
        self.dispatcher.landed(got.effect_id)

    def _end_unwanted(self, desk: Desk, tasks: tuple[TaskId, ...]) -> None:
        for job, number in tasks:
            attempt = judge.attempt_of(desk.job(job), number)
            if attempt is not None and attempt.cancel_cause is not None:
                self._end_unborn(
                    desk,
                    job,
                    number,
                    Outcome.CANCELLED,
                    attempt.cancel_cause,
                    attempt.cancel_why,
                )

    def _cancelled(self, desk: Desk, got: seen.Cancelled) -> None:
        if got.effect_id not in desk.state.pending:
            return
        if got.answer.ok:
            words = _words(got.answer.sent, got.answer.said)
            self._settle(desk, got.effect_id, "ok", words)
        else:
            rest = self.monotonic() + FAULT_SECONDS
            self.dispatcher.landed(got.effect_id, rest_until=rest)
            self.health.error = got.answer.said

    def _composed(self, desk: Desk, got: seen.Composed) -> None:
        if got.effect_id not in desk.state.pending:
            return
        job = got.effect.job
        if got.spec is None:
            self._settle(desk, got.effect_id, "failed", got.problem)
            self._not_composed(desk, job, got.problem)
            return
        overrides = " ".join(got.effect.overrides)
        self._settle(desk, got.effect_id, "ok", overrides)
        reason = why("other_overrides", overrides=overrides)
        spec = _as_it_joined(got.spec, desk.job(job).spec)
        desk.draft.emit(events.JobReplanned(job=job, spec=spec, why=reason))
        if desk.job(job).ended:
            revive(desk, job, "person", from_checkpoint=got.effect.from_checkpoint)

    @staticmethod
    def _not_composed(desk: Desk, name: str, problem: str) -> None:
        """Overrides that do not compose end a retry; an ended job stays as it is."""
        job, refused = desk.job(name), why("does_not_compose", problem=problem)
        if job.state is JobState.RETRYING:
            attempt = job.attempt
            cause = attempt.cause if attempt else None
            end_job(desk, job, JobState.FAILED, cause, refused)
        else:
            desk.draft.emit(events.CommandRefused(why=refused, jobs=(name,)))

    def _notified(self, desk: Desk, got: seen.Notified) -> None:
        if got.effect_id not in desk.state.pending:
            return
        ok = not got.fact.error and getattr(got.fact.value, "exit_code", None) == 0
        detail = got.fact.error or getattr(got.fact.value, "detail", "")
        self._settle(desk, got.effect_id, "ok" if ok else "failed", str(detail))

    def _errand_run(self, desk: Desk, got: seen.ErrandRun) -> None:
        pending = desk.state.pending.get(got.effect_id)
        if pending is None:
            return
        self._settle(desk, got.effect_id, "ok" if got.ok else "failed", got.detail)
        if not got.ok:
            warn_of_errand(desk, pending, got.detail)

    def _done_noted(self, desk: Desk, got: seen.DoneNoted) -> None:
        if got.effect_id in desk.state.pending:
            outcome = "failed" if got.problem else "ok"
            self._settle(desk, got.effect_id, outcome, got.problem)

    def _captured(self, desk: Desk, got: seen.Captured) -> None:
        pending = desk.state.pending.get(got.effect_id)
        if pending is not None and isinstance(pending.effect, CaptureEvidence):
            self._end_look(desk, pending, pending.effect, got.kept)

    def wait_no_longer(self, desk: Desk) -> None:
        """End runs although the looks at them have not come back in time."""
        for pending in self.dispatcher.overdue(desk.state, self.monotonic()):
            if isinstance(pending.effect, CaptureEvidence):
                look = pending.effect
                task = self.dispatcher.task(desk.job(look.job), look.attempt)
                self._end_look(desk, pending, look, kept_too_late(task, look))

    def _end_look(
        self, desk: Desk, pending: PendingEffect, look: CaptureEvidence, kept: Kept
    ) -> None:
        outcome = "ok" if kept.directory else "failed"
        self._settle(desk, pending.effect_id, outcome, kept.summary)
        end_look(desk, look, captured(look, kept), pending.why)

    def _looked(self, desk: Desk, got: seen.CheckpointLooked) -> None:
        pending = desk.state.pending.get(got.effect_id)
        if pending is not None and isinstance(pending.effect, LookForCheckpoint):
            outcome = "failed" if got.problem else "ok"
            newest = got.found.newest.path if got.found else "none"
            self._settle(desk, got.effect_id, outcome, got.problem or newest)
            checkpoints.looked(desk, pending.effect, got.found, got.problem)

    def _moved(self, desk: Desk, got: seen.CheckpointMoved) -> None:
        pending = desk.state.pending.get(got.effect_id)
        if pending is not None and isinstance(pending.effect, MoveCheckpoint):
            outcome = "failed" if got.problem else "ok"
            detail = got.problem or pending.effect.target
            self._settle(desk, got.effect_id, outcome, detail)
            checkpoints.moved(desk, pending.effect, got.problem)

    def _further_planned(self, desk: Desk, got: seen.FurtherPlanned) -> None:
        """Let a plan join, all of it in this commit, or say why it cannot."""
        pending = desk.state.pending.get(got.effect_id)
        if pending is None:
            return
        plan, problem, effect = got.plan, got.problem, pending.effect
        assert isinstance(effect, PlanJobs | AddJob)
        if plan is not None:
            problem = join.why_not(desk.state, plan)
        if (plan is None or problem) and join.others_come_first(desk.state, pending):
            rest = self.monotonic() + JOIN_SECONDS
            self.dispatcher.landed(got.effect_id, rest_until=rest)
            return
        if plan is None or problem:
            self._settle(desk, got.effect_id, "failed", problem)
            warn_of_errand(desk, pending, problem)
            return
        desk.state.plans[got.sha] = plan
        names = tuple(job.name for job in plan.jobs)
        added = events.PlanAdded(sha=got.sha, job=effect.job, action=effect.action)
        desk.draft.emit(added)
        released = events.JobsReleased(jobs=names, ahead=effect.mode == "now")
        desk.draft.emit(released)
        told = ", ".join(names[:MOST_TOLD])
        more = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
        self._settle(desk, got.effect_id, "ok", f"joined: {told}{more}")

    def _settle(self, desk: Desk, effect_id: str, outcome: str, detail: str) -> None:
        settled = events.EffectSettled(
            effect_id=effect_id,
            outcome="ok" if outcome == "ok" else "failed",
            detail=detail,
        )
        desk.draft.emit(settled)
        self.dispatcher.forget(effect_id)

    # ----------------------------------------------------------------------- poll
    def _polled(self, desk: Desk, got: seen.Polled) -> None:
        self.health.calls += got.answer.calls
        self.health.error = got.answer.error
        if got.answer.age < desk.now:
            self.health.answered_at = desk.now - got.answer.age
        for report in got.answer.reports:
            if report.job in desk.state.jobs:
                self._report(desk, report)

    def _report(self, desk: Desk, report: TaskReport) -> None:
        self._note_queue(desk, report)
        began = judge.run_began(desk.job(report.job), report)
        if began is not None and self._may_begin(desk.job(report.job), began):
            desk.draft.emit(began)
            self._forget_logs(desk.job(report.job))
        requeued = judge.requeued(desk.job(report.job), report)
        if requeued is not None:
            desk.draft.emit(requeued)
        job = desk.job(report.job)
        if judge.is_forgotten(job, report, self.lost_after_seconds()):
            self._send_again(desk, job, report)
        elif judge.has_ended(job, report, self.lost_after_seconds()):
            self._note_end(desk, job, report)

    @staticmethod
    def _send_again(desk: Desk, job: JobRecord, report: TaskReport) -> None:
        reason = why("forgotten", id=report.executor_id, seconds=report.gone_for)
        _order_submit(desk, ((job.name, report.attempt),), reason)

    def _forget_logs(self, job: JobRecord) -> None:
        """What was found in an earlier run's log says nothing of this run."""
        place = job.spec.log_dir + "/"
        for key in list(self.outside):
            if isinstance(key, LogKey) and key.path.startswith(place):
                del self.outside[key]

    def _note_queue(self, desk: Desk, report: TaskReport) -> None:
        queue = _in_queue(report)
        if queue == self.health.queue.get(report.job):
            return
        desk.reworded.add(report.job)
        if queue is None:
            self.health.queue.pop(report.job)
        else:
            self.health.queue[report.job] = queue

    @staticmethod
    def _may_begin(job: JobRecord, began: events.RunBegan) -> bool:
        newest = job.attempt
        return newest is not None and newest.number == began.attempt

    def _note_end(self, desk: Desk, job: JobRecord, report: TaskReport) -> None:
        """End the attempt now, or once the rest of its log has been read."""
        attempt = judge.attempt_of(job, report.attempt)
        if attempt is not None and attempt.log_path and not job.ended:
            self.ending[report.job, report.attempt] = report
        else:
            end_attempt(desk, judge.attempt_ended(job, report, desk.now))

    # ---------------------------------------------------------------------- facts
    def _facts(self, desk: Desk, got: seen.FactsSeen) -> list[str]:
        touched: list[str] = []
        for key, fact in got.facts:
            if not desk.watch.is_read(key):
                continue
            old = self.outside.get(key)
            self.outside[key] = fact
            if old is None or old.value != fact.value or old.error != fact.error:
                touched.extend(desk.watch.jobs(key))
        return touched

    def forget(self, keys: Iterable[OutsideKey]) -> None:
        """Nobody reads these any more: an old look must not count as a new one."""
        for key in keys:
            self.outside.pop(key, None)

    # ----------------------------------------------------------------------- logs
    def _logs(self, desk: Desk, got: seen.LogsRead) -> list[str]:
        touched: list[str] = []
        for read in got.reads:
            if read.job not in desk.state.jobs:
                continue
            touched += self._log_read(desk, read)
            last = read.final and read.chunk is None
            if last and self.troubles.is_last_word(read, desk.now):
                self._drained(desk, read)
        return touched

    def _log_read(self, desk: Desk, read: seen.LogRead) -> list[str]:
        self.troubles.note(desk, read)
        if read.source:
            return self.telemetry.digest_file(desk, read)
        self.telemetry.looked(desk, read)
        return self.telemetry.digest(desk, read.chunk) if read.chunk else []

    def undrained(self, jobs: Mapping[str, JobRecord]) -> Iterator[tuple[str, str]]:
        """(job, source) of what is still to be read of runs that ended."""
        for name, number in sorted(self.ending):
            drained = self.drained.get((name, number), {})
            for source in self.telemetry.sources(jobs[name]):
                if source not in drained and not self.troubles.holds((name, source)):
                    yield name, source

    def _drained(self, desk: Desk, read: seen.LogRead) -> None:
        """A source was read to its end; the last one of an ended run settles it."""
        task = (read.job, read.attempt)
        if task not in self.ending:
            return
        drained = self.drained.setdefault(task, {})
        drained[read.source] = read
        if drained.keys() >= {*self.telemetry.sources(desk.job(read.job))}:
            self._finish(desk, self.drained.pop(task)[LOG])

    def _finish(self, desk: Desk, read: seen.LogRead) -> None:
        """All that an ended run wrote has been read to its end: judge the attempt."""
        report = self.ending.pop((read.job, read.attempt))
        self.troubles.forget(desk, read.job)
        self.telemetry.close(desk, read.job)
        job = desk.job(read.job)
        evidence = _evidence(job, read)
        ended = judge.attempt_ended(job, report, desk.now, evidence)
        reached = self.telemetry.reached(read.job, read.attempt)
        end_attempt(desk, replace(ended, reached=reached))

    def _call_failed(self, desk: Desk, got: seen.CallFailed) -> None:
        if not got.effect_id and self._told_lately(got):
            return
        self.log_fault(got.trace)
        pending = desk.state.pending.get(got.effect_id)
        if pending is not None and RECOVERY[pending.effect.kind] == "once":
            leave_in_doubt(desk.draft, pending)
            self.dispatcher.forget(got.effect_id)
        elif pending is not None and isinstance(pending.effect, SubmitTasks):
            self._faulted_submission(desk, pending.effect_id, pending.effect, got)
        elif got.effect_id:
            rest = self.monotonic() + FAULT_SECONDS
            self.dispatcher.landed(got.effect_id, rest_until=rest)
        desk.draft.emit(events.EngineFaulted(where=got.what, problem=got.problem))

    def _faulted_submission(
        self, desk: Desk, effect_id: str, effect: SubmitTasks, got: seen.CallFailed
    ) -> None:
        """Nobody knows how far it came: it is asked for before it is sent again."""
        if effect_id in self.dispatcher.in_doubt:
            rest = self.monotonic() + FAULT_SECONDS
            self.dispatcher.landed(effect_id, rest_until=rest)
        else:
            message = f"a fault of ours: {got.problem}"
            self._doubt(desk, effect_id, effect.token, Uncertain(message=message))

    def _told_lately(self, got: seen.CallFailed) -> bool:
        """Whether the same was told of the same look: it goes on being tried."""
        now = self.monotonic()
        problem, since = self.health.faults.get(got.what, ("", 0.0))
        if problem == got.problem and now - since < TELL_AGAIN_SECONDS:
            return True
        self.health.faults[got.what] = (got.problem, now)
        return False

    def note_state(self, job: JobRecord) -> None:
        """A job moved on: forget what no longer concerns it."""
        if job.state is not JobState.QUEUED:
            self.health.queue.pop(job.name, None)


def _place_heard(desk: Desk, got: seen.PlaceHeard) -> None:
    """A file system that is silent is a warning until it answers."""
    warning_id = "f" + ids.digest(got.place)
    stands = warning_id in desk.state.warnings
    if got.silence is None:
        if stands:
            desk.draft.emit(events.WarningCleared(warning_id=warning_id))
    elif not stands:
        reason = why("place_silent", place=got.place, since=got.silence.since)
        desk.draft.emit(events.WarningRaised(warning_id=warning_id, why=reason))


def _is_open(desk: Desk, task: TaskId) -> bool:
    """Whether the attempt has not ended."""
    job, number = task
    attempt = judge.attempt_of(desk.job(job), number)
    return attempt is not None and attempt.outcome is None


def _order_submit(desk: Desk, tasks: tuple[TaskId, ...], reason: Why) -> None:
    """Order attempts that there are already to be sent once more."""
    token = ids.submission_token(desk.state.session, tasks)
    order_effect(desk, SubmitTasks(token=token, tasks=tasks), reason)


def _in_queue(report: TaskReport) -> InQueue | None:
    """What a report says of the task's wait; None when it does not wait."""
    if report.phase in (TaskPhase.RUNNING, TaskPhase.ENDED):
        return None
    if not report.reason and not report.partition and report.expected_at is None:
        return None
    return InQueue(report.reason, report.expected_at, report.partition)


def _evidence(job: JobRecord, read: seen.LogRead) -> str:
    """The line of the log that tells most about why the attempt ended."""
    if read.problem:
        return f"its log could not be read: {read.problem}"
    attempt = judge.attempt_of(job, read.attempt)
    if attempt is not None and attempt.cancel_cause is Cause.NAN:
        return nan_line(read.tail) or telling_line(read.tail)
    return telling_line(read.tail)


def _as_avoiding(new: JobSpec, old: JobSpec) -> JobSpec:
    """A job planned anew avoids the nodes that it avoided before."""
    nodes = str(old.resources.options.get("exclude") or "")
    return excluding(new, tuple(nodes.split(","))) if nodes else new


def _as_it_joined(new: JobSpec, old: JobSpec) -> JobSpec:
    """A job planned anew keeps its place, and what holds for it in this session."""
    kept = replace(new, index=old.index, family=old.family, rules=old.rules)
    return _as_avoiding(replace(kept, stage=old.stage), old)


def _words(sent: str, said: str) -> str:
    return "\n".join(part for part in (f"$ {sent}" if sent else "", said) if part)
