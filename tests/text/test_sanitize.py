"""What text from outside may still hold after cleaning."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoexp_tui.text.sanitize import clean

TRICKS = (
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]52;c;never ended",
    "\x1b]0;new title\x1b\\",
    "\x1bkscreen title\x1b\\",
    "\x1b[2J\x1b[H",
    "\x1b[31;1m",
    "\x1b[?1049h",
    "\x1b[",
    "\x1bPq#0;2;0;0;0\x1b\\",
    "\x1b_payload\x9c",
    "\x1b^privacy\x1b\\",
    "\x1bXstart of string",
    "\x1b(0",
    "\x1bc",
    "\x1b",
    "\x9b2J",
    "\x9d0;title\x9c",
    "\x90dcs\x9c",
    "\u202etxt.exe\u202c",
    "\u2066isolated\u2069",
    "\u200b\u200c\u200d\ufeff\u2060",
    "\U000e0041\U000e007f",
    "\b\b\b",
    "\x00\x07\x7f\x85",
    "\udcff\ud800",
    "e" + "\u0301" * 50,
    "\u2028\u2029",
)
PIECES = st.sampled_from((*TRICKS, "plain", "क", "\t", "\n", "\r\n", "x[/red]", "é"))
HOSTILE = st.one_of(
    st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=12).map("".join),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=40),
)


def steers(char: str) -> bool:
    return (unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}) or char in (
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u200b\ufeff"
    )


@given(HOSTILE)
def test_nothing_that_steers_survives(text: str) -> None:
    assert not [char for char in clean(text) if steers(char)]


@given(HOSTILE)
def test_only_tabs_and_newlines_survive_when_lines_are_kept(text: str) -> None:
    shown = clean(text, keep_newlines=True)
    assert {char for char in shown if steers(char)} <= {"\n", "\t"}


@given(HOSTILE, st.booleans(), st.one_of(st.none(), st.integers(0, 30)))
@example("\x1b\x1b[[", False, None)
@example("क\u200d\u200dक" + "\u0301" * 9 + "\u200d" + "\u0301" * 9, False, None)
def test_cleaning_twice_changes_nothing_more(
    text: str, keep_newlines: bool, limit: int | None
) -> None:
    once = clean(text, keep_newlines=keep_newlines, limit=limit)
    assert clean(once, keep_newlines=keep_newlines, limit=limit) == once


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_unchanged(text: str) -> None:
    assert clean(text) == text


@given(HOSTILE, st.integers(0, 40))
def test_a_limit_holds(text: str, limit: int) -> None:
    assert len(clean(text, limit=limit)) <= limit


@given(HOSTILE)
def test_the_result_can_be_encoded(text: str) -> None:
    clean(text).encode("utf-8")


@pytest.mark.parametrize("trick", TRICKS)
def test_text_before_a_trick_stays(trick: str) -> None:
    assert clean("before" + trick).startswith("before")


@pytest.mark.parametrize("trick", TRICKS)
def test_the_next_line_stays_whatever_the_one_before_holds(trick: str) -> None:
    shown = clean(trick + "\nnext line", keep_newlines=True)
    assert shown.endswith("\nnext line")


@pytest.mark.parametrize(
    "text",
    [
        *("x[/red]", "[bold]not markup[/bold]", "Größe 3 µs → ✓ done", "日本語のログ"),
        *("नमस्ते क्‍ष", "می‌خواهم", "👩\u200d🔬 works"),
        *("tiê\u0301ng Viê\u0323t", "C:\\runs\\a b"),
    ],
)
def test_honest_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[31mERROR\x1b[0m: no disk", "ERROR: no disk", id="colour"),
        pytest.param("a\x1b]52;c;ZXZpbA==\x07b", "ab", id="clipboard"),
        pytest.param("a\tb\r\nc\rd\u2028e", "a b c d e", id="line ends"),
        pytest.param("run_\udcff", "run_\ufffd", id="a byte that was no text"),
        pytest.param("e" + "\u0301" * 50, "e" + "\u0301" * 4, id="a pile of marks"),
        pytest.param("pay\u200dpal", "paypal", id="a joiner between latin letters"),
    ],
)
def test_what_is_cleaned_reads(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_kept_line_ends_are_all_newlines() -> None:
    assert clean("a\tb\r\nc\rd\u2028e", keep_newlines=True) == "a\tb\nc\nd\ne"


def test_a_text_that_is_cut_ends_in_an_ellipsis() -> None:
    assert clean("0123456789", limit=5) == "0123…"
    assert clean("01234", limit=5) == "01234"
    assert clean("\x1b[0m" * 5000 + "end", limit=10) == "…"
