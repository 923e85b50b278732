"""Reasons as sentences, and how numbers and times are spelled in them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autoexp_tui
from autoexp_tui.model.states import Cause, Why, why
from autoexp_tui.model.wording import (
    _ENTRY,
    _TEMPLATES,
    CAUSES,
    CODES,
    SHORT_COLUMNS,
    format_reason,
    sentence,
    short,
)
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import (
    clock_time,
    count,
    count_columns,
    duration,
    fit,
    format_float,
    format_number,
    ordinal,
    plural,
    size,
)

NOW = 1_700_000_000.0
"""2023-11-14 22:13:20 UTC."""
SOURCE = Path(autoexp_tui.__file__).parent


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    """`conftest` sets TZ; this makes the C library read it."""
    time.tzset()
    yield
    time.tzset()


@pytest.mark.parametrize(("reason", "expected"), [
    (why("file_missing", path="/o/stable/iter_8000/done.txt", writer="stable lr=1e-3",
         newest="iter_7200", age=40.0, expected=NOW + 600),
     "waits for /o/stable/iter_8000/done.txt of stable lr=1e-3; newest is iter_7200, "
     "40 s ago; expected 22:23"),
    (why("held_by_slots", used=8, slots=8), "ready; waits for a slot"),
    (why("exit_code", code=127, note="command not found: trian"),
     "ended with exit 127: command not found: trian"),
    (why("asks_you", prompt="Promote it?"),
     "waits for your approval: Promote it? A shows what will be done."),
    (why("queued", reason="lower priority", expected=NOW + 86400),
     "queued: lower priority; expected 2023-11-15 22:13"),
    (why("upstream", job="a", state="CANCELLED", cause="user", wanted="COMPLETED"),
     "can never start: a was cancelled (cancelled by a person), it had to be "
     "completed. R retries it, X skips this."),
    (why("in_doubt", message="sbatch timed out", at=NOW, place="slurm"),
     "Slurm may have taken this job: sbatch timed out, 22:13. The queue and the "
     "records are asked for it by name; it is sent again only after both say no."),
    (why("nan", metric="loss", value="nan", step=310, last=2.914),
     "loss is nan since step 310, was 2.914 before"),
    (why("cancelled_by", by="cockpit"), "cancelled by a person. R resubmits."),
    (why("odd_thing", a=1, b="x"), "odd_thing (a=1, b=x)"),  # nobody knows it
    (why("notice", text="[{step}] {0} x[/red]"), "[{step}] {0} x[/red]"),
    (why("notice", text="a\x1b]52;c;x\x07b\n"), "ab "),
])  # fmt: skip
def test_a_reason_reads_as_a_sentence(reason: Why, expected: str) -> None:
    assert sentence(reason, NOW) == expected


@pytest.mark.parametrize(("reason", "expected"), [
    (why("signal", signal="SIGKILL"), "SIGKILL"),
    (why("doomed_file", writer="w", state="LOST"), "its w was lost"),
    (why("stall", seconds=3120), "no step for 52 min"),
    (why("notice", text="x" * 40), "x" * 29 + "…"), (why("odd_thing"), "odd_thing"),
])  # fmt: skip
def test_a_reason_has_a_short_form(reason: Why, expected: str) -> None:
    assert short(reason) == expected


ARGS = st.one_of(
    st.text(max_size=30),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.sampled_from(["FAILED", "out_of_memory", "x[/red]\x1b[2J", "語" * 30]),
)
NAMES = sorted(
    {
        name
        for phrases in CODES.values()
        for name in ("step", "seconds", "at", "path", "job", "state", "value", "by")
        if name in phrases.sentence
    }
    | {"cause", "writer", "reason", "message", "text", "until", "place", "size", "line"}
)


@given(
    st.one_of(st.sampled_from(sorted(CODES)), st.text(max_size=8)),
    st.dictionaries(st.sampled_from(NAMES), ARGS, max_size=6),
)
def test_every_reason_can_be_told_whatever_its_arguments(
    code: str, args: dict[str, str | int | float]
) -> None:
    reason = Why(code, tuple(args.items()))
    told, brief = sentence(reason, NOW), short(reason)
    assert (clean(told), clean(brief)) == (told, brief)
    assert count_columns(brief) <= SHORT_COLUMNS


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_template_uses_known_forms_and_matching_brackets(code: str) -> None:
    phrases = CODES[code]
    inside = (phrases.short + phrases.sentence).split("{")[1:]
    arguments = {part.partition("}")[0].partition(":")[0] for part in inside}
    names = {"count": 1, "seconds": 1.0, "at": NOW, "step": 1, "left": 5}
    text = {name: name for name in arguments if name not in names}
    told = sentence(Why(code, (*names.items(), *text.items())), NOW)
    assert not set("[]{}?") & set(told)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_words_and_a_sentence(cause: Cause) -> None:
    assert cause in CAUSES
    assert cause.value in CODES


RECORDED: Final = re.compile(
    r"""(?<![.\w])(?:why|Why|say_pass|say_wait|say_fail)\(\s*["'](\w*)["']"""
)
"""A code that a module writes into a reason as a literal."""


def test_every_code_that_is_recorded_anywhere_has_words() -> None:
    recorded = {
        (code, path.name)
        for path in SOURCE.rglob("*.py")
        for code in RECORDED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(recorded) > 100
    assert {entry for entry in recorded if entry[0] not in CODES} == set()


SPELLED: Final[dict[Callable[..., str], dict[Any, str]]] = {
    duration: {
        0: "0 s", 40.9: "40 s", 99: "99 s", 100: "1 min", 3120: "52 min",
        6000: "1 h 40", 7200: "2 h", 11520: "3 h 12", 10980: "3 h 03",
        172800: "2 d", 190800: "2 d 5 h", -5: "0 s", math.inf: "?", math.nan: "?",
    },
    count: {
        812: "812", 9999: "9999", 31_200: "31.2k", 60_000: "60k", 999_600: "1M",
        1.5e9: "1.5G", -31_200: "-31.2k", math.nan: "?",
    },
    size: {0: "0 B", 312: "312 B", 1000: "1 kB", 4_100_000: "4.1 MB", 1e13: "10 TB"},
    format_float: {
        1e-4: "1e-4", 2.5e-4: "2.5e-4", 0.01: "0.01", 0.001: "1e-3", 50.0: "50",
        100.0: "100", 123456.789: "123456.789", -2.5: "-2.5", 1e22: "1e22",
        1000.0: "1e3", math.inf: "inf", -0.0: "0",
    },
    format_number: {
        2.9144999: "2.914", 1e-4: "1e-4", 8000.0: "8000", 7: "7", 1e9: "1e9"
    },
    ordinal: {1: "first", 3: "third", 7: "7th", 11: "11th", 22: "22nd", 0: "0th"},
}  # fmt: skip


@pytest.mark.parametrize("spell", SPELLED, ids=lambda spell: spell.__name__)
def test_a_number_is_spelled_for_people(spell: Callable[[float], str]) -> None:
    assert {value: spell(value) for value in SPELLED[spell]} == SPELLED[spell]
    assert (format_float(1000), format_float(1000.0)) == ("1000", "1e3")


def test_a_time_of_day_has_its_date_on_other_days() -> None:
    for now in (None, NOW + 60):
        assert clock_time(NOW, now) == "22:13"
    assert clock_time(NOW, NOW + 86400) == "2023-11-14 22:13"
    assert clock_time(1e300, NOW) == clock_time(math.nan) == "?"


@given(st.floats(allow_nan=False))
def test_a_spelled_float_reads_back_as_itself_and_is_no_longer_than_pythons(
    value: float,
) -> None:
    assert float(format_float(value)) == value
    assert len(format_float(value)) <= len(repr(value))


@given(st.text(max_size=20), st.integers(0, 12))
def test_text_is_cut_to_its_columns(text: str, width: int) -> None:
    assert count_columns(fit(text, width)) <= width
    assert fit("日本語", 5) == "日本…"  # wide characters take two
    assert (plural(1, "job"), plural(0, "job")) == ("1 job", "0 jobs")


def test_what_a_cancel_condition_found_is_told_as_one() -> None:
    line = why("log_matched", line="FATAL ERROR")
    rule = why("cancelled_by_rule", rule="diverged")
    plain, of_rule = sentence(line, NOW), sentence(rule, NOW)
    condition = Cause.CANCEL_CONDITION
    assert format_reason(line, condition, NOW) == f"cancel condition: {plain}"
    assert format_reason(line, None, NOW) == plain
    assert format_reason(line, Cause.UPSTREAM, NOW) == plain
    assert format_reason(rule, condition, NOW) == of_rule


@pytest.mark.parametrize(("reason", "said"), [
    (why("asks_you", prompt="Go. A b."), "waits for your approval: Go. A b."),
    (why("doomed_value", job="a", state="FAILED", key="k"),
     "can never start: a failed and k is not as asked"),
    (why("storm", count=5),
     "submissions are paused: 5 quick failures in a row. Mend what makes them fail"),
    (why("own_failed", what="c", problem="p"),
     "c cannot say: p. It is asked again when something changes"),
    (why("job_waits", job="a"), "waits for a"),
])  # fmt: skip
def test_without_a_cockpit_a_sentence_names_none_of_its_keys(
    reason: Why, said: str
) -> None:
    assert sentence(reason, NOW, keys=False) == said


def test_nothing_of_the_table_of_sentences_is_left_out() -> None:
    assert not re.sub(r"(?m)^#.*$", "", _ENTRY.sub("", _TEMPLATES)).strip()
    assert len(
        " ".join(codes for codes, *_ in _ENTRY.findall(_TEMPLATES)).split()
    ) == len(CODES)
