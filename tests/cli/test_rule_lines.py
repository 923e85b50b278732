"""What rules decided is told to who watches without a screen."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.cli.headless import Report
from autoexp_tui.events import events
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import why
from tests.support.campaigns import all_running

RUNNING = all_running(4)
NAME = RUNNING.jobs[0].name
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


def told(*snapshots: Snapshot) -> list[str]:
    """What is said behind the first of several looks."""
    lines: list[str] = []
    report = Report(out=lines.append)
    report.show(snapshots[0])
    before = len(lines)
    for snapshot in snapshots[1:]:
        report.show(snapshot)
    return lines[before:]


def test_a_restart_between_two_looks_is_told_with_its_reason() -> None:
    (line,) = told(RUNNING, after(AGAIN))
    assert NAME in line
    assert "runs again as attempt 2: the counter stopped" in line


def test_a_restart_that_is_not_decided_yet_is_not_told() -> None:
    assert told(RUNNING, after(replace(AGAIN, held=True))) == []


def test_a_restart_that_comes_no_more_is_told_with_its_rule() -> None:
    (line,) = told(RUNNING, after(SPENT))
    assert "crashed/0: all 2 attempts are made" in line


def test_an_action_that_fired_as_often_as_it_may_is_told_with_its_rule() -> None:
    often = replace(SPENT, why=why("firings_spent", attempts=1, max=1))
    (line,) = told(RUNNING, after(often))
    assert "crashed/0: it has fired as often as it may (1)" in line


def test_the_same_decision_at_every_line_of_a_log_is_told_once() -> None:
    assert len(told(RUNNING, after(SPENT), after(SPENT, SPENT))) == 1


def test_what_a_rule_logs_as_an_error_is_told_and_a_mere_note_is_not() -> None:
    note = events.MessageLogged(text="saved", job=NAME)
    error = events.MessageLogged(text="disk is bad", level="error", job=NAME)
    (line,) = told(RUNNING, after(note, error))
    assert "error" in line
    assert "disk is bad" in line


def test_what_was_there_at_the_first_look_is_not_told_as_new() -> None:
    assert told(after(AGAIN), after(AGAIN)) == []
