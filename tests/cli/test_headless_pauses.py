"""What a run without a screen says of pauses."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.cli.headless import Report
from autoexp_tui.model.states import Why, why
from tests.support.campaigns import campaign

BY_A_SCRIPT = why("paused_by", by="script")


def said(*paused: Why | None) -> list[str]:
    """What is said of pauses, one snapshot after the other."""
    lines: list[str] = []
    report = Report(out=lines.append)
    base = campaign(31)
    base = replace(base, engine=replace(base.engine, directory="/state/k7f2"))
    report.show(base)
    lines.clear()
    for one in paused:
        report.show(replace(base, paused=one))
    return lines


def test_a_pause_is_said_once_with_the_command_that_ends_it() -> None:
    line, command = said(BY_A_SCRIPT, BY_A_SCRIPT)
    assert "submissions are paused by a script" in line
    assert "autoexp-sessions resume" in command


def test_so_is_its_end() -> None:
    assert "jobs are submitted again" in said(BY_A_SCRIPT, None)[-1]


def test_of_a_storm_the_warning_is_enough() -> None:
    assert said(why("storm", count=5)) == []
