"""The engine without a screen: what changed is said, a line each, on stderr, until no
job can move any more.

Why a job is where it is, in words for a shell: there are no keys to press.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.cli.diagnostics import (
    ExitCode,
    freeze_garbage,
    handle_signals,
    say,
    wait_until,
)
from autoexp_tui.cli.options import Options, name_session
from autoexp_tui.engine.session_handle import is_at_rest, is_deposed
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.masking import NO_RULES, mask_text
from autoexp_tui.model.policy import find_end, find_failed_policies
from autoexp_tui.model.resubmission import (
    all_unmet,
    asks,
    find_approved,
    is_acting,
    is_doomed,
    list_open_asks,
    stuck,
)
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import ACTIVE, BEGUN, Cause, JobState, Why
from autoexp_tui.model.wording import format_reason, sentence, wakes
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import clock_time, plural

if TYPE_CHECKING:
    import argparse

    from autoexp_tui.engine.handle import EngineHandle

ANSWER_SECONDS = 20.0
"""How long who leaves waits for the answer to the last order."""
_NOT_KNOWN: Final = frozenset({"not_looked"})


def describe_job(job: JobRecord, live: Live | None, now: float) -> dict[str, object]:
    """A job as `--json` tells it in short."""
    return {
        "name": job.name,
        "state": job.state.value,
        "cause": job.cause.value if job.cause else None,
        "attempts": len(job.attempts),
        "exit_code": job.attempt.exit_code if job.attempt else None,
        "why": explain_job(job, live, now),
    }


def explain_job(job: JobRecord, live: Live | None, now: float) -> str:
    """Why a job is where it is, as a sentence; empty when there is nothing to say."""
    queue = live.queue if live is not None else None
    if queue is not None and job.state in BEGUN:
        return queue.reason
    if queue is not None and job.state is JobState.QUEUED:
        place = queue.partition and f"partition {queue.partition}"
        at = queue.expected_at
        when = "" if at is None else f"expected start {clock_time(at, now)}"
        if parts := list(filter(None, (queue.reason, place, when))):
            return f"in the queue: {', '.join(parts)}"
    if job.why is not None:
        return format_reason(job.why, job.cause, now, keys=False)
    return "; ".join(sentence(why, now, keys=False) for why in find_waits(job))


def find_waits(job: JobRecord) -> Sequence[Why]:
    """What a job waits for, as far as it is known: conditions, or its next attempt."""
    if job.why is not None:
        return (job.why,)
    if job.state is JobState.RETRYING and job.retry is not None:
        return (job.retry.why,)
    if job.state is not JobState.WAITING:
        return ()
    found = [status.why for _, _, status in all_unmet(job) if status is not None]
    return [why for why in found if why.code not in _NOT_KNOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How a headless run watches its engine."""

    json: bool = False
    wait_for_approval: bool = True
    quiet: bool = False
    stop_in_storm: bool = True
    """Whether a storm that paused the session ends the watching, once nothing runs."""
    approve: frozenset[str] = frozenset()
    """What `--approve` names: the engine here answers such a question by itself."""


def read_watching(options: Options, args: argparse.Namespace) -> Watching:
    """As a command line asks for it that has `--no-wait` and `--quiet`."""
    return Watching(
        json=options.json,
        wait_for_approval=not args.no_wait,
        quiet=args.quiet,
        approve=options.approve,
    )


def watch(handle: EngineHandle, how: Watching) -> Snapshot:
    """Report until nothing can move any more; the last snapshot; raises
    KeyboardInterrupt."""
    inbox: queue.SimpleQueue[Snapshot | None] = queue.SimpleQueue()  # None: interrupted
    handle.subscribe(inbox.put)
    report = Report(quiet=how.quiet)
    handlers: dict[int, Callable[..., object]] = {
        signal.SIGINT: lambda *_: inbox.put(None),
        signal.SIGTERM: lambda *_: inbox.put(None),
    }
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = lambda *_: release_terminal()
    with handle_signals(handlers):
        newest: Snapshot | None = handle.snapshot()
        while newest is not None:
            report.show(newest)
            # In this order: what answered the last order is in the newest snapshot.
            if not handle.is_unanswered and is_over(last := handle.snapshot(), how):
                report.show(last)
                return last
            newest = inbox.get()
            while newest is not None and not inbox.empty():
                newest = inbox.get()
    raise KeyboardInterrupt


def watch_detached(handle: EngineHandle) -> int:
    """Watch in silence for as long as jobs may move, then close; the exit code."""
    try:
        watch(handle, Watching(quiet=True, stop_in_storm=False))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        handle.close()
    return ExitCode.OK


def follow(
    handle: EngineHandle,
    how: Watching,
    command: str,
    *,
    begin: Callable[[], None] = lambda: None,
    chosen: frozenset[str] = frozenset(),
    tell_end: Callable[[Snapshot], int | None] = lambda _: None,
) -> int:
    """Watch to the end, say how it ended, and give the exit code.

    `begin` is called first. An interrupt releases the session; how `command` goes on is
    said. `chosen`: the jobs that have to complete; empty: all. `tell_end` may say it in
    other words, and give the code; None: as of any session.
    """
    try:
        freeze_garbage()
        begin()
        snapshot = watch(handle, how)
    except KeyboardInterrupt:
        return detach(handle, command)
    handle.close()
    if not snapshot.session:
        return report_no_start(snapshot, getattr(handle, "problem", None))
    code = tell_end(snapshot)
    return finish(snapshot, as_json=how.json, chosen=chosen) if code is None else code


def is_over(snapshot: Snapshot, how: Watching) -> bool:
    """Whether nothing moves any more without a person."""
    if not snapshot.session:
        return bool(snapshot.engine.holding)
    engine = snapshot.engine
    if is_at_rest(snapshot) or (engine.stopped and engine.role == "live"):
        return True
    if snapshot.pending or any(job.state in ACTIVE for job in snapshot.jobs):
        return False
    if how.stop_in_storm and _is_in_storm(snapshot):
        return True
    if is_acting(snapshot.jobs, snapshot.pending):
        return False
    still = stuck(snapshot.jobs, with_asks=not how.wait_for_approval)
    if not all(job.ended or job.name in still for job in snapshot.jobs):
        return False
    if find_failed_policies(snapshot.warnings):
        return True
    end = find_end(snapshot.parts)
    code = end.code if end is not None else None
    if asked := list_open_asks(snapshot.asks):
        if snapshot.engine.role == "live" and find_approved(asked, how.approve):
            return False
        # A policy may pause itself as a storm pauses a session; nobody may be there.
        is_guarded = how.stop_in_storm and code == ExitCode.GUARD
        return not how.wait_for_approval or is_guarded
    if still or not snapshot.open_ends:
        return True
    is_hopeless = code == ExitCode.JOBS_NOT_COMPLETED
    return is_hopeless or (end is not None and not how.wait_for_approval)


def _is_in_storm(snapshot: Snapshot) -> bool:
    return snapshot.paused is not None and snapshot.paused.code == "storm"


@dataclass(slots=True)
class Report:
    """Says each change of a job's state once, and what rules decided."""

    quiet: bool = False
    out: Callable[[str], None] = say
    _said: dict[object, object] = field(default_factory=dict)
    """What was said last, by what it is about."""
    _now: float = 0.0

    def show(self, snapshot: Snapshot) -> None:
        """Report what is new in `snapshot`."""
        if self.quiet:
            return
        self._now = snapshot.now
        self._show_session(snapshot)
        self._show_rules(snapshot)
        self._show_jobs(snapshot)
        self._show_asks(snapshot)
        for warning in snapshot.warnings:
            if self._is_new(("warning", warning.warning_id)):
                text = f"{warning.job} {sentence(warning.why, self._now, keys=False)}"
                self._line("!", text, at=warning.raised_at)

    def _is_new(self, about: object, value: object = "said") -> bool:
        """Whether the value is another than was said last; from now on it is not."""
        before = self._said.get(about)
        self._said[about] = value
        return value != before

    def _line(self, what: str, text: str, *, at: float | None = None) -> None:
        """A line about something that happened `at` a moment; None: now."""
        when = clock_time(self._now if at is None else at, self._now)
        self.out(f"{when}  {what:<12} {clean(text)}")

    def _show_session(self, snapshot: Snapshot) -> None:
        engine, paused = snapshot.engine, snapshot.paused
        if snapshot.session and self._is_new("session", snapshot.session):
            self.out(f"session {snapshot.session}   {engine.directory}")
        was_held = self._said.get("holding")
        if snapshot.session and self._is_new("holding", engine.holding):
            if engine.holding:  # before there is a session that is the end
                self.out(f"holding: {engine.holding}")
            elif was_held:
                self._line("goes on", "the session can be written again")
        if self._is_new("paused", paused):
            if paused is None:
                self._line("resumed", "jobs are submitted again")
            elif not _is_in_storm(snapshot):  # a warning says that
                self._line("paused", sentence(paused, self._now, keys=False))
                self.out(f"  autoexp-sessions resume {name_shown(snapshot)}")
        watches = engine.role == "viewer"
        text = "this process goes on with the session"
        if watches:
            stand = "has left" if engine.stopped else "is gone"
            if engine.owner_alive:
                stand = "runs this session; watching it"
            if engine.halted_pid:
                stand = f"is stopped: {wakes(engine.halted_pid)}"
            text = f"on host {engine.host}, pid {engine.pid}: {stand}"
        is_first = "engine" not in self._said
        if self._is_new("engine", text) and (watches or not is_first):
            self._line("engine", text)

    def _show_rules(self, snapshot: Snapshot) -> None:
        """What an earlier session has done, in one line; then what rules decided since
        the last look, before what became of the jobs."""
        done = sum(job.done_before for job in snapshot.jobs)
        if self._is_new("done", done) and done:
            text = f"{done} of {plural(len(snapshot.jobs), 'job')}"
            self._line("done before", f"{text}: not run again (--force does)")
        from autoexp_tui.events import events

        after = self._said.get("seq")
        self._said["seq"] = snapshot.events[-1].seq if snapshot.events else 0
        if not isinstance(after, int):  # the first look: it was there before
            return
        # A restart is over between two snapshots, and a state that nobody saw tells
        # nobody why a second attempt runs.
        for record in snapshot.events:
            if record.seq <= after:
                continue
            match record.event:
                case events.RetryOrdered(job=name, why=why, held=False):
                    self._line(
                        "again", f"{name}  {sentence(why, record.t, keys=False)}"
                    )
                case events.ActionDropped(job=name, action=action, why=why):
                    text = (
                        f"{name}  rule {action}: {sentence(why, record.t, keys=False)}"
                    )
                    is_spent = why.code in ("attempts_spent", "firings_spent")
                    if is_spent and self._is_new(("not again", text)):
                        self._line("not again", text)
                    elif why.code == "value_refused":
                        self._line("warning", text)
                case events.MessageLogged(level="warning" | "error") as logged:
                    name = f"{logged.job}  " if logged.job else ""
                    self._line(logged.level, f"{name}{logged.text}")
                case event if event.is_progress:
                    self._line(*event.format_headline(record.t))

    def _show_way(self, about: object, snapshot: Snapshot, name: str = "") -> None:
        """How to answer, once."""
        if self._is_new(about):
            which = shlex.quote(clean(name)) if name else ""
            self.out(f"  autoexp-sessions approve {name_shown(snapshot, which)}")

    def _show_asks(self, snapshot: Snapshot) -> None:
        """Questions that are no job's, each with its lines."""
        for name, ask in list_open_asks(snapshot.asks).items():
            if self._is_new(("question", name), ask.digest):
                self._line("asks", f"{name}: {ask.prompt}", at=ask.asked_at)
                for number, text in enumerate(ask.lines, 1):
                    self.out(f"  {number:>3}  {clean(text)}")
                self._show_way(("answer", name), snapshot, name)

    def _show_jobs(self, snapshot: Snapshot) -> None:
        """What became of jobs, a line each; of those that wait each reason once."""
        groups: dict[tuple[str, str], list[str]] = {}
        for job, live in zip(snapshot.jobs, snapshot.live, strict=True):
            if job.done_before or job.state is JobState.PLANNED:
                continue
            if asks(job):
                if self._is_new(("asks", job.name)):
                    prompt = f": {job.ask.prompt}" if job.ask and job.ask.prompt else ""
                    self._line("asks", f"{job.name} waits for approval{prompt}")
                    self._show_way("answer", snapshot)
                continue
            queue = live.queue if live and job.state is JobState.QUEUED else None
            if queue and queue.reason:
                groups.setdefault(("in the queue", queue.reason), []).append(job.name)
            waits = job.state in (JobState.WAITING, JobState.RETRYING)
            codes = tuple(why.code for why in find_waits(job)) if waits else ()
            is_known = codes or job.state is not JobState.WAITING
            mark = (job.state, len(job.attempts), codes)
            if not is_known or not self._is_new(("job", job.name), mark):
                continue
            text = _explain_end(job, snapshot)
            if not waits:
                line = f"{job.name}  {text}".rstrip()
                self._line(_name_state(job), line, at=job.since)
            elif text:
                groups.setdefault((_name_state(job), text), []).append(job.name)
        for (state, text), names in groups.items():
            if state == "in the queue" and not self._is_new(("queue", text)):
                continue
            more = f" and {len(names) - 1} more" if names[1:] else ""
            self._line(state, f"{names[0]}{more}  {text}")


def _explain_end(job: JobRecord, snapshot: Snapshot) -> str:
    """Why a job is where it is; with what its log said last, where its program gave it
    up: what to do about it often stands there."""
    text, attempt = explain_job(job, None, snapshot.now), job.attempt
    if attempt is None or job.cause is not Cause.EXIT_CODE or not attempt.evidence:
        return text
    mask = snapshot.plan.mask if snapshot.plan else NO_RULES
    return f"{text}: {mask_text(attempt.evidence, mask)}"


def _name_state(job: JobRecord) -> str:
    return "cannot start" if is_doomed(job) else job.state.value.lower()


def finish(
    snapshot: Snapshot, *, as_json: bool, chosen: frozenset[str] = frozenset()
) -> int:
    """Print the end of a run and give its exit code.

    `chosen`: the jobs that had to complete; empty: all.
    """
    pairs = zip(snapshot.jobs, snapshot.live, strict=True)
    jobs = [describe_job(job, live, snapshot.now) for job, live in pairs]
    result: dict[str, object] = {"session": snapshot.session, "jobs": jobs}
    if end := find_end(snapshot.parts):
        result["stopped"] = end.reason
    print(json.dumps(result) if as_json else _summarize(snapshot))
    where = name_shown(snapshot)
    own = [part for part in snapshot.parts if part in ("research", "tree")]
    again = f"autoexp-{[*own, 'run'][0]} --session {where}"
    if is_deposed(snapshot):
        say(
            "another engine has taken this session over, and goes on with it. Watch it:"
        )
        say(f"  autoexp-monitor --session {where}")
        return ExitCode.OWNED
    if _is_in_storm(snapshot) and snapshot.open:
        paused = snapshot.paused
        reason = sentence(paused, snapshot.now, keys=False) if paused else ""
        say(f"stopped by the storm breaker: {reason}\nWithout a screen:")
        say(f"  autoexp-sessions resume {where}\n  {again}")
        return ExitCode.GUARD
    if snapshot.engine.stopped and snapshot.open:
        runs = any(job.state in ACTIVE for job in snapshot.jobs)
        goes_on = "; what runs goes on" if runs else ""
        say(f"the engine was told to stop{goes_on}. Resume with:")
        if snapshot.paused:
            say(f"  autoexp-sessions resume {where}")
        say(f"  autoexp-monitor --session {where}")
    else:
        _say_left(snapshot, where, again)
        if end:
            say(clean(end.reason))
            return end.code
    is_left = (
        is_acting(snapshot.jobs, snapshot.pending)
        or snapshot.open_ends
        or list_open_asks(snapshot.asks)
        or find_failed_policies(snapshot.warnings)
    )
    done = not is_left and all(
        job.state is JobState.COMPLETED or job.is_over_as_trial
        for job in snapshot.jobs
        if not chosen or job.name in chosen
    )
    return ExitCode.OK if done else ExitCode.JOBS_NOT_COMPLETED


def _say_left(snapshot: Snapshot, where: str, again: str) -> None:
    if snapshot.open_ends:
        say(clean(f"still open: {', '.join(snapshot.open_ends)}. Go on with:"))
        say(f"  {again}")
    held = sum(job.state is JobState.HELD for job in snapshot.jobs)
    doomed = [job for job in snapshot.jobs if is_doomed(job)]
    asking = sum(map(asks, snapshot.jobs))
    questions = len(list_open_asks(snapshot.asks))
    if asking or questions:
        counts = ((asking, "job"), (questions, "question"))
        who = " and ".join(plural(number, word) for number, word in counts if number)
        wait = "waits" if asking + questions == 1 else "wait"
        say(f"{who} {wait} for approval. Answer and resume:")
        say(f"  autoexp-sessions approve {where}\n  {again}")
    if doomed:
        say(f"{plural(len(doomed), 'job')} cannot start. Retry what is waited for, or")
        say("waive the condition, or skip the job; then resume:")
        say(f"  autoexp-sessions skip {where} {clean(doomed[0].name)}")
        say(f"  {again}")
    if held:
        say(f"{plural(held, 'job')} held. To submit the rest:")
        say(f"  autoexp-run --session {where} --rest")


def report_no_start(snapshot: Snapshot, problem: AutoexpError | None) -> int:
    """Say why no session came into being; nothing was submitted."""
    say(f"error: {problem or snapshot.engine.holding}")
    return problem.exit_code if problem else ExitCode.INTERNAL


def _summarize(snapshot: Snapshot) -> str:
    counts = Counter(job.state for job in snapshot.jobs)
    head = ", ".join(f"{n} {state.value.lower()}" for state, n in counts.items())
    before = sum(1 for job in snapshot.jobs if job.done_before)
    head += f" ({before} done before)" if before else ""
    rest = [
        f"  {_name_state(job):<12} {clean(job.name)}  "
        f"{clean(_explain_end(job, snapshot))}".rstrip()
        for job in snapshot.jobs
        if job.state is not JobState.COMPLETED
    ]
    return "\n".join([f"session {snapshot.session}: {head}", *rest])


def name_shown(snapshot: Snapshot, more: str = "") -> str:
    """The session of a snapshot as a command line names it; `more` words behind it."""
    return name_session(Path(snapshot.engine.directory or snapshot.session), more)


def detach(handle: EngineHandle, command: str) -> int:
    """Say how to go on by `command`, and release the session; the exit code."""
    before = handle.snapshot()
    if before.session:
        say(f"interrupted. {format_farewell(before, command)}")
    with end_at_once():
        handle.close()
    if not before.session:  # one may have come into being meanwhile
        say(f"interrupted. {format_farewell(handle.snapshot(), command)}".rstrip())
    return ExitCode.INTERRUPTED


def format_farewell(snapshot: Snapshot, command: str) -> str:
    """What is said last where no engine is left behind; empty: nothing to say."""
    engine = snapshot.engine
    if engine.role == "replay":
        return ""
    if not snapshot.session:
        return "Nothing was submitted." if snapshot.plan is not None else ""
    again = f"{command} --session {name_shown(snapshot)}"
    if not snapshot.open:
        return f"All jobs have ended. See them again: {again}"
    if engine.role == "viewer" and engine.owner_alive:
        return f"The engine goes on. Come back: {again}"
    return (
        f"What runs goes on; nothing more is submitted until you come back:\n  {again}"
    )


def finish_orders(handle: EngineHandle) -> Snapshot:
    """The state once the engine of this process has told of all that was sent to it.

    Who leaves right behind an order leaves a campaign that goes on, not one at rest.
    Not waited for: an engine that needs more than `ANSWER_SECONDS`, or cannot write: it
    is said that the order may be lost. Ctrl-C ends the waiting.
    """

    def is_answered() -> object:
        return not handle.is_unanswered or handle.snapshot().engine.holding

    with suppress(KeyboardInterrupt):
        wait_until(is_answered, ANSWER_SECONDS)
    snapshot = handle.snapshot()
    if handle.is_unanswered and (problem := snapshot.engine.holding):
        say(f"what you ordered last is not on the disk: {clean(problem)}")
        say("Order it again when there is room; what is not written by now is lost.")
    return snapshot


def end_at_once() -> AbstractContextManager[None]:
    """In this block a further SIGINT or SIGTERM ends the process there and then."""

    def end(*_: object) -> None:
        sys.stderr.flush()
        os._exit(ExitCode.INTERRUPTED)

    return handle_signals({signal.SIGINT: end, signal.SIGTERM: end})


def release_terminal() -> None:
    """Let go of the terminal: descriptors to /dev/null, hang-ups ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if null > 2:
        os.close(null)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    sys.stderr = sys.stdout
