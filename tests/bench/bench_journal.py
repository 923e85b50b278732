"""How fast the journal appends and resumes, beside SQLite and bare JSON.

Run `python -m tests.bench.bench_journal [DIR]`; DIR chooses the disk. Everything is
measured in the same run; prints rates and ratios, asserts nothing.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.bench.measures import measure_cpu, measure_wall
from tests.storage.week_session import write_week

from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.snapshot import EngineView, Snapshot
from autoexp_tui.storage.journal import encode_record, load_state, read_session
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import FileLease
from autoexp_tui.storage.session_dir import SessionDir

JOBS = 1_000
"""Of a week's campaign, about 110,000 events."""
GROUP = 100
"""Events a commit while a campaign is busy."""


class Forever(FileLease):
    """A lease that nobody takes."""

    def __init__(self) -> None:
        self.epoch = 1

    def is_held(self) -> bool:
        return True


def groups(records: Sequence[Recorded], size: int) -> Iterator[Sequence[Recorded]]:
    """`records` in commits of `size`."""
    for start in range(0, len(records), size):
        yield records[start : start + size]


def resume_bare(session: SessionDir) -> None:
    """Every line as parsed JSON."""
    for part in session.path.glob("journal.*"):
        for line in part.open("rb"):
            json.loads(line)


def resume_sqlite(path: Path) -> int:
    """Every line back from SQLite, as parsed JSON: no check, no state."""
    with closing(sqlite3.connect(path)) as base:
        lines = base.execute("select line from events order by seq")
        return sum(json.loads(line)["seq"] > 0 for (line,) in lines)


def with_sqlite(path: Path, records: Sequence[Recorded], size: int) -> None:
    """The same lines into SQLite, WAL and FULL, `size` rows a transaction."""
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("pragma journal_mode=wal")
    base.execute("pragma synchronous=full")
    base.execute("create table events (seq integer primary key, line blob)")
    for group in groups(records, size):
        base.execute("begin")
        base.executemany(
            "insert into events values (?, ?)",
            [(record.seq, encode_record(record)) for record in group],
        )
        base.execute("commit")
    base.close()


def append_all(journal: FileJournal, records: Sequence[Recorded], size: int) -> None:
    for group in groups(records, size):
        journal.append(group)


def compare_appends(directory: Path, records: Sequence[Recorded]) -> None:
    """Appends of one event, and of groups, beside SQLite."""
    for size, count in ((1, 2_000), (GROUP, 20_000), (10 * GROUP, 20_000)):
        session = SessionDir(directory / f"append{size}")
        session.make()
        journal = FileJournal(session, Forever())
        some = records[:count]

        base = directory / f"base{size}.sqlite"
        ours = count / measure_wall(partial(append_all, journal, some, size))
        theirs = count / measure_wall(partial(with_sqlite, base, some, size))
        print(
            f"append, {size:5} a commit: {ours:9,.0f} events/s"
            f"   SQLite {theirs:9,.0f}   x{ours / theirs:.1f}"
        )


def compare_resume(directory: Path) -> None:
    """Resuming a week's session, beside reading the JSON alone.

    In a process of its own, as at a start: nothing else is in its memory.
    """
    session, told = write_week(directory, jobs=JOBS)
    with_sqlite(session.path / "all.sqlite", told.records, 5_000)
    compare_appends(directory, [one for one in told.records if one.epoch == 1])
    size = sum(part.stat().st_size for part in session.path.glob("journal.*")) / 1e6
    print(f"\n{len(told.records):,} events, {size:.0f} MB, {JOBS:,} jobs")
    command = [sys.executable, "-m", "tests.bench.bench_journal", "resume"]
    subprocess.run([*command, str(session.path)], check=True)


def resume(session: SessionDir) -> None:
    """Time one start: of several rounds, the fastest of each part."""
    parts: dict[str, Callable[[], object]] = {
        "json.loads alone": lambda: resume_bare(session),
        "SQLite, and json.loads": lambda: resume_sqlite(session.path / "all.sqlite"),
        "decoded and checked": lambda: [None for _ in read_session(session)],
        "resumed (plan, decode, fold, first snapshot)": lambda: published(session),
    }
    fastest = dict.fromkeys(parts, float("inf"))
    for name, work in [*parts.items()] * 5:
        gc.collect()
        gc.disable()  # as it is while a session opens
        fastest[name] = min(fastest[name], measure_cpu(work))
        gc.enable()
    bare = fastest["json.loads alone"]
    for name, took in fastest.items():
        print(f"{name:46} {took:5.2f} s CPU  x{took / bare:.1f}")


def published(session: SessionDir) -> Snapshot:
    """The first snapshot of a session that is taken up."""
    loaded = load_state(session)
    publisher = SnapshotBuilder()
    publisher.note(loaded.events)
    return publisher.build_snapshot(loaded.state, EngineView(role="live"), {})


def main() -> None:
    """All of it, in a directory that is removed."""
    if sys.argv[1:2] == ["resume"]:
        resume(SessionDir(Path(sys.argv[2])))
        return
    place = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        compare_resume(Path(directory))


if __name__ == "__main__":
    main()
