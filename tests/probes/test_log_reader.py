"""The log reader: whole lines, new bytes only, and files that are swapped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.probes.log_reader import MOST_BYTES, LogReader


class Log:
    """A log and its reader, with a cursor as the engine keeps it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader = LogReader()
        self.offset = 0

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def read(self, limit: int = MOST_BYTES, *, final: bool = False) -> LogChunk | None:
        chunk = self.reader.read(LogCursor(
            job="job", attempt=1, run=0, path=str(self.path), offset=self.offset,
            limit=limit, final=final,
        ))  # fmt: skip
        if chunk is not None:
            self.offset = chunk.offset + len(chunk.data)
        return chunk

    def chunk(self) -> LogChunk:
        """What there must be to read."""
        found = self.read()
        assert found is not None
        return found

    def text(self, limit: int = MOST_BYTES, *, final: bool = False) -> bytes | None:
        chunk = self.read(limit, final=final)
        return None if chunk is None else chunk.data


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "job.out")


def test_only_new_bytes_are_read_and_the_next_engine_goes_on(log: Log) -> None:
    log.append(b"one\n")
    assert log.text() == b"one\n"
    assert log.read() is None
    log.reader = LogReader()
    log.append(b"two\n")
    assert log.read() == LogChunk(
        job="job", attempt=1, run=0, offset=4, data=b"two\n", size=8
    )


def test_half_a_line_is_held_back_until_it_is_whole(log: Log) -> None:
    log.append(b"whole\nha")
    assert log.text() == b"whole\n"
    assert log.read() is None
    log.append(b"lf\n 1%\r 2%\r 3")
    assert log.text() == b"half\n 1%\r 2%\r"  # states of a progress bar are lines


def test_the_end_of_an_ended_run_counts_as_a_line_within_the_limit(log: Log) -> None:
    log.append(b"aaa\nbbb\nccc")
    read = [log.text(6, final=True) for _ in range(4)]
    assert read == [b"aaa\n", b"bbb\n", b"ccc", None]


def test_a_line_longer_than_the_limit_comes_in_pieces(log: Log) -> None:
    log.append(b"x" * 25 + b"\n")
    pieces = [b"x" * 10, b"x" * 10, b"x" * 5 + b"\n"]
    assert [log.text(10), log.text(10), log.text(10)] == pieces


def test_one_read_is_bounded_whatever_was_asked_for(log: Log) -> None:
    log.append(b"line\n" * 500_000)
    assert MOST_BYTES - 5 <= len(log.text(1 << 30) or b"") <= MOST_BYTES


@pytest.mark.parametrize("is_replaced", [True, False])
@pytest.mark.parametrize(
    "data", [b"", b"new\n", b"other file\n", b"other file\nmore\n"]
)
def test_another_log_is_read_anew(log: Log, data: bytes, *, is_replaced: bool) -> None:
    log.append(b"first file\n")
    log.read()
    other = log.path.with_name("other") if is_replaced else log.path
    other.write_bytes(data)
    os.replace(other, log.path)
    chunk = log.chunk()
    assert (chunk.offset, chunk.data, chunk.reset) == (0, data, True)
    assert log.read() is None


def test_a_hole_in_a_log_is_not_read(log: Log) -> None:
    log.append(b"one\n")
    assert log.text() == b"one\n"
    with log.path.open("r+b") as file:
        file.seek(10 << 30)
        file.write(b"two\n")
    chunk = log.chunk()
    assert chunk.data.lstrip(b"\0") == b"two\n"
    assert chunk.offset - chunk.hole == len(b"one\n")
    assert log.read() is None
    os.truncate(log.path, 20 << 30)
    chunk = log.chunk()
    assert (chunk.data, chunk.offset) == (b"", 20 << 30)
    assert log.read() is None


def test_what_is_no_file_is_an_error_and_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="not a regular file"):
            Log(path).read(100)


def test_a_tail_is_the_end_of_the_log_and_begins_with_a_character(log: Log) -> None:
    path = str(log.path)
    assert log.reader.tail(path, 10) == ""
    log.append("one\ntwo\né".encode())
    wanted = {1: "", 2: "é", 6: "two\né"[-5:], 1000: "one\ntwo\né"}
    assert {size: log.reader.tail(path, size) for size in wanted} == wanted
