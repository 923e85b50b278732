"""What a run without a screen says while it runs, when it ends, and with which code."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.headless import Report, Watching, finish, is_over, watch
from autoexp_tui.conditions.kinds import FileExists, JobStateIs
from autoexp_tui.effects.effects import PlanJobs
from autoexp_tui.events import events
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import Ask, ConditionStatus, JobRecord, PendingEffect
from autoexp_tui.model.states import Cause, JobState, Result, Why, why
from autoexp_tui.research.events import CallsPaused, CallsResumed
from autoexp_tui.text.spelling import clock_time
from autoexp_tui.tree.events import DepthClosed
from tests.engine.bench import require
from tests.model.builders import job
from tests.support.campaigns import T0, all_done, all_running, campaign
from tests.support.scripted_handle import ScriptedHandle, with_job

RUNNING = all_running(4)
NAME = RUNNING.jobs[0].name
CODE = why("exit_code", code=1)
FAILED = with_job(RUNNING, NAME, state=JobState.FAILED, cause=Cause.EXIT_CODE, why=CODE)
GAVE_UP = replace(
    require(RUNNING.jobs[0].attempt), evidence="No module x, token=hush-hush-1"
)
SAID = with_job(FAILED, NAME, attempts=(GAVE_UP,))
FILE = FileExists(path="/out/a/done.txt", writer="a")
MISSING = why("file_missing", path="/out/a/done.txt")
OLDER = why("file_missing", path="/out/a/done.txt", newest="iter_1", age=90.0)
SILENT = why("no_answer", place="/out", since=T0)
DOOMED = why("doomed_file", path="/out/a/done.txt", writer="a", state="FAILED")
PLAN = PlanJobs(config_ref="more", job="a", action="saved/0")
PLANNING = PendingEffect(effect_id="e1", effect=PLAN, seq=1, ordered_utc=1.0)


def waiting(name: str, reason: Why | None, result: Result = Result.WAIT) -> JobRecord:
    status = ConditionStatus(result=result, why=reason, since=0.0) if reason else None
    spec = job(name, start_conditions=(FILE,))
    return JobRecord(spec=spec, state=JobState.WAITING, since=T0, start=(status,))


def behind(upstream: str) -> JobRecord:
    """A job that waits for another one's end."""
    end = JobStateIs(jobs=(upstream,), state="COMPLETED")
    made = waiting("last", why("job_not_so"))
    spec = job("last", depends_on=(upstream,), start_conditions=(end,))
    return replace(made, spec=spec)


CANNOT_START = waiting("b", DOOMED, Result.FAIL)
ASK = Ask(digest="d1", prompt="Go on?", asked_at=T0, asked_lived=0.0)
ASKING = replace(waiting("report", why("asks_you", prompt="Go on?")), ask=ASK)
NO_WORD = why("held_by_refusal", tries=3, seconds=300, message="no such word")
REFUSED = JobRecord(spec=job("b"), state=JobState.HELD, why=NO_WORD)
OLD = replace(waiting("b", None), state=JobState.CANCELLED, since=T0 - 7 * 3600)


def of(*jobs: JobRecord) -> Snapshot:
    return replace(RUNNING, jobs=jobs, live=(None,) * len(jobs), warnings=())


def of_b(reason: Why | None) -> Snapshot:
    return of(waiting("b", reason))


def of_many(reason: Why) -> Snapshot:
    return of(*(waiting(name, reason) for name in "bcd"))


def after(*happened: Event) -> Snapshot:
    """The campaign, once more has happened."""
    first = RUNNING.events[-1].seq + 1 if RUNNING.events else 1
    records = tuple(
        Recorded(seq=first + at, epoch=1, t=RUNNING.t, event_id=f"e{at}", event=event)
        for at, event in enumerate(happened)
    )
    return replace(RUNNING, events=(*RUNNING.events, *records))


def told(*snapshots: Snapshot, quiet: bool = False) -> list[str]:
    """The lines that the last looks add to the first one's."""
    lines: list[str] = []
    report = Report(out=lines.append, quiet=quiet)
    report.show(snapshots[0])
    before = len(lines) if snapshots[1:] else 0
    for one in snapshots[1:]:
        report.show(one)
    return [line for line in lines[before:] if not line.startswith("session")]


COUNTER = why("retry", reason="the counter stopped", attempt=2)
AGAIN = events.RetryOrdered(
    job=NAME, wait_seconds=0.0, from_checkpoint=True, why=COUNTER
)
ALL_MADE = why("attempts_spent", attempts=2, max=2)
SPENT = events.ActionDropped(
    job=NAME, action="crashed/0", trigger="attempt 2", why=ALL_MADE
)
OFTEN = replace(SPENT, why=why("firings_spent", attempts=1, max=1))
NOTE = events.MessageLogged(text="saved", job=NAME)
ERROR = events.MessageLogged(text="disk is bad", level="error", job=NAME)

AWAY = why("agents_wait", at=T0, problem="the service is away")
NO_CALLS, CALLS = CallsPaused(why=AWAY, resume_at=T0), CallsResumed()
CLOSED = DepthClosed(depth=0, ranking=(), nodes=())

NOT_LOOKED = of_b(why("not_looked"))
BASE = campaign(31)
LOCAL = replace(BASE, engine=replace(BASE.engine, directory="/state/k7f2"))
TOLD_TO_STOP = replace(LOCAL, engine=replace(LOCAL.engine, stopped=True))
PAUSED = replace(LOCAL, paused=why("paused_by", by="script"))
WATCHED = campaign(31, role="viewer")
STOPPED = replace(WATCHED, engine=replace(WATCHED.engine, halted_pid=4711))
HOLDING = replace(LOCAL, engine=replace(LOCAL.engine, holding="disk full"))
STORM = why("storm", count=5, what="in stage stable", job="a", line="no space left")
IN_STORM = replace(LOCAL, paused=STORM)
ALL_MADE_SAID = "crashed/0: all 2 attempts are made"
OFTEN_SAID = "crashed/0: it has fired as often as it may (1)"
CANNOT_SAID = "cannot start b  "
MISSES = "waiting      b  waits for /out/a/done.txt"
HOW_ASKED = ["asks         report waits for approval: Go on?", "approve k7f2"]
HOW_PAUSED = ["submissions are paused by a script", "autoexp-sessions resume"]
WAKES = "is stopped: `fg` in its terminal, or `kill -CONT 4711`"
GOES_ON = [WAKES, "runs this session"]
NEWS = {
    "what cannot start, and no key": (of(), [of(CANNOT_START)], [CANNOT_SAID]),
    "failure, once": (RUNNING, [FAILED, FAILED], [f"failed       {NAME}"]),
    "its last words": (RUNNING, [SAID], ["exit 1: No module x, token=***"]),
    "a known wait": (of_b(None), [NOT_LOOKED, of_b(MISSING), of_b(MISSING)], [MISSES]),
    "no numbers": (of_b(MISSING), [of_b(OLDER), of_b(SILENT)], ["o a"]),
    "a new reason of many": (of_many(MISSING), [of_many(SILENT)], ["b and 2 more"]),
    "what asks, with the command": (of(), [of(ASKING), of(ASKING)], HOW_ASKED),
    "an old end": (of(), [of(OLD)], [clock_time(T0 - 7 * 3600)]),
    "a pause, with the command": (LOCAL, [PAUSED, PAUSED], HOW_PAUSED),
    "the end of a pause": (PAUSED, [LOCAL], ["jobs are submitted again"]),
    "a storm has its warning": (LOCAL, [IN_STORM], []),
    "a restart": (RUNNING, [after(AGAIN)], ["again as attempt 2: the counter stopped"]),
    "one not decided yet": (RUNNING, [after(replace(AGAIN, held=True))], []),
    "no more, once": (RUNNING, [after(SPENT), after(SPENT, SPENT)], [ALL_MADE_SAID]),
    "an action that fires no more": (RUNNING, [after(OFTEN)], [OFTEN_SAID]),
    "an error, and no mere note": (RUNNING, [after(NOTE, ERROR)], ["error"]),
    "a step of a policy": (RUNNING, [after(CLOSED)], ["depth closed 0: none"]),
    "nothing of before": (after(AGAIN), [after(AGAIN)], []),
    "a full disk, and room": (LOCAL, [HOLDING, HOLDING, LOCAL], ["disk full", "goes"]),
    "a pause of agents": (RUNNING, [after(NO_CALLS, CALLS)], ["away", "called again"]),
    "stopped, and goes on": (WATCHED, [STOPPED, STOPPED, WATCHED], GOES_ON),
}


@pytest.mark.parametrize(("first", "then", "words"), NEWS.values(), ids=NEWS)
def test_what_is_new_is_said_once(
    first: Snapshot, then: list[Snapshot], words: list[str]
) -> None:
    lines = told(first, *then)
    assert len(lines) == len(words), lines
    found = zip(words, lines, strict=True)
    assert [word for word, line in found if word not in line] == []
    assert told(first, *then, quiet=True) == []


class Answering(ScriptedHandle):
    """Nothing moves, and an order is under way: its answer comes when it is awaited."""

    def __init__(self, answer: Snapshot) -> None:
        super().__init__(all_done(4))
        self.is_unanswered = True
        self.answer = answer

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        super().subscribe(listener)
        threading.Thread(target=self._tell).start()

    def _tell(self) -> None:
        self.push(self.snapshot())  # news, but not of the order
        self.push(self.answer)
        self.is_unanswered = False
        self.push(self.answer)


def test_who_watches_stays_until_the_last_order_is_answered() -> None:
    answer = replace(all_done(4), t=all_done(4).t + 5.0)
    assert watch(Answering(answer), Watching(quiet=True)).t == answer.t


def paused(reason: Why) -> Snapshot:
    """A campaign of which nothing is outside any more."""
    rest = (
        job if job.ended else replace(job, state=JobState.RETRYING)
        for job in LOCAL.jobs
    )
    return replace(LOCAL, paused=reason, jobs=tuple(rest), pending=())


DONE = all_done(4)
LAST_HELD = replace(DONE.jobs[-1], state=JobState.HELD)
CANARY = replace(DONE, jobs=(*DONE.jobs[:-1], LAST_HELD))
TO_COME = replace(DONE, open=True, pending=(PLANNING,))
WAIT = Watching()
ASKED = replace(DONE, asks={"search/0": ASK})
BY_NAME = Watching(wait_for_approval=False, approve=frozenset({"search"}))


@pytest.mark.parametrize(
    ("snapshot", "how", "over"),
    [
        (FAILED, WAIT, False),
        (TOLD_TO_STOP, WAIT, True),
        (DONE, WAIT, True),
        (TO_COME, WAIT, False),
        (CANARY, WAIT, True),
        (of(CANNOT_START, behind("b")), WAIT, True),
        (of(REFUSED, behind("b")), WAIT, True),
        (of(CANNOT_START, RUNNING.jobs[0]), WAIT, False),
        (of(CANNOT_START, ASKING), WAIT, False),
        (of(ASKING, behind("report")), WAIT, False),
        (of(ASKING, behind("report")), Watching(wait_for_approval=False), True),
        (ASKED, Watching(wait_for_approval=False), True),
        (ASKED, BY_NAME, False),  # the next decision answers it
        (paused(STORM), WAIT, True),
        (replace(all_running(4), paused=STORM), WAIT, False),
        (paused(STORM), Watching(stop_in_storm=False), False),
        (paused(why("paused_by", by="cockpit")), WAIT, False),
    ],
)
def test_a_run_is_over_when_nothing_moves_without_a_person(
    snapshot: Snapshot, how: Watching, over: bool
) -> None:
    assert is_over(snapshot, how) is over


def trials(*states: JobState) -> list[JobRecord]:
    """Jobs that may fail without harm, in these states."""
    pairs = zip(DONE.jobs, states, strict=False)
    return [
        replace(job, state=state, spec=replace(job.spec, trial=True))
        for job, state in pairs
    ]


CHOSEN = tuple(job.name for job in CANARY.jobs[:-1])
RUN = "autoexp-run --session k7f2"
APPROVE = "autoexp-sessions approve k7f2"
MONITOR = "autoexp-monitor --session k7f2"
RESUME = "autoexp-sessions resume k7f2 --state-dir /state"
QUICK = "5 quick failures in a row in stage stable"
WHY_WAITS = '"why": "waits for your approval: Go on?"'
LEFT = ExitCode.JOBS_NOT_COMPLETED


@pytest.mark.parametrize(
    ("snapshot", "chosen", "code", "said"),
    [
        (DONE, (), ExitCode.OK, ()),
        (CANARY, CHOSEN, ExitCode.OK, ()),
        (CANARY, (), LEFT, ()),
        (TO_COME, (), LEFT, ()),
        (of(*trials(JobState.FAILED, JobState.LOST)), (), ExitCode.OK, ()),
        (of(*trials(JobState.HELD)), (), LEFT, ("1 job held", RUN)),
        (of(CANNOT_START, behind("b")), (), LEFT, ("1 job cannot start", RUN)),
        (of(REFUSED, behind("b")), (), LEFT, ("1 job held", RUN)),
        (of(ASKING), (), LEFT, ("1 job waits for approval", APPROVE, WHY_WAITS)),
        (TOLD_TO_STOP, (), LEFT, ("the engine was told to stop", MONITOR)),
        (paused(STORM), (), ExitCode.GUARD, (QUICK, "no space left", RESUME, RUN)),
    ],
)
def test_the_end_has_its_code_and_says_how_to_go_on(
    snapshot: Snapshot,
    chosen: tuple[str, ...],
    code: ExitCode,
    said: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert finish(snapshot, as_json=True, chosen=frozenset(chosen)) == code
    out, err = capsys.readouterr()
    assert json.loads(out)["session"] == snapshot.session
    assert [words for words in said if words not in out + err] == []
