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
        chunk = self.reader.read(
            LogCursor(
                job="job",
                attempt=1,
                run=0,
                path=str(self.path),
                offset=self.offset,
                limit=limit,
                final=final,
            )
        )
        if chunk is not None:
            self.offset = chunk.offset + len(chunk.data)
        return chunk

    def text(self, limit: int = MOST_BYTES, *, final: bool = False) -> bytes | None:
        chunk = self.read(limit, final=final)
        return None if chunk is None else chunk.data


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "job.out")


def test_a_log_that_is_not_there_yet_gives_nothing(log: Log) -> None:
    assert log.read() is None


def test_only_new_bytes_are_read(log: Log) -> None:
    log.append(b"one\n")
    assert log.text() == b"one\n"
    assert log.read() is None
    log.append(b"two\n")
    chunk = log.read()
    assert chunk == LogChunk(
        job="job", attempt=1, run=0, offset=4, data=b"two\n", size=8
    )


def test_half_a_line_is_held_back_until_it_is_whole(log: Log) -> None:
    log.append(b"whole\nha")
    assert log.text() == b"whole\n"
    assert log.read() is None
    log.append(b"lf\n")
    assert log.text() == b"half\n"


def test_the_end_of_an_ended_run_counts_as_a_line(log: Log) -> None:
    log.append(b"whole\nKilled")
    assert log.text(final=True) == b"whole\nKilled"
    assert log.read(final=True) is None


def test_a_final_read_still_keeps_to_its_limit(log: Log) -> None:
    log.append(b"aaa\nbbb\nccc")
    assert log.text(6, final=True) == b"aaa\n"
    assert log.text(6, final=True) == b"bbb\n"
    assert log.text(6, final=True) == b"ccc"
    assert log.read(6, final=True) is None


def test_states_of_a_progress_bar_are_lines(log: Log) -> None:
    log.append(b" 1%\r 2%\r 3")
    assert log.text() == b" 1%\r 2%\r"


def test_a_line_longer_than_the_limit_comes_in_pieces(log: Log) -> None:
    log.append(b"x" * 25 + b"\n")
    assert [log.text(10), log.text(10), log.text(10)] == [
        b"x" * 10,
        b"x" * 10,
        b"x" * 5 + b"\n",
    ]


def test_one_read_is_bounded_whatever_was_asked_for(log: Log) -> None:
    log.append(b"line\n" * 500_000)
    data = log.text(1 << 30)
    assert data is not None
    assert MOST_BYTES - 5 <= len(data) <= MOST_BYTES


def test_a_truncated_log_is_read_from_its_start(log: Log) -> None:
    log.append(b"before it was cut\n")
    log.read()
    log.path.write_bytes(b"new\n")
    chunk = log.read()
    assert chunk is not None
    assert (chunk.offset, chunk.data, chunk.reset) == (0, b"new\n", True)


def test_an_emptied_log_says_so(log: Log) -> None:
    log.append(b"before it was cut\n")
    log.read()
    log.path.write_bytes(b"")
    chunk = log.read()
    assert chunk is not None
    assert (chunk.offset, chunk.data, chunk.reset) == (0, b"", True)
    assert log.read() is None


def test_a_hole_in_a_log_is_not_read(log: Log) -> None:
    log.append(b"one\n")
    assert log.text() == b"one\n"
    with log.path.open("r+b") as file:
        file.seek(10 << 30)
        file.write(b"two\n")
    chunk = log.read()
    assert chunk is not None
    assert chunk.data.lstrip(b"\0") == b"two\n"
    assert chunk.offset - chunk.hole == len(b"one\n")
    assert log.read() is None


def test_a_hole_at_the_end_of_a_log_ends_the_reading(log: Log) -> None:
    log.append(b"one\n")
    assert log.text() == b"one\n"
    os.truncate(log.path, 10 << 30)
    chunk = log.read()
    assert chunk is not None
    assert (chunk.data, chunk.offset) == (b"", 10 << 30)
    assert log.read() is None


def test_a_replaced_log_of_the_same_length_is_read_from_its_start(log: Log) -> None:
    log.append(b"first file\n")
    log.read()
    other = log.path.with_name("other")
    other.write_bytes(b"other file\nmore\n")
    os.replace(other, log.path)
    chunk = log.read()
    assert chunk is not None
    assert (chunk.data, chunk.reset) == (b"other file\nmore\n", True)


def test_a_log_that_was_cut_and_grew_past_the_cursor_is_noticed(log: Log) -> None:
    log.append(b"the first contents\n")
    log.read()
    log.path.write_bytes(b"a")
    log.append(b"nd then quite different ones\n")
    chunk = log.read()
    assert chunk is not None
    assert chunk.reset


def test_the_next_engine_goes_on_where_the_cursor_stands(log: Log) -> None:
    log.append(b"one\n")
    log.read()
    log.append(b"two\n")
    log.reader = LogReader()
    assert log.text() == b"two\n"


def test_a_directory_is_an_error_and_not_an_empty_log(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        Log(tmp_path).read(100)


def test_a_pipe_does_not_block_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        Log(tmp_path / "pipe").read(100)


def test_bytes_that_are_no_text_are_passed_on_as_they_are(log: Log) -> None:
    log.append(b"\xff\xfe\x00ok\n")
    assert log.text() == b"\xff\xfe\x00ok\n"


def test_a_tail_is_the_end_of_the_log(log: Log) -> None:
    log.append(b"one\ntwo\nthree\n")
    assert log.reader.tail(str(log.path), 10) == "two\nthree\n"
    assert log.reader.tail(str(log.path), 1000) == "one\ntwo\nthree\n"


def test_a_tail_does_not_begin_within_a_character(log: Log) -> None:
    log.append("aé".encode())
    assert log.reader.tail(str(log.path), 1) == ""
    assert log.reader.tail(str(log.path), 2) == "é"


def test_the_tail_of_no_log_is_empty(log: Log) -> None:
    assert log.reader.tail(str(log.path), 10) == ""
