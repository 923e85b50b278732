"""What does not happen in a run, and when a rule over it is due; what is ill about a
loss, and when it is well again; which log lines match which rules."""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import Anomalies, LogEvent
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import CODES, sentence
from autoexp_tui.telemetry.inactivity import (
    LOOK_GAP_SECONDS,
    AnomalyWatch,
    InactivityWatch,
    compile_quiet_rule,
)
from autoexp_tui.telemetry.log_rules import Match, Scanner, compile_rule
from tests.telemetry.cuts import cut

Due = tuple[LogEvent, int, Match]


def rule(name: str, kind: str, pattern: str = "", after: float | None = 60) -> LogEvent:
    return LogEvent(name=name, pattern_type=kind, pattern=pattern, after_seconds=after)  # type: ignore[arg-type]


SILENT, HEART = rule("silent", "inactivity"), rule("heart", "inactivity", "beat")
STEPS, SAMPLES = (
    rule("steps", "progress"),
    rule("samples", "progress", r"samples: (\S+)"),
)


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
        [rule("r", "progress", after=None)], "0 step 10 | 299 due | 300 due r"),
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
    one = watch(SAMPLES)  # what the group says counts
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


QUICK = Anomalies(min_points=3, flat_share=0.1)
TOTAL = 1000
Dots: TypeAlias = list[tuple[int, float]]


def said(dots: Dots, settings: Anomalies = QUICK) -> list[tuple[int, str]]:
    """(step, code) of every finding; a cleared one has a `-`."""
    watch = AnomalyWatch(settings)
    return [
        (step, f"{'-' if finding.cleared else ''}{finding.code}")
        for step, value in dots
        for finding in watch.observe(step, value, TOTAL)
    ]


def flat(begin: int, end: int) -> Dots:
    return [(step, 2.0) for step in range(begin, end, 10)]


def swap_pairs(dots: Dots) -> Dots:
    pairs = zip(dots[1::2], dots[::2], strict=True)
    return [dot for pair in pairs for dot in pair]


def number(*values: float) -> Dots:
    """Values at steps 1, 2, 3 ..."""
    return list(enumerate(values, 1))


@pytest.mark.parametrize(("dots", "found"), [
    ([(n, 10.0 * 0.9 ** (n / 10)) for n in range(0, 500, 10)], []),
    ([(n, -1.0 - n / 100) for n in range(0, 1000, 10)], []),
    *((number(2.0, value, value), [(2, "nan")])
      for value in (math.nan, math.inf, -math.inf)),
    (number(math.nan, 2.0, math.nan), [(1, "nan"), (2, "-nan"), (3, "nan")]),
    ([(9, 2.0), (8, math.nan)], [(8, "nan")]),  # a late line
    # a flat loss clears when it falls; one that falls just enough is none
    ([*flat(0, 150), (150, 1.97)], [(100, "plateau"), (150, "-plateau")]),
    ([(n, 2.0 * 0.985 ** (n / 90)) for n in range(0, 1000, 10)], []),
    # it is measured from the step that a run returns to; late lines begin nothing anew
    ([*flat(0, 160), *flat(50, 160)],
     [(100, "plateau"), (60, "-plateau"), (150, "plateau")]),
    (swap_pairs(flat(0, 300)), [(110, "plateau")]),
    # a loss far above its minimum is found once, and clears half way down
    (number(2.0, 2.0, 2.9, 3.1, 3.2), [(4, "divergence")]),
    (number(2.0, 2.0, 3.1, 2.6, 2.4), [(3, "divergence"), (5, "-divergence")]),
    (number(1.0, 9.0), []),  # few observations
    # a resumed run is measured by itself, from the minimum since its return
    ([*((n, 1.0) for n in range(50)), *((n, 1.6) for n in range(10, 14))], []),
    ([*((n, 1.0) for n in range(100, 104)),
      *((50, 3.0), (51, 3.0), (52, 3.0), (53, 5.0))], [(53, "divergence")]),
])  # fmt: skip
def test_what_is_ill_is_found(dots: Dots, found: list[tuple[int, str]]) -> None:
    assert said(dots) == found


def test_settings_say_what_is_ill() -> None:
    assert said(number(math.nan), Anomalies(min_points=99)) == [(1, "nan")]
    off = Anomalies(nan="off", divergence="off", flat_share=None, min_points=1)
    assert said([*number(math.nan, 2.0, 9.0), *flat(0, 500)], off) == []


def test_a_flat_loss_of_so_many_steps_needs_no_last_step_and_wins_over_a_share() -> (
    None
):
    watch = AnomalyWatch(Anomalies(min_points=3, flat_share=0.1, flat_steps=50))
    dots = flat(0, 100)
    found = [s for s, v in dots for one in watch.observe(s, v) if one.code == "plateau"]
    assert found == [50]
    assert (50, "plateau") in said(dots, watch.settings)


@given(st.lists(st.tuples(st.integers(0, 300), st.floats()), max_size=60))
def test_findings_alternate_and_can_be_told(dots: Dots) -> None:
    watch = AnomalyWatch(Anomalies(min_points=1, flat_share=0.02))
    active: set[str] = set()
    for step, value in dots:
        for finding in watch.observe(step, value, TOTAL):
            assert (finding.code in active) == finding.cleared
            active ^= {finding.code}
            assert finding.code in CODES
            assert sentence(Why(finding.code, finding.args), 0.0)
            json.dumps(finding.args, allow_nan=False)


def substring(pattern: str, **more: Any) -> LogEvent:
    return LogEvent(**{"name": "r", "pattern": pattern, **more})


def regex(pattern: str, **groups: str) -> LogEvent:
    return substring(pattern, pattern_type="regex", extract_groups=groups)


SAVED = r"saved checkpoint from iteration\s+(?P<it>\d+) to (\S+)"
FOUND: dict[str, tuple[LogEvent, bytes, list[Match]]] = {
    "a text, with its line and place": (
        substring("oom"), b"fine\nan oom kill\n", [Match("r", 105, "an oom kill")]),
    "a text is no regular expression": (substring("o.m"), b"oom\n", []),
    "a group that took no part": (
        regex("a(b)?c", k="1"), b"ac\n", [Match("r", 100, "ac", {})]),
    "once a line": (
        regex("a"), b"aaa\na\n", [Match("r", 100, "aaa"), Match("r", 104, "a")]),
    "each state of a progress bar is a line": (
        regex("^2.%$"), b"10%\r20%\r30%\n", [Match("r", 104, "20%")]),
    "offsets are bytes, and bad UTF-8 is replaced": (
        substring("error"), b"\xff\xfe\xc3\xa4\nrank \xff error\n",
        [Match("r", 105, "rank ? error")]),
    "a last line without its end": (substring("a"), b"b\na", [Match("r", 102, "a")]),
    "groups by name and number": (
        regex(SAVED, step="it", path="2"),
        b"saved checkpoint from iteration    8000 to /o/8\n",
        [Match("r", 100, "saved checkpoint from iteration    8000 to /o/8",
               {"step": "8000", "path": "/o/8"})]),
    "a bounded part of its line": (
        substring("x"), b"x" * 10_000 + b"\n", [Match("r", 100, "x" * 2000)]),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_what_is_found_in_lines_from_byte_100(case: str) -> None:
    rule, text, matches = FOUND[case]
    assert Scanner([compile_rule(rule)]).scan(text, 100) == matches


def test_matches_come_in_the_order_of_lines_then_rules() -> None:
    rules = [
        compile_rule(substring(a, name=n)) for n, a in (("two", "b"), ("one", "a"))
    ]
    names = [(one.rule, one.offset) for one in Scanner(rules).scan(b"a\nab\nb\n", 0)]
    assert names == [("one", 0), ("two", 2), ("one", 2), ("two", 5)]


@pytest.mark.parametrize(("rule", "problem"), [
    (regex("("), "rule r: '(' does not compile"), (regex("a", k="1"), "no group '1'"),
    (regex("(?P<x>a)", k="y"), "no group 'y'"),
    *((rule, "its pattern is empty") for rule in (substring(""), regex(""))),
])  # fmt: skip
def test_a_rule_that_cannot_work_is_refused(rule: LogEvent, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        compile_rule(rule)


LINES = st.lists(
    st.sampled_from([b"", b"a", b"ab error", b"step 5", b"\xffbad", "größe".encode(),
                     b"10%\r20% error\r30%", b"error\r", b"FATAL: x"]),
    max_size=12,
)  # fmt: skip
RULES = (
    substring("error", name="error"), substring("a", name="once", match_once=True),
    regex(r"FATAL|step (\d)"),
    *(substring(p, name=p, pattern_type="regex") for p in (r"^.$", "(?i)ERR")),
)  # fmt: skip


@given(LINES, st.sets(st.integers(0, 12)), st.integers(0, 1000))
def test_any_chunking_at_line_ends_gives_the_same_matches(
    lines: list[bytes], cuts: set[int], offset: int
) -> None:
    rules = [compile_rule(rule) for rule in RULES]
    ended = [line + b"\n" for line in lines]
    seen: set[str] = set()
    parts: list[Match] = []
    for chunk, place in cut(ended, cuts, offset):
        parts += Scanner(rules).scan(chunk, place, seen)
    assert parts == Scanner(rules).scan(b"".join(ended), offset, set())
