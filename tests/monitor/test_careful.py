"""A search ends soon, and finds what Python's own finds."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.adapters.fast_search import rust_test
from autoexp_tui.core.rule_kinds import LogEvent, MetricPattern, Monitoring
from autoexp_tui.monitor.careful import (
    UNTESTED_CHARS,
    careful,
    linear_test,
    may_never_end,
    narrowed,
    no_linear,
)
from autoexp_tui.monitor.log_rules import Scanner, compile_rules
from autoexp_tui.monitor.metrics import MetricReader
from autoexp_tui.monitor.quiet import RunWatch, quiet_rules
from autoexp_tui.monitor.sieve import Test

PARTS = st.sampled_from(
    [
        *("a", "b", ".", r"\d", r"\w", r"\s", r"\S", r"\b", "[ab]", "[^a]", "^", "$"),
        *(
            "a+",
            "b*",
            ".*",
            "(a|b)",
            "(?:ab)+",
            "(?P<n>a)?",
            "a{1,2}",
            r"\.",
            r"\[",
            "-",
        ),
    ]
)
PATTERNS = st.lists(PARTS, min_size=1, max_size=6).map("".join)


def is_a_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def says_no(_pattern: str) -> Test | None:
    return lambda _text: False


@given(PATTERNS.filter(is_a_regex), st.text("ab1 .-[_é—", max_size=30))
def test_both_engines_mean_the_same(pattern: str, line: str) -> None:
    plain = re.compile(pattern)
    found = careful(plain, rust_test).search(line)
    expected = plain.search(line)
    assert (found and found.span()) == (expected and expected.span())


HANGS = """
import re
from autoexp_tui.adapters.fast_search import rust_test
from autoexp_tui.monitor.careful import careful
for pattern, line in [(r"(a+)+$", "a" * 60 + "b"), (r"(\\w+\\s*)+;", "é" + "a" * 60),
                      ("z.*z.*q", "z" * 60_000)]:
    assert careful(re.compile(pattern), rust_test).search(line) is None
"""


def test_no_line_holds_a_search_up() -> None:
    # Nothing in this process could end it.
    done = subprocess.run([sys.executable, "-c", HANGS], timeout=30, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(?=a)b",
        "(?<!a)b",
        "(?P<x>a)(?P=x)",
        r"a\Z",
        r"\<a",
        "[a[b]",
        "[a&&b]",
    ],
)
def test_what_engines_spell_otherwise_is_pythons_alone(pattern: str) -> None:
    assert linear_test(pattern, rust_test) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=x)(a+)+$",
        r"(?<!a)(?:\w+\s*)*;",
        r"(\w+)\1(?:(?:a|b+)c)*",
        r"(?=x)(?P<all>(?:a{1,})b)+",
    ],
)
def test_a_search_that_no_linear_engine_does_may_never_end(pattern: str) -> None:
    re.compile(pattern)
    assert may_never_end(pattern, rust_test)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",  # the linear engine is asked first
        r"(?<=step )(\d+)",
        r"(?=x)(?:ab)+",
        r"(?<!a)(a+)?b+",
        r"(?=x)(a+){3}",
        r"(?=x)\(a+\)+",
        r"(?=x)[(a+)]+",
    ],
)
def test_other_searches_end(pattern: str) -> None:
    re.compile(pattern)
    assert not may_never_end(pattern, rust_test)


def test_of_a_line_python_alone_looks_at_the_beginning() -> None:
    one = careful(re.compile("(?!a)b"), no_linear)
    assert one.search("a" * (UNTESTED_CHARS - 1) + "b")
    assert one.search("a" * UNTESTED_CHARS + "b") is None


def test_a_log_event_is_asked_of_the_linear_engine_first() -> None:
    rule = LogEvent(name="r", pattern="ab", pattern_type="regex")
    assert Scanner(compile_rules([rule], says_no)).scan(b"ab\n", 0) == []


def test_a_metric_is_asked_of_the_linear_engine_first() -> None:
    reader = MetricReader([MetricPattern(name="m", pattern="mine (.)")], linear=says_no)
    assert reader.feed(b"mine 1\n") == []


def test_silence_is_asked_of_the_linear_engine_first() -> None:
    rule = LogEvent(name="r", pattern="ab", pattern_type="inactivity", after_seconds=9)
    rules = quiet_rules(Monitoring(log_events=(rule,)), "", says_no)
    assert rules[0].regex is not None
    assert rules[0].regex.search("ab") is None
    assert RunWatch(rules)


@given(PATTERNS.filter(is_a_regex), st.text("ab1 .-\n", max_size=60))
def test_of_a_text_the_lines_of_the_first_match_are_enough(
    pattern: str, text: str
) -> None:
    piece = narrowed(pattern, text, rust_test)
    found = piece is not None and re.search(pattern, piece, re.MULTILINE)
    assert bool(found) == bool(re.search(pattern, text, re.MULTILINE))
