"""What the logs of a session said, read at once: for curves where no engine tells them.

Nothing of the session is written. Where a log is gone or too large to be read while
somebody waits, what the journal noted of the run now and then is its curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from autoexp_tui.engine.ports import LOG, SEARCH, Search
from autoexp_tui.engine.replay import Fold
from autoexp_tui.engine.telemetry import SMALL_CHUNK, THINNING, Telemetry
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.probes.log_reader import LogReader
from autoexp_tui.storage.journal import DOES_NOT_FOLLOW, StoredPlans, read_session
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.telemetry.metrics import Point

MOST_BYTES: Final = 1 << 28
"""Of a log: about three seconds."""


def read_curves(directory: str, names: Sequence[str]) -> Mapping[str, Live]:
    """The volatile side of those jobs that have said anything; raises JournalDamaged or
    EnvironmentFailed."""
    session = SessionDir(Path(directory))
    fold = Fold(SessionState(plans=StoredPlans(session)))
    try:
        for record in read_session(session):
            fold.take((record,))
    except DOES_NOT_FOLLOW as error:
        hint = f"`autoexp-sessions check {session.id}` says more."
        raise JournalDamaged(
            f"a record does not follow: {error}", directory, hint
        ) from error
    telemetry = Telemetry(fold.state)
    found = {name: fold.lives[name] for name in names if name in fold.lives}
    for job in (fold.state.jobs[name] for name in names if name in fold.state.jobs):
        if job.attempts and job.attempts[-1].log_path:
            live = _read_run(session, telemetry, job)
            found |= {job.name: live} if live.curves else {}
    return found


def _read_run(session: SessionDir, telemetry: Telemetry, job: JobRecord) -> Live:
    """Read a job's log, and its files of metrics, as an engine that comes does."""
    run, logs = telemetry.find_run(job), LogReader()
    if SEARCH in run.sources:
        first, present = (session.get_attempt(job.name, n) for n in (1, run.attempt))
        with suppress(OSError):
            search = Search(run.patterns, str(first), str(present))
            run.add_files(logs.find(search), {})
    for source in (LOG, *run.files):
        with suppress(OSError):  # what cannot be read has no curve
            for point in _read_points(telemetry, job, source, logs):
                run.add_point(run.files.get(source, run.log), point, 0.0)
    return telemetry.build_live(job.name)


def _read_points(
    telemetry: Telemetry, job: JobRecord, source: str, logs: LogReader
) -> Iterator[Point]:
    run = telemetry.find_run(job)
    while chunk := logs.read(telemetry.make_cursor(job, source, final=True)):
        if chunk.size > MOST_BYTES or not chunk.data:
            return
        if source in run.files:
            yield from run.files[source].read_file(chunk)
            continue
        run.log.offset = chunk.offset + len(chunk.data)
        every = chunk.size // THINNING if len(chunk.data) > SMALL_CHUNK else 0
        yield from run.reader.read(chunk.data, chunk.offset, every)
