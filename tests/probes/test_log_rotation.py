"""Logs that are rotated, cut, swapped or unreachable: no line twice, none missing."""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.probes.log_reader import MOST_BYTES
from tests.probes.test_log_reader import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "job.out")


def everything(log: Log, *, final: bool = True) -> bytes:
    """All that is still to be read."""
    read = b""
    for _ in range(100):
        data = log.text(final=final)
        if data is None:
            return read
        read += data
    raise AssertionError("the log does not end")


# ------------------------------------------------------------------------ rotation
def test_the_rest_of_a_renamed_log_is_read_before_the_new_one(log: Log) -> None:
    log.append(b"one\n")
    log.read()
    log.append(b"two\n")
    log.path.rename(log.path.with_name("job.out.1"))
    log.append(b"three\n")
    rest = log.read()
    assert rest is not None
    assert (rest.offset, rest.data, rest.reset) == (4, b"two\n", False)
    anew = log.read()
    assert anew is not None
    assert (anew.offset, anew.data, anew.reset) == (0, b"three\n", True)


def test_a_renamed_log_whose_writer_goes_on_is_followed(log: Log) -> None:
    log.append(b"one\n")
    log.read()
    moved = log.path.with_name("old")
    log.path.rename(moved)
    assert log.read() is None
    with moved.open("ab") as file:
        file.write(b"two\nhal")
    assert log.text() == b"two\n"


def test_a_last_line_without_its_end_counts_when_another_file_took_over(
    log: Log,
) -> None:
    log.append(b"one\n")
    log.read()
    log.append(b"torn")
    log.path.rename(log.path.with_name("job.out.1"))
    log.append(b"new\n")
    assert [log.text(), log.text()] == [b"torn", b"new\n"]


def test_the_rest_of_a_copied_and_truncated_log_is_found_in_the_copy(log: Log) -> None:
    log.append(b"one\n")
    log.read()
    log.append(b"two\n")
    shutil.copy(log.path, log.path.with_name("job.out.1"))
    os.truncate(log.path, 0)
    log.append(b"3\n")
    assert [log.text(), log.text()] == [b"two\n", b"3\n"]


def test_a_file_beside_the_log_that_only_looks_alike_is_not_its_rest(log: Log) -> None:
    log.append(b"one\n")
    log.read()
    log.path.with_name("job.out.other").write_bytes(b"six\nseven\n")
    log.path.write_bytes(b"2\n")
    assert everything(log) == b"2\n"


def test_a_link_that_points_elsewhere_is_a_new_log(tmp_path: Path) -> None:
    first, second = tmp_path / "slurm-1.out", tmp_path / "slurm-2.out"
    first.write_bytes(b"one\n")
    second.write_bytes(b"of the second run\n")
    log = Log(tmp_path / "current.log")
    log.path.symlink_to(first.name)
    assert log.text() == b"one\n"
    with first.open("ab") as file:
        file.write(b"two\n")
    log.path.unlink()
    log.path.symlink_to(second.name)
    assert [log.text(), log.text()] == [b"two\n", b"of the second run\n"]


def test_a_log_written_anew_to_the_same_length_is_noticed(log: Log) -> None:
    end = b"x" * 64 + b"\n"
    log.append(b"first\n" + end)
    log.read()
    with log.path.open("r+b") as file:
        file.truncate(0)
        file.write(b"other\n" + end)
    os.utime(log.path, ns=(1, 1))
    assert log.text() == b"other\n" + end


def test_a_log_written_anew_within_one_tick_of_the_clock_is_noticed(log: Log) -> None:
    log.append(b"step 1\n")
    log.read()
    before = log.path.stat()
    with log.path.open("r+b") as file:
        file.write(b"step 2\n")
    os.utime(log.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert log.text() == b"step 2\n"


def test_the_hole_that_a_truncation_leaves_before_a_writer_is_passed_over(
    log: Log,
) -> None:
    with log.path.open("wb", buffering=0) as writer:
        writer.write(b"x" * 3_000_000 + b"\n")
        while log.read() is not None:
            pass
        os.truncate(log.path, 0)
        writer.write(b"step 5 loss 2\n")
    chunk = log.read()
    assert chunk is not None
    assert (chunk.offset, chunk.data, chunk.reset) == (
        3_000_001,
        b"step 5 loss 2\n",
        True,
    )
    assert log.read() is None


@st.composite
def histories(draw: st.DrawFn) -> list[str]:
    kinds = ["line", "half", "read", "rename", "copytruncate", "next engine reads on"]
    return draw(st.lists(st.sampled_from(kinds[:5]), max_size=25))


@given(histories())
def test_whatever_rotation_happens_each_line_is_read_once(history: list[str]) -> None:
    with TemporaryDirectory() as directory:
        log, written, read = Log(Path(directory) / "job.out"), b"", b""
        for at, kind in enumerate(history):
            if kind in ("line", "half"):
                data = b"line %d%s" % (at, b"\n" if kind == "line" else b"")
                log.append(data)
                written += data
            elif kind == "read":
                read += log.text() or b""
            elif log.path.exists() and log.path.stat().st_size:
                # one rotation between two reads, as rotations are seldom
                read += everything(log, final=False)
                log.append(b"more\n")
                written += b"more\n"
                _rotate(log.path, kind, at)
        read += everything(log)
    assert Counter(read) == Counter(written)
    assert read == written


def _rotate(path: Path, kind: str, at: int) -> None:
    other = path.with_name(f"{path.name}.{at}")
    if kind == "rename":
        path.rename(other)
    else:
        shutil.copy(path, other)
        os.truncate(path, 0)


# ------------------------------------------------------------------ unusual content
def test_the_pieces_of_a_very_long_line_say_that_they_begin_within_it(log: Log) -> None:
    log.append(b"x" * (MOST_BYTES + 10) + b"\nnext\n")
    first, second = log.read(), log.read()
    assert first is not None
    assert second is not None
    assert (first.midline, second.midline) == (False, True)
    assert second.data == b"x" * 10 + b"\nnext\n"


def test_what_follows_a_whole_line_begins_no_line_within(log: Log) -> None:
    log.append(b" 1%\r")
    log.read()
    log.append(b" 2%\r")
    chunk = log.read()
    assert chunk is not None
    assert not chunk.midline


def test_nul_bytes_and_bad_utf_8_cost_no_line(log: Log) -> None:
    data = b"\0\0one\n\xff\xfe\ntwo\0\n"
    log.append(data)
    assert everything(log) == data


# ---------------------------------------------------------------------- bad weather
def test_a_log_that_may_not_be_read_for_a_while_is_read_on(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(b"one\n")
    log.read()
    log.append(b"two\n")
    with monkeypatch.context() as refused:
        refused.setattr(os, "open", _failing(errno.EACCES))
        with pytest.raises(PermissionError):
            log.read()
    assert log.text() == b"two\n"


def test_a_stale_handle_is_opened_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(b"one\n")
    stale = iter([True])
    pread = os.pread

    def once_stale(handle: int, size: int, offset: int) -> bytes:
        if next(stale, False):
            raise OSError(errno.ESTALE, "stale file handle")
        return pread(handle, size, offset)

    monkeypatch.setattr(os, "pread", once_stale)
    assert log.text() == b"one\n"


def test_a_file_that_stays_stale_is_an_error_and_loses_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(b"one\n")
    with monkeypatch.context() as stale:
        stale.setattr(os, "pread", _failing(errno.ESTALE))
        with pytest.raises(OSError, match="stale") as raised:
            log.read()
        assert raised.value.errno == errno.ESTALE
    assert log.text() == b"one\n"


def _failing(number: int) -> object:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, "stale" if number == errno.ESTALE else "not for you")

    return fail


# ---------------------------------------------------------------------------- cost
class Calls:
    """Counts what the reader asks of the file system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: Counter[str] = Counter()
        for name in ("open", "fstat", "pread", "stat", "scandir"):
            self._count(monkeypatch, name)

    def _count(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(os, name)

        def counted(*arguments: object, **more: object) -> object:
            self.made[name] += 1
            return real(*arguments, **more)

        monkeypatch.setattr(os, name, counted)


def test_a_look_at_a_growing_log_is_one_open_one_stat_one_read(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(b"x" * 100 + b"\n")
    log.read()
    log.append(b"two\n")
    calls = Calls(monkeypatch)
    assert log.read() is not None
    assert calls.made == {"open": 1, "fstat": 1, "pread": 1}
