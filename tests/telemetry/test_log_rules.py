"""Which log lines match which rules, and under which names."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import LogEvent, is_for_stage
from autoexp_tui.telemetry.log_rules import Match, Scanner, compile_rule

SAVED = LogEvent(
    name="saved",
    pattern=r"successfully saved checkpoint from iteration\s+(?P<it>\d+) to (\S+)",
    pattern_type="regex",
    extract_groups={"checkpoint_iteration": "it", "checkpoint_path": "2"},
)


def found(rule: LogEvent, text: bytes, offset: int = 0) -> list[Match]:
    return Scanner([compile_rule(rule)]).scan(text, offset)


def substring(pattern: str, **more: bool) -> LogEvent:
    return LogEvent(name="r", pattern=pattern, match_once=more.get("match_once", False))


def regex(pattern: str) -> LogEvent:
    return LogEvent(name="r", pattern=pattern, pattern_type="regex")


OPTIONAL = LogEvent(
    name="r", pattern="a(b)?c", pattern_type="regex", extract_groups={"k": "1"}
)
FOUND: dict[str, tuple[LogEvent, bytes, list[Match]]] = {
    "a text, with its line and place": (substring("oom"), b"fine\nan oom kill\n",
                                        [Match("r", 105, "an oom kill")]),
    "a text is no regular expression": (substring("o.m"), b"oom\n", []),
    "a group that took no part": (OPTIONAL, b"ac\n", [Match("r", 100, "ac", {})]),
    "once a line": (regex("a"), b"aaa\na\n",
                    [Match("r", 100, "aaa"), Match("r", 104, "a")]),
    "each state of a progress bar is a line": (
        regex("^2.%$"), b"10%\r20%\r30%\n", [Match("r", 104, "20%")]),
    "offsets are bytes, and bad UTF-8 is replaced": (
        substring("error"), b"\xff\xfe\xc3\xa4\nrank \xff error\n",
        [Match("r", 105, "rank ? error")]),
    "a last line without its end": (substring("a"), b"b\na", [Match("r", 102, "a")]),
    "groups by name and number": (
        SAVED, b"successfully saved checkpoint from iteration    8000 to /o/8\n",
        [Match("saved", 100,
               "successfully saved checkpoint from iteration    8000 to /o/8",
               {"checkpoint_iteration": "8000", "checkpoint_path": "/o/8"})]),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_what_is_found_in_lines_from_byte_100(case: str) -> None:
    rule, text, matches = FOUND[case]
    assert found(rule, text, 100) == matches


def test_matches_come_in_the_order_of_lines_then_rules() -> None:
    rules = [
        compile_rule(LogEvent(name=name, pattern=pattern))
        for name, pattern in (("two", "b"), ("one", "a"))
    ]
    names = [
        (match.rule, match.offset) for match in Scanner(rules).scan(b"a\nab\nb\n", 0)
    ]
    assert names == [("one", 0), ("two", 2), ("one", 2), ("two", 5)]


def test_a_rule_that_matches_once_is_not_looked_for_again() -> None:
    rules = [compile_rule(substring("a", match_once=True))]
    seen: set[str] = set()
    first = Scanner(rules).scan(b"a\na\n", 0, seen)
    assert (len(first), Scanner(rules).scan(b"a\n", 4, seen), seen) == (1, [], {"r"})


def test_a_match_keeps_a_bounded_part_of_its_line() -> None:
    assert len(found(substring("x"), b"x" * 10_000 + b"\n")[0].line) == 2000


@pytest.mark.parametrize("rule", [substring(""), regex("")])
def test_an_empty_pattern_is_refused(rule: LogEvent) -> None:
    with pytest.raises(ValueError, match="its pattern is empty"):
        compile_rule(rule)


def test_rules_hold_for_their_stages() -> None:
    everywhere = LogEvent(name="all", pattern="a")
    some = LogEvent(name="some", pattern="a", stages=("cooldown",))
    assert is_for_stage(everywhere, "stable")
    assert is_for_stage(some, "cooldown")
    assert not is_for_stage(some, "stable")


@pytest.mark.parametrize(("pattern", "groups", "problem"), [
    ("(", {}, "rule r: '(' does not compile"), ("a", {"k": "1"}, "no group '1'"),
    ("(?P<x>a)", {"k": "y"}, "no group 'y'"),
])  # fmt: skip
def test_a_rule_that_cannot_work_is_refused(
    pattern: str, groups: dict[str, str], problem: str
) -> None:
    rule = LogEvent(
        name="r", pattern=pattern, pattern_type="regex", extract_groups=groups
    )
    with pytest.raises(ValueError, match=re.escape(problem)):
        compile_rule(rule)


LINES = st.lists(
    st.sampled_from([b"", b"a", b"ab error", b"step 5", b"\xffbad", "größe".encode(),
                     b"10%\r20% error\r30%", b"error\r", b"FATAL: x"]),
    max_size=12,
)  # fmt: skip
RULES = (
    LogEvent(name="error", pattern="error"),
    regex(r"FATAL|step (\d)"),
    LogEvent(name="any", pattern=r"^.$", pattern_type="regex"),
    LogEvent(name="case", pattern="(?i)ERR", pattern_type="regex"),
    LogEvent(name="once", pattern="a", match_once=True),
)


@given(LINES, st.sets(st.integers(0, 12)), st.integers(0, 1000))
def test_any_chunking_at_line_ends_gives_the_same_matches(
    lines: list[bytes], cuts: set[int], offset: int
) -> None:
    rules = [compile_rule(rule) for rule in RULES]
    ended = [line + b"\n" for line in lines]
    borders = sorted({0, len(ended), *(cut for cut in cuts if cut < len(ended))})
    seen: set[str] = set()
    parts: list[Match] = []
    place = offset
    for begin, end in pairwise(borders):
        chunk = b"".join(ended[begin:end])
        parts += Scanner(rules).scan(chunk, place, seen)
        place += len(chunk)
    assert parts == Scanner(rules).scan(b"".join(ended), offset, set())
