"""What a run without a screen says while it runs, when it ends, and with which code."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.headless import (
    Report,
    Watching,
    build_result,
    finish,
    is_over,
    watch,
)
from autoexp_tui.conditions.kinds import FileExists, JobStateIs
from autoexp_tui.effects.effects import PlanJobs
from autoexp_tui.events import events
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import Ask, ConditionStatus, JobRecord, PendingEffect
from autoexp_tui.model.states import Cause, JobState, Result, Why, why
from autoexp_tui.text.spelling import clock_time
from tests.model.builders import job
from tests.support.campaigns import T0, all_done, all_running, campaign
from tests.support.scripted_handle import ScriptedHandle, with_job

RUNNING = all_running(4)
NAME = RUNNING.jobs[0].name
FAILED = with_job(
    RUNNING,
    NAME,
    state=JobState.FAILED,
    cause=Cause.EXIT_CODE,
    why=why("exit_code", code=1),
)
FILE = FileExists(path="/out/a/done.txt", writer="a")
MISSING = why("file_missing", path="/out/a/done.txt")
OLDER = why("file_missing", path="/out/a/done.txt", newest="iter_1", age=90.0)
SILENT = why("no_answer", place="/out", since=T0)
DOOMED = why("doomed_file", path="/out/a/done.txt", writer="a", state="FAILED")
PLANNING = PendingEffect(
    effect_id="e1",
    effect=PlanJobs(config_ref="more", job="a", action="saved/0"),
    seq=1,
    ordered_utc=1.0,
)


def waiting(name: str, reason: Why | None, result: Result = Result.WAIT) -> JobRecord:
    status = None
    if reason is not None:
        status = ConditionStatus(result=result, why=reason, since=0.0)
    spec = job(name, start_conditions=(FILE,))
    return JobRecord(spec=spec, state=JobState.WAITING, since=T0, start=(status,))


def behind(upstream: str) -> JobRecord:
    """A job that waits for another one's end."""
    spec = job(
        "last",
        depends_on=(upstream,),
        start_conditions=(JobStateIs(jobs=(upstream,), state="COMPLETED"),),
    )
    status = ConditionStatus(result=Result.WAIT, why=why("job_not_so"), since=0.0)
    return JobRecord(spec=spec, state=JobState.WAITING, start=(status,))


CANNOT_START = waiting("b", DOOMED, Result.FAIL)
ASKING = replace(
    waiting("report", why("asks_you", prompt="Go on?")),
    ask=Ask(digest="d1", prompt="Go on?", asked_at=T0, asked_lived=0.0),
)
REFUSED = JobRecord(
    spec=job("b"),
    state=JobState.HELD,
    why=why("held_by_refusal", tries=3, seconds=300, message="no such word"),
)
OLD = replace(waiting("b", None), state=JobState.CANCELLED, since=T0 - 7 * 3600)


def of(*jobs: JobRecord) -> Snapshot:
    return replace(RUNNING, jobs=jobs, live=(None,) * len(jobs), warnings=())


def after(*happened: Event) -> Snapshot:
    """The campaign, once more has happened."""
    first = RUNNING.events[-1].seq + 1 if RUNNING.events else 1
    records = tuple(
        Recorded(seq=first + at, epoch=1, t=RUNNING.t, event_id=f"e{at}", event=event)
        for at, event in enumerate(happened)
    )
    return replace(RUNNING, events=(*RUNNING.events, *records))


def told(*snapshots: Snapshot, quiet: bool = False) -> list[list[str]]:
    """The lines that each of several looks adds, the session's own apart."""
    lines: list[str] = []
    report, found = Report(out=lines.append, quiet=quiet), []
    for one in snapshots:
        before = len(lines)
        report.show(one)
        new = [line for line in lines[before:] if not line.startswith("session")]
        found.append(new)
    return found


AGAIN = events.RetryOrdered(
    job=NAME,
    wait_seconds=0.0,
    from_checkpoint=True,
    why=why("retry", reason="the counter stopped", attempt=2),
)
SPENT = events.ActionDropped(
    job=NAME,
    action="crashed/0",
    trigger="attempt 2",
    why=why("attempts_spent", attempts=2, max=2),
)
OFTEN = replace(SPENT, why=why("firings_spent", attempts=1, max=1))
NOTE = events.MessageLogged(text="saved", job=NAME)
ERROR = events.MessageLogged(text="disk is bad", level="error", job=NAME)

BASE = campaign(31)
LOCAL = replace(BASE, engine=replace(BASE.engine, directory="/state/k7f2"))
PAUSED = replace(LOCAL, paused=why("paused_by", by="script"))
WATCHED = campaign(31, role="viewer")
STOPPED = replace(WATCHED, engine=replace(WATCHED.engine, halted_pid=4711))
STORM = why("storm", count=5, what="in stage stable", job="a", line="no space left")


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        pytest.param(
            RUNNING, [FAILED, FAILED], [f"failed       {NAME}"], id="failure, once"
        ),
        pytest.param(
            of(waiting("b", None)),
            [
                of(waiting("b", why("not_looked"))),
                of(waiting("b", MISSING)),
                of(waiting("b", MISSING)),
            ],
            ["waiting      b  waits for /out/a/done.txt"],
            id="a wait, once its reason is known",
        ),
        pytest.param(
            of(waiting("b", MISSING)),
            [of(waiting("b", OLDER)), of(waiting("b", SILENT))],
            ["o answer"],
            id="another reason, and not its numbers",
        ),
        pytest.param(
            of(*(waiting(name, MISSING) for name in "bcd")),
            [of(*(waiting(name, SILENT) for name in "bcd"))],
            ["b and 2 more"],
            id="one new reason of many jobs",
        ),
        pytest.param(
            of(),
            [of(ASKING), of(ASKING)],
            ["asks         report waits for approval: Go on?", "approve k7f2"],
            id="what asks, with the command that answers",
        ),
        pytest.param(of(), [of(OLD)], [clock_time(T0 - 7 * 3600)], id="an old end"),
        pytest.param(
            LOCAL,
            [PAUSED, PAUSED],
            ["submissions are paused by a script", "autoexp-sessions resume"],
            id="a pause, with the command that ends it",
        ),
        pytest.param(
            PAUSED, [LOCAL], ["jobs are submitted again"], id="the end of a pause"
        ),
        pytest.param(
            LOCAL,
            [replace(LOCAL, paused=why("storm", count=5))],
            [],
            id="a storm has its warning",
        ),
        pytest.param(
            RUNNING,
            [after(AGAIN)],
            ["runs again as attempt 2: the counter stopped"],
            id="a restart between two looks",
        ),
        pytest.param(
            RUNNING, [after(replace(AGAIN, held=True))], [], id="one not decided yet"
        ),
        pytest.param(
            RUNNING,
            [after(SPENT), after(SPENT, SPENT)],
            ["crashed/0: all 2 attempts are made"],
            id="a restart that comes no more, once",
        ),
        pytest.param(
            RUNNING,
            [after(OFTEN)],
            ["crashed/0: it has fired as often as it may (1)"],
            id="an action that fires no more",
        ),
        pytest.param(
            RUNNING, [after(NOTE, ERROR)], ["error"], id="an error, and no mere note"
        ),
        pytest.param(after(AGAIN), [after(AGAIN)], [], id="nothing of before"),
        pytest.param(
            WATCHED,
            [STOPPED, STOPPED, WATCHED],
            [
                "is stopped: `fg` in its terminal, or `kill -CONT 4711`",
                "runs this session",
            ],
            id="an engine that is stopped, and goes on",
        ),
    ],
)
def test_what_is_new_is_said_once(
    first: Snapshot, then: list[Snapshot], words: list[str]
) -> None:
    lines = [line for look in told(first, *then)[1:] for line in look]
    assert len(lines) == len(words), lines
    assert [
        word for word, line in zip(words, lines, strict=True) if word not in line
    ] == []


def test_a_job_that_cannot_start_is_told_as_that() -> None:
    ((line,),) = told(of(CANNOT_START))
    assert "cannot start" in line
    assert "will not come" in line
    assert "R retries" not in line


def test_who_wants_no_lines_gets_none() -> None:
    assert told(RUNNING, FAILED, quiet=True) == [[], []]


def test_json_says_why_a_job_waits_for_approval() -> None:
    told_as_json = json.dumps(build_result(of(ASKING)))
    assert '"why": "waits for your approval: Go on?"' in told_as_json


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
    rest = tuple(
        job if job.ended else replace(job, state=JobState.RETRYING)
        for job in LOCAL.jobs
    )
    return replace(LOCAL, paused=reason, jobs=rest, pending=())


DONE = all_done(4)
CANARY = replace(
    DONE, jobs=(*DONE.jobs[:-1], replace(DONE.jobs[-1], state=JobState.HELD))
)
NO_WAIT = Watching(wait_for_approval=False)


@pytest.mark.parametrize(
    ("snapshot", "how", "over"),
    [
        (FAILED, Watching(), False),
        (DONE, Watching(), True),
        (replace(DONE, open=True, pending=(PLANNING,)), Watching(), False),
        (CANARY, Watching(), True),
        (of(CANNOT_START, behind("b")), Watching(), True),
        (of(REFUSED, behind("b")), Watching(), True),
        (of(CANNOT_START, RUNNING.jobs[0]), Watching(), False),
        (of(CANNOT_START, ASKING), Watching(), False),
        (of(ASKING, behind("report")), Watching(), False),
        (of(ASKING, behind("report")), NO_WAIT, True),
        (paused(STORM), Watching(), True),
        (replace(all_running(4), paused=STORM), Watching(), False),
        (paused(STORM), Watching(stop_in_storm=False), False),
        (paused(why("paused_by", by="cockpit")), Watching(), False),
    ],
)
def test_a_run_is_over_when_nothing_moves_without_a_person(
    snapshot: Snapshot, how: Watching, over: bool
) -> None:
    assert is_over(snapshot, how) is over


ALL = frozenset[str]()
CHOSEN = frozenset(job.name for job in CANARY.jobs[:-1])


@pytest.mark.parametrize(
    ("snapshot", "chosen", "code", "said"),
    [
        (DONE, ALL, ExitCode.OK, ()),
        (CANARY, CHOSEN, ExitCode.OK, ()),
        (CANARY, ALL, ExitCode.JOBS_NOT_COMPLETED, ()),
        (
            replace(DONE, open=True, pending=(PLANNING,)),
            ALL,
            ExitCode.JOBS_NOT_COMPLETED,
            (),
        ),
        (
            of(CANNOT_START, behind("b")),
            ALL,
            ExitCode.JOBS_NOT_COMPLETED,
            ("1 job cannot start", "autoexp-run --session k7f2"),
        ),
        (
            of(REFUSED, behind("b")),
            ALL,
            ExitCode.JOBS_NOT_COMPLETED,
            ("1 job held", "autoexp-run --session k7f2"),
        ),
        (
            of(ASKING, behind("report")),
            ALL,
            ExitCode.JOBS_NOT_COMPLETED,
            ("1 job waits for approval", "autoexp-sessions approve k7f2"),
        ),
        (
            paused(STORM),
            ALL,
            ExitCode.GUARD,
            (
                "5 quick failures in a row in stage stable",
                "no space left",
                "autoexp-sessions resume k7f2 --state-dir /state",
                "autoexp-run --session k7f2",
            ),
        ),
    ],
)
def test_the_end_has_its_code_and_says_how_to_go_on(
    snapshot: Snapshot,
    chosen: frozenset[str],
    code: ExitCode,
    said: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert finish(snapshot, as_json=True, chosen=chosen) == code
    shown = capsys.readouterr()
    assert json.loads(shown.out)["session"] == snapshot.session
    assert [words for words in said if words not in shown.err] == []
