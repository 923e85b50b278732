"""Facts from outside: what is there, what is not, and what could not be looked at."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.model.facts import (
    CommandKey,
    CommandResult,
    Fact,
    FactValue,
    FileStat,
    FileText,
    GlobKey,
    LogFound,
    LogKey,
    Matches,
    OutsideKey,
    StatKey,
    TextKey,
)
from autoexp_tui.model.outputs import FileIdentity
from autoexp_tui.probes import fact_source
from autoexp_tui.probes.fact_source import MOST_TEXT, OutsideFacts
from autoexp_tui.testing.clock import ManualClock


@pytest.fixture
def facts() -> OutsideFacts:
    return OutsideFacts(ManualClock(utc=123.0))


def value(facts: OutsideFacts, key: OutsideKey) -> FactValue:
    fact = facts.observe(key)
    assert fact.error == ""
    return fact.value


def loop_in(directory: Path) -> Path:
    """A path that cannot be looked at, for anybody, root included."""
    path = directory / "loop"
    path.symlink_to(path)
    return path


def identity(path: Path) -> FileIdentity:
    found = path.stat()
    return FileIdentity(
        path=str(path),
        inode=found.st_ino,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        ctime_ns=found.st_ctime_ns,
    )


# --------------------------------------------------------------------------- paths
def test_a_file_has_a_size_and_an_age(facts: OutsideFacts, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    os.utime(path, (50.0, 50.0))
    fact = facts.observe(StatKey(str(path)))
    assert fact == Fact(
        FileStat(exists=True, size=5, mtime=50.0, file=identity(path)), 1000.0
    )


def test_a_fact_is_as_old_as_the_beginning_of_its_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, look = ManualClock(), os.stat

    def late(*words: Any, **options: Any) -> os.stat_result:
        clock.advance(30.0)
        return look(*words, **options)

    monkeypatch.setattr(os, "stat", late)
    fact = OutsideFacts(clock).observe(StatKey(str(tmp_path)))
    assert clock.monotonic() >= 1030.0
    assert fact.observed_at == 1000.0


def test_no_such_file_is_absence(facts: OutsideFacts, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file" / "below"):
        assert value(facts, StatKey(str(path))) == FileStat(exists=False)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (StatKey, "Too many levels of symbolic links"),
        (TextKey, "it is a symbolic link"),
    ],
)
def test_what_cannot_be_looked_at_is_unknown_and_not_absent(
    kind: type[StatKey | TextKey], why: str, facts: OutsideFacts, tmp_path: Path
) -> None:
    loop = str(loop_in(tmp_path))
    for path in (loop, "/" + "x" * 300, "nul\0"):
        fact = facts.observe(kind(path))
        assert fact.value is None
        assert fact.error != ""
        if path == loop:
            assert fact.error == f"{loop}: {why}"


# ---------------------------------------------------------------------------- globs
def test_matches_come_newest_last(facts: OutsideFacts, tmp_path: Path) -> None:
    for name, age in (("iter_1", 30.0), ("iter_2", 10.0), ("iter_3", 20.0)):
        (tmp_path / name).write_bytes(b"x" * int(age))
        os.utime(tmp_path / name, (age, age))
    assert value(facts, GlobKey(f"{tmp_path}/iter_*")) == Matches(
        paths=tuple(str(tmp_path / n) for n in ("iter_2", "iter_3", "iter_1")),
        largest=30,
        files=tuple(identity(tmp_path / n) for n in ("iter_2", "iter_3", "iter_1")),
    )


def test_a_pattern_without_matches_is_absence(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    for pattern in ("*", "none/*/deep", "**/none"):
        assert value(facts, GlobKey(f"{tmp_path}/{pattern}")) == Matches()


def test_patterns_go_down_directories(facts: OutsideFacts, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "done.txt"
    deep.parent.mkdir(parents=True)
    deep.touch()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "done.txt").touch()
    for pattern in ("**/done.txt", "*/*/done.txt", "a/[ab]/do?e.txt", "a/b/done.txt"):
        found = value(facts, GlobKey(f"{tmp_path}/{pattern}"))
        assert isinstance(found, Matches)
        assert found.paths == (str(deep),), pattern


def test_a_link_to_nothing_is_no_match(facts: OutsideFacts, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    assert value(facts, GlobKey(f"{tmp_path}/*")) == Matches()


def test_a_directory_that_cannot_be_listed_is_unknown_and_not_empty(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    loop_in(tmp_path)
    fact = facts.observe(GlobKey(f"{tmp_path}/loop/*"))
    assert fact.value is None
    assert "symbolic links" in fact.error


def test_what_was_found_counts_although_something_else_could_not_be_looked_at(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    loop_in(tmp_path)
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "file").touch()
    found = value(facts, GlobKey(f"{tmp_path}/*/file"))
    assert isinstance(found, Matches)
    assert found.paths == (f"{tmp_path}/good/file",)


# ----------------------------------------------------------------------------- text
def test_a_small_file_gives_its_text(facts: OutsideFacts, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("iteration 8000 é \xff".encode("latin-1"))
    file = identity(tmp_path / "file")
    assert value(facts, TextKey(str(tmp_path / "file"))) == FileText(
        "iteration 8000 ? ?", file
    )
    assert value(facts, TextKey(str(tmp_path / "none"))) == FileText(None)


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        (r"^\d+$", True),
        (r"^done$", True),
        (r"failed: .$", True),
        (r"a\nb", False),
        (r"(\w+\s?)+;", False),
    ],
)
def test_a_pattern_is_searched_where_the_file_is_read(
    facts: OutsideFacts, tmp_path: Path, pattern: str, holds: bool
) -> None:
    (tmp_path / "file").write_bytes(b"a\r\n8000\r\ndone\r\nfailed: \xff\n")
    key = TextKey(str(tmp_path / "file"), pattern)
    found = value(facts, key)
    assert isinstance(found, FileText)
    assert (found.text, found.holds) == ("", holds)


def test_a_large_file_is_an_error(facts: OutsideFacts, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (MOST_TEXT + 1))
    assert "larger than" in facts.observe(TextKey(str(tmp_path / "file"))).error


# ----------------------------------------------------------------------------- logs
def log_key(path: Path | str, pattern: str = "FATAL", **more: object) -> LogKey:
    fields = {"glob": False, "check_mode": "any", "tail_bytes": 1 << 20, **more}
    return LogKey(str(path), pattern, **fields)  # type: ignore[arg-type]


def searched(facts: OutsideFacts, key: LogKey) -> LogFound:
    found = value(facts, key)
    assert isinstance(found, LogFound)
    return found


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_pattern_is_found_in_what_was_appended(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    key = log_key(log, r"^FATAL: \w+$")
    assert value(facts, key) == LogFound(files=0)
    append(log, "fine\n")
    assert value(facts, key) == LogFound(files=1)
    append(log, "FATAL: disk\nfine again\n")
    assert value(facts, key) == LogFound(
        files=1, matched=1, line="FATAL: disk", path=str(log)
    )


def test_a_replaced_log_is_searched_anew(facts: OutsideFacts, tmp_path: Path) -> None:
    log = tmp_path / "current.log"
    append(tmp_path / "run0", "FATAL\n")
    append(tmp_path / "run1", "a fresh start, not even shorter\n")
    log.symlink_to("run0")
    value(facts, log_key(log))
    log.unlink()
    log.symlink_to("run1")
    assert value(facts, log_key(log)) == LogFound(files=1)


def test_a_log_that_was_cut_is_searched_anew(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    append(log, "fine\nFATAL\n")
    value(facts, log_key(log))
    log.write_text("fine\n")
    assert value(facts, log_key(log)) == LogFound(files=1)


def test_of_an_old_log_only_the_tail_is_searched(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    append(log, "FATAL long ago\n" + "fine\n" * 100)
    key = log_key(log, tail_bytes=100)
    assert value(facts, key) == LogFound(files=1)
    append(log, "FATAL now\n")
    assert searched(facts, key).line == "FATAL now"


def test_a_log_that_came_after_the_first_look_is_searched_from_its_start(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    key = log_key(tmp_path / "*.log", glob=True, tail_bytes=10)
    value(facts, key)
    append(tmp_path / "new.log", "FATAL\n" + "fine\n" * 100)
    assert searched(facts, key).matched == 1


@pytest.mark.parametrize("cut", range(1, 24, 3))
def test_a_pattern_is_found_wherever_a_look_fell(
    cut: int, facts: OutsideFacts, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    text = "one\nFATAL: the\nreason\nend\n"
    key = log_key(log, r"FATAL: the\nreason")
    append(log, text[:cut])
    value(facts, key)
    append(log, text[cut:])
    assert searched(facts, key).matched == 1


def test_a_pattern_across_two_chunks_is_found(
    facts: OutsideFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_source, "_CHUNK", 64)
    log = tmp_path / "log"
    append(log, "x" * 40 + "\n" + "y" * 18 + "FATAL\n" + "z" * 30 + "\n")
    assert searched(facts, log_key(log)).line == "y" * 18 + "FATAL"


def test_a_look_reads_a_bounded_part_and_the_next_goes_on(
    facts: OutsideFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_source, "_CHUNK", 64)
    monkeypatch.setattr(fact_source, "LOOK_BYTES", 128)
    log = tmp_path / "log"
    append(log, "0123456\n" * 40 + "FATAL\n")
    matched = [searched(facts, log_key(log)).matched for _ in range(5)]
    assert matched[0] == 0
    assert matched[-1] == 1


def test_a_look_for_a_large_pattern_searches_less(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"ab" * (1 << 20) + b"\nFATAL\n")
    large = log_key(log, "[ab]{900}#|FATAL", tail_bytes=4 << 20)
    matched = [searched(facts, large).matched for _ in range(40)]
    assert matched.index(1) > 10
    assert matched[-1] == 1


def test_nothing_new_costs_no_read(
    facts: OutsideFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    append(log, "fine\n")
    value(facts, log_key(log))

    def no_read(*_: object) -> bytes:
        raise AssertionError("read again")

    monkeypatch.setattr(os, "pread", no_read)
    assert value(facts, log_key(log)) == LogFound(files=1)


def test_each_log_of_a_glob_counts(facts: OutsideFacts, tmp_path: Path) -> None:
    key = log_key(tmp_path / "*.log", glob=True, check_mode="all")
    append(tmp_path / "a.log", "FATAL\n")
    append(tmp_path / "b.log", "fine\n")
    found = searched(facts, key)
    assert (found.files, found.matched) == (2, 1)
    append(tmp_path / "b.log", "FATAL\n")
    found = searched(facts, key)
    assert (found.files, found.matched) == (2, 2)


def test_a_log_that_cannot_be_read_is_unknown_unless_it_cannot_matter(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    (tmp_path / "b.log").mkdir()
    append(tmp_path / "a.log", "fine\n")
    every = log_key(tmp_path / "*.log", glob=True, check_mode="all")
    some = log_key(tmp_path / "*.log", glob=True, check_mode="any")
    assert "not a regular file" in facts.observe(some).error
    append(tmp_path / "a.log", "FATAL\n")
    assert facts.observe(some).error == ""
    assert "not a regular file" in facts.observe(every).error


def test_a_pattern_that_does_not_compile_is_an_error(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    append(tmp_path / "log", "x\n")
    assert facts.observe(log_key(tmp_path / "log", "(")).error != ""


# ------------------------------------------------------------------------- commands
def command(facts: OutsideFacts, *words: str, timeout: float = 20.0) -> CommandResult:
    found = value(facts, CommandKey(words, timeout))
    assert isinstance(found, CommandResult)
    return found


def test_a_command_gives_its_exit_code_and_the_end_of_its_output(
    facts: OutsideFacts,
) -> None:
    script = "echo out; echo err >&2; exit 3"
    assert command(facts, "sh", "-c", script) == CommandResult(3, "out\nerr")
    noisy = command(facts, "sh", "-c", "seq 100000; echo the end")
    assert noisy.exit_code == 0
    assert noisy.detail.endswith("the end")
    assert len(noisy.detail) <= 2000


QUIET = "import os, time; os.close(1); os.close(2); time.sleep(0.1); os._exit(6)"


@pytest.mark.parametrize(
    ("words", "code", "detail"),
    [
        pytest.param(("echo", "$HOME; `id`"), 0, "$HOME; `id`", id="no shell"),
        pytest.param(("sh", "-c", "kill -KILL $$"), 137, "", id="128 and the signal"),
        pytest.param((sys.executable, "-c", QUIET), 6, "", id="waited for"),
    ],
)
def test_a_command_ends_with_its_code(
    facts: OutsideFacts, words: tuple[str, ...], code: int, detail: str
) -> None:
    assert command(facts, *words) == CommandResult(code, detail)


def test_a_command_that_cannot_start_says_why_in_words(facts: OutsideFacts) -> None:
    for words in (("/no/such/command",), ("/",), ()):
        result = command(facts, *words)
        assert result.exit_code is None
        assert result.detail.startswith("cannot start")
    detail = command(facts, "/no/such/command").detail
    assert detail == "cannot start: No such file or directory: /no/such/command"


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; echo begun; wait"
    result = command(facts, "sh", "-c", script, timeout=0.3)
    assert result == CommandResult(None, "ran longer than 0.3 s\nbegun")
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_a_command_leaves_behind_does_not_hold_it_up(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; exit 4"
    started = time.monotonic()
    assert command(facts, "sh", "-c", script).exit_code == 4
    assert time.monotonic() - started < 10
    assert gone(int((tmp_path / "pid").read_text()))


def gone(pid: int) -> bool:
    """Whether a killed process is gone, given a moment."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


HANGS = """
import sys
from pathlib import Path
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.model.facts import LogKey
from autoexp_tui.testing.clock import ManualClock
log = Path(sys.argv[1])
log.write_text("a" * 60 + "b" + chr(10) + "first" + chr(10) + "aaa" + chr(10))
key = LogKey(str(log), "^(a+)+$", glob=False, check_mode="any", tail_bytes=1 << 20)
print(OutsideFacts(ManualClock(utc=1.0)).observe(key).value.line)
"""


def test_a_pattern_that_a_line_would_hold_up_is_found_behind_it(tmp_path: Path) -> None:
    # In a process of its own, since nothing in this one could end it.
    words = [sys.executable, "-c", HANGS, str(tmp_path / "log")]
    done = subprocess.run(
        words, timeout=30, check=False, capture_output=True, text=True
    )
    assert done.stdout.strip() == "aaa", done.stderr
