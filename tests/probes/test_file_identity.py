"""Which file lies there: another one, or the one that was set aside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import FileContent, FileExists, LogPattern
from autoexp_tui.model import facts as f
from autoexp_tui.model.condition import Condition, EvalContext, evaluate
from autoexp_tui.model.outputs import SetAside
from autoexp_tui.model.states import JobState
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.testing.clock import ManualClock

HOUR = 3600.0
NOW = f.Moment(t=0.0, utc=0.0, lived=0.0)


class World:
    """The newest facts, and a writer whose file was set aside."""

    def __init__(self, path: Path) -> None:
        self._facts = OutsideFacts(ManualClock())
        stat = self._facts.observe(f.StatKey(str(path))).value
        assert isinstance(stat, f.FileStat)
        assert stat.file is not None
        aside = {str(path): SetAside(file=stat.file, attempt=1)}
        self._writer = f.JobFact(JobState.RUNNING, aside=aside)

    def get(self, key: f.FactKey) -> f.Fact | None:
        if isinstance(key, f.JobKey):
            return f.Fact(self._writer, 0.0)
        return self._facts.observe(key)  # type: ignore[arg-type]

    def say(self, spec: Condition) -> str:
        return evaluate(spec, self, NOW, EvalContext(job="b")).why.code


def _copy_kept(path: Path) -> None:
    """As `cp -p` of the same bytes with the same times, in its place."""
    other = path.with_name("other")
    shutil.copy2(path, other)
    os.replace(other, path)


def _hour_back(path: Path) -> None:
    """Written by a host whose clock is an hour behind."""
    path.write_bytes(b"x")
    os.utime(path, (os.stat(path).st_mtime - HOUR,) * 2)


def _as_long_ago(path: Path) -> None:
    found = path.stat()
    probe = path.with_name("probe")
    probe.touch()
    while probe.stat().st_ctime_ns <= found.st_ctime_ns:  # its clock ticks coarsely
        probe.touch()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize(("then", "said"), [
    (_copy_kept, "file_there"), (_hour_back, "file_there"),
    (_as_long_ago, "file_there"), (Path.read_bytes, "waits_for_new_file"),
    (lambda path: path.write_bytes(b"longer"), "file_there"),
    (lambda path: (path.unlink(), path.write_bytes(b"x")), "file_there"),
])  # fmt: skip
def test_a_file_that_was_written_since_counts_and_one_that_was_read_does_not(
    tmp_path: Path, then: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / "done"
    path.write_bytes(b"x")
    os.utime(path, (1e9, 1e9))
    world = World(path)
    then(path)
    assert world.say(FileExists(path=str(path), writer="a")) == said


def test_of_several_matches_those_that_were_not_there_count(tmp_path: Path) -> None:
    (tmp_path / "iter_1").write_bytes(b"a long text")
    world = World(tmp_path / "iter_1")
    spec = FileExists(path=f"{tmp_path}/iter_*", glob=True, writer="a", min_size=3)
    for data, said in ((b"x", "file_small"), (b"xxx", "file_there")):
        (tmp_path / "iter_2").write_bytes(data)
        assert world.say(spec) == said


def test_a_text_that_was_there_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "latest.txt"
    path.write_text("8000")
    spec, world = FileContent(path=str(path), pattern="8000", writer="a"), World(path)
    assert world.say(spec) == "waits_for_new_file"
    path.write_text("8000\n")
    assert world.say(spec) == "text_there"


def test_of_a_log_only_what_came_after_is_searched(tmp_path: Path) -> None:
    path, facts = tmp_path / "log", OutsideFacts(ManualClock())

    def found(*skip: int) -> int:
        skips = tuple((path.stat().st_ino, size) for size in skip)
        spec = LogPattern(log_path=str(path), pattern="ready", skip=skips)
        value = facts.observe(spec.key).value
        assert isinstance(value, f.LogFound)
        return value.matched

    path.write_text("ready\n")
    assert [found(), found(6)] == [1, 0]
    with path.open("a") as log:
        log.write("ready\n")
    assert found(6) == 1
    assert found(1000) == 1  # it was cut short
