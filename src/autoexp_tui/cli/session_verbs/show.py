"""autoexp-sessions list and show: how sessions stand, for people and programs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.job_reasons import describe_job, why_of
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.moment import wall_time
from autoexp_tui.model.openness import is_open
from autoexp_tui.model.states import ACTIVE, TERMINAL, JobState
from autoexp_tui.model.wording import (
    cause_of_end,
    clock_time,
    duration,
    sentence,
    wakes,
)
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cli.session_verbs.probe import Sight
    from autoexp_tui.cli.session_verbs.send_command import Request
    from autoexp_tui.model.state import JobRecord, SessionState
    from autoexp_tui.storage.session_list import SessionRow

_GROUPS = {"active": ACTIVE, "ended": TERMINAL}
"""Words of --jobs that stand for several states."""


def _print(request: Request, record: object, lines: Iterable[str]) -> int:
    print(json.dumps(record) if request.options.json else "\n".join(lines))
    return ExitCode.OK


# ------------------------------------------------------------------------------ list
def list_all(request: Request) -> int:
    """Every session of the known state directories, a line each."""
    from autoexp_tui.cli.open import places_of
    from autoexp_tui.storage.session_list import list_sessions

    places = places_of(request.options)
    rows = list_sessions(*places)
    none = f"No sessions in {places[0]}. `autoexp-tui --config-ref exp` starts one."
    lines = _list_lines(rows) if rows else [none]
    return _print(request, [_row_json(row) for row in rows], lines)


def _list_lines(rows: Sequence[SessionRow]) -> Iterator[str]:
    """A line for each session; below the name of its place when there are several."""
    places = dict.fromkeys(row.directory.parent for row in rows)
    for place in places:
        if len(places) > 1:
            yield f"{clean(str(place))}:"
        yield from (_row_line(row) for row in rows if row.directory.parent == place)


def _row_json(row: SessionRow) -> dict[str, object]:
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
    none = "no engine" if row.open else "all ended"
    engine = {"YES": f"engine on {row.host}", "NO": none}
    runs = clean(f"{user}{engine.get(row.owner.name, f'engine on {row.host}?')}")
    when = clock_time(row.last_event_at, time.time())
    head = f"{clean(row.id):<6} {clean(row.name):<20}"
    line = f"{head} {when:<12} {runs:<24} {count_states(row.counts)}"
    if row.halted_pid:
        return f"{line}\n{'':<6} its engine is stopped: {wakes(row.halted_pid)}"
    return line


def count_states(counts: Mapping[JobState, int]) -> str:
    """How many jobs are in which state, in words."""
    return ", ".join(f"{n} {state.value.lower()}" for state, n in counts.items())


# ------------------------------------------------------------------------------ show
def show(request: Request) -> int:
    """How a session stands, or all about one of its jobs."""
    from autoexp_tui.cli.session_verbs.job_verbs import require_known
    from autoexp_tui.cli.session_verbs.probe import look_at
    from autoexp_tui.cli.session_verbs.show_job import job_json, job_lines

    session, args, names = request.session, request.args, request.names
    if args.since:
        from autoexp_tui.cli.since import describe_since

        new = describe_since(session, args.since)
        return _print(request, {"session": session.id, "new": new}, new)
    states = chosen_states(args.jobs)
    sight = look_at(session)
    if names:
        require_known(sight.state, names)
        job = sight.state.jobs[names[0]]
        record = {"session": session.id, "job": job_json(job, sight)}
        return _print(request, record, job_lines(job, sight))
    jobs = [sight.state.jobs[name] for name in sight.state.order]
    chosen = [job for job in jobs if not states or job.state in states]
    lines = _session_lines(sight, jobs, chosen)
    return _print(request, _session_json(sight, chosen), lines)


def chosen_states(text: str) -> frozenset[JobState]:
    """The states of `failed,waiting`; empty: all of them.

    Raises:
        UsageError: a word is neither a state nor `active` or `ended`.
    """
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


def _session_lines(
    sight: Sight, jobs: Sequence[JobRecord], chosen: Sequence[JobRecord]
) -> Iterator[str]:
    state = sight.state
    yield f"{sight.session.id}  {clean(state.name)}  {clean(str(sight.session.path))}"
    for what, text in _session_facts(sight, jobs):
        yield f"{what:<12} {clean(text)}"
    yield ""
    for job in chosen:
        why = why_of(job, sight.live.get(job.name), sight.now)
        yield f"{job.state.value.lower():<12} {clean(job.name)}  {clean(why)}".rstrip()
        for directory in evidence(job):
            yield f"{'':<12} evidence: {clean(directory)}"


def _session_facts(
    sight: Sight, jobs: Sequence[JobRecord]
) -> Iterator[tuple[str, str]]:
    state, now, engine = sight.state, sight.now, sight.engine
    if user := sight.session.user:
        yield "belongs to", f"{user}; nothing of it runs as you"
    yield "engine", engine_words(sight)
    last = duration(now - state.t)
    yield "began", f"{clock_time(state.started_at, now)}, last event {last} ago"
    if engine is not None and engine.executor_answered_at:
        ago = duration(now - engine.executor_answered_at)
        trouble = f"; {engine.executor_error}" if engine.executor_error else ""
        yield "executor", f"{engine.executor}, answered {ago} ago{trouble}"
    if state.paused is not None:
        yield "paused", sentence(state.paused, now)
    for warning in state.warnings.values():
        of = f"{warning.job}: " if warning.job else ""
        yield "warning", f"{of}{sentence(warning.why, now)}"
    counts = count_states(Counter(job.state for job in jobs))
    yield "jobs", f"{len(jobs)}: {counts}"
    if is_open(jobs, state.pending.values()) and all(job.ended for job in jobs):
        yield "still open", "what rules ordered is not done yet"
    if ends := _count_causes(jobs):
        yield "ended by", ends


def engine_words(sight: Sight) -> str:
    """Who runs the session, or ran it last."""
    from autoexp_tui.storage.process_identity import Alive

    if sight.holder is None:
        return "none yet"
    if sight.alive is Alive.YES:
        return sight.holder.as_seen()
    if sight.alive is Alive.UNKNOWN:
        return f"{sight.holder}; whether it lives cannot be told from here"
    ended = "stopped" if sight.state.engine_stopped else "ended unexpectedly"
    return f"none; the last one ({sight.holder}) {ended}"


def _count_causes(jobs: Sequence[JobRecord]) -> str:
    """What the jobs that did not complete ended by, the most frequent first."""
    counts = Counter(
        cause_of_end(job.cause, job.state)
        for job in jobs
        if job.cause is not None and job.ended and job.state is not JobState.COMPLETED
    )
    return ", ".join(f"{n} {cause}" for cause, n in counts.most_common())


# ------------------------------------------------------------------------ of one job
def evidence(job: JobRecord) -> list[str]:
    """Directories with what was kept of runs that a rule ended, oldest first."""
    return [place for attempt in job.attempts for place in attempt.captures]


def brief_json(job: JobRecord, sight: Sight) -> dict[str, object]:
    """A job as `show` and the ends of runs tell it."""
    brief = describe_job(job, sight.live.get(job.name), sight.now)
    return {**brief, "evidence": evidence(job)}


def _session_json(sight: Sight, jobs: Sequence[JobRecord]) -> dict[str, object]:
    from autoexp_tui.cli.session_verbs.show_job import values_json

    state = sight.state
    return {
        "session": sight.session.id,
        "name": state.name,
        "directory": str(sight.session.path),
        "engine": _engine_json(sight),
        "began_at": wall_time(state.started_at, sight.now),
        "last_event_at": state.utc,
        "open": is_open(state.jobs.values(), state.pending.values()),
        "paused": sentence(state.paused, sight.now) if state.paused else None,
        "warnings": _warnings_json(state, sight.now),
        "counts": Counter(job.state.value for job in state.jobs.values()),
        "jobs": [{**brief_json(job, sight), **values_json(job, sight)} for job in jobs],
    }


def _warnings_json(state: SessionState, now: float) -> list[dict[str, object]]:
    return [
        {
            "job": warning.job,
            "severity": warning.severity,
            "why": sentence(warning.why, now),
            "raised_at": wall_time(warning.raised_at, now),
        }
        for warning in state.warnings.values()
    ]


def _engine_json(sight: Sight) -> dict[str, object]:
    """Who runs the session, or ran it last."""
    holder, engine = sight.holder, sight.engine
    identity = holder.identity if holder else None
    return {
        "alive": sight.alive.value,
        "host": identity.host if identity else "",
        "pid": identity.pid if identity else 0,
        "since": holder.since if holder else None,
        "executor_answered_at": engine.executor_answered_at if engine else None,
        "executor_error": engine.executor_error if engine else "",
    }
