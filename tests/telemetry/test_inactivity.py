"""What does not happen in a run, and when a rule over it is due."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import LogEvent
from autoexp_tui.telemetry.inactivity import (
    LOOK_GAP_SECONDS,
    InactivityWatch,
    QuietPeriod,
    compile_quiet_rule,
)

SILENT = LogEvent(name="silent", pattern_type="inactivity", after_seconds=60.0)
HEART = LogEvent(
    name="heart", pattern="beat", pattern_type="inactivity", after_seconds=60.0
)
STEPS = LogEvent(name="steps", pattern_type="progress", after_seconds=60.0)
SAMPLES = LogEvent(
    name="samples", pattern=r"samples: (\S+)", pattern_type="progress",
    after_seconds=60.0,
)  # fmt: skip


def watch(*rules: LogEvent, afresh: bool = False) -> InactivityWatch:
    compiled = [compile_quiet_rule(rule, 300.0) for rule in rules]
    one = InactivityWatch(compiled, afresh=afresh)
    one.note_look(0.0)
    return one


def due(one: InactivityWatch, now: float) -> list[QuietPeriod]:
    """What is due at `now`, having looked each half minute since the last look."""
    at = one.looked_at or 0.0
    while (at := at + 30.0) < now:
        one.note_look(at)
    one.note_look(now)
    return list(one.find_due())


def names(found: list[QuietPeriod]) -> list[str]:
    return [still.rule.name for still in found]


def test_a_log_without_new_output_is_silent_after_its_time() -> None:
    one = watch(SILENT)
    one.read_lines(b"hello\n", 0, 10.0)
    assert names(due(one, 69.9)) == []
    assert due(one, 70.0) == [QuietPeriod(SILENT, 6, 6, "no new output for 60 s")]


STALLED = LogEvent(name="r", pattern_type="progress")
"""Waits as long as a stall: 300 s here."""
PLAYS = {
    "a run that never says anything is silent": (SILENT, "59 due | 60 due silent"),
    "silence is told once until something is said": (
        SILENT, "60 due silent | 600 due | 601 says hello | 660 due | 661 due silent"),
    "a log that grows is no progress": (
        STEPS,
        "1 step 10 | 20 says noise | 40 says noise | 60 says noise | 70 due steps"),
    "a counter that moves on may stop again": (
        STEPS,
        "1 step 10 | 61 due steps | 100 due | 101 step 11 | 160 due | 161 due steps"),
    "step zero is no movement": (STEPS, "1 step 0 | 600 due"),
    "a rule without a time waits as a stall": (
        STALLED, "0 step 10 | 299 due | 300 due r"),
    "words are no movement": (
        SAMPLES, "1 says samples: 5 | 50 says samples: many | 61 due samples"),
    "nan is no movement": (SAMPLES,
                           "1 says samples: 5 | 50 says samples: nan | 61 due samples"),
    "what is beyond all numbers is no movement": (
        SAMPLES, "1 says samples: 5 | 50 says samples: 1e999 | 61 due samples"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLAYS)
def test_a_rule_is_due_when_its_time_is_over(case: str) -> None:
    rule, script = PLAYS[case]
    one = watch(rule, afresh=True)
    for part in script.split(" | "):
        at, what, *rest = part.split(" ", 2)
        if what == "due":
            assert names(due(one, float(at))) == rest
        elif what == "step":
            one.report_step(int(*rest), float(at), 0)
        else:
            one.read_lines("".join(rest).encode() + b"\n", 0, float(at))


def test_with_a_pattern_other_lines_are_no_sign_of_life() -> None:
    one = watch(HEART)
    one.read_lines(b"beat\nnoise\n", 100, 10.0)
    one.read_lines(b"noise\n", 111, 60.0)
    assert due(one, 70.0) == [
        QuietPeriod(HEART, 101, 100, 'no new line that matches "beat" for 60 s')
    ]


def test_a_counter_that_stopped_stands_still() -> None:
    one = watch(STEPS)
    one.report_step(10, 1.0, 0)
    one.report_step(20, 5.0, 40)
    one.report_step(20, 50.0, 80)
    assert due(one, 65.0) == [QuietPeriod(STEPS, 20, 40, "no step after 20 for 60 s")]


def test_where_a_run_goes_on_from_is_no_movement() -> None:
    one = watch(STEPS)
    one.report_step(8000, 1.0, 0)
    assert due(one, 4000.0) == []


def test_a_pattern_of_its_own_counts_what_the_group_says() -> None:
    one = watch(SAMPLES)
    one.report_step(7, 1.0, 0)
    one.read_lines(b"samples: 1,000\nsamples: 2,500.5\n", 0, 2.0)
    one.read_lines(b"samples: 2,500.5\nloss: 3\n", 32, 50.0)
    assert due(one, 62.0) == [
        QuietPeriod(SAMPLES, 16, 15, "no step after 2500.5 for 60 s")
    ]


def test_a_stall_lasts_until_the_counter_moves() -> None:
    one = watch(afresh=True)
    one.report_step(10, 1.0, 0)
    assert not one.is_stalled(60.0)
    due(one, 61.0)
    assert one.is_stalled(60.0)
    one.looked_at = None
    one.note_look(500.0)
    assert one.is_stalled(60.0)
    one.report_step(11, 501.0, 9)
    assert not one.is_stalled(60.0)


def test_time_in_which_no_look_succeeded_is_no_silence() -> None:
    one = watch(SILENT)
    one.note_look(20.0)
    assert list(one.find_due()) == []  # and no look after it, however late it is


def test_after_a_long_gap_clocks_begin_anew() -> None:
    one = watch(SILENT, STEPS, afresh=True)
    one.report_step(10, 0.0, 0)
    one.note_look(LOOK_GAP_SECONDS + 1)
    assert list(one.find_due()) == []
    assert names(due(one, LOOK_GAP_SECONDS + 61)) == ["silent", "steps"]


def test_a_jump_of_the_clock_makes_nothing_due() -> None:
    one = watch(SILENT)
    one.note_look(50.0)
    one.looked_at = None
    assert list(one.find_due()) == []
    one.note_look(100.0)
    assert list(one.find_due()) == []
    assert names(due(one, 160.0)) == ["silent"]


def test_what_was_told_is_not_told_again_after_a_jump() -> None:
    one = watch(SILENT)
    assert names(due(one, 60.0)) == ["silent"]
    one.looked_at = None
    one.note_look(70.0)
    assert due(one, 400.0) == []


LINES = st.lists(
    st.sampled_from(
        [b"", b"beat", b"samples: 5", b"samples: 6", b"\xffx", b"1\rbeat\r2"]
    ),
    max_size=10,
)


@given(LINES, st.sets(st.integers(0, 10)))
def test_a_quiet_period_has_one_name_however_its_log_is_cut(
    lines: list[bytes], cuts: set[int]
) -> None:
    ended = [line + b"\n" for line in lines]
    whole, parts = watch(SILENT, HEART, SAMPLES), watch(SILENT, HEART, SAMPLES)
    if ended:
        whole.read_lines(b"".join(ended), 0, 1.0)
    offset = 0
    for begin, end in _spans(sorted({0, len(ended), *cuts}), len(ended)):
        chunk = b"".join(ended[begin:end])
        parts.read_lines(chunk, offset, 1.0)
        offset += len(chunk)
    assert due(whole, 99.0) == due(parts, 99.0)


def _spans(cuts: list[int], most: int) -> list[tuple[int, int]]:
    kept = [cut for cut in cuts if cut <= most]
    return [(a, b) for a, b in pairwise(kept) if a < b]
