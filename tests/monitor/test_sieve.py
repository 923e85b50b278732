"""Pieces of a log that hold nothing of interest are told, and never others."""

from __future__ import annotations

import re
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.adapters.fast_search import fast_test
from autoexp_tui.core.rule_kinds import LogEvent, MetricPattern
from autoexp_tui.monitor import sieve
from autoexp_tui.monitor.log_rules import Match, Scanner, compile_rules
from autoexp_tui.monitor.metrics import MetricReader, Point
from autoexp_tui.monitor.sieve import MakeTest, Sieve, as_text, by_re, escaped, pieces

ENGINES = pytest.mark.parametrize("make_test", [by_re, fast_test])
LITERALS = [b"FATAL", b"a.b", b"[x]", b"\t|", "größe".encode(), b"50% (of) \\n"]


@ENGINES
@pytest.mark.parametrize("literal", LITERALS)
def test_a_literal_is_let_through_whatever_its_signs_mean(
    make_test: MakeTest, literal: bytes
) -> None:
    one = Sieve([literal, b"nowhere"], make_test)
    data = b"before\n" + literal + b" after\n"
    assert list(one.spans(data, as_text(data))) == [(0, len(data))]
    assert list(one.spans(b"axb\n", "axb\n")) == []


@ENGINES
def test_either_case_is_let_through_where_it_does_not_matter(
    make_test: MakeTest,
) -> None:
    one = Sieve([b"fatal"], make_test, caseless=True)
    assert list(one.spans(b"a Fatal\n", "a Fatal\n")) == [(0, 8)]


@ENGINES
def test_only_the_pieces_around_a_hit_are_let_through(make_test: MakeTest) -> None:
    line = b"x" * 99 + b"\n"
    data = line * 1000 + b"FATAL\n" + line * 1000
    (span,) = Sieve([b"FATAL"], make_test).spans(data, as_text(data))
    assert span[0] <= 100_000 < span[1]
    assert span[1] - span[0] <= 2 * sieve.PIECE


@given(st.binary(max_size=200).map(lambda some: some * 200))
def test_pieces_are_whole_lines_and_together_everything(data: bytes) -> None:
    spans = list(pieces(data, sieve.PIECE))
    assert b"".join(data[a:b] for a, b in spans) == data
    assert all(data[b - 1 : b] == b"\n" for _, b in spans[:-1])


@given(st.text(st.characters(max_codepoint=255), min_size=1))
def test_a_literal_means_itself_to_both_engines(text: str) -> None:
    assert by_re(escaped(text))(text)
    assert fast_test(escaped(text))(text)


def test_a_pattern_that_the_fast_engine_does_not_take_is_tested_all_the_same() -> None:
    assert fast_test("(?<=a)b")("ab")


@ENGINES
@pytest.mark.parametrize("around", [b"info", "größe".encode(), b"\xff\x00", b"\xc3"])
def test_a_literal_in_bytes_is_never_missed(make_test: MakeTest, around: bytes) -> None:
    assert make_test("FATAL")(around + b"FATAL" + around)


@ENGINES
@pytest.mark.parametrize("data", [b"info", "größe".encode(), b""])
def test_bytes_without_a_literal_are_told_where_they_are_utf_8(
    make_test: MakeTest, data: bytes
) -> None:
    assert not make_test("FATAL")(data)


def test_bytes_that_hold_nothing_are_made_no_text() -> None:
    line = "größe █ \n".encode()
    with patch.object(sieve, "as_text", wraps=as_text) as made:
        one = Sieve([b"FATAL"], fast_test)
        made.reset_mock()
        assert list(one.seldom(line * 1000)) == []
        assert not made.called
        assert list(one.seldom(line * 1000 + b"FATAL\n"))


# -------------------------------------------------------------- fast equals naive
RULES = (
    LogEvent(name="fatal", pattern=r"FATAL|Traceback", pattern_type="regex"),
    LogEvent(name="oom", pattern="CUDA out of memory"),
    LogEvent(name="caseless", pattern="(?i)error: (.*)", pattern_type="regex"),
    LogEvent(name="saved", pattern=r"saved (?P<it>\d+)", pattern_type="regex"),
    LogEvent(name="beyond ascii", pattern="größe"),
    LogEvent(name="ends in a digit", pattern=r"\d$", pattern_type="regex"),
)
WORDS = [
    b"FATAL", b"Traceback", b"CUDA out of memory", b"ERROR: x", b"error: \xc3\xb6",
    b"saved 80", b"err\xe2\x84\xaar", b"step 5 loss 2.5", b"info", b"\xff\x00", b"",
    "größe".encode(), "größ".encode(),
    b"iteration 10/ 20 | lm loss: 2.5E+00 |", b"{'loss': 3.0}", b"val loss: nan",
    b"Epoch 3:  45%|\xe2\x96\x88| 450/1000 [00:45<00:55, loss=2.34]",
]  # fmt: skip
ENDS = [b"\n", b"\n", b"\r", b"\r\n"]
TEXTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), max_size=3).map(b" ".join),
        st.sampled_from(ENDS),
    ).map(b"".join),
    max_size=30,
)


def cut_at(lines: list[bytes], cuts: set[int]) -> list[bytes]:
    borders = [0, *sorted(cut for cut in cuts if 0 < cut < len(lines)), len(lines)]
    return [b"".join(lines[a:b]) for a, b in pairwise(borders)]


def naive(data: bytes) -> list[Match]:
    """Each rule's regex on each line."""
    found, place = [], 0
    for line in re.split(rb"(?<=[\r\n])", data):
        text = line.rstrip(b"\r\n").decode("utf-8", "replace")
        for rule in RULES:
            regex = rule.pattern_type == "regex"
            match = re.search(rule.pattern if regex else re.escape(rule.pattern), text)
            if match:
                found.append(Match(rule.name, place, text))
        place += len(line)
    return found


@pytest.fixture(scope="module", autouse=True)
def _small_pieces() -> object:
    """So that short texts have many borders."""
    with patch.multiple(sieve, PIECE=40, BLOCK=90):
        yield


@ENGINES
@given(lines=TEXTS, cuts=st.sets(st.integers(1, 29)))
def test_a_scan_finds_what_each_regex_on_each_line_finds(
    make_test: MakeTest, lines: list[bytes], cuts: set[int]
) -> None:
    scanner = Scanner(compile_rules(RULES), make_test)
    found, place = [], 0
    for chunk in cut_at(lines, cuts):
        found += scanner.scan(chunk, place)
        place += len(chunk)
    assert found == naive(b"".join(lines))


@ENGINES
@given(lines=TEXTS, cuts=st.sets(st.integers(1, 29)), custom=st.booleans())
def test_metrics_are_those_of_each_line_read_alone(
    make_test: MakeTest, lines: list[bytes], cuts: set[int], custom: bool
) -> None:
    patterns = [MetricPattern(name="saved", pattern=r"saved (\d+)")] if custom else []
    whole, single = MetricReader(patterns, make_test), MetricReader(patterns)
    points: list[Point] = []
    alone: list[Point] = []
    place = 0
    for chunk in cut_at(lines, cuts):
        points += whole.feed(chunk, place)
        place += len(chunk)
    place = 0
    for line in lines:
        alone += single.feed(line, place)
        place += len(line)
    assert repr(points) == repr(alone)
