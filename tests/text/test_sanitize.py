"""What text from outside may still hold after cleaning."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoexp_tui.text.sanitize import clean, escape_hidden

TRICKS = (
    *("\x1b]52;c;ZXZpbA==\x07", "\x1b]52;c;never ended", "\x1b]0;new title\x1b\\"),
    *("\x1bkscreen title\x1b\\", "\x1b[2J\x1b[H", "\x1b[31;1m", "\x1b[?1049h", "\x1b["),
    *("\x1bPq#0;2;0;0;0\x1b\\", "\x1b_payload\x9c", "\x1b^privacy\x1b\\", "\x1b(0"),
    *("\x1bXstart of string", "\x1bc", "\x1b", "\x9b2J", "\x9d0;title\x9c"),
    *("\x90dcs\x9c", "\u202etxt.exe\u202c", "\u2066isolated\u2069", "\b\b\b"),
    *("\u200b\u200c\u200d\ufeff\u2060", "\U000e0041\U000e007f", "\x00\x07\x7f\x85"),
    *("\udcff\ud800", "e" + "\u0301" * 50, "\u2028\u2029"),
)
PIECES = st.sampled_from((*TRICKS, "plain", "क", "\t", "\n", "\r\n", "x[/red]", "é"))
HOSTILE = st.one_of(
    st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=12).map("".join),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=40),
)
MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u200b\ufeff"


@settings(max_examples=150)
@given(HOSTILE, st.booleans(), st.one_of(st.none(), st.integers(0, 40)))
@example("\x1b\x1b[[", False, None)
@example("क\u200d\u200dक" + "\u0301" * 9 + "\u200d" + "\u0301" * 9, False, None)
def test_nothing_that_steers_survives(text: str, keep: bool, limit: int | None) -> None:
    shown = clean(text, keep_newlines=keep, limit=limit)
    steer = {c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}}
    assert steer <= ({"\n", "\t"} if keep else set())
    assert not set(shown) & set(MARKS)
    assert limit is None or len(shown) <= limit
    assert clean(shown, keep_newlines=keep, limit=limit) == shown
    shown.encode("utf-8")


@pytest.mark.parametrize("trick", TRICKS)
def test_text_before_a_trick_and_the_next_line_stay(trick: str) -> None:
    assert clean("before" + trick).startswith("before")
    shown = clean(trick + "\nnext line", keep_newlines=True)
    assert shown.endswith("\nnext line")


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
@example("x[/red][bold]not markup[/bold]")
@example("Größe 3 µs → ✓ done")
@example("日本語のログ")
@example("नमस्ते क्‍ष می‌خواهم 👩\u200d🔬 works")
@example("tiê\u0301ng Viê\u0323t")
def test_honest_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(("text", "shown"), [
    ("\x1b[31mERROR\x1b[0m: no disk", "ERROR: no disk"), ("run_\udcff", "run_\ufffd"),
    ("a\x1b]52;c;ZXZpbA==\x07b", "ab"), ("a\tb\r\nc\rd\u2028e", "a b c d e"),
    ("e" + "\u0301" * 50, "e" + "\u0301" * 4), ("pay\u200dpal", "paypal"),
])  # fmt: skip
def test_what_is_cleaned_reads(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_kept_line_ends_are_newlines_and_a_cut_ends_in_an_ellipsis() -> None:
    assert clean("a\tb\r\nc\rd\u2028e", keep_newlines=True) == "a\tb\nc\nd\ne"
    assert clean("0123456789", limit=5) == "0123…"
    assert clean("01234", limit=5) == "01234"
    assert clean("\x1b[0m" * 5000 + "end", limit=10) == "…"


@given(HOSTILE)
def test_of_code_with_all_that_hides_written_out_nothing_is_left_out(text: str) -> None:
    shown = escape_hidden(text)
    kept = clean(shown, keep_newlines=True)
    left, right = (
        [one for one in some if unicodedata.category(one)[0] != "M"]
        for some in (kept, shown.replace("\r\n", "\n"))
    )
    assert left == right


def test_what_would_hide_in_code_is_written_out() -> None:
    code = 'x = "\x1b]"; evil()\u202e\u200b\r\n\ty\r\u2028é'
    assert escape_hidden(code) == r'x = "\x1b]"; evil()\u202e\u200b' + "\r\n\ty" + (
        r"\r\u2028é"
    )


def test_no_character_that_prints_hides_anything() -> None:
    every = filter(str.isprintable, map(chr, range(sys.maxunicode + 1)))
    assert escape_hidden(shown := "".join(every)) == shown
