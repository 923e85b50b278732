"""autoexp-sessions list and show: how sessions stand, for people and programs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from shutil import get_terminal_size
from typing import Any

from autoexp_tui.cli.headless import describe_job
from autoexp_tui.cli.open import list_places
from autoexp_tui.cli.session_verbs.request import (
    Request,
    Sight,
    build_view,
    look_at,
    parse_when,
    require_jobs,
)
from autoexp_tui.cockpit.render.lists import write_digest
from autoexp_tui.cockpit.render.sessions import render_session, render_session_titles
from autoexp_tui.cockpit.render.why import explain_job
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.reasons import group_causes
from autoexp_tui.model.condition import Condition, describe
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.masking import mask_text, mask_values
from autoexp_tui.model.outputs import NotedMetrics
from autoexp_tui.model.policy import find_end, has_work_left, list_open_ends
from autoexp_tui.model.resubmission import dependants, list_open_asks
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.state import Attempt, ConditionStatus, JobRecord
from autoexp_tui.model.states import ACTIVE, TERMINAL, JobState
from autoexp_tui.model.wording import format_cause_of_end, sentence, wakes
from autoexp_tui.planning.as_json import json_safe
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.provenance import load_made_from
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import list_sessions
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import clock_time, duration, wall_time

Record = dict[str, Any]
LEFT = "left"
"""For `--since`: the moment at which this user last left the cockpit."""
_GROUPS = {"active": ACTIVE, "ended": TERMINAL}
"""Words of --jobs that stand for several states."""
_WIDE = 200
"""Cells of a line of the list where no terminal says."""
_ROW = (
    *("id", "name", "host", "halted_pid", "last_event_at", "open"),
    *("user", "problem"),
)
"""What programs are told of a session in a list as it is."""


def list_all(request: Request) -> int:
    """Every session of the known state directories, a line each."""
    places = list_places(request.options)
    rows = list_sessions(*places)
    none = f"No sessions in {places[0]}. `autoexp-tui --config-ref exp` starts one."
    cells = get_terminal_size((_WIDE, 0)).columns
    titles = plain(render_session_titles(cells))
    lines: list[str] = [titles if rows else none]
    homes = dict.fromkeys(row.directory.parent for row in rows)
    for home in homes:
        lines += [f"{clean(str(home))}:"] if len(homes) > 1 else []
        for row in (row for row in rows if row.directory.parent == home):
            lines.append(plain(render_session(row, time.time(), cells)).rstrip())
            if row.halted_pid:
                lines.append(f"{'':<7} its engine is stopped: {wakes(row.halted_pid)}")
    records = [
        {name: getattr(row, name) for name in _ROW}
        | {
            "counts": {state.value: n for state, n in row.counts.items()},
            "needs": dict(row.needs),
            "best": row.best and row.best._asdict(),
            "owner": row.owner.name.lower(),
            "directory": str(row.directory),
        }
        for row in rows
    ]
    return request.print(records, lines)


def show(request: Request) -> int:
    """How a session stands, or all about one of its jobs."""
    if request.args.since:
        return _show_since(request)
    states = parse_states(request.args.jobs)
    sight = look_at(request.session)
    if request.names:
        require_jobs(sight.state, request.names)
        record = job_json(sight.state.jobs[request.names[0]], sight)
        view = build_view(sight.state, sight.live, sight.now)
        (seen,) = view.list_jobs(request.names[:1])
        words = PlanWords(view.snapshot.plan, view.changed)
        text = explain_job(seen, view, words, acts=False)
        state, since = record["state"].lower(), clock_time(record["since"], sight.now)
        stands = clean(f" {state} since {since}: {record['why']}").rstrip(": ")
        rest = (plain(line).rstrip() for line in text.lines[1:])  # has no keys to press
        lines = [text.title, stands, *rest]
        lines += _format_facts((record["made_from"] or {}).items())
        return request.print({"session": sight.session.id, "job": record}, lines)
    jobs = [sight.state.jobs[name] for name in sight.state.order]
    chosen = [job for job in jobs if not states or job.state in states]
    record = _session_json(sight, chosen)
    if request.options.json:
        for brief, job in zip(record["jobs"], chosen, strict=True):
            brief.update(values_json(job, sight))
    lines = [clean(f"{record['session']}  {record['name']}  {record['directory']}")]
    lines += _format_facts(_list_facts(record, sight, jobs))
    rows = [("", "")]
    for brief in record["jobs"]:
        rows.append((brief["state"].lower(), f"{brief['name']}  {brief['why']}"))
        rows += [("", f"evidence: {place}") for place in brief["evidence"]]
    return request.print(record, [*lines, *_format_facts(rows)])


def _format_facts(facts: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{what:<12} {clean(text)}".rstrip() for what, text in facts]


def _show_since(request: Request) -> int:
    session, now = request.session, time.time()
    since = parse_since(request.args.since, session)
    loaded = load_state(session)
    seen = build_view(loaded.state, events=loaded.events)
    groups = group_causes(seen, PlanWords(seen.snapshot.plan, seen.changed))
    span = (seen.present(since), seen.present(now))
    digest = write_digest(seen, groups, *span, lead="Since")
    new = [plain(line).rstrip() for line in digest] or ["Nothing new since then."]
    return request.print({"session": session.id, "new": new}, new)


def parse_states(text: str) -> frozenset[JobState]:
    """The states of `failed,waiting`; empty: all of them; raises UsageError."""
    found: set[JobState] = set()
    for word in filter(None, (word.strip().lower() for word in text.split(","))):
        states = _GROUPS.get(word) or {one for one in JobState if one == word.upper()}
        if not states:
            known = ", ".join(state.value.lower() for state in JobState)
            raise UsageError(
                f"--jobs: {word!r} is no state of a job",
                hint=f"{known}; or active, or ended",
            )
        found |= states
    return frozenset(found)


def parse_since(text: str, session: SessionDir) -> float:
    """The moment that `--since` names: `left`, or as `parse_when` has it."""
    if text != LEFT:
        return parse_when("--since", text)
    left = session.read_last_visit()
    if left is None:
        raise UsageError(
            "you have not left this session's cockpit yet",
            "--since",
            "Name a time instead: 2h, 14:02, 03-12 14:02.",
        )
    return left


def _session_json(sight: Sight, jobs: Sequence[JobRecord]) -> Record:
    state, now, holder, engine = sight.state, sight.now, sight.holder, sight.engine
    end = find_end(state.parts)
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
        "open": has_work_left(state),
        "open_ends": list(list_open_ends(state.parts)),
        "stopped": end.reason if end else None,
        "paused": sentence(state.paused, now, keys=False) if state.paused else None,
        "warnings": [
            {
                "job": warning.job,
                "severity": warning.severity,
                "why": sentence(warning.why, now, keys=False),
                "raised_at": wall_time(warning.raised_at, now),
            }
            for warning in state.warnings.values()
        ],
        "questions": [
            {
                "name": name,
                "title": ask.prompt,
                "lines": list(ask.lines),
                "asked_at": wall_time(ask.asked_at, now),
            }
            for name, ask in list_open_asks(state.asks).items()
        ],
        "counts": Counter(job.state.value for job in state.jobs.values()),
        "jobs": [brief_json(job, sight) for job in jobs],
    }


def _list_facts(
    record: Record, sight: Sight, jobs: Sequence[JobRecord]
) -> Iterator[tuple[str, str]]:
    now, engine = sight.now, sight.engine
    if user := sight.session.find_user():
        yield "belongs to", f"{user}; nothing of it runs as you"
    ended = "stopped" if sight.state.engine_stopped else "ended unexpectedly"
    engines = {
        Alive.YES: sight.holder.describe() if sight.holder else "",
        Alive.UNKNOWN: f"{sight.holder}; whether it lives cannot be told from here",
        Alive.NO: f"none; the last one ({sight.holder}) {ended}",
    }
    yield "engine", engines[sight.alive] if sight.holder else "none yet"
    began = clock_time(sight.state.started_at, now)
    yield "began", f"{began}, last event {duration(now - sight.state.t)} ago"
    if engine is not None and engine.executor_answered_at:
        ago = duration(now - engine.executor_answered_at)
        trouble = f"; {engine.executor_error}" if engine.executor_error else ""
        yield "executor", f"{engine.executor}, answered {ago} ago{trouble}"
    for key in ("paused", "stopped"):
        if record[key] is not None:
            yield key, record[key]
    for warning in record["warnings"]:
        head = f"{warning['job']}: " if warning["job"] else ""
        yield "warning", f"{head}{warning['why']}"
    for asked in record["questions"]:
        yield "asks", f"{asked['name']}: {asked['title']}"
        for number, text in enumerate(asked["lines"], 1):
            yield "", f"{number:>3}  {text}"
    counts = Counter(job.state.value.lower() for job in jobs).items()
    yield "jobs", f"{len(jobs)}: {', '.join(f'{n} {state}' for state, n in counts)}"
    if record["open_ends"]:
        yield "still open", ", ".join(record["open_ends"])
    elif record["questions"] and all(job.ended for job in jobs):
        yield "still open", "it waits for your answer"
    elif record["open"] and all(job.ended for job in jobs):
        yield "still open", "what rules ordered is not done yet"
    ends = Counter(
        format_cause_of_end(job.cause, job.state)
        for job in jobs
        if job.cause is not None and job.ended and job.state is not JobState.COMPLETED
    )
    if ends:
        yield "ended by", ", ".join(f"{n} {cause}" for cause, n in ends.most_common())


def job_json(job: JobRecord, sight: Sight) -> Record:
    """The job for programs."""
    spec, ask = job.spec, job.ask
    made = None if job.is_planned else load_made_from(spec)
    facts = made.list_facts() if made else ()

    def list_conditions(
        specs: Sequence[Condition], statuses: Sequence[ConditionStatus | None]
    ) -> list[Record]:
        return [
            {
                "what": mask_text(describe(one), sight.mask),
                "result": status.result.value if status else None,
                "since": wall_time(status.since, sight.now) if status else None,
                "why": sentence(status.why, sight.now, keys=False) if status else "",
                "waived": status.waived if status else "",
            }
            for one, status in zip(specs, statuses, strict=False)
        ]

    below = dependants(sight.state.jobs.values())
    behind = [job.name]  # what waits for it, directly or not
    for name in behind:
        behind += [one for one in below.get(name, ()) if one not in behind]
    return {
        **brief_json(job, sight),
        **values_json(job, sight),
        "stage": spec.stage,
        "since": wall_time(job.since, sight.now),
        "asks": ask.prompt if ask is not None and ask.approved is None else None,
        "start_conditions": list_conditions(spec.start_conditions, job.start),
        "cancel_conditions": list_conditions(spec.cancel_conditions, job.cancel),
        "log_path": job.attempt.log_path if job.attempt else "",
        "output_dir": spec.output_dir,
        "made_from": {name: mask_text(one, sight.mask) for name, one in facts} or None,
        "metadata": dict(job.metadata),
        "behind": [name for name in behind[1:] if not sight.state.jobs[name].ended],
    }


def brief_json(job: JobRecord, sight: Sight) -> Record:
    """A job in short, as `show` of its session tells it."""
    brief = describe_job(job, sight.live.get(job.name), sight.now)
    evidence = [place for attempt in job.attempts for place in attempt.captures]
    return {**brief, "asked_by": job.origin, "evidence": evidence}


def values_json(job: JobRecord, sight: Sight) -> Record:
    """With which values a job runs, what came of it, and both of each attempt."""
    return {
        "values": mask_values(job.spec.parameters, sight.mask),
        "planned_values": mask_values(job.list_planned_values, sight.mask),
        "metrics": _metrics_json(job.noted, sight.live.get(job.name)),
        "runs": [_attempt_json(one, job, sight) for one in job.attempts],
    }


def _metrics_json(
    noted: NotedMetrics | None, live: Live | None = None
) -> Record | None:
    """The engine's own newest values where it tells them, else the recorded ones."""
    if live is not None and live.step is not None:
        told: Live | NotedMetrics = live
        values = json_safe(live.metrics)
    elif noted is not None:
        told, values = noted, json_safe(noted.values)
    else:
        return None
    plain = {"step": told.step, "total": told.total, "values": values}
    best = {"lows": dict(told.lows), "highs": dict(told.highs)}
    return {**plain, "result": json_safe(told.result), **best}


def _attempt_json(attempt: Attempt, job: JobRecord, sight: Sight) -> Record:
    now, noted = sight.now, job.find_noted(attempt)
    is_newest = attempt is job.attempt and noted is job.noted
    live = sight.live.get(job.name) if is_newest else None
    times = ("ordered_at", "began_at", "ended_at")
    moments = {name: getattr(attempt, name) for name in times}
    plain = ("fingerprint", "exit_code", "signal", "node", "executor_id", "log_path")
    return {
        "attempt": attempt.number,
        "values": mask_values(job.values_of(attempt), sight.mask),
        "metrics": _metrics_json(noted, live),
        **{k: t if t is None else wall_time(t, now) for k, t in moments.items()},
        "ordered_why": sentence(attempt.ordered_why, now, keys=False)
        if attempt.ordered_why
        else "",
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "cause": attempt.cause.value if attempt.cause else None,
        "why": sentence(attempt.why, now, keys=False) if attempt.why else "",
        **{name: getattr(attempt, name) for name in plain},
        "last_line": attempt.evidence,
        "evidence": list(attempt.captures),
    }
