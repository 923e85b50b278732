"""A log of any size, and everything that happens to logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.cockpit import logfile
from autoexp_tui.cockpit.logfile import (
    SEARCH_CHUNK,
    Change,
    LogFile,
    compile_errors,
    compile_search,
    decode_line,
)
from autoexp_tui.text.patterns import PatternRefused


def opened(path: Path) -> LogFile:
    file = LogFile(str(path))
    file.poll()
    return file


@contextmanager
def reading_at_most(share: int, path: Path) -> Iterator[None]:
    """Fails where more than a part of the file is read."""
    counts: list[int] = []
    real = os.pread

    def pread(handle: int, number: int, offset: int) -> bytes:
        counts.append(number)
        return real(handle, number, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", pread)
        yield
    assert sum(counts) <= path.stat().st_size // share


def texts(lines: list[logfile.LogLine]) -> list[str]:
    return [line.text for line in lines]


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    path = tmp_path / "long.log"
    path.write_text("".join(f"line {n}\n" for n in range(100_000)))
    return path


# ------------------------------------------------------------------------- reading
@pytest.mark.parametrize(
    ("offset", "lines", "count", "first", "last"),
    [
        (10**9, 0, 3, 99_997, 99_999),
        (10**9, -200_000, 2, 0, 1),
        (1_088_870, -20, 20, 99_978, 99_997),
        (0, 0, 2, 0, 1),
        (500_000, 0, 1, 46_464, 46_464),
        (0, 10**6, 20, 99_980, 99_999),
    ],
    ids=["end", "up to the first", "a page up", "beginning", "middle", "down"],
)
def test_a_page_is_read_around_any_place(
    long_log: Path, offset: int, lines: int, count: int, first: int, last: int
) -> None:
    found = texts(opened(long_log).move(offset, lines, count))
    assert found == [f"line {number}" for number in range(first, last + 1)]


def test_a_file_that_grew_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\n")
    file = opened(path)
    file.last(5)
    with path.open("a") as more:
        more.write("two\nthr")
    assert file.poll() is Change.GREW
    assert texts(file.last(5)) == ["one", "two", "thr"]
    with path.open("a") as more:
        more.write("ee\n")
    file.poll()
    assert texts(file.last(5)) == ["one", "two", "three"]


def test_a_much_larger_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("first\n")
    file = opened(path)
    file.last(5)
    with path.open("a") as more:
        more.write("x" * 99 + "\n")
        more.write(("y" * 99 + "\n") * 60_000)
    file.poll()
    with reading_at_most(10, path):
        assert texts(file.last(1)) == ["y" * 99]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=300).map(lambda b: b.replace(b"\n", b"")), max_size=40)
)
def test_lines_are_those_of_the_file_however_small_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logfile, "CHUNK", 512)
        file = opened(path)
        assert texts(file.last(1000)) == [decode_line(line) for line in lines]
        first = texts(file.at(0, 1000))
        assert first == [decode_line(line) for line in lines]


# -------------------------------------------------------------- what befalls files
def test_a_file_that_comes_later_is_read_and_missed_when_it_goes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "late.log"
    file = LogFile(str(path))
    assert file.poll() is Change.MISSING
    path.touch()
    assert file.poll() is Change.REPLACED
    assert file.last(3) == []
    path.write_text("here\n")
    assert file.poll() is Change.GREW
    assert texts(file.last(3)) == ["here"]
    path.unlink()
    assert file.poll() is Change.MISSING


@pytest.mark.parametrize("how", ["truncated", "rotated", "pointed elsewhere"])
def test_another_file_at_the_place_begins_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.log"
    path.write_text("old\n" * 100)
    file = opened(path)
    file.last(3)
    if how == "rotated":
        path.rename(tmp_path / "a.log.1")
    elif how == "pointed elsewhere":
        path.unlink()
        path.symlink_to("b.log")
    path.write_text("new\n" if how == "truncated" else "and longer\n" * 100 + "new\n")
    assert file.poll() is Change.REPLACED
    assert texts(file.last(1)) == ["new"]
    assert "old" not in texts(file.at(0, 200))


def test_a_file_that_may_not_be_read_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="a directory, not a regular file"):
        opened(tmp_path)


# ---------------------------------------------------------------------------- text
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"10 %\r50 %\r100 %\r\n", "100 %"),
        (b"one\r\n", "one"),
        (b"caf\xe9\n", "caf\ufffd"),
        (b"\x1b[31mred\x1b[0m\x1b]52;c;eA==\x07\x1b[2J", "red"),
        (b"x" * 100_000, "x" * (logfile.SHOWN - 1) + "…"),
    ],
    ids=["a bar", "Windows", "no UTF-8", "sequences", "a long one"],
)
def test_a_line_is_told_as_safe_text(raw: bytes, text: str) -> None:
    assert decode_line(raw) == text


def test_a_line_without_end_is_cut_up(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * (3 * logfile.LONGEST) + b"\nend\n")
    lines = opened(path).last(10)
    assert lines[-1].text == "end"
    assert len(lines) == 4


# ------------------------------------------------------------------ progress bars
def a_bar(states: int, width: int = 70) -> bytes:
    return b"".join(b"\r" + b"step %07d " % n + b"#" * width for n in range(states))


@pytest.mark.parametrize("states", [10, 2_000, 40_000])
def test_a_progress_bar_of_any_length_is_one_line(tmp_path: Path, states: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"before\n" + a_bar(states) + b"\nafter\n")
    found = texts(opened(path).last(10))
    assert len(found) == 3
    assert found[1].startswith(f"step {states - 1:07d} ")


STATE = st.text("abc", min_size=1, max_size=6)
BAR = st.lists(STATE, min_size=1, max_size=12).map(lambda all_: "\r" + "\r".join(all_))
SHORT = st.text("xyz", max_size=7)


@settings(max_examples=80, deadline=None)
@given(st.lists(BAR | SHORT, min_size=2, max_size=6), st.integers(1, 20), st.booleans())
def test_bars_are_one_line_each_however_they_come_and_however_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], piece: int, grows: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    data = ("\n".join(lines) + "\nend").encode()
    with pytest.MonkeyPatch.context() as small:
        small.setattr(logfile, "CHUNK", 16)
        small.setattr(logfile, "LONGEST", 8)
        small.setattr(logfile, "_SEEN", 10)
        path.write_bytes(b"" if grows else data)
        file = opened(path)
        for start in range(0, len(data) if grows else 0, piece):
            with path.open("ab") as more:
                more.write(data[start : start + piece])
            file.poll()
            file.last(99)
        found = texts(file.last(99))
        assert texts(file.at(0, 99)) == found
    assert found == [decode_line(line.encode()) for line in [*lines, "end"]]


def test_text_that_a_later_bar_overwrites_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * (2 * logfile.LONGEST + 10))
    file = opened(path)
    assert len(file.last(10)) == 3
    with path.open("ab") as more:
        more.write(b"\rdone")
    file.poll()
    assert texts(file.last(10)) == ["done"]


def test_a_long_text_after_the_last_return_is_cut_up(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(a_bar(3_000) + b"\r" + b"y" * (2 * logfile.LONGEST) + b"\nend\n")
    found = texts(opened(path).last(10))
    assert len(found) == 3
    assert [set(one) for one in found[:2]] == [{"y", "…"}, {"y", "…"}]


def test_an_endless_bar_is_not_read_to_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "MOST", logfile.CHUNK)
    path = tmp_path / "a.log"
    path.write_bytes(b"before\n" + a_bar(20_000))
    file = opened(path)
    with reading_at_most(4, path):
        assert texts(file.last(5))[-1].startswith("step 0019999 ")


def test_a_search_finds_no_state_that_was_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"step 5\n\rstep 5\rstep 6\nend\n")
    file = opened(path)
    assert file.find(compile_search("step 5"), file.size, forward=False) == 0
    assert file.find(compile_search("step 6"), file.size, forward=False) == 7


# -------------------------------------------------------------------------- search
@pytest.mark.parametrize(
    ("pattern", "forward", "line"),
    [
        (r"line 4711\b", False, "line 4711"),
        ("line 77777", True, "line 77777"),
        ("nowhere", True, None),
    ],
)
def test_a_match_is_found_across_chunks(
    long_log: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    forward: bool,
    line: str | None,
) -> None:
    monkeypatch.setattr(logfile, "SEARCH_CHUNK", 4096)
    file = opened(long_log)
    start = 0 if forward else file.size
    place = file.find(compile_search(pattern), start, forward=forward)
    assert (None if place is None else file.at(place, 1)[0].text) == line


def test_the_next_match_is_not_the_same_one(long_log: Path) -> None:
    file = opened(long_log)
    pattern = compile_search("99$")
    first = file.find(pattern, 0, forward=True)
    assert first is not None
    second = file.find(pattern, first, forward=True)
    assert second is not None
    assert second > first


def test_a_search_can_be_stopped(long_log: Path) -> None:
    file = opened(long_log)
    found = file.find(
        compile_search("line 99999"), 0, forward=True, stopped=lambda: True
    )
    assert found is None


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("Traceback (most recent call last):", True),
        ("RuntimeError: CUDA out of memory", True),
        ("slurmstepd: error: Detected 1 oom_kill event", True),
        ("loss: nan", True),
        ("iteration 80/100 | lm loss: 2.9 | nanobatch 3", False),
    ],
)
def test_what_looks_like_an_error_is_found(line: str, is_error: bool) -> None:
    assert bool(compile_errors().search(line.encode())) is is_error


def test_lower_case_finds_both_cases() -> None:
    assert compile_search("error").search(b"ERROR")
    assert not compile_search("Error").search(b"error")


@pytest.mark.parametrize("text", ["loss (", "(?<=a)b", r"(a)\1", "a{2000}"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(PatternRefused):
        compile_search(text)


@pytest.mark.parametrize("text", ["(a+)+$", "(a+)+b|zzz", r"(?:\w+\s?)+: zzz"])
def test_a_hostile_log_is_searched_in_time_that_grows_with_it(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes((b"a" * 200 + b"! ") * 500)
    assert opened(path).find(compile_search(text), 0, forward=True) is None


def test_the_larger_a_pattern_the_less_is_searched_before_a_search_can_be_stopped(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes((b"x" * 99 + b"\n") * 20_000)
    file, pattern, chunks = opened(path), compile_search("(x{1,20}){1,40}y"), count()
    file.find(pattern, 0, forward=True, stopped=lambda: next(chunks) < 0)
    assert next(chunks) > 2 * file.size // SEARCH_CHUNK


def test_bytes_that_are_no_text_do_not_hide_a_match(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\nlo\xffss 3\r\n")
    file = opened(path)
    assert file.find(compile_search("lo.ss 3$"), 0, forward=True) == 4


def test_a_closed_file_leaves_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x\n")
    before = len(os.listdir("/proc/self/fd"))
    file = opened(path)
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before
