"""Colours of the chart: they lie over its text and change nothing of it."""

from __future__ import annotations

import re

from autoexp_tui.model.specs import PlanFinding
from autoexp_tui.planning.chart import chart
from autoexp_tui.planning.chart_paint import painted
from tests.planning.chart_plans import job, plan, ten_jobs

COLOUR = re.compile("\x1b\\[[0-9]+m")


def test_without_its_colours_a_painted_chart_is_the_chart() -> None:
    drawn = chart(ten_jobs(), width=100)
    assert COLOUR.sub("", painted(drawn)) == drawn


def test_the_title_and_the_heads_of_boxes_are_bold() -> None:
    lines = painted(chart(ten_jobs(), width=100)).splitlines()
    assert lines[0].startswith("\x1b[1mexp: 10 jobs")
    assert any(line.startswith("┌─ \x1b[1mSweep\x1b[0m ─") for line in lines)


def test_a_check_that_failed_is_red_by_its_mark_alone() -> None:
    drawn = painted(chart(plan([job("a"), job("a", 1)]), width=100))
    assert "\x1b[31m✗\x1b[0m used more than once" in drawn


def test_a_warning_is_yellow_by_its_mark_alone() -> None:
    warned = plan([job("a")], warnings=(PlanFinding(message="careful"),))
    assert "\x1b[33m!\x1b[0m careful" in painted(chart(warned, width=100))
