"""Users' patterns: searched in linear time, and meaning what they mean to `re`."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from autoexp_tui.model.rules import LogEvent, MetricPattern
from autoexp_tui.telemetry.log_rules import Scanner, compile_rule
from autoexp_tui.telemetry.metrics import MetricReader, OwnMetrics, compile_metric
from autoexp_tui.text.patterns import (
    MAX_LINE,
    LineSearch,
    PatternRefused,
    compile_line_pattern,
    compile_literal_pattern,
    compile_text_pattern,
    make_readable,
    make_text_readable,
    read_text,
)

KNOWN: Final = yaml.safe_load((Path(__file__).parent / "patterns.yaml").read_text())
"""Patterns of the shipped configs, the documentation and the specs, and lines."""
ROOT: Final = Path(__file__).parents[2]


def test_every_pattern_that_is_shipped_or_documented_is_tried_here() -> None:
    """Those of the configs, the documentation and the specs."""
    written = re.compile(r"""(?m)^[ #-]*pattern: +(".*"|'.*') *$""")
    files = [*(ROOT / "config").rglob("*.yaml"), *(ROOT / "docs").rglob("*.md")]
    files += (ROOT / "tests" / "spec").rglob("*.yaml")
    texts = [text for path in files for text in written.findall(path.read_text())]
    found = set(map(yaml.safe_load, texts))
    assert len(found) > 10
    assert found <= {entry["pattern"] for entry in KNOWN}


@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: entry["pattern"])
def test_a_pattern_in_use_gives_the_groups_that_it_gives_in_python(entry: Any) -> None:
    compiled = compile_line_pattern(entry["pattern"])
    for line in entry["lines"]:
        match = re.search(entry["pattern"], line)
        found = compiled.search(line.encode())
        assert match is not None
        assert found is not None
        numbers = range(match.re.groups + 1)
        texts = [(found[number] or b"").decode() for number in numbers]
        assert texts == [match[number] or "" for number in numbers]
        assert dict(compiled.names) == dict(match.re.groupindex)


PLAIN: Final = r"a b ab ö - . ^ $ \b \A \z \d \w \s \S \D \W \. \x41 \t"
CLASSES: Final = r"[ab] [^a] [a-c1] [\d.] []a] [^]a] [ö-ü] [a[]"
ATOMS = st.sampled_from([" ", *PLAIN.split(), *CLASSES.split()])
TIMES = st.sampled_from(["*", "+", "?", "{2}", "{0}", "{1,}", "+?", "*?"])
REGEXES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda r: f"(?:{'|'.join(r)})"),
        st.tuples(inner, TIMES).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda r: f"(?i:{r})"),
        inner.map(lambda r: f"({r})"),
    ),
    max_leaves=8,
).flatmap(lambda r: st.sampled_from([r, r, f"(?i){r}", f"(?s){r}"]))
LINES = st.lists(st.text("abABcöÖ1.- \t[]", max_size=8), max_size=5)


@given(REGEXES, LINES)
def test_a_pattern_matches_where_python_matches(pattern: str, lines: list[str]) -> None:
    ascii_only = pattern.replace(r"\z", r"\Z")
    compiled = compile_line_pattern(pattern)
    for line in lines:
        assume(line.isascii() or not re.search(r"\\[wWbBdDsS]", pattern))
        match = re.search(ascii_only, line, re.ASCII if "(?i" not in pattern else 0)
        found = compiled.search(line.encode())
        assert (found and found[0]) == (match and match[0].encode())


@given(st.lists(REGEXES, min_size=1, max_size=4), LINES)
def test_many_find_what_one_alone_finds(patterns: list[str], lines: list[str]) -> None:
    compiled = [compile_line_pattern(pattern) for pattern in patterns]
    texts = [line.encode() for line in lines]
    starts = [sum(len(one) + 1 for one in texts[:at]) for at in range(len(texts))]
    text = b"".join(one + b"\n" for one in texts)

    def matched(lines: Iterable[tuple[int, bytes]]) -> set[tuple[int, int]]:
        pairs = itertools.product(lines, enumerate(compiled))
        return {(at, n) for (at, line), (n, one) in pairs if one.search(line)}

    found = ((line.start, line.text) for line in LineSearch(compiled).find(text))
    assert matched(found) == matched(zip(starts, texts, strict=True))


def test_what_a_pattern_may_span() -> None:
    search = LineSearch(list(map(compile_line_pattern, (r"a\s+b", "a[^x]b"))))
    assert list(search.find(b"a\nb\n")) == []
    assert compile_text_pattern(r"a\s+b").search(b"a\nb")
    assert compile_text_pattern("^b$").search(b"a\nb\nc")
    assert not compile_text_pattern(r"\Ab").search(b"a\nb")
    assert compile_literal_pattern("a.c[1]*").search(b"x a.c[1]* y")
    assert not compile_literal_pattern("a.c").search(b"abc")
    error = compile_line_pattern("error")
    lines = LineSearch([error]).find(b"x" * MAX_LINE + b"error\nan error\n")
    assert [one.start for one in lines if error.search(one.text)] == [MAX_LINE + 6]


BAD: Final = b"rank \xff\xfe 3 failed: \xc3\xa4\x80 done\r\n"


def rule_of(pattern: str) -> LogEvent:
    return LogEvent(name="r", pattern=pattern, pattern_type="regex")


def test_bad_bytes_read_alike_everywhere() -> None:
    pattern = r"rank .. (\d) failed: ä. done$"
    rule = replace(rule_of(pattern), extract_groups={"n": "1"})
    (match,) = Scanner([compile_rule(rule)]).scan(BAD, 0)
    assert (match.line, match.metadata) == ("rank ?? 3 failed: ä? done", {"n": "3"})
    metric = compile_metric(MetricPattern(name="n", pattern=pattern))
    (point,) = MetricReader(OwnMetrics([metric])).read(BAD)
    assert point.values == {"n": 3.0}
    assert content_holds(pattern, read_text(BAD))
    data = b"a\xffb\xc3\xa4\r\xe2\x82x\n"
    assert make_readable(data) == "a?bä\n??x\n".encode()
    assert len(make_readable(data)) == len(data)


def content_holds(pattern: str, text: str) -> bool:
    found = compile_text_pattern(pattern).search(make_text_readable(text.encode()))
    return found is not None


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_end_of_a_line_is_none_of_it_whichever_it_is(end: str) -> None:
    text = f"one{end}done{end}two{end}"
    search = LineSearch([compile_line_pattern("^done$")])
    found = [line.text for line in search.find(make_readable(text.encode()))]
    assert found == [b"done"]
    assert content_holds("^done$", text)
    assert content_holds("one\ndone", text)


@pytest.mark.parametrize(("pattern", "problem", "hint"), [
    ("a(?=b)", "looks around itself (`(?=`)", "put what counts into a group"),
    ("(?<!a)b", "looks around itself (`(?<!`)", "put what counts into a group"),
    (r"(a)\1", r"refers back to a group (`\1`)", "write out what may stand there"),
    ("(?P<x>a)(?P=x)", "refers back", "write out"),
    ("(a)(?(1)b)", "refers back", "write out"), ("(?>a+)b", "atomic", "write (?:...)"),
    ("(?x) a b", "has the flag x", "without blanks"),
    ("(?ix) a b", "has the flag x", "without blanks"),
    ("a(?#b)c", "holds a comment", "behind # in the YAML"),
    ("a++b", "possessive", "leave out the second +"),
    ("a{2,}+b", "possessive", "leave out the second +"),
    (r"a\Z", r"has \Z", r"write $ or \z"), ("a{,}", "counts as {,n}", "write {0,n}"),
    (r"\u20ac", r"has \u, \U or \N", r"write \x{20AC}"),
    (r"[\u20ac]", r"has \u, \U or \N", r"write \x{20AC}"),
    (r"a\Cb", r"has \C or \Q", "write . or a backslash"),
    ("a{1001}", "repeats too often", "at most 1000"),
    ("(?:a{100}){100}", "repeats too often", "at most 1000"),
    ("a{,3}", "counts as {,n} (`{,3}`)", "write {0,n}"),
    ("(?P<n>a)(?P<n>b)", "has two groups `n`", "name each group once"),
    ("[[:alpha:]]", "has a class as [:alpha:]", "write a-z"),
    ("[x[:^digit:]]", "has a class as [:alpha:]", "write a-z"),
    ("(?a)x", "has a flag a, u or L", "leave it out"),
    ("(?-m:^a)", "turns the flag m off", r"write \A and \z"),
    ("(", "does not compile: missing ): (", "RE2 regex"),
    (".{0,1000}x", "is too large", "smaller counts"),
    ("\ud800", "no UTF-8 spells", "leave it out"),
])  # fmt: skip
def test_what_re2_lacks_is_refused(
    pattern: str, problem: str, hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PatternRefused) as refused:
        compile_line_pattern(pattern)
    assert problem in refused.value.problem
    assert hint in refused.value.hint
    assert capfd.readouterr() == ("", "")


HOSTILE: Final = [
    (r"(a+)+$", b"a" * 5000 + b"! a" + b"b"), (r"(a+)+b|ERROR", b"a" * 60_000),
    (r"z.*z.*z.*q", b"z" * 60_000), (r"^(\w+\s*)*;$", "é".encode() + b"a" * 60_000),
    (r"[ab]*a[ab]{300}#", bytes(random.Random(1).choices(b"ab", k=60_000))),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "line"), HOSTILE, ids=lambda one: str(one)[:24])
def test_no_text_holds_a_search_up_and_re2_writes_nothing_to_the_terminal(
    pattern: str, line: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    data = (line + b"\n") * (500_000 // len(line))
    begin = time.process_time()
    Scanner([compile_rule(rule_of(pattern))]).scan(data, 0)
    assert time.process_time() - begin < 20  # a backtracking search takes years
    assert capfd.readouterr() == ("", "")


def test_patterns_too_large_together_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoexp_tui.text.patterns._MEMORY_OF_ALL", 1 << 14)
    compiled = [compile_line_pattern(f"x{number}[ab]{{0,50}}y") for number in range(20)]
    lines = list(LineSearch(compiled).find(b"a\nx19aby\nb\n"))
    assert [line.start for line in lines if compiled[19].search(line.text)] == [2]
