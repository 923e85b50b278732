"""The second front end: the same engine without a screen.

Says what changed, a line each, on stderr; ends when no job can move any more. It
proves that nothing of the engine needs the cockpit.
"""

from __future__ import annotations

import json
import queue
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoexp_tui.cli.detach import go_dark, place_of
from autoexp_tui.cli.diagnostics import ExitCode, say
from autoexp_tui.cli.rule_lines import SPENT, rule_lines
from autoexp_tui.core.clean import clean
from autoexp_tui.core.errors import AutoexpError
from autoexp_tui.core.snapshot import EngineView, Snapshot
from autoexp_tui.core.state import JobRecord
from autoexp_tui.core.states import ACTIVE, JobState
from autoexp_tui.core.verdicts import Why
from autoexp_tui.core.wording import clock_time, plural, reason_of, sentence, wakes
from autoexp_tui.engine.joined import is_at_rest, is_deposed

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle

_RESTING = frozenset({JobState.PLANNED, JobState.HELD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How a headless run watches its engine."""

    json: bool = False
    wait_for_approval: bool = True
    quiet: bool = False
    stop_in_storm: bool = True
    """Whether a storm that paused the session ends the watching, once nothing runs."""


class Interrupted(Exception):
    """Somebody pressed Ctrl-C, or asked this process to end."""


def watch(handle: EngineHandle, how: Watching) -> Snapshot:
    """Report until nothing can move any more; the last snapshot.

    Raises:
        Interrupted: on SIGINT or SIGTERM; the jobs go on.
    """
    inbox: queue.SimpleQueue[Snapshot | None] = queue.SimpleQueue()
    handle.subscribe(inbox.put)
    report = Report(quiet=how.quiet)
    with _interrupts(inbox):
        for told in _newest(inbox, handle.snapshot()):
            report.show(told)
            # In this order: what answered the last order is in the newest snapshot.
            if not handle.unanswered and over(snapshot := handle.snapshot(), how):
                report.show(snapshot)
                return snapshot
    raise AssertionError("unreachable: the queue has no end")


def _newest(
    inbox: queue.SimpleQueue[Snapshot | None], first: Snapshot
) -> Iterator[Snapshot]:
    yield first
    while True:
        snapshot = inbox.get()
        while snapshot is not None and not inbox.empty():
            snapshot = inbox.get()
        if snapshot is None:
            raise Interrupted
        yield snapshot


class _interrupts:
    """SIGINT and SIGTERM end the watching; a closed terminal does not."""

    def __init__(self, inbox: queue.SimpleQueue[Snapshot | None]) -> None:
        self._inbox = inbox
        self._old: dict[int, object] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old[number] = signal.signal(number, lambda *_: self._inbox.put(None))
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            hang_up = signal.signal(signal.SIGHUP, lambda *_: go_dark())
            self._old[signal.SIGHUP] = hang_up

    def __exit__(self, *_: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)  # type: ignore[arg-type]


def over(snapshot: Snapshot, how: Watching) -> bool:
    """Whether nothing moves any more without a person."""
    if not snapshot.session:
        return bool(snapshot.engine.holding)
    if is_at_rest(snapshot) or _has_ended(snapshot.engine):
        return True
    moving = [
        job for job in snapshot.jobs if not job.ended and job.state not in _RESTING
    ]
    if how.stop_in_storm and in_storm(snapshot) and not _busy(snapshot):
        return True
    if not how.wait_for_approval and moving and all(map(_asks, moving)):
        return True
    return not moving and not snapshot.pending and not _acts_later(snapshot)


def _has_ended(engine: EngineView) -> bool:
    """Whether the engine of this process has."""
    return engine.stopped and engine.role == "live"


def _acts_later(snapshot: Snapshot) -> bool:
    """Whether an action waits for a moment that is known; for others nobody stays."""
    return any(
        waiting.until is not None
        for job in snapshot.jobs
        for waiting in job.deferred.values()
    )


def in_storm(snapshot: Snapshot) -> bool:
    """Whether the storm breaker has paused the session."""
    return snapshot.paused is not None and snapshot.paused.code == "storm"


def _busy(snapshot: Snapshot) -> bool:
    """Whether anything is outside, or on its way there."""
    return bool(snapshot.pending) or any(job.state in ACTIVE for job in snapshot.jobs)


def _asks(job: JobRecord) -> bool:
    return job.ask is not None and job.ask.approved is None


# -------------------------------------------------------------------------- report
@dataclass(slots=True)
class Report:
    """Says each change of a job's state once, and what rules decided."""

    quiet: bool = False
    out: Callable[[str], None] = say
    _seen: dict[str, tuple[JobState, int]] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)
    _warned: set[str] = field(default_factory=set)
    _queued_for: set[str] = field(default_factory=set)
    """What jobs in the executor's queue were said to wait for."""
    _holding: str = ""
    _paused: Why | None = None
    _session: str = ""
    _seq: int | None = None
    """The newest record that was told of, or was there before the first look."""
    _spent: set[str] = field(default_factory=set)
    """Rules without an attempt left that were told: they may match at each line."""
    _engine: tuple[str, bool, int, int] = ("", True, 0, 0)
    """Our part in it, whether it lives, its epoch: as they were said."""

    def show(self, snapshot: Snapshot) -> None:
        """Report what is new in `snapshot`."""
        if self.quiet:
            return
        self._show_session(snapshot)
        self._show_engine(snapshot)
        self._show_done(snapshot)
        self._show_rules(snapshot)
        for job in snapshot.jobs:
            self._show_job(job, snapshot.t)
        for warning in snapshot.warnings:
            if warning.warning_id not in self._warned:
                self._warned.add(warning.warning_id)
                text = sentence(warning.why, snapshot.t)
                self._line(snapshot.t, "!", f"{warning.job} {text}")
        self._show_queue(snapshot)

    def _show_rules(self, snapshot: Snapshot) -> None:
        """What rules decided since the last look, before what became of the jobs."""
        newest = snapshot.events[-1].seq if snapshot.events else 0
        after, self._seq = self._seq, newest
        if after is None:
            return
        for what, text in rule_lines(snapshot.events, after):
            if what == SPENT:
                if text in self._spent:
                    continue
                self._spent.add(text)
            self._line(snapshot.t, what, text)

    def _show_queue(self, snapshot: Snapshot) -> None:
        """Each reason once, however many jobs wait for it."""
        waiting: dict[str, list[str]] = {}
        for job, live in zip(snapshot.jobs, snapshot.live, strict=True):
            if job.state is JobState.QUEUED and live and live.queue:
                waiting.setdefault(live.queue.reason, []).append(job.name)
        for reason, names in waiting.items():
            if reason and reason not in self._queued_for:
                self._queued_for.add(reason)
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                self._line(snapshot.t, "in the queue", f"{names[0]}{more}: {reason}")

    def _show_session(self, snapshot: Snapshot) -> None:
        if snapshot.session and snapshot.session != self._session:
            self._session = snapshot.session
            self.out(f"session {snapshot.session}   {snapshot.engine.directory}")
        if snapshot.session and snapshot.engine.holding != self._holding:
            self._holding = snapshot.engine.holding
            if self._holding:
                self.out(f"holding: {self._holding}")
        if snapshot.session and snapshot.paused != self._paused:
            self._show_pause(snapshot)

    def _show_pause(self, snapshot: Snapshot) -> None:
        """That nothing is submitted any more; of a storm, a warning says it."""
        before, self._paused = self._paused, snapshot.paused
        if snapshot.paused is None:
            self._line(snapshot.t, "resumed", "jobs are submitted again")
        elif not in_storm(snapshot) and before is None:
            self._line(snapshot.t, "paused", sentence(snapshot.paused, snapshot.t))
            place = place_of(snapshot.engine.directory)
            self.out(f"  autoexp-sessions resume {snapshot.session}{place}")

    def _show_engine(self, snapshot: Snapshot) -> None:
        """Which engine runs what is watched, and what becomes of it."""
        engine = snapshot.engine
        now = (engine.role, engine.owner_alive, engine.epoch, engine.halted_pid)
        before, self._engine = self._engine, now
        if before == now:
            return
        if engine.role == "viewer":
            self._line(snapshot.t, "engine", _watched(engine))
        elif before[0] == "viewer":
            self._line(snapshot.t, "engine", "this process goes on with the session")

    def _show_done(self, snapshot: Snapshot) -> None:
        """What an earlier session has done, in one line however many they are."""
        done = [job for job in snapshot.jobs if job.done_before]
        new = [job for job in done if job.name not in self._done]
        for job in new:
            self._done.add(job.name)
            self._seen[job.name] = (job.state, len(job.attempts))
        if new:
            of = f"{len(new)} of {plural(len(snapshot.jobs), 'job')}"
            self._line(snapshot.t, "done before", f"{of}: not run again (--force does)")

    def _show_job(self, job: JobRecord, now: float) -> None:
        mark = (job.state, len(job.attempts))
        if self._seen.get(job.name) != mark:
            self._seen[job.name] = mark
            if job.state is not JobState.PLANNED:
                self._line(now, job.state.value.lower(), f"{job.name}{_tail(job, now)}")
        if _asks(job) and job.name not in self._asked:
            self._asked.add(job.name)
            self._line(now, "asks", f"{job.name} {_prompt(job)}")

    def _line(self, now: float, what: str, text: str) -> None:
        self.out(f"{clock_time(now)}  {what:<12} {clean(text)}")


def _watched(engine: EngineView) -> str:
    who = f"on host {engine.host}, pid {engine.pid}"
    if engine.halted_pid:
        return f"{who}: is stopped: {wakes(engine.halted_pid)}"
    if engine.owner_alive:
        return f"{who}: runs this session; watching it"
    return f"{who}: {'has left' if engine.stopped else 'is gone'}"


def _tail(job: JobRecord, now: float) -> str:
    if job.why is None:
        return ""
    return f"  {reason_of(job.why, job.cause, now)}"


def _prompt(job: JobRecord) -> str:
    prompt = job.ask.prompt if job.ask else ""
    return f"waits for approval: {prompt}" if prompt else "waits for approval"


# -------------------------------------------------------------------------- result
def result(snapshot: Snapshot) -> Mapping[str, object]:
    """What `--json` prints at the end."""
    return {
        "session": snapshot.session,
        "jobs": [
            {
                "name": job.name,
                "state": job.state.value,
                "cause": job.cause.value if job.cause else None,
                "attempts": len(job.attempts),
                "exit_code": job.attempt.exit_code if job.attempt else None,
                "why": reason_of(job.why, job.cause, snapshot.t) if job.why else "",
            }
            for job in snapshot.jobs
        ],
    }


def finish(
    snapshot: Snapshot, *, as_json: bool, chosen: frozenset[str] = frozenset()
) -> int:
    """Print the end of a run and give its exit code.

    `chosen`: the jobs that had to complete; empty: all.
    """
    if as_json:
        print(json.dumps(result(snapshot)), file=sys.stdout)
    else:
        print(summary(snapshot), file=sys.stdout)
    if is_deposed(snapshot):
        say(_taken(snapshot))
        return ExitCode.OWNED
    if in_storm(snapshot) and not snapshot.finished:
        say(_storm(snapshot))
        return ExitCode.GUARD
    if snapshot.engine.stopped and not snapshot.finished:
        say(_told_to_stop(snapshot))
    done = all(
        job.state is JobState.COMPLETED
        for job in snapshot.jobs
        if not chosen or job.name in chosen
    )
    return ExitCode.OK if done else ExitCode.JOBS_NOT_COMPLETED


def _storm(snapshot: Snapshot) -> str:
    """Why it stopped, and how to go on."""
    reason = sentence(snapshot.paused, snapshot.t) if snapshot.paused else ""
    session, place = snapshot.session, place_of(snapshot.engine.directory)
    return (
        f"stopped by the storm breaker: {reason}\n"
        "Without a screen:\n"
        f"  autoexp-sessions resume {session}{place}\n"
        f"  autoexp-run --session {session}{place}"
    )


def _taken(snapshot: Snapshot) -> str:
    session, place = snapshot.session, place_of(snapshot.engine.directory)
    return (
        "another engine has taken this session over, and goes on with it. Watch it:\n"
        f"  autoexp-monitor --session {session}{place}"
    )


def _told_to_stop(snapshot: Snapshot) -> str:
    session, place = snapshot.session, place_of(snapshot.engine.directory)
    return (
        "the engine was told to stop; what runs goes on. Resume with:\n"
        f"  autoexp-monitor --session {session}{place}"
    )


def failed_to_start(snapshot: Snapshot, problem: AutoexpError | None) -> int:
    """Say why no session came into being; nothing was submitted."""
    say(f"error: {problem or snapshot.engine.holding}")
    return problem.exit_code if problem else ExitCode.INTERNAL


def summary(snapshot: Snapshot) -> str:
    """One line of counts, then every job that did not complete with its reason."""
    counts: dict[JobState, int] = {}
    for job in snapshot.jobs:
        counts[job.state] = counts.get(job.state, 0) + 1
    head = ", ".join(f"{n} {state.value.lower()}" for state, n in counts.items())
    before = sum(1 for job in snapshot.jobs if job.done_before)
    head += f" ({before} done before)" if before else ""
    rest = [
        f"  {job.state.value.lower():<10} {clean(job.name)}{_tail(job, snapshot.t)}"
        for job in snapshot.jobs
        if job.state is not JobState.COMPLETED
    ]
    return "\n".join([f"session {snapshot.session}: {head}", *rest])
