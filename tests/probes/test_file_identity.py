"""Which file lies there: another one, or the one that was set aside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import FileContent, FileExists, LogPattern
from autoexp_tui.model.condition import EvalContext, evaluate
from autoexp_tui.model.facts import (
    Fact,
    FactKey,
    FileStat,
    JobFact,
    JobKey,
    LogFound,
    Moment,
    StatKey,
)
from autoexp_tui.model.outputs import SetAside
from autoexp_tui.model.states import JobState, Verdict
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.testing.clock import ManualClock

Change = Callable[[Path], object]
HOUR = 3600.0
NOW = Moment(t=0.0, utc=0.0, lived=0.0)


@pytest.fixture
def facts() -> OutsideFacts:
    return OutsideFacts(ManualClock())


class World:
    """The newest facts, and a writer whose file was set aside."""

    def __init__(self, facts: OutsideFacts, aside: SetAside) -> None:
        self._facts = facts
        self._writer = JobFact(JobState.RUNNING, aside={aside.file.path: aside})

    def get(self, key: FactKey) -> Fact | None:
        if isinstance(key, JobKey):
            return Fact(self._writer, 0.0)
        return self._facts.observe(key)  # type: ignore[arg-type]


def judged(facts: OutsideFacts, path: Path, spec: FileExists, then: Change) -> Verdict:
    """What `spec` says when the file was set aside, and then something happened."""
    stat = facts.observe(StatKey(str(path))).value
    assert isinstance(stat, FileStat)
    assert stat.file is not None
    aside = SetAside(file=stat.file, attempt=1)
    then(path)
    return evaluate(spec, World(facts, aside), NOW, EvalContext(job="b"))


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


@pytest.mark.parametrize(
    "then",
    [
        _copy_kept,
        _hour_back,
        _as_long_ago,
        lambda path: path.write_bytes(b"longer"),
        lambda path: (path.unlink(), path.write_bytes(b"x")),
    ],
)
def test_a_file_that_was_written_since_counts(
    facts: OutsideFacts, tmp_path: Path, then: Change
) -> None:
    path = tmp_path / "done"
    path.write_bytes(b"x")
    os.utime(path, (1e9, 1e9))
    spec = FileExists(path=str(path), writer="a")
    assert judged(facts, path, spec, then).why.code == "file_there"


def test_a_file_that_was_only_read_does_not_count(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    path = tmp_path / "done"
    path.write_bytes(b"x")
    spec = FileExists(path=str(path), writer="a")
    verdict = judged(facts, path, spec, Path.read_bytes)
    assert verdict.why.code == "waits_for_new_file"


def test_of_several_matches_those_that_were_not_there_count(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    path = tmp_path / "iter_1"
    path.write_bytes(b"a long text")
    glob = FileExists(path=f"{tmp_path}/iter_*", glob=True, writer="a", min_size=3)

    def small(path: Path) -> None:
        path.with_name("iter_2").write_bytes(b"x")

    def large(path: Path) -> None:
        path.with_name("iter_2").write_bytes(b"xxx")

    assert judged(facts, path, glob, small).why.code == "file_small"
    assert judged(facts, path, glob, large).why.code == "file_there"


def test_a_text_that_was_there_does_not_count(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    path = tmp_path / "latest.txt"
    path.write_text("8000")
    spec = FileContent(path=str(path), pattern="8000", writer="a")
    stat = facts.observe(StatKey(str(path))).value
    assert isinstance(stat, FileStat)
    assert stat.file is not None
    world = World(facts, SetAside(file=stat.file))
    ctx = EvalContext(job="b")
    assert evaluate(spec, world, NOW, ctx).why.code == "waits_for_new_file"
    path.write_text("8000\n")
    assert evaluate(spec, world, NOW, ctx).why.code == "text_there"


def found(facts: OutsideFacts, path: Path, skip: tuple[tuple[int, int], ...]) -> int:
    spec = LogPattern(log_path=str(path), pattern="ready", skip=skip)
    value = facts.observe(spec.key).value
    assert isinstance(value, LogFound)
    return value.matched


def test_of_a_log_only_what_came_after_is_searched(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_text("ready\n")
    skip = ((path.stat().st_ino, 6),)
    assert found(facts, path, ()) == 1
    assert found(facts, path, skip) == 0
    with path.open("a") as log:
        log.write("ready\n")
    assert found(facts, path, skip) == 1


def test_a_log_that_was_cut_short_is_searched_whole(
    facts: OutsideFacts, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_text("ready\n")
    skip = ((path.stat().st_ino, 1000),)
    assert found(facts, path, skip) == 1
