"""Facts from outside: what is there, what is not, and what could not be looked at."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from autoexp_tui.conditions.kinds import FileContent, FileExists, LogPattern
from autoexp_tui.model import facts as f
from autoexp_tui.model.condition import Condition, EvalContext, evaluate
from autoexp_tui.model.outputs import FileIdentity, SetAside
from autoexp_tui.model.states import JobState
from autoexp_tui.probes import fact_source
from autoexp_tui.probes.fact_source import MOST_TEXT, OutsideFacts
from autoexp_tui.storage.processes import read_start
from autoexp_tui.testing.clock import ManualClock
from tests.executors.wrapper_runs import until


@pytest.fixture
def facts() -> OutsideFacts:
    return OutsideFacts(ManualClock(utc=123.0))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def observe(facts: OutsideFacts, key: f.OutsideKey) -> f.Fact:
    return next(facts.observe_all([key]))


def value(facts: OutsideFacts, key: f.OutsideKey) -> Any:
    fact = observe(facts, key)
    assert fact.error == ""
    return fact.value


def identity(path: Path) -> FileIdentity:
    found = path.stat()
    times = {"mtime_ns": found.st_mtime_ns, "ctime_ns": found.st_ctime_ns}
    return FileIdentity(path=str(path), inode=found.st_ino, size=found.st_size, **times)


def test_a_file_has_a_size_and_an_age_as_of_the_beginning_of_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, look, path = ManualClock(), os.stat, tmp_path / "file"
    path.write_bytes(b"12345")
    os.utime(path, (50.0, 50.0))
    stat = f.FileStat(exists=True, size=5, mtime=50.0, file=identity(path))

    def late(*words: Any, **options: Any) -> os.stat_result:
        clock.advance(30.0)
        return look(*words, **options)

    monkeypatch.setattr(os, "stat", late)
    facts = OutsideFacts(clock)
    assert observe(facts, f.StatKey(str(path))) == f.Fact(stat, 1000.0)
    assert clock.monotonic() >= 1030.0
    for absent in (tmp_path / "none", path / "below"):
        assert value(facts, f.StatKey(str(absent))) == f.FileStat(exists=False)


def test_what_cannot_be_looked_at_is_unknown_and_not_absent(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)  # nobody can look there, root included
    for kind, why in (
        (f.StatKey, "Too many levels of symbolic links"),
        (f.TextKey, "it is a symbolic link"),
    ):
        assert observe(facts, kind(str(loop))).error == f"{loop}: {why}"
        for path in (str(loop), "/" + "x" * 300, "nul\0"):
            fact = observe(facts, kind(path))
            assert fact.value is None
            assert fact.error != ""
    fact = observe(facts, f.GlobKey(f"{loop}/*"))
    assert fact.value is None
    assert "symbolic links" in fact.error
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "file").touch()
    found = value(facts, f.GlobKey(f"{tmp_path}/*/file"))
    assert found.paths == (f"{tmp_path}/good/file",)


def test_matches_come_newest_last(facts: OutsideFacts, tmp_path: Path) -> None:
    for name, age in (("iter_1", 30.0), ("iter_2", 10.0), ("iter_3", 20.0)):
        (tmp_path / name).write_bytes(b"x" * int(age))
        os.utime(tmp_path / name, (age, age))
    found = [tmp_path / name for name in ("iter_2", "iter_3", "iter_1")]
    files = tuple(map(identity, found))
    assert value(facts, f.GlobKey(f"{tmp_path}/iter_*")) == f.Matches(
        paths=tuple(map(str, found)), largest=30, files=files
    )


def test_patterns_go_down_directories(facts: OutsideFacts, tmp_path: Path) -> None:
    for place in ("a/b", ".hidden"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "done.txt").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    for pattern in ("**/done.txt", "*/*/done.txt", "a/[ab]/do?e.txt", "a/b/done.txt"):
        found = value(facts, f.GlobKey(f"{tmp_path}/{pattern}"))
        assert found.paths == (f"{tmp_path}/a/b/done.txt",), pattern
    for pattern in ("d*", "none/*/deep", "**/none"):
        assert value(facts, f.GlobKey(f"{tmp_path}/{pattern}")) == f.Matches()


def test_a_small_file_gives_its_text_or_whether_a_pattern_is_in_it(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    key = f.TextKey(str(path))
    assert value(facts, key) == f.FileText(None)
    path.write_bytes("iteration 8000 é \xff".encode("latin-1"))
    assert value(facts, key) == f.FileText("iteration 8000 ? ?", identity(path))
    path.write_bytes(b"a\r\n8000\r\ndone\r\nfailed: \xff\n")
    holds = {r"^\d+$": True, r"^done$": True, r"failed: .$": True, r"a\nb": False}
    for pattern, wanted in {**holds, r"(\w+\s?)+;": False}.items():
        found = value(facts, f.TextKey(str(path), pattern))
        assert (found.text, found.holds) == ("", wanted), pattern
    path.write_bytes(b"x" * (MOST_TEXT + 1))
    assert "larger than" in observe(facts, key).error


def log_key(path: Path | str, pattern: str = "FATAL", **more: Any) -> f.LogKey:
    fields = {"glob": False, "check_mode": "any", "tail_bytes": 1 << 20, **more}
    return f.LogKey(str(path), pattern, **fields)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_pattern_is_found_in_what_was_appended(
    facts: OutsideFacts, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = log_key(log, r"^FATAL: \w+$")
    assert value(facts, key) == f.LogFound(files=0)
    append(log, "fine\n")
    assert value(facts, key) == f.LogFound(files=1)
    with monkeypatch.context() as nothing_new_costs_no_read:
        nothing_new_costs_no_read.delattr(os, "pread")
        assert value(facts, key) == f.LogFound(files=1)
    append(log, "FATAL: disk\nfine again\n")
    found = f.LogFound(files=1, matched=1, line="FATAL: disk", path=str(log))
    assert value(facts, key) == found


def test_a_new_log_is_read_anew(facts: OutsideFacts, log: Path, tmp_path: Path) -> None:
    append(tmp_path / "run0", "fine\nFATAL\n")
    append(tmp_path / "run1", "a fresh start, not even shorter\n")
    log.symlink_to("run0")
    assert value(facts, log_key(log)).matched == 1
    log.unlink()
    log.symlink_to("run1")
    assert value(facts, log_key(log)) == f.LogFound(files=1)
    append(log, "FATAL\n")
    assert value(facts, log_key(log)).matched == 1
    log.write_text("fine\n")
    assert value(facts, log_key(log)) == f.LogFound(files=1)


def test_an_old_log_has_a_tail(facts: OutsideFacts, log: Path, tmp_path: Path) -> None:
    append(log, "FATAL long ago\n" + "fine\n" * 100)
    key = log_key(log, tail_bytes=100)
    assert value(facts, key) == f.LogFound(files=1)
    append(log, "FATAL now\n")
    assert value(facts, key).line == "FATAL now"
    later = log_key(tmp_path / "*.log", glob=True, tail_bytes=10)
    value(facts, later)
    append(tmp_path / "new.log", "FATAL\n" + "fine\n" * 100)
    assert value(facts, later).matched == 1


def test_a_look_reads_a_bounded_part_and_the_next_goes_on(
    facts: OutsideFacts, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = log.with_name("large")
    large.write_bytes(b"ab" * (1 << 20) + b"\nFATAL\n")
    key = log_key(large, "[ab]{900}#|FATAL", tail_bytes=4 << 20)
    of_large = [value(facts, key).matched for _ in range(40)]
    assert of_large.index(1) > 10
    assert of_large[-1] == 1
    monkeypatch.setattr(fact_source, "_CHUNK", 64)
    across = log.with_name("across")
    append(across, "x" * 40 + "\n" + "y" * 18 + "FATAL\n" + "z" * 30 + "\n")
    assert value(facts, log_key(across)).line == "y" * 18 + "FATAL"
    monkeypatch.setattr(fact_source, "LOOK_BYTES", 128)
    append(log, "0123456\n" * 40 + "FATAL\n")
    matched = [value(facts, log_key(log)).matched for _ in range(5)]
    assert (matched[0], matched[-1]) == (0, 1)


def test_each_log_of_a_glob_counts_and_an_unreadable_one_may_be_unknown(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    every, some = (log_key(tmp_path / "*.log", glob=True, check_mode=mode)
                   for mode in ("all", "any"))  # fmt: skip
    append(tmp_path / "a.log", "FATAL\n")
    for text, matched in (("fine\n", 1), ("FATAL\n", 2)):
        append(tmp_path / "b.log", text)
        found = value(facts, every)
        assert (found.files, found.matched) == (2, matched)
    (tmp_path / "c.log").mkdir()
    assert observe(facts, some).error == ""
    assert "not a regular file" in observe(facts, every).error
    for name in "ab":
        (tmp_path / f"{name}.log").write_text("")
    assert "not a regular file" in observe(facts, some).error
    assert observe(facts, log_key(tmp_path / "a.log", "(")).error != ""


def command(facts: OutsideFacts, *words: str, timeout: float = 20.0) -> f.CommandResult:
    found = value(facts, f.CommandKey(words, timeout))
    assert isinstance(found, f.CommandResult)
    return found


QUIET = "import os, time; os.close(1); os.close(2); time.sleep(0.1); os._exit(6)"


def test_a_command_ends_with_its_code(facts: OutsideFacts) -> None:
    for words, code, detail in (
        (("sh", "-c", "echo out; echo err >&2; exit 3"), 3, "out\nerr"),
        (("echo", "$HOME; `id`"), 0, "$HOME; `id`"),  # no shell
        (("sh", "-c", "kill -KILL $$"), 137, ""),
        ((sys.executable, "-c", QUIET), 6, ""),  # it is waited for
    ):
        assert command(facts, *words) == f.CommandResult(code, detail)


def test_a_command_that_cannot_start_says_why_in_words(facts: OutsideFacts) -> None:
    for words in (("/",), ()):
        result = command(facts, *words)
        assert result.exit_code is None
        assert result.detail.startswith("cannot start")
    why = "cannot start: No such file or directory: /no/such/command"
    assert command(facts, "/no/such/command") == f.CommandResult(None, why)
    noisy = command(facts, "sh", "-c", "seq 100000; echo the end")
    assert noisy.exit_code == 0
    assert noisy.detail.endswith("the end")
    assert len(noisy.detail) <= 2000


def test_what_a_command_started_is_ended_with_it_and_holds_nothing_up(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    for end, timeout, code, detail in (
        ("echo begun; wait", 0.3, None, "ran longer than 0.3 s\nbegun"),
        ("exit 4", 20.0, 4, ""),
    ):
        started = time.monotonic()
        script = f"sleep 60 & echo $! > {pid_file}; {end}"
        result = command(facts, "sh", "-c", script, timeout=timeout)
        assert result == f.CommandResult(code, detail)
        assert time.monotonic() - started < 10
        assert until(lambda: read_start(int(pid_file.read_text())) is None)


def test_a_path_many_ask_about_is_asked_once(
    facts: OutsideFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {name: Mock(wraps=getattr(os, name)) for name in ("stat", "listdir")}
    for name, spy in calls.items():
        monkeypatch.setattr(os, name, spy)
    path = tmp_path / "done.txt"
    path.touch()

    def stats() -> list[str]:
        return [str(call.args[0]) for call in calls["stat"].call_args_list]

    keys: list[f.OutsideKey] = [f.StatKey(str(path)), f.GlobKey(f"{tmp_path}/*.txt")]
    calls["stat"].reset_mock()
    assert not any(fact.error for fact in facts.observe_all(keys))
    assert stats().count(str(path)) == 1
    answers = facts.observe_all([f.StatKey(f"{tmp_path}/{name}") for name in "ab"])
    calls["stat"].reset_mock()
    next(answers)
    assert stats() == [f"{tmp_path}/a"]
    calls["listdir"].reset_mock()
    list(facts.observe_all([f.GlobKey(f"{tmp_path}/iter_*/a{n}") for n in range(50)]))
    assert calls["listdir"].call_count == 1


NOW = f.Moment(t=0.0, utc=0.0, lived=0.0)


class World:
    """The newest facts, and a writer whose file was set aside."""

    def __init__(self, path: Path) -> None:
        self._facts = OutsideFacts(ManualClock())
        stat = observe(self._facts, f.StatKey(str(path))).value
        assert isinstance(stat, f.FileStat)
        assert stat.file is not None
        aside = {str(path): SetAside(file=stat.file, attempt=1)}
        self._writer = f.JobFact(JobState.RUNNING, aside=aside)

    def get(self, key: f.FactKey) -> f.Fact | None:
        if isinstance(key, f.JobKey):
            return f.Fact(self._writer, 0.0)
        return observe(self._facts, key)  # type: ignore[arg-type]

    def say(self, spec: Condition) -> str:
        return evaluate(spec, self, NOW, EvalContext(job="b")).why.code


def test_of_matches_and_of_texts_those_that_were_there_do_not_count(
    tmp_path: Path,
) -> None:
    (tmp_path / "iter_1").write_bytes(b"a long text")
    world = World(tmp_path / "iter_1")
    some = FileExists(path=f"{tmp_path}/iter_*", glob=True, writer="a", min_size=3)
    for data, said in ((b"x", "file_small"), (b"xxx", "file_there")):
        (tmp_path / "iter_2").write_bytes(data)
        assert world.say(some) == said
    path = tmp_path / "latest.txt"
    path.write_text("8000")
    text, world = FileContent(path=str(path), pattern="8000", writer="a"), World(path)
    assert world.say(text) == "waits_for_new_file"
    path.write_text("8000\n")
    assert world.say(text) == "text_there"


def test_of_a_log_only_what_came_after_is_searched(tmp_path: Path) -> None:
    path, facts = tmp_path / "log", OutsideFacts(ManualClock())

    def found(*skip: int) -> int:
        skips = tuple((path.stat().st_ino, size) for size in skip)
        spec = LogPattern(log_path=str(path), pattern="ready", skip=skips)
        value = observe(facts, spec.key).value
        assert isinstance(value, f.LogFound)
        return value.matched

    path.write_text("ready\n")
    assert [found(), found(6)] == [1, 0]
    with path.open("a") as log:
        log.write("ready\n")
    assert found(6) == 1
    assert found(1000) == 1  # it was cut short
