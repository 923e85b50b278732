"""What a run without a screen says while it runs."""

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
from autoexp_tui.model.wording import clock_time
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


def new_lines(*, quiet: bool = False) -> list[str]:
    """What is said when one of several running jobs has failed."""
    lines: list[str] = []
    report = Report(out=lines.append, quiet=quiet)
    report.show(RUNNING)
    before = len(lines)
    report.show(FAILED)
    report.show(FAILED)
    return lines[before:]


def test_a_failure_is_told_with_its_reason_while_others_run() -> None:
    (line,) = new_lines()
    assert not is_over(FAILED, Watching())
    assert "failed" in line
    assert NAME in line
    assert "1" in line.partition(NAME)[2]


def test_who_wants_no_lines_gets_none() -> None:
    assert new_lines(quiet=True) == []


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


PLANNING = PendingEffect(
    effect_id="e1",
    effect=PlanJobs(config_ref="more", job="a", action="saved/0"),
    seq=1,
    ordered_utc=1.0,
)


def test_nothing_is_over_while_a_rule_s_plan_is_to_come() -> None:
    acting = replace(all_done(4), open=True, pending=(PLANNING,))
    assert not is_over(acting, Watching())
    assert finish(acting, as_json=False) == ExitCode.JOBS_NOT_COMPLETED
    assert is_over(all_done(4), Watching())
    assert finish(all_done(4), as_json=False) == ExitCode.OK


# ---------------------------------------------------------------------------- reasons
FILE = FileExists(path="/out/a/done.txt", writer="a")
MISSING = why("file_missing", path="/out/a/done.txt")
DOOMED = why("doomed_file", path="/out/a/done.txt", writer="a", state="FAILED")


def waiting(name: str, reason: Why | None, result: Result = Result.WAIT) -> JobRecord:
    status = None
    if reason is not None:
        status = ConditionStatus(result=result, why=reason, since=0.0)
    spec = job(name, start_conditions=(FILE,))
    return JobRecord(spec=spec, state=JobState.WAITING, since=T0, start=(status,))


def asking(name: str = "report") -> JobRecord:
    made = waiting(name, why("asks_you", prompt="Go on?"))
    return replace(
        made, ask=Ask(digest="d1", prompt="Go on?", asked_at=T0, asked_lived=0.0)
    )


def of(*jobs: JobRecord) -> Snapshot:
    return replace(RUNNING, jobs=jobs, live=(None,) * len(jobs), warnings=())


def told(*snapshots: Snapshot) -> list[str]:
    lines: list[str] = []
    report = Report(out=lines.append)
    for one in snapshots:
        report.show(one)
    return [line for line in lines if not line.startswith("session")]


def behind_the_first(*snapshots: Snapshot) -> list[str]:
    """What is said behind the first of several looks."""
    lines: list[str] = []
    report = Report(out=lines.append)
    report.show(snapshots[0])
    before = len(lines)
    for snapshot in snapshots[1:]:
        report.show(snapshot)
    return lines[before:]


def test_that_a_job_waits_is_told_with_its_reason_as_soon_as_that_is_known() -> None:
    (line,) = told(
        of(waiting("b", None)),
        of(waiting("b", why("not_looked"))),
        of(waiting("b", MISSING)),
        of(waiting("b", MISSING)),
    )
    assert "waiting" in line
    assert "b  waits for /out/a/done.txt" in line


def test_a_reason_is_told_again_when_it_changes_and_not_for_its_numbers() -> None:
    older = why("file_missing", path="/out/a/done.txt", newest="iter_1", age=90.0)
    other = why("no_answer", place="/out", since=T0)
    lines = told(*(of(waiting("b", one)) for one in (MISSING, older, other)))
    assert len(lines) == 2
    assert "no answer" in lines[1] or "No answer" in lines[1]


def test_one_new_reason_of_many_jobs_is_one_line() -> None:
    other = why("no_answer", place="/out", since=T0)
    names = ("b", "c", "d")
    lines = told(
        of(*(waiting(name, MISSING) for name in names)),
        of(*(waiting(name, other) for name in names)),
    )
    assert len(lines) == 4
    assert "b and 2 more" in lines[3]


def test_a_job_that_cannot_start_is_told_as_that() -> None:
    (line,) = told(of(waiting("b", DOOMED, Result.FAIL)))
    assert "cannot start" in line
    assert "will not come" in line
    assert "R retries" not in line


def test_what_asks_is_told_once_with_the_command_that_answers() -> None:
    line, command = told(of(asking()), of(asking()))
    assert "asks" in line
    assert "Go on?" in line
    assert "autoexp-sessions approve k7f2" in command


def test_an_old_end_is_told_with_its_own_time() -> None:
    ended = replace(waiting("b", None), state=JobState.CANCELLED, since=T0 - 7 * 3600)
    (line,) = told(of(ended))
    assert line.split()[0] == clock_time(T0 - 7 * 3600)


def test_json_says_why_a_job_waits_for_approval() -> None:
    told_as_json = json.dumps(build_result(of(asking())))
    assert '"why": "waits for your approval: Go on?"' in told_as_json


# ------------------------------------------------------------------------- held for you
def behind(upstream: str) -> JobRecord:
    """A job that waits for another one's end."""
    spec = job(
        "last",
        depends_on=(upstream,),
        start_conditions=(JobStateIs(jobs=(upstream,), state="COMPLETED"),),
    )
    status = ConditionStatus(result=Result.WAIT, why=why("job_not_so"), since=0.0)
    return JobRecord(spec=spec, state=JobState.WAITING, start=(status,))


def test_a_run_ends_when_what_is_left_cannot_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = of(waiting("b", DOOMED, Result.FAIL), behind("b"))
    assert is_over(left, Watching())
    assert finish(left, as_json=True) == ExitCode.JOBS_NOT_COMPLETED
    err = capsys.readouterr().err
    assert "1 job cannot start" in err
    assert "autoexp-run --session k7f2" in err


def test_a_run_ends_when_a_refusal_holds_what_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = why("held_by_refusal", tries=3, seconds=300, message="no such word")
    held = JobRecord(spec=job("b"), state=JobState.HELD, why=refused)
    left = of(held, behind("b"))
    assert is_over(left, Watching())
    assert finish(left, as_json=True) == ExitCode.JOBS_NOT_COMPLETED
    err = capsys.readouterr().err
    assert "1 job held" in err
    assert "autoexp-run --session k7f2" in err


def test_a_run_stays_while_something_else_may_run_or_be_approved() -> None:
    doomed = waiting("b", DOOMED, Result.FAIL)
    assert not is_over(of(doomed, RUNNING.jobs[0]), Watching())
    assert not is_over(of(doomed, asking()), Watching())


def test_who_does_not_wait_for_approvals_ends_with_what_waits_for_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = of(asking(), behind("report"))
    assert not is_over(left, Watching())
    assert is_over(left, Watching(wait_for_approval=False))
    assert finish(left, as_json=True) == ExitCode.JOBS_NOT_COMPLETED
    err = capsys.readouterr().err
    assert "1 job waits for approval" in err
    assert "autoexp-sessions approve k7f2" in err


# ----------------------------------------------------------------------------- pauses
BY_A_SCRIPT = why("paused_by", by="script")


def said_of_pauses(*paused: Why | None) -> list[str]:
    """What is said of pauses, one snapshot after the other."""
    base = campaign(31)
    base = replace(base, engine=replace(base.engine, directory="/state/k7f2"))
    return behind_the_first(base, *(replace(base, paused=one) for one in paused))


def test_a_pause_is_said_once_with_the_command_that_ends_it() -> None:
    line, command = said_of_pauses(BY_A_SCRIPT, BY_A_SCRIPT)
    assert "submissions are paused by a script" in line
    assert "autoexp-sessions resume" in command


def test_so_is_its_end_and_of_a_storm_the_warning_is_enough() -> None:
    assert "jobs are submitted again" in said_of_pauses(BY_A_SCRIPT, None)[-1]
    assert said_of_pauses(why("storm", count=5)) == []


# ------------------------------------------------------------------------------ rules
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


def after(*happened: Event) -> Snapshot:
    """The campaign, once more has happened."""
    first = RUNNING.events[-1].seq + 1 if RUNNING.events else 1
    records = tuple(
        Recorded(seq=first + at, epoch=1, t=RUNNING.t, event_id=f"e{at}", event=event)
        for at, event in enumerate(happened)
    )
    return replace(RUNNING, events=(*RUNNING.events, *records))


def test_a_restart_between_two_looks_is_told_with_its_reason() -> None:
    (line,) = behind_the_first(RUNNING, after(AGAIN))
    assert NAME in line
    assert "runs again as attempt 2: the counter stopped" in line


def test_a_restart_that_is_not_decided_yet_is_not_told() -> None:
    assert behind_the_first(RUNNING, after(replace(AGAIN, held=True))) == []


def test_a_restart_that_comes_no_more_is_told_with_its_rule() -> None:
    (line,) = behind_the_first(RUNNING, after(SPENT))
    assert "crashed/0: all 2 attempts are made" in line


def test_an_action_that_fired_as_often_as_it_may_is_told_with_its_rule() -> None:
    often = replace(SPENT, why=why("firings_spent", attempts=1, max=1))
    (line,) = behind_the_first(RUNNING, after(often))
    assert "crashed/0: it has fired as often as it may (1)" in line


def test_the_same_decision_at_every_line_of_a_log_is_told_once() -> None:
    assert len(behind_the_first(RUNNING, after(SPENT), after(SPENT, SPENT))) == 1


def test_what_a_rule_logs_as_an_error_is_told_and_a_mere_note_is_not() -> None:
    note = events.MessageLogged(text="saved", job=NAME)
    error = events.MessageLogged(text="disk is bad", level="error", job=NAME)
    (line,) = behind_the_first(RUNNING, after(note, error))
    assert "error" in line
    assert "disk is bad" in line


def test_what_was_there_at_the_first_look_is_not_told_as_new() -> None:
    assert behind_the_first(after(AGAIN), after(AGAIN)) == []
