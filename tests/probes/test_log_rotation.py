"""The log reader: whole lines and new bytes only, whatever becomes of the file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest

from autoexp_tui.engine.ports import LOG_CHUNK, LogChunk, LogCursor
from autoexp_tui.probes.log_reader import LogReader


class Log:
    """A log and its reader, with a cursor as the engine keeps it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader = LogReader()
        self.offset = 0

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def read(self, limit: int = LOG_CHUNK, *, final: bool = False) -> LogChunk | None:
        chunk = self.reader.read(LogCursor(
            job="job", attempt=1, run=0, path=str(self.path), offset=self.offset,
            limit=limit, final=final,
        ))  # fmt: skip
        if chunk is not None:
            self.offset = chunk.offset + len(chunk.data)
        return chunk

    def chunk(self) -> LogChunk:
        found = self.read()
        assert found is not None
        return found

    def text(self, limit: int = LOG_CHUNK, *, final: bool = False) -> bytes | None:
        chunk = self.read(limit, final=final)
        return None if chunk is None else chunk.data


@pytest.fixture
def fresh(tmp_path: Path) -> Log:
    return Log(tmp_path / "job.out")


@pytest.fixture
def log(fresh: Log) -> Log:
    fresh.append(b"one\n")
    assert fresh.text() == b"one\n"
    return fresh


def test_a_log_written_anew_to_the_same_length_is_noticed(log: Log) -> None:
    end = b"x" * 64 + b"\n"
    log.append(b"first\n" + end)
    log.read()
    before = log.path.stat()  # within one tick of the clock
    log.path.write_bytes(b"other\n" + end[:-2] + b"y\n")
    os.utime(log.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert log.text() == b"other\n" + end[:-2] + b"y\n"
    longer = b"other\n" + end + b"three\n"  # another file that begins alike
    log.path.with_name("other").write_bytes(longer)
    log.path.with_name("other").replace(log.path)
    assert log.text() == longer


@pytest.mark.parametrize("is_replaced", [True, False])
@pytest.mark.parametrize(
    "data", [b"", b"new\n", b"other file\n", b"other file\nmore\n"]
)
def test_another_log_is_read_anew(
    fresh: Log, data: bytes, *, is_replaced: bool
) -> None:
    fresh.append(b"first file\n")
    fresh.read()
    other = fresh.path.with_name("other") if is_replaced else fresh.path
    other.write_bytes(data)
    os.replace(other, fresh.path)
    chunk = fresh.chunk()
    assert (chunk.offset, chunk.data, chunk.reset) == (0, data, True)
    assert fresh.read() is None


@pytest.mark.parametrize(("call", "number", "said"), [
    ("open", errno.EACCES, "not for you"), ("pread", errno.ESTALE, "stale"),
])  # fmt: skip
def test_a_log_that_may_not_be_read_for_a_while_is_read_on(
    log: Log, monkeypatch: pytest.MonkeyPatch, call: str, number: int, said: str
) -> None:
    log.append(b"two\n")
    with monkeypatch.context() as refused:
        refused.setattr(os, call, Mock(side_effect=OSError(number, said)))
        with pytest.raises(OSError, match=said) as raised:
            log.read()
    assert raised.value.errno == number
    assert log.text() == b"two\n"
    log.append(b"three\n")
    stale = [OSError(errno.ESTALE, "stale file handle"), *[DEFAULT] * 9]
    monkeypatch.setattr(os, "pread", Mock(wraps=os.pread, side_effect=stale))
    assert log.text() == b"three\n"  # it is opened again


def test_only_new_bytes_are_read_and_the_next_engine_goes_on(log: Log) -> None:
    assert log.read() is None
    log.reader = LogReader()
    log.append(b"two\n")
    assert log.read() == LogChunk(offset=4, size=8, data=b"two\n")
    log.append(b"\0\0one\n\xff\xfe\ntwo\0\n")  # which costs no line
    assert log.text() == b"\0\0one\n\xff\xfe\ntwo\0\n"


def test_half_a_line_is_held_back_until_it_is_whole_or_its_run_has_ended(
    fresh: Log,
) -> None:
    fresh.append(b"whole\nha")
    assert fresh.text() == b"whole\n"
    assert fresh.read() is None
    fresh.append(b"lf\n 1%\r 2%\r 3")
    assert fresh.text() == b"half\n 1%\r 2%\r"  # states of a progress bar are lines
    fresh.append(b"%\nbbb\nccc")
    read = [fresh.text(6, final=True) for _ in range(4)]
    assert read == [b" 3%\n", b"bbb\n", b"ccc", None]


def test_a_line_longer_than_the_limit_comes_in_pieces(fresh: Log) -> None:
    fresh.append(b"x" * 25 + b"\n")
    pieces = [b"x" * 10, b"x" * 10, b"x" * 5 + b"\n"]
    assert [fresh.text(10), fresh.text(10), fresh.text(10)] == pieces
    fresh.append(b"x" * (LOG_CHUNK + 10) + b"\nnext\n")
    first, second = fresh.chunk(), fresh.chunk()
    fresh.append(b" 1%\r")
    third = fresh.chunk()
    assert [one.midline for one in (first, second, third)] == [False, True, False]
    assert second.data == b"x" * 10 + b"\nnext\n"


def test_what_is_no_file_is_an_error_and_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="not a regular file"):
            Log(path).read(100)


def test_a_tail_is_the_end_of_the_log_and_begins_with_a_character(fresh: Log) -> None:
    path = str(fresh.path)
    assert fresh.reader.tail(path, 10) == ""
    fresh.append("one\ntwo\né".encode())
    wanted = {1: "", 2: "é", 6: "two\né"[-5:], 1000: "one\ntwo\né"}
    assert {size: fresh.reader.tail(path, size) for size in wanted} == wanted
