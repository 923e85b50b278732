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
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import Ask, ConditionStatus, JobRecord, PendingEffect
from autoexp_tui.model.states import Cause, JobState, Result, Why, why
from autoexp_tui.model.wording import clock_time
from tests.model.builders import job
from tests.support.campaigns import T0, all_done, all_running
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
        self.unanswered = True
        self.answer = answer

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        super().subscribe(listener)
        threading.Thread(target=self._tell).start()

    def _tell(self) -> None:
        self.push(self.snapshot())  # news, but not of the order
        self.push(self.answer)
        self.unanswered = False
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
