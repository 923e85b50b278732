"""autoexp-sessions list and show: how sessions stand, for people and programs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.job_reasons import why_of
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
    import argparse

    from autoexp_tui.cli.options import Options
    from autoexp_tui.cli.session_verbs.probe import Sight
    from autoexp_tui.model.state import JobRecord, SessionState
    from autoexp_tui.storage.session_dir import SessionDir
    from autoexp_tui.storage.session_list import SessionRow

_GROUPS = {"active": ACTIVE, "ended": TERMINAL}
"""Words of --jobs that stand for several states."""


# ------------------------------------------------------------------------------ list
def list_all(options: Options) -> int:
    """Every session of the known state directories, a line each."""
    from autoexp_tui.cli.open import places_of
    from autoexp_tui.storage.session_list import list_sessions

    places = places_of(options)
    rows = list_sessions(*places)
    if options.json:
        print(json.dumps([_row_json(row) for row in rows]))
    elif rows:
        print("\n".join(_lines(rows)))
    else:
        print(f"No sessions in {places[0]}. `autoexp-tui --config-ref exp` starts one.")
    return ExitCode.OK


def _lines(rows: Sequence[SessionRow]) -> Iterator[str]:
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
    if row.problem:
        of = f"of {clean(row.user)}, " if row.user else ""
        return f"{clean(row.id):<6} {of}cannot be read: {clean(row.problem)}"
    none = "no engine" if row.open else "all ended"
    engine = {"YES": f"engine on {row.host}", "NO": none}
    runs = engine.get(row.owner.name, f"engine on {row.host}?")
    when = clock_time(row.last_event_at, time.time())
    counts = _counted(row.counts)
    head = f"{clean(row.id):<6} {clean(row.name):<20}"
    runs = f"of {row.user}, {runs}" if row.user else runs
    told = f"{head} {when:<12} {clean(runs):<24} {counts}"
    if row.halted_pid:
        return f"{told}\n{'':<6} its engine is stopped: {wakes(row.halted_pid)}"
    return told


def _counted(counts: Mapping[JobState, int]) -> str:
    return ", ".join(f"{n} {state.value.lower()}" for state, n in counts.items())


# ------------------------------------------------------------------------------ show
def show(
    session: SessionDir,
    names: Sequence[str],
    args: argparse.Namespace,
    options: Options,
) -> int:
    """How a session stands, or all about one of its jobs."""
    from autoexp_tui.cli.session_verbs.commands import require_known
    from autoexp_tui.cli.session_verbs.probe import look_at
    from autoexp_tui.cli.session_verbs.show_job import job_json, job_lines

    if args.since:
        from autoexp_tui.cli.since import told_since

        new = told_since(session, args.since)
        _print(options, {"session": session.id, "new": new}, iter(new))
        return ExitCode.OK
    states = chosen_states(args.jobs)
    sight = look_at(session)
    if names:
        require_known(sight.state, names)
        record = sight.state.jobs[names[0]]
        told = {"session": session.id, "job": job_json(record, sight)}
        _print(options, told, job_lines(record, sight))
        return ExitCode.OK
    jobs = [sight.state.jobs[name] for name in sight.state.order]
    chosen = [job for job in jobs if not states or job.state in states]
    _print(options, _session_json(sight, chosen), _session_lines(sight, jobs, chosen))
    return ExitCode.OK


def _print(options: Options, told: Mapping[str, object], lines: Iterator[str]) -> None:
    print(json.dumps(told) if options.json else "\n".join(lines))


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
    directory = clean(str(sight.session.path))
    yield f"{sight.session.id}  {clean(state.name)}  {directory}"
    if user := sight.session.user:
        yield _line("belongs to", f"{user}; nothing of it runs as you")
    yield _line("engine", engine_words(sight))
    since, last = clock_time(state.started_at, sight.now), duration(sight.now - state.t)
    yield _line("began", f"{since}, last event {last} ago")
    if sight.engine is not None and sight.engine.executor_answered_at:
        yield _line("executor", _asked(sight))
    if state.paused is not None:
        yield _line("paused", sentence(state.paused, sight.now))
    for warning in state.warnings.values():
        of = f"{clean(warning.job)}: " if warning.job else ""
        yield _line("warning", f"{of}{sentence(warning.why, sight.now)}")
    counts = Counter(job.state for job in jobs)
    yield _line("jobs", f"{len(jobs)}: {_counted(counts)}")
    if is_open(jobs, state.pending.values()) and all(job.ended for job in jobs):
        yield _line("still open", "what rules ordered is not done yet")
    if ends := _causes(jobs):
        yield _line("ended by", ends)
    yield ""
    for job in chosen:
        yield from _job_line(job, sight)


def _line(what: str, text: str) -> str:
    return f"{what:<12} {clean(text)}"


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


def _asked(sight: Sight) -> str:
    engine = sight.engine
    if engine is None or not engine.executor_answered_at:
        return ""
    ago = duration(sight.now - engine.executor_answered_at)
    trouble = f"; {engine.executor_error}" if engine.executor_error else ""
    return f"{engine.executor}, answered {ago} ago{trouble}"


def _causes(jobs: Sequence[JobRecord]) -> str:
    """What the jobs that did not complete ended by, the most frequent first."""
    counts = Counter(
        cause_of_end(job.cause, job.state)
        for job in jobs
        if job.cause is not None and job.ended and job.state is not JobState.COMPLETED
    )
    return ", ".join(f"{n} {cause}" for cause, n in counts.most_common())


def _job_line(job: JobRecord, sight: Sight) -> Iterator[str]:
    why = why_of(job, sight.live.get(job.name), sight.now)
    yield f"{job.state.value.lower():<12} {clean(job.name)}  {clean(why)}".rstrip()
    for directory in evidence(job):
        yield f"{'':<12} evidence: {clean(directory)}"


# ------------------------------------------------------------------------ of one job
def evidence(job: JobRecord) -> list[str]:
    """Directories with what was kept of runs that a rule ended, oldest first."""
    return [place for attempt in job.attempts for place in attempt.captures]


def brief_json(job: JobRecord, sight: Sight) -> dict[str, object]:
    """A job as `show` and the ends of runs tell it."""
    return {
        "name": job.name,
        "state": job.state.value,
        "cause": job.cause.value if job.cause else None,
        "attempts": len(job.attempts),
        "exit_code": job.attempt.exit_code if job.attempt else None,
        "why": why_of(job, sight.live.get(job.name), sight.now),
        "evidence": evidence(job),
    }


def _session_json(sight: Sight, jobs: Sequence[JobRecord]) -> dict[str, object]:
    from autoexp_tui.cli.session_verbs.show_job import values_json

    state = sight.state
    return {
        "session": sight.session.id,
        "name": state.name,
        "directory": str(sight.session.path),
        "engine": engine_json(sight),
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


def engine_json(sight: Sight) -> dict[str, object]:
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
