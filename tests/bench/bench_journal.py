"""How fast the journal appends and resumes, beside SQLite and bare JSON.

Run `python -m tests.bench.bench_journal [DIR]`; DIR chooses the disk. Everything is
measured in the same run; prints rates and ratios, asserts nothing.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from autoexp_tui.adapters.codec import decode_plan, encode_plan, encode_record
from autoexp_tui.adapters.journal import FileJournal, load_state, read_session
from autoexp_tui.adapters.session_dir import SessionDir
from autoexp_tui.core.draft import Draft
from autoexp_tui.core.effects import SubmitTasks
from autoexp_tui.core.events import (
    AttemptEnded,
    ConditionJudged,
    EffectOrdered,
    EffectSettled,
    Event,
    JobEnded,
    JobsReleased,
    LogMatched,
    MetricsNoted,
    PlanAdded,
    Recorded,
    RunBegan,
    SessionStarted,
    SubmissionAccepted,
)
from autoexp_tui.core.specs import FileExists, JobSpec, JobStateIs, Plan
from autoexp_tui.core.state import SessionState
from autoexp_tui.core.states import JobState, Outcome
from autoexp_tui.core.verdicts import Result, why

EVENTS = 100_000
GROUP = 100
"""Events a commit while a campaign is busy."""
PER_JOB = 20


class Forever:
    """A lease that nobody takes."""

    epoch = 1

    def held(self) -> bool:
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
    """What happens to one job: `PER_JOB` events."""
    name, token = spec.name, f"t{spec.index}"
    submit = SubmitTasks(token=token, tasks=((name, 1),))
    yield JobsReleased(jobs=(name,))
    for index in range(2):
        yield ConditionJudged(
            job=name,
            role="start",
            index=index,
            result=Result.PASS,
            why=why("file_there", path=spec.output_dir),
        )
    yield EffectOrdered(effect_id=f"e{spec.index}", effect=submit)
    yield SubmissionAccepted(token=token, executor_ids=("48213",), submitted_at=1.0)
    yield EffectSettled(effect_id=f"e{spec.index}", outcome="ok", detail="sbatch ...")
    yield RunBegan(job=name, attempt=1, run=0, began_at=2.0, node="n1", pid=7)
    for step in range(PER_JOB - 9):
        if step % 4:
            yield MetricsNoted(
                job=name,
                attempt=1,
                run=0,
                step=step,
                total=PER_JOB,
                values={"loss": 2.5, "lr": 3e-4, "grad_norm": 0.7},
            )
        else:
            yield LogMatched(
                match_id=f"m{spec.index}-{step}",
                job=name,
                attempt=1,
                run=0,
                rule="checkpoint",
                offset=step * 4096,
                line=f"saved checkpoint from iteration {step}",
                metadata={"checkpoint_iteration": str(step)},
            )
    yield AttemptEnded(
        job=name, attempt=1, outcome=Outcome.COMPLETED, exit_code=0, ended_at=9.0
    )
    yield JobEnded(job=name, state=JobState.COMPLETED)


def campaign(sha: str, the_plan: Plan) -> list[Recorded]:
    """The records of a campaign in which every job completed."""
    draft = Draft(SessionState(plans={sha: the_plan}), 1.0, epoch=1)
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
    return draft.records


def groups(records: Sequence[Recorded], size: int) -> Iterator[Sequence[Recorded]]:
    """`records` in commits of `size`."""
    for start in range(0, len(records), size):
        yield records[start : start + size]


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes on the wall clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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
    the_plan = plan(EVENTS // PER_JOB)
    records = campaign(session.store_plan(the_plan), the_plan)
    journal = FileJournal(session, Forever())
    for group in groups(records, 5_000):
        journal.append(group)
    compare_appends(directory, records)
    size = session.journal_part(1).stat().st_size
    print(
        f"\n{len(records):,} events, {size / 1e6:.0f} MB, {len(the_plan.jobs):,} jobs"
    )
    command = [sys.executable, "-m", "tests.bench.bench_journal", "resume"]
    subprocess.run([*command, str(session.path)], check=True)


def resume(session: SessionDir) -> None:
    """Time one start; each number is the best of three."""
    part = session.journal_part(1)
    bare = best(lambda: [json.loads(line) and None for line in part.open("rb")])
    read = best(lambda: [None for _ in read_session(session)])
    whole = best(lambda: load_state(session))
    print(f"json.loads alone: {bare:.2f} s; decoded and checked: {read:.2f} s")
    print(f"resumed (plan, decode, fold): {whole:.2f} s  ({whole / bare:.1f} x bare)")


def best(work: Callable[[], object]) -> float:
    """The fastest of three, in seconds."""
    return min(seconds(work) for _ in range(3))


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
