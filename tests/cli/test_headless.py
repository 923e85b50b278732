"""What a run without a screen says while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from autoexp_tui.cli.headless import Report, Watching, over, watch
from autoexp_tui.core.snapshot import Snapshot
from autoexp_tui.core.states import Cause, JobState
from autoexp_tui.core.verdicts import why
from autoexp_tui.testing.campaigns import all_done, all_running
from autoexp_tui.testing.scripted_handle import ScriptedHandle, with_job

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
    assert not over(FAILED, Watching())
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
