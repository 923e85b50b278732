"""What does not happen in a run, and when a rule over it is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import LogEvent
from autoexp_tui.telemetry.inactivity import (
    LOOK_GAP_SECONDS,
    InactivityWatch,
    compile_quiet_rule,
)
from autoexp_tui.telemetry.log_rules import Match
from tests.telemetry.cuts import cut

Due = tuple[LogEvent, int, Match]


def rule(name: str, kind: str, pattern: str = "", after: float | None = 60) -> LogEvent:
    return LogEvent(name=name, pattern_type=kind, pattern=pattern, after_seconds=after)  # type: ignore[arg-type]


SILENT, HEART = rule("silent", "inactivity"), rule("heart", "inactivity", "beat")
STEPS, SAMPLES = (
    rule("steps", "progress"),
    rule("samples", "progress", r"samples: (\S+)"),
)
STALLED = rule("r", "progress", after=None)
"""Waits as long as a stall: 300 s here."""


def watch(*rules: LogEvent, afresh: bool = False) -> InactivityWatch:
    compiled = [compile_quiet_rule(rule, 300.0) for rule in rules]
    one = InactivityWatch(compiled, afresh=afresh)
    one.note_look(0.0)
    return one


def due(one: InactivityWatch, now: float) -> list[Due]:
    """What is due at `now`, having looked each half minute since the last look."""
    at = one.looked_at or 0.0
    while (at := at + 30.0) < now:
        one.note_look(at)
    one.note_look(now)
    return list(one.find_due())


def quiet(rule: LogEvent, key: int, offset: int, text: str) -> Due:
    return rule, key, Match(rule.name, offset, text)


GAP = LOOK_GAP_SECONDS
PLAYS = {
    "a run that never says anything is silent": ([SILENT], "59 due | 60 due silent"),
    "silence is told once until something is said": (
        [SILENT],
        "60 due silent | 600 due | 601 says hello | 660 due | 661 due silent"),
    "a log that grows is no progress": (
        [STEPS],
        "1 step 10 | 20 says noise | 40 says noise | 60 says noise | 70 due steps"),
    "a counter that moves on may stop again": (
        [STEPS],
        "1 step 10 | 61 due steps | 100 due | 101 step 11 | 160 due | 161 due steps"),
    "step zero is no movement": ([STEPS], "1 step 0 | 600 due"),
    "a rule without a time waits as a stall": (
        [STALLED], "0 step 10 | 299 due | 300 due r"),
    **{f"{value} is no movement": (
        [SAMPLES], f"1 says samples: 5 | 50 says samples: {value} | 61 due samples")
       for value in ("many", "nan", "1e999")},
    "after a long gap clocks begin anew": (
        [SILENT, STEPS],
        f"0 step 10 | {GAP + 1} look | {GAP + 60} due | {GAP + 61} due silent steps"),
    "a jump of the clock makes nothing due": (
        [SILENT], "50 look | 51 jump | 100 look | 160 due silent"),
    "what was told is not told again after a jump": (
        [SILENT], "60 due silent | 60 jump | 70 look | 400 due"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLAYS)
def test_a_rule_is_due_when_its_time_is_over(case: str) -> None:
    rules, script = PLAYS[case]
    one = watch(*rules, afresh=True)
    for part in script.split(" | "):
        at, what, *rest = part.split(" ", 2)
        if what == "due":
            names = " ".join(rest).split()
            assert [still.name for still, *_ in due(one, float(at))] == names
        elif what == "step":
            one.report_step(int(*rest), float(at), 0)
        elif what == "says":
            one.read_lines("".join(rest).encode() + b"\n", 0, float(at))
        else:  # a look, or a jump of the clock: nothing is due at once
            one.looked_at = None if what == "jump" else one.looked_at
            if what == "look":
                one.note_look(float(at))
            assert not list(one.find_due())


def test_a_log_without_new_output_is_silent_after_its_time() -> None:
    one = watch(SILENT)
    one.read_lines(b"hello\n", 0, 10.0)
    assert due(one, 69.9) == []
    assert due(one, 70.0) == [quiet(SILENT, 6, 6, "no new output for 60 s")]
    one = watch(HEART)  # with a pattern other lines are no sign of life
    one.read_lines(b"beat\nnoise\n", 100, 10.0)
    one.read_lines(b"noise\n", 111, 60.0)
    text = 'no new line that matches "beat" for 60 s'
    assert due(one, 70.0) == [quiet(HEART, 101, 100, text)]


def test_a_pattern_of_its_own_counts_what_the_group_says() -> None:
    one = watch(SAMPLES)
    one.report_step(7, 1.0, 0)
    one.read_lines(b"samples: 1,000\nsamples: 2,500.5\n", 0, 2.0)
    one.read_lines(b"samples: 2,500.5\nloss: 3\n", 32, 50.0)
    found = quiet(SAMPLES, 16, 15, "no step after 2500.5 for 60 s")
    assert due(one, 62.0) == [found]


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


KINDS = [b"", b"beat", b"samples: 5", b"samples: 6", b"\xffx", b"1\rbeat\r2"]


@given(st.lists(st.sampled_from(KINDS), max_size=10), st.sets(st.integers(0, 10)))
def test_a_quiet_period_has_one_name_however_its_log_is_cut(
    lines: list[bytes], cuts: set[int]
) -> None:
    ended = [line + b"\n" for line in lines]
    whole, parts = watch(SILENT, HEART, SAMPLES), watch(SILENT, HEART, SAMPLES)
    if ended:
        whole.read_lines(b"".join(ended), 0, 1.0)
    for chunk, place in cut(ended, cuts):
        parts.read_lines(chunk, place, 1.0)
    assert due(whole, 99.0) == due(parts, 99.0)
