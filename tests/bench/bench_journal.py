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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tests.model.builders import at

from autoexp_tui.conditions.files import FileExists
from autoexp_tui.conditions.jobs import JobStateIs
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.events.conditions import ConditionJudged
from autoexp_tui.events.jobs import JobEnded, JobsReleased, RetryOrdered
from autoexp_tui.events.rules import (
    ActionFired,
    LogMatched,
    MetricsNoted,
    WarningCleared,
    WarningRaised,
)
from autoexp_tui.events.runs import AttemptEnded, RunBegan
from autoexp_tui.events.session import PlanAdded, SessionStarted
from autoexp_tui.events.submissions import (
    EffectOrdered,
    EffectSettled,
    SubmissionAccepted,
)
from autoexp_tui.model.draft import Draft
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import EngineView, Snapshot
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState, Outcome, Result, why
from autoexp_tui.storage.journal import load_state, read_session
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.storage.record_codec import encode_record
from autoexp_tui.storage.session_dir import SessionDir

EVENTS = 100_000
GROUP = 100
"""Events a commit while a campaign is busy."""
PER_JOB = 20
"""Of a job that does not crash."""


class Forever:
    """A lease that nobody takes."""

    epoch = 1

    def is_held(self) -> bool:
        """Always."""
        return True


def job(index: int) -> JobSpec:
    """A job of a two-stage sweep, with two conditions."""
    name = f"dense300m_lr{index % 7}e-4_seed{index}"
    return JobSpec(
        name=name,
        index=index,
        stage="train",
        family=f"f{index}",
        parameters={"optimizer.lr": index % 7 * 1e-4, "seed": index},
        overrides=(f"optimizer.lr={index % 7}e-4", f"seed={index}"),
        command=("python", "train.py", f"--seed={index}", "--config=train.yaml"),
        output_dir=f"/scratch/out/{name}",
        log_dir=f"/scratch/logs/{name}",
        fingerprint="5f" * 32,
        start_conditions=(
            FileExists(path=f"/scratch/out/{name}/done.txt"),
            JobStateIs(jobs=(f"base{index}",), state="COMPLETED"),
        ),
    )


def plan(jobs: int) -> Plan:
    """A plan of so many jobs."""
    return Plan(
        plan_id="bench",
        name="bench",
        state_dir="/state",
        jobs=tuple(job(index) for index in range(jobs)),
    )


def life(spec: JobSpec) -> Iterator[Event]:
    """What happens to one job, about `PER_JOB` events: one in ten crashes first."""
    name = spec.name
    yield JobsReleased(jobs=(name,))
    for index in range(2):
        yield ConditionJudged(
            job=name,
            role="start",
            index=index,
            result=Result.PASS,
            why=why("file_there", path=spec.output_dir),
        )
    if spec.index % 10 == 0:
        yield from crash(spec)
    yield from attempt(spec, 2 if spec.index % 10 == 0 else 1, PER_JOB - 9)
    yield JobEnded(job=name, state=JobState.COMPLETED)


def crash(spec: JobSpec) -> Iterator[Event]:
    """A first attempt that fails and is tried again."""
    because = why("crashed", code=1)
    yield from attempt(spec, 1, 2, Outcome.FAILED)
    yield WarningRaised(warning_id=f"w{spec.index}", why=because, job=spec.name)
    yield ActionFired(job=spec.name, action="restart", trigger="crash")
    yield RetryOrdered(job=spec.name, not_before=5.0, from_checkpoint=True, why=because)
    yield WarningCleared(warning_id=f"w{spec.index}")


def attempt(
    spec: JobSpec, number: int, noted: int, outcome: Outcome = Outcome.COMPLETED
) -> Iterator[Event]:
    """One attempt, whose log said `noted` things."""
    name, token = spec.name, f"t{spec.index}-{number}"
    effect_id = f"e{spec.index}-{number}"
    submit = SubmitTasks(token=token, tasks=((name, number),))
    yield EffectOrdered(effect_id=effect_id, effect=submit)
    yield SubmissionAccepted(token=token, executor_ids=("48213",), submitted_at=1.0)
    yield EffectSettled(effect_id=effect_id, outcome="ok", detail="sbatch ...")
    yield RunBegan(job=name, attempt=number, run=0, began_at=2.0, node="n1", pid=7)
    yield from (log_event(spec, number, step) for step in range(noted))
    yield AttemptEnded(
        job=name, attempt=number, outcome=outcome, exit_code=0, ended_at=9.0
    )


def log_event(spec: JobSpec, number: int, step: int) -> Event:
    """Metrics, or every fourth time a checkpoint."""
    if step % 4:
        return MetricsNoted(
            job=spec.name,
            attempt=number,
            run=0,
            step=step,
            total=PER_JOB,
            values={"loss": 2.5, "lr": 3e-4, "grad_norm": 0.7},
        )
    return LogMatched(
        match_id=f"m{spec.index}-{number}-{step}",
        job=spec.name,
        attempt=number,
        run=0,
        rule="checkpoint",
        offset=step * 4096,
        line=f"saved checkpoint from iteration {step}",
        metadata={"checkpoint_iteration": str(step)},
    )


def campaign(sha: str, the_plan: Plan) -> list[Recorded]:
    """The records of a campaign in which every job completed."""
    draft = Draft(SessionState(plans={sha: the_plan}), at(1.0), epoch=1)
    draft.emit(
        SessionStarted(
            session="bench",
            name="bench",
            engine_version="1",
            wrapper_version="1",
            plan_sha=sha,
        )
    )
    draft.emit(PlanAdded(sha=sha))
    for spec in the_plan.jobs:
        for event in life(spec):
            draft.emit(event)
    return committed(draft.records)


def committed(records: Sequence[Recorded]) -> list[Recorded]:
    """`records` as commits of one to four, as a campaign writes them."""
    return [
        replace(record, more=record.seq % 4 > 1 and record.seq < len(records))
        for record in records
    ]


def groups(records: Sequence[Recorded], size: int) -> Iterator[Sequence[Recorded]]:
    """`records` in commits of `size`."""
    for start in range(0, len(records), size):
        yield records[start : start + size]


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes on the wall clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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


def compare_appends(directory: Path, records: list[Recorded]) -> None:
    """Appends of one event, and of groups, beside SQLite."""
    for size, count in ((1, 2_000), (GROUP, 50_000), (10 * GROUP, EVENTS)):
        session = SessionDir(directory / f"append{size}")
        session.make()
        journal = FileJournal(session, Forever())
        some = records[:count]

        def append(
            journal: FileJournal = journal,
            some: list[Recorded] = some,
            size: int = size,
        ) -> None:
            for group in groups(some, size):
                journal.append(group)

        ours = count / seconds(append)
        base = directory / f"base{size}.sqlite"
        theirs = count / seconds(lambda: with_sqlite(base, some, size))  # noqa: B023
        print(
            f"append, {size:5} a commit: {ours:9,.0f} events/s"
            f"   SQLite {theirs:9,.0f}   x{ours / theirs:.1f}"
        )


def compare_resume(directory: Path) -> None:
    """Resuming a session of 100,000 events, beside reading the JSON alone.

    In a process of its own, as at a start: nothing else is in its memory.
    """
    session = SessionDir(directory / "resume")
    session.make()
    the_plan = plan(int(EVENTS / (PER_JOB + 1.1)))
    records = campaign(session.save_plan(the_plan), the_plan)
    with_sqlite(session.path / "all.sqlite", records, 5_000)
    journal = FileJournal(session, Forever())
    for group in groups(records, 5_000):
        journal.append(group)
    compare_appends(directory, records)
    size = session.get_part(1).stat().st_size
    print(
        f"\n{len(records):,} events, {size / 1e6:.0f} MB, {len(the_plan.jobs):,} jobs"
    )
    command = [sys.executable, "-m", "tests.bench.bench_journal", "resume"]
    subprocess.run([*command, str(session.path)], check=True)


def resume(session: SessionDir) -> None:
    """Time one start: of several rounds, the fastest of each part."""
    part = session.get_part(1)
    parts: dict[str, Callable[[], object]] = {
        "json.loads alone": lambda: [
            json.loads(line) and 0 for line in part.open("rb")
        ],
        "SQLite, and json.loads": lambda: resume_sqlite(session.path / "all.sqlite"),
        "decoded and checked": lambda: [None for _ in read_session(session)],
        "resumed (plan, decode, fold, first snapshot)": lambda: published(session),
    }
    rounds = [
        {name: cpu_seconds(work) for name, work in parts.items()} for _ in "12345"
    ]
    fastest = {name: min(each[name] for each in rounds) for name in parts}
    bare = fastest["json.loads alone"]
    for name, took in fastest.items():
        print(f"{name:46} {took:5.2f} s CPU  x{took / bare:.1f}")


def published(session: SessionDir) -> Snapshot:
    """The first snapshot of a session that is taken up."""
    loaded = load_state(session)
    publisher = SnapshotBuilder()
    publisher.note(loaded.events)
    return publisher.build_snapshot(loaded.state, EngineView(role="live"), {})


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU that `work` takes, as `gc` is while a session opens."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    gc.enable()
    return time.process_time() - start


def compare_plans() -> None:
    """A manifest of 10,000 jobs."""
    the_plan = plan(10_000)
    data = encode_plan(the_plan)
    decode_plan(data)
    bare = seconds(lambda: json.loads(data))
    encode = seconds(lambda: encode_plan(the_plan))
    decode = seconds(lambda: decode_plan(data))
    print(
        f"\nplan of 10,000 jobs, {len(data) / 1e6:.1f} MB: encode {encode:.2f} s, "
        f"decode {decode:.2f} s ({decode / bare:.1f} x json.loads)"
    )


def main() -> None:
    """All of it, in a directory that is removed."""
    if sys.argv[1:2] == ["resume"]:
        resume(SessionDir(Path(sys.argv[2])))
        return
    place = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        compare_resume(Path(directory))
    compare_plans()


if __name__ == "__main__":
    main()
