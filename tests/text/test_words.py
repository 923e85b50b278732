"""Small readings of text: near misses, the line of an error, a moment that is typed."""

from __future__ import annotations

import time

import pytest

from autoexp_tui.text.did_you_mean import did_you_mean, find_nearest, find_slip
from autoexp_tui.text.log_lines import find_error_line, find_nan_line
from autoexp_tui.text.spelling import (
    NoMoment,
    duration,
    format_duration,
    parse_duration,
    parse_moment,
)


@pytest.mark.parametrize(("word", "known", "hint"), [
    ("stabble", ["stable", "cooldown"], "did you mean `stable`?"),
    ("x", ["stable", "cooldown"], "stages: stable, cooldown"),
    ("?", [f"k{at}" for at in range(20)], "k11 and 8 more"),
    ("x", [], "there are no stages"),
])  # fmt: skip
def test_a_near_word_is_offered(word: str, known: list[str], hint: str) -> None:
    assert did_you_mean(word, known, "stages").endswith(hint)


def test_among_thousands_of_names_none_is_looked_for() -> None:
    names = [f"job_{at}" for at in range(1001)]
    assert find_nearest("jbo_978", names) is None
    assert find_nearest("jbo_978", names[:-1]) == "job_978"


@pytest.mark.parametrize(("expected", "words"), [
    ("lr", "lrr rl l lx"), ("batch_size", "batch_sze btach_sze bat_size"),
    (None, "xy ba_size lr"),
])  # fmt: skip
def test_a_slip_is_one_edit_or_two(expected: str | None, words: str) -> None:
    found = {word: find_slip(word, ["lr", "batch_size"]) for word in words.split()}
    assert found == dict.fromkeys(words.split(), expected)
    assert find_slip("a", ["b"]) is None


@pytest.mark.parametrize(("tail", "line"), [
    ("Traceback\n  File x\nValueError: bad\nsaved\n", "ValueError: bad"),
    ("one\ntwo\n\n", "two"), ("\x1b[31mFATAL\x1b[0m \x1b]0;x\x07", "FATAL"), ("", ""),
])  # fmt: skip
def test_the_last_line_that_names_an_error_tells_most(tail: str, line: str) -> None:
    assert find_error_line(tail) == line


def test_a_nan_is_shown_by_the_first_line_that_has_it() -> None:
    tail = "step 1 | lm loss: 2.0\nstep 2 | lm loss: nan | x\nstep 3 | lm loss: nan\n"
    assert find_nan_line(tail) == "step 2 | lm loss: nan | x"
    assert find_nan_line("iteration 1 | lm loss: 2.0") == ""


def local(*parts: int) -> float:
    return time.mktime((2026, *parts, *(0,) * (5 - len(parts)), 0, 0, -1))  # type: ignore[arg-type]


BEGIN, END, AT = local(3, 7, 8, 41), local(3, 14, 5), local(3, 10, 19, 9, 43)


@pytest.mark.parametrize(("text", "wanted"), [
    ("14:02", local(3, 10, 14, 2)), (" 14:02:30 ", local(3, 10, 14, 2, 30)),
    ("03-12 14:02", local(3, 12, 14, 2)), ("2026-03-12 14:02", local(3, 12, 14, 2)),
    ("2026-03-12T14:02", local(3, 12, 14, 2)), ("03-12", local(3, 12)),
    ("+2h", AT + 7200), ("-1d", AT - 86400), ("+ 1.5 min", AT + 90),
    ("0%", BEGIN), ("50 %", (BEGIN + END) / 2), ("100%", END),
])  # fmt: skip
def test_a_moment_that_is_typed_is_understood(text: str, wanted: float) -> None:
    assert parse_moment(text, AT, BEGIN, END) == pytest.approx(wanted)


def test_a_time_that_the_shown_day_has_not_is_the_nearest_of_the_journal() -> None:
    assert parse_moment("06:00", BEGIN + 60, BEGIN, END) == local(3, 8, 6)
    assert parse_moment("23:00", END, BEGIN, END) == local(3, 13, 23)


@pytest.mark.parametrize("text", ["", "noon", "25:00", "14:61", "02-30", "+2", "%"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(NoMoment):
        parse_moment(text, AT, BEGIN, END)


@pytest.mark.parametrize(("text", "seconds", "exact"), [
    ("90 s", 90, "90 s"), ("1.5h", 5400, "90 min"), ("2H", 7200, "2 h"),
    ("30min", 1800, "30 min"), ("5 m 1 s", 301, "301 s"), ("1 w", 604800, "7 d"),
    (duration(11520), 11520, "192 min"), (duration(187200), 187200, "52 h"),
    ("0 s", 0, "0 s"), ("0.25 s", 0.25, "0.25 s"),
])  # fmt: skip
def test_a_span_of_time_reads_back_without_rounding(
    text: str, seconds: float, exact: str
) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == exact
    assert parse_duration(exact) == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "5 hours", "-2h", "2h or so", "1e3 s"])
def test_what_is_no_span_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time: 90 s"):
        parse_duration(text)
