"""The second front end: the same engine without a screen.

Says what changed, a line each, on stderr; ends when no job can move any more. It
proves that nothing of the engine needs the cockpit.
"""

from __future__ import annotations

import json
import queue
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from autoexp_tui.cli.diagnostics import ExitCode, say
from autoexp_tui.cli.job_reasons import (
    SPENT,
    describe_job,
    rule_lines,
    waits_for,
    why_of,
)
from autoexp_tui.cli.leave import go_dark, place_of
from autoexp_tui.conditions.unmet import asks, is_doomed, stuck
from autoexp_tui.engine.session_handle import is_at_rest, is_deposed
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.openness import is_acting
from autoexp_tui.model.snapshot import EngineView, Snapshot
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import ACTIVE, JobState
from autoexp_tui.model.verdicts import Why
from autoexp_tui.model.wording import clock_time, plural, sentence, wakes
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle

Codes: TypeAlias = tuple[str, ...]


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
    engine = snapshot.engine
    if is_at_rest(snapshot) or (engine.stopped and engine.role == "live"):
        return True
    if snapshot.pending or any(job.state in ACTIVE for job in snapshot.jobs):
        return False
    if how.stop_in_storm and in_storm(snapshot):
        return True
    if is_acting(snapshot.jobs, snapshot.pending):
        return False
    still = stuck(snapshot.jobs, with_asks=not how.wait_for_approval)
    return all(job.ended or job.name in still for job in snapshot.jobs)


def in_storm(snapshot: Snapshot) -> bool:
    """Whether the storm breaker has paused the session."""
    return snapshot.paused is not None and snapshot.paused.code == "storm"


# -------------------------------------------------------------------------- report
@dataclass(slots=True)
class Report:
    """Says each change of a job's state once, and what rules decided."""

    quiet: bool = False
    out: Callable[[str], None] = say
    _seen: dict[str, tuple[JobState, int]] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _reasons: dict[str, Codes] = field(default_factory=dict)
    """What each job was said to wait for."""
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
            self._show_job(job, snapshot)
        self._show_reasons(snapshot)
        self._show_warnings(snapshot)
        self._show_queue(snapshot)

    def _show_warnings(self, snapshot: Snapshot) -> None:
        for warning in snapshot.warnings:
            if warning.warning_id not in self._warned:
                self._warned.add(warning.warning_id)
                text = f"{warning.job} {sentence(warning.why, snapshot.now)}"
                self._line(snapshot.now, "!", text, at=warning.raised_at)

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
            self._line(snapshot.now, what, text)

    def _show_queue(self, snapshot: Snapshot) -> None:
        """Each reason once, however many jobs wait for it."""
        waiting: dict[str, list[str]] = {}
        for job, live in zip(snapshot.jobs, snapshot.live, strict=True):
            if job.state is JobState.QUEUED and live and live.queue:
                waiting.setdefault(live.queue.reason, []).append(job.name)
        for reason, names in waiting.items():
            if reason and reason not in self._queued_for:
                self._queued_for.add(reason)
                text = f"{_first_and_more(names)}: {reason}"
                self._line(snapshot.now, "in the queue", text)

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
            self._line(snapshot.now, "resumed", "jobs are submitted again")
        elif not in_storm(snapshot) and before is None:
            self._line(snapshot.now, "paused", sentence(snapshot.paused, snapshot.now))
            self.out(f"  autoexp-sessions resume {_where(snapshot)}")

    def _show_engine(self, snapshot: Snapshot) -> None:
        """Which engine runs what is watched, and what becomes of it."""
        engine = snapshot.engine
        now = (engine.role, engine.owner_alive, engine.epoch, engine.halted_pid)
        before, self._engine = self._engine, now
        if before == now:
            return
        if engine.role == "viewer":
            self._line(snapshot.now, "engine", _describe_owner(engine))
        elif before[0] == "viewer":
            self._line(snapshot.now, "engine", "this process goes on with the session")

    def _show_done(self, snapshot: Snapshot) -> None:
        """What an earlier session has done, in one line however many they are."""
        done = [job for job in snapshot.jobs if job.done_before]
        new = [job for job in done if job.name not in self._done]
        for job in new:
            self._done.add(job.name)
            self._seen[job.name] = (job.state, len(job.attempts))
        if new:
            of = f"{len(new)} of {plural(len(snapshot.jobs), 'job')}"
            self._line(
                snapshot.now, "done before", f"{of}: not run again (--force does)"
            )

    def _show_job(self, job: JobRecord, snapshot: Snapshot) -> None:
        mark = (job.state, len(job.attempts))
        if self._seen.get(job.name) != mark and not _is_unexplained(job):
            self._seen[job.name] = mark
            self._reasons[job.name] = _codes(job)
            if job.state is not JobState.PLANNED and not asks(job):
                text = f"{job.name}{_tail(job, snapshot.now)}"
                self._line(snapshot.now, _word(job), text, at=job.since)
        if asks(job) and job.name not in self._asked:
            self._ask(job, snapshot)

    def _ask(self, job: JobRecord, snapshot: Snapshot) -> None:
        """What a job asks; with the first one, how it is answered."""
        first = not self._asked
        self._asked.add(job.name)
        prompt = f": {job.ask.prompt}" if job.ask and job.ask.prompt else ""
        self._line(snapshot.now, "asks", f"{job.name} waits for approval{prompt}")
        if first:
            self.out(f"  autoexp-sessions approve {_where(snapshot)}")

    def _show_reasons(self, snapshot: Snapshot) -> None:
        """Of jobs that wait for something else than they did: each reason once."""
        others: dict[tuple[str, str], list[str]] = {}
        for job in snapshot.jobs:
            codes = _codes(job)
            if job.name in self._reasons and codes != self._reasons[job.name]:
                self._reasons[job.name] = codes
                text = why_of(job, None, snapshot.now)
                if text and not asks(job):
                    others.setdefault((_word(job), text), []).append(job.name)
        for (word, text), names in others.items():
            self._line(snapshot.now, word, f"{_first_and_more(names)}  {text}")

    def _line(
        self, now: float, what: str, text: str, *, at: float | None = None
    ) -> None:
        """A line about something that happened `at` a moment; None: now."""
        when = clock_time(now if at is None else at, now)
        self.out(f"{when}  {what:<12} {clean(text)}")


def _where(snapshot: Snapshot) -> str:
    """The session as a command names it, with its state directory."""
    return f"{snapshot.session}{place_of(snapshot.engine.directory)}"


def _first_and_more(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def _describe_owner(engine: EngineView) -> str:
    who = f"on host {engine.host}, pid {engine.pid}"
    if engine.halted_pid:
        return f"{who}: is stopped: {wakes(engine.halted_pid)}"
    if engine.owner_alive:
        return f"{who}: runs this session; watching it"
    return f"{who}: {'has left' if engine.stopped else 'is gone'}"


def _word(job: JobRecord) -> str:
    return "cannot start" if is_doomed(job) else job.state.value.lower()


def _codes(job: JobRecord) -> Codes:
    """What a job that has not started waits for; numbers in it may change."""
    if job.state not in (JobState.WAITING, JobState.RETRYING):
        return ()
    whys = (job.why,) if job.why is not None else waits_for(job)
    return tuple(why.code for why in whys)


def _is_unexplained(job: JobRecord) -> bool:
    """Whether nobody has looked yet what a waiting job waits for."""
    return job.state is JobState.WAITING and not _codes(job)


def _tail(job: JobRecord, now: float) -> str:
    text = why_of(job, None, now)
    return f"  {text}" if text else ""


# -------------------------------------------------------------------------- result
def result(snapshot: Snapshot) -> Mapping[str, object]:
    """What `--json` prints at the end."""
    return {
        "session": snapshot.session,
        "jobs": [
            describe_job(job, live, snapshot.now)
            for job, live in zip(snapshot.jobs, snapshot.live, strict=True)
        ],
    }


def finish(
    snapshot: Snapshot, *, as_json: bool, chosen: frozenset[str] = frozenset()
) -> int:
    """Print the end of a run and give its exit code.

    `chosen`: the jobs that had to complete; empty: all.
    """
    if as_json:
        print(json.dumps(result(snapshot)))
    else:
        print(summary(snapshot))
    where = _where(snapshot)
    if is_deposed(snapshot):
        say(
            "another engine has taken this session over, and goes on with it. Watch it:"
        )
        say(f"  autoexp-monitor --session {where}")
        return ExitCode.OWNED
    if in_storm(snapshot) and snapshot.open:
        reason = sentence(snapshot.paused, snapshot.now) if snapshot.paused else ""
        say(f"stopped by the storm breaker: {reason}\nWithout a screen:")
        say(f"  autoexp-sessions resume {where}\n  autoexp-run --session {where}")
        return ExitCode.GUARD
    if snapshot.engine.stopped and snapshot.open:
        say("the engine was told to stop; what runs goes on. Resume with:")
        say(f"  autoexp-monitor --session {where}")
    else:
        _say_left(snapshot, where)
    done = not is_acting(snapshot.jobs, snapshot.pending) and all(
        job.state is JobState.COMPLETED
        for job in snapshot.jobs
        if not chosen or job.name in chosen
    )
    return ExitCode.OK if done else ExitCode.JOBS_NOT_COMPLETED


def _say_left(snapshot: Snapshot, where: str) -> None:
    """What only a person can move, and the commands that go on."""
    held = sum(job.state is JobState.HELD for job in snapshot.jobs)
    doomed = [job for job in snapshot.jobs if is_doomed(job)]
    if asking := sum(map(asks, snapshot.jobs)):
        wait = "waits" if asking == 1 else "wait"
        say(f"{plural(asking, 'job')} {wait} for approval. Answer and resume:")
        say(f"  autoexp-sessions approve {where}\n  autoexp-run --session {where}")
    if doomed:
        say(f"{plural(len(doomed), 'job')} cannot start. Retry what is waited for, or")
        say("waive the condition, or skip the job; then resume:")
        say(f"  autoexp-sessions skip {where} {clean(doomed[0].name)}")
        say(f"  autoexp-run --session {where}")
    if held:
        say(f"{plural(held, 'job')} held. To submit the rest:")
        say(f"  autoexp-run --session {where} --rest")


def failed_to_start(snapshot: Snapshot, problem: AutoexpError | None) -> int:
    """Say why no session came into being; nothing was submitted."""
    say(f"error: {problem or snapshot.engine.holding}")
    return problem.exit_code if problem else ExitCode.INTERNAL


def summary(snapshot: Snapshot) -> str:
    """One line of counts, then every job that did not complete with its reason."""
    counts = Counter(job.state for job in snapshot.jobs)
    head = ", ".join(f"{n} {state.value.lower()}" for state, n in counts.items())
    before = sum(1 for job in snapshot.jobs if job.done_before)
    head += f" ({before} done before)" if before else ""
    rest = [
        f"  {_word(job):<12} {clean(job.name)}{_tail(job, snapshot.now)}"
        for job in snapshot.jobs
        if job.state is not JobState.COMPLETED
    ]
    return "\n".join([f"session {snapshot.session}: {head}", *rest])
