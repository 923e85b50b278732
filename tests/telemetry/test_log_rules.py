"""Which log lines match which rules, and under which names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import LogEvent
from autoexp_tui.telemetry.log_rules import Match, Scanner, compile_rule
from tests.telemetry.cuts import cut


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
