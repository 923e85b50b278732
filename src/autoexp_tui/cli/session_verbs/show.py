"""autoexp-sessions list and show: how sessions stand, for people and programs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from autoexp_tui.cli.open import list_places
from autoexp_tui.cli.session_verbs.probe import Request, Sight, look_at, require_jobs
from autoexp_tui.cli.session_verbs.show_job import (
    Record,
    brief_json,
    job_json,
    job_lines,
    values_json,
)
from autoexp_tui.cockpit.render.digest import write_digest
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.causes import group_causes
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.resubmission import is_open
from autoexp_tui.model.snapshot import EngineView
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import ACTIVE, TERMINAL, JobState
from autoexp_tui.model.wording import format_cause_of_end, sentence, wakes
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import SessionRow, list_sessions
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import clock_time, duration, wall_time
from autoexp_tui.text.time_parsing import NoMoment, parse_moment

LEFT = "left"
"""For `--since`: the moment at which this user last left the cockpit."""
_GROUPS = {"active": ACTIVE, "ended": TERMINAL}
"""Words of --jobs that stand for several states."""


def list_all(request: Request) -> int:
    """Every session of the known state directories, a line each."""
    places = list_places(request.options)
    rows = list_sessions(*places)
    none = f"No sessions in {places[0]}. `autoexp-tui --config-ref exp` starts one."
    lines: list[str] = [] if rows else [none]
    homes = dict.fromkeys(row.directory.parent for row in rows)
    for home in homes:
        lines += [f"{clean(str(home))}:"] if len(homes) > 1 else []
        lines += [_row_line(row) for row in rows if row.directory.parent == home]
    return request.print([_row_json(row) for row in rows], lines)


def _row_json(row: SessionRow) -> Record:
    return {
        "id": row.id,
        "name": row.name,
        "counts": {state.value: n for state, n in row.counts.items()},
        "owner": row.owner.name.lower(),
        "host": row.host,
        "halted_pid": row.halted_pid,
        "last_event_at": row.last_event_at,
        "open": row.open,
        "directory": str(row.directory),
        "user": row.user,
        "problem": row.problem,
    }


def _row_line(row: SessionRow) -> str:
    user = f"of {clean(row.user)}, " if row.user else ""
    if row.problem:
        return f"{clean(row.id):<6} {user}cannot be read: {clean(row.problem)}"
    engines = {
        Alive.YES: f"engine on {row.host}",
        Alive.NO: "no engine" if row.open else "all ended",
        Alive.UNKNOWN: f"engine on {row.host}?",
    }
    runs = clean(f"{user}{engines[row.owner]}")
    when = clock_time(row.last_event_at, time.time())
    head = f"{clean(row.id):<6} {clean(row.name):<20}"
    line = f"{head} {when:<12} {runs:<24} {_count_states(row.counts)}"
    if row.halted_pid:
        return f"{line}\n{'':<6} its engine is stopped: {wakes(row.halted_pid)}"
    return line


def _count_states(counts: Mapping[JobState, int]) -> str:
    """How many jobs are in which state, in words."""
    return ", ".join(f"{n} {state.value.lower()}" for state, n in counts.items())


def show(request: Request) -> int:
    """How a session stands, or all about one of its jobs."""
    session, args, names = request.session, request.args, request.names
    if args.since:
        new = describe_since(session, args.since)
        return request.print({"session": session.id, "new": new}, new)
    states = parse_states(args.jobs)
    sight = look_at(session)
    if names:
        require_jobs(sight.state, names)
        job = sight.state.jobs[names[0]]
        record = job_json(job, sight)
        lines = job_lines(record, job, sight)
        return request.print({"session": session.id, "job": record}, lines)
    jobs = [sight.state.jobs[name] for name in sight.state.order]
    chosen = [job for job in jobs if not states or job.state in states]
    record = _session_json(sight, chosen)
    if request.options.json:
        for brief, job in zip(record["jobs"], chosen, strict=True):
            brief.update(values_json(job, sight))
    return request.print(record, _session_lines(record, sight, jobs))


def parse_states(text: str) -> frozenset[JobState]:
    """The states of `failed,waiting`; empty: all of them; raises UsageError."""
    found: set[JobState] = set()
    for word in filter(None, (word.strip().lower() for word in text.split(","))):
        if word in _GROUPS:
            found |= _GROUPS[word]
        elif word.upper() in JobState.__members__:
            found.add(JobState[word.upper()])
        else:
            known = ", ".join(state.value.lower() for state in JobState)
            raise UsageError(
                f"--jobs: {word!r} is no state of a job",
                hint=f"{known}; or active, or ended",
            )
    return frozenset(found)


def _session_json(sight: Sight, jobs: Sequence[JobRecord]) -> Record:
    """A session for programs, these jobs in short."""
    state, now, holder, engine = sight.state, sight.now, sight.holder, sight.engine
    identity = holder.identity if holder else None
    return {
        "session": sight.session.id,
        "name": state.name,
        "directory": str(sight.session.path),
        "engine": {
            "alive": sight.alive.value,
            "host": identity.host if identity else "",
            "pid": identity.pid if identity else 0,
            "since": holder.since if holder else None,
            "executor_answered_at": engine.executor_answered_at if engine else None,
            "executor_error": engine.executor_error if engine else "",
        },
        "began_at": wall_time(state.started_at, now),
        "last_event_at": state.utc,
        "open": is_open(state.jobs.values(), state.pending.values()),
        "paused": sentence(state.paused, now) if state.paused else None,
        "warnings": [
            {
                "job": warning.job,
                "severity": warning.severity,
                "why": sentence(warning.why, now),
                "raised_at": wall_time(warning.raised_at, now),
            }
            for warning in state.warnings.values()
        ],
        "counts": Counter(job.state.value for job in state.jobs.values()),
        "jobs": [brief_json(job, sight) for job in jobs],
    }


def _session_lines(
    record: Record, sight: Sight, jobs: Sequence[JobRecord]
) -> Iterator[str]:
    """The same for people."""
    yield f"{record['session']}  {clean(record['name'])}  {clean(record['directory'])}"
    for what, text in _list_facts(record, sight, jobs):
        yield f"{what:<12} {clean(text)}"
    yield ""
    for job in record["jobs"]:
        text = f"{clean(job['name'])}  {clean(job['why'])}".rstrip()
        yield f"{job['state'].lower():<12} {text}"
        for directory in job["evidence"]:
            yield f"{'':<12} evidence: {clean(directory)}"


def _list_facts(
    record: Record, sight: Sight, jobs: Sequence[JobRecord]
) -> Iterator[tuple[str, str]]:
    now, engine = sight.now, sight.engine
    if user := sight.session.find_user():
        yield "belongs to", f"{user}; nothing of it runs as you"
    if sight.holder is None:
        yield "engine", "none yet"
    elif sight.alive is Alive.YES:
        yield "engine", sight.holder.describe()
    elif sight.alive is Alive.UNKNOWN:
        yield "engine", f"{sight.holder}; whether it lives cannot be told from here"
    else:
        ended = "stopped" if sight.state.engine_stopped else "ended unexpectedly"
        yield "engine", f"none; the last one ({sight.holder}) {ended}"
    began = clock_time(sight.state.started_at, now)
    yield "began", f"{began}, last event {duration(now - sight.state.t)} ago"
    if engine is not None and engine.executor_answered_at:
        ago = duration(now - engine.executor_answered_at)
        trouble = f"; {engine.executor_error}" if engine.executor_error else ""
        yield "executor", f"{engine.executor}, answered {ago} ago{trouble}"
    if record["paused"] is not None:
        yield "paused", record["paused"]
    for warning in record["warnings"]:
        head = f"{warning['job']}: " if warning["job"] else ""
        yield "warning", f"{head}{warning['why']}"
    yield "jobs", f"{len(jobs)}: {_count_states(Counter(job.state for job in jobs))}"
    if record["open"] and all(job.ended for job in jobs):
        yield "still open", "what rules ordered is not done yet"
    ends = Counter(
        format_cause_of_end(job.cause, job.state)
        for job in jobs
        if job.cause is not None and job.ended and job.state is not JobState.COMPLETED
    )
    if ends:
        counts = (f"{n} {cause}" for cause, n in ends.most_common())
        yield "ended by", ", ".join(counts)


def parse_since(text: str, session: SessionDir, now: float) -> float:
    """The moment that `--since` names: `left`, `2h` ago, `14:02`, `03-12 14:02`; raises
    UsageError where it names none."""
    if text == LEFT:
        left = session.read_last_visit()
        if left is None:
            raise UsageError(
                "you have not left this session's cockpit yet",
                "--since",
                "Name a time instead: 2h, 14:02, 03-12 14:02.",
            )
        return left
    ago = f"-{text}" if text[:1].isdigit() and text[-1:] in "smhdn" else text
    try:
        return parse_moment(ago, now, 0.0, now)
    except NoMoment:
        raise UsageError(
            f"{text!r} is no time", "--since", "2h, 14:02, 03-12 14:02, or left"
        ) from None


def describe_since(session: SessionDir, text: str) -> list[str]:
    """What happened in a session since a moment, as lines of text; raises AutoexpError
    where no such moment, or the session cannot be read."""
    now = time.time()
    since = parse_since(text, session, now)
    loaded = load_state(session)
    builder = SnapshotBuilder()
    builder.note(loaded.events)
    engine = EngineView(role="viewer")
    shown = build_session(builder.build_snapshot(loaded.state, engine, {}))
    groups = group_causes(shown, PlanWords(shown.snapshot.plan, shown.changed))
    lines = write_digest(
        shown, groups, shown.present(since), shown.present(now), lead="Since"
    )
    return [plain(line).rstrip() for line in lines] or ["Nothing new since then."]
