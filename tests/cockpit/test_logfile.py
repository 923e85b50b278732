"""A log of any size, and everything that happens to logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.cockpit import logfile
from autoexp_tui.cockpit.logfile import (
    Change,
    LogFile,
    compile_errors,
    compile_search,
    decode_line,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


def opened(path: Path, data: bytes | None = None) -> LogFile:
    if data is not None:
        path.write_bytes(data)
    file = LogFile(str(path))
    file.poll()
    return file


def grow(file: LogFile, data: bytes) -> Change:
    with Path(file.path).open("ab") as more:
        more.write(data)
    return file.poll()


def texts(lines: list[logfile.LogLine]) -> list[str]:
    return [line.text for line in lines]


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


@pytest.fixture
def long_log(path: Path) -> LogFile:
    return opened(path, b"".join(b"line %d\n" % n for n in range(100_000)))


# ------------------------------------------------------------------------- reading
@pytest.mark.parametrize(
    ("offset", "lines", "count", "first"),
    [
        (10**9, 0, 3, 99_997),
        (10**9, -200_000, 2, 0),
        (1_088_870, -20, 20, 99_978),
        (0, 0, 2, 0),
        (500_000, 0, 1, 46_464),
        (0, 10**6, 20, 99_980),
    ],
)
def test_a_page_is_read_around_any_place(
    long_log: LogFile, offset: int, lines: int, count: int, first: int
) -> None:
    found = texts(long_log.move(offset, lines, count))
    assert found == [f"line {number}" for number in range(first, first + count)]


def test_a_file_that_grew_is_followed_and_not_read_whole(path: Path) -> None:
    file = opened(path, b"one\n")
    assert texts(file.last(5)) == ["one"]
    assert grow(file, b"two\nthr") is Change.GREW
    assert texts(file.last(5)) == ["one", "two", "thr"]
    grow(file, b"ee\n")
    assert texts(file.last(5)) == ["one", "two", "three"]
    grow(file, (b"y" * 99 + b"\n") * 60_000)
    with reading_at_most(10, path):
        assert texts(file.last(1)) == ["y" * 99]


RAW = st.binary(max_size=300).map(lambda data: data.replace(b"\n", b""))


@settings(max_examples=60, deadline=None)
@given(st.lists(RAW, max_size=40))
def test_lines_are_those_of_the_file_however_small_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logfile, "CHUNK", 512)
        file = opened(path, b"".join(line + b"\n" for line in lines))
        expected = [decode_line(line) for line in lines]
        assert texts(file.last(1000)) == texts(file.at(0, 1000)) == expected


# -------------------------------------------------------------- what befalls files
def test_a_file_that_comes_later_is_read_and_missed_when_it_goes(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = LogFile(str(path))
    assert file.poll() is Change.MISSING
    path.touch()
    assert file.poll() is Change.REPLACED
    assert file.last(3) == []
    assert grow(file, b"here\n") is Change.GREW
    assert texts(file.last(3)) == ["here"]
    path.unlink()
    assert file.poll() is Change.MISSING
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(OSError, match="a directory, not a regular file"):
        opened(path.parent)


@pytest.mark.parametrize("how", ["truncated", "rotated", "pointed elsewhere"])
def test_another_file_at_the_place_begins_anew(path: Path, how: str) -> None:
    file = opened(path, b"old\n" * 100)
    file.last(3)
    if how == "rotated":
        path.rename(f"{path}.1")
    elif how == "pointed elsewhere":
        path.unlink()
        path.symlink_to("b.log")
    path.write_text("new\n" if how == "truncated" else "and longer\n" * 100 + "new\n")
    assert file.poll() is Change.REPLACED
    assert texts(file.last(1)) == ["new"]
    assert "old" not in texts(file.at(0, 200))


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
)
def test_a_line_is_told_as_safe_text(raw: bytes, text: str) -> None:
    assert decode_line(raw) == text


def a_bar(states: int) -> bytes:
    return b"".join(b"\r" + b"step %07d " % n + b"#" * 70 for n in range(states))


@pytest.mark.parametrize("states", [10, 2_000, 40_000])
def test_a_progress_bar_of_any_length_is_one_line(path: Path, states: int) -> None:
    found = texts(opened(path, b"before\n" + a_bar(states) + b"\nafter\n").last(10))
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
        for name, size in (("CHUNK", 16), ("LONGEST", 8)):
            small.setattr(logfile, name, size)
        file = opened(path, b"" if grows else data)
        for start in range(0, len(data) if grows else 0, piece):
            grow(file, data[start : start + piece])
            file.last(99)
        found = texts(file.last(99))
        assert texts(file.at(0, 99)) == found
    assert found == [decode_line(line.encode()) for line in [*lines, "end"]]


def test_of_a_long_line_its_beginning_is_shown_until_a_bar_overwrites_it(
    path: Path,
) -> None:
    file = opened(path, b"x" * (2 * logfile.LONGEST + 10))
    assert [set(one) for one in texts(file.last(10))] == [{"x", "…"}]
    grow(file, b"\rdone")
    assert texts(file.last(10)) == ["done"]


def test_an_endless_bar_is_not_read_to_its_beginning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "MOST", logfile.CHUNK)
    file = opened(path, b"before\n" + a_bar(20_000))
    with reading_at_most(4, path):
        assert texts(file.last(5))[-1].startswith("step 0019999 ")


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
    long_log: LogFile,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    forward: bool,
    line: str | None,
) -> None:
    monkeypatch.setattr(logfile, "SEARCH_CHUNK", 4096)
    start = 0 if forward else long_log.size
    place = long_log.find(compile_search(pattern), start, forward=forward)
    assert (None if place is None else long_log.at(place, 1)[0].text) == line


def test_the_next_match_is_another_one_and_a_search_can_be_stopped(
    long_log: LogFile,
) -> None:
    pattern = compile_search("99$")
    first = long_log.find(pattern, 0, forward=True)
    assert first is not None
    second = long_log.find(pattern, first, forward=True)
    assert second is not None
    assert second > first
    assert long_log.find(pattern, 0, forward=True, stopped=lambda: True) is None


@pytest.mark.parametrize(
    ("data", "pattern", "place"),
    [
        (b"step 5\n\rstep 5\rstep 6\nend\n", "step 5", 0),
        (b"step 5\n\rstep 5\rstep 6\nend\n", "step 6", 7),
        (b"one\nlo\xffss 3\r\n", "lo.ss 3$", 4),
        (b"xERROR", "error", 0),
        (b"error", "Error", None),
    ],
)
def test_a_search_finds_what_is_shown(
    path: Path, data: bytes, pattern: str, place: int | None
) -> None:
    file = opened(path, data)
    assert file.find(compile_search(pattern), file.size, forward=False) == place


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("slurmstepd: error: Detected 1 oom_kill event", True),
        ("loss: nan", True),
        ("iteration 80/100 | lm loss: 2.9 | nanobatch 3", False),
    ],
)
def test_what_looks_like_an_error_is_found(line: str, is_error: bool) -> None:
    assert bool(compile_errors().search(line.encode())) is is_error


def test_a_hostile_log_is_searched_in_time_that_grows_with_it(path: Path) -> None:
    file = opened(path, (b"a" * 200 + b"! ") * 500)
    assert file.find(compile_search(r"(?:\w+\s?)+: zzz"), 0, forward=True) is None
