"""The sessions of state directories: made, found by what people type, listed, removed.

A row of the list is kept in `snapshot.json`, with names and sizes of the journal parts
that it was made from; any mismatch means folding again. Removed is a session's own
directory alone, renamed first, so that it is there as a whole or not at all."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from autoexp_tui import __version__
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned, UsageError
from autoexp_tui.model.masking import Share
from autoexp_tui.model.policy import has_work_left
from autoexp_tui.model.resubmission import asks, is_doomed, list_open_asks
from autoexp_tui.model.snapshot import BestResult, SessionBrief
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import ACTIVE, JobState
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.atomic import (
    SESSION_MODES,
    explain,
    explaining,
    sync_directory,
    write_atomic,
)
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.lease import UNREADABLE, LeaseWatch, find_engine
from autoexp_tui.storage.manifests import ENTRIES, MANIFESTS, make_state_dir
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.storage.user_files import ANSWER_SECONDS

_NO_SESSION = re.compile(rf"(?s:\..*)|({MANIFESTS}|{ENTRIES})(\.\d+)?")
_SILENCE = f"it did not answer within {ANSWER_SECONDS:g} s"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "234567"
_TRIES_PER_LENGTH = 20
_SHORTEST_PREFIX = 2
_FEW = 3
"""State directories that a refusal names."""
"""Letters of an id that may stand for all of it, when no other begins so."""
_GONE = ".removed-"
_KEYS: Final = {"name", "counts", "needs", "best", "last_event_at", "open"}
_BROKEN: Final = frozenset({JobState.FAILED, JobState.LOST})


def create_session(
    state_dir: Path,
    new_id: Callable[[int], str] | None = None,
    *,
    share: Share = "private",
) -> SessionDir:
    """A new session with an id that nobody has: its directory is the claim; raises
    EnvironmentFailed."""
    state_dir = state_dir.absolute()
    make_state_dir(state_dir, share)
    for tries in count():
        length = 4 + tries // _TRIES_PER_LENGTH
        session = SessionDir(state_dir / (new_id or random_id)(length))
        with explaining(session.path, "make the session's directory"):
            try:
                session.path.mkdir(0o700)
            except FileExistsError:
                continue
            if share != "private":
                session.path.chmod(SESSION_MODES[share].directory)
            sync_directory(state_dir)
        break
    session.make()
    return session


def random_id(length: int) -> str:
    """Such as `k7f2`, a letter and a digit first: no number, no word of YAML."""
    rest = (secrets.choice(_LETTERS + _DIGITS) for _ in range(length - 2))
    return "".join((secrets.choice(_LETTERS), secrets.choice(_DIGITS), *rest))


def find_sessions(state_dir: Path) -> list[SessionDir]:
    """The sessions of a state dir, there or not, by id; raises EnvironmentFailed."""
    state_dir = state_dir.absolute()
    with explaining(state_dir, "list the sessions"):
        try:
            entries = sorted(state_dir.iterdir())
        except FileNotFoundError:
            return []
        named = (one for one in entries if not _NO_SESSION.fullmatch(one.name))
        found = map(SessionDir, named)
        return [one for one in found if one.has_journal() or one.is_odd()]


def _look_into(places: Sequence[Path]) -> list[list[SessionDir] | Exception]:
    """The sessions of each state dir, or the error of the look; TimeoutError: it
    hangs."""
    return ask_all([partial(find_sessions, one) for one in places], ANSWER_SECONDS)


def find_session(places: Sequence[Path], session_id: str) -> SessionDir:
    """The session whose id is, or alone begins, so, or whose directory it is; the first
    place must be readable; raises UsageError, EnvironmentFailed."""
    if os.sep in session_id:
        directory = Path(session_id).absolute()
        places, session_id = (directory.parent,), directory.name
    known: list[SessionDir] = []
    for place, found in zip(places, _look_into(places), strict=True):
        if not isinstance(found, Exception):
            known += found
        elif isinstance(found, TimeoutError) and place == places[0]:
            hint = "Its file server may be down: look at it with `df`."
            raise EnvironmentFailed(_SILENCE, str(place), hint)
        elif place == places[0]:
            raise found
    matches = match_id(known, session_id)
    if len(matches) == 1:
        return matches[0]
    if matches:
        where = " and in ".join(str(session.state_dir) for session in matches)
        raise UsageError(
            f"there is a session {session_id!r} in {where}",
            hint=f"choose one with --state-dir {matches[0].state_dir}",
        )
    for place in places:
        path = place.absolute() / session_id
        try:
            os.listdir(path)
        except PermissionError as error:
            raise explain(error, path, "read the session") from error
        except (OSError, ValueError):
            continue  # no session, then
    where = ", nor in ".join(map(str, places[:_FEW]))
    where += f", nor in {len(places) - _FEW} more" if places[_FEW:] else ""
    ids = sorted({session.id for session in known})
    near = get_close_matches(session_id, ids, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(
        f"there is no session {session_id!r} in {where}",
        hint=f"{hint}`autoexp-sessions list` shows them all, with --state-dir those of "
        "another place.",
    )


def match_id(sessions: Sequence[SessionDir], session_id: str) -> list[SessionDir]:
    """The sessions of that id, else whose id begins so; raises UsageError for
    several."""
    exactly = [session for session in sessions if session.id == session_id]
    if exactly or len(session_id) < _SHORTEST_PREFIX:
        return exactly
    found = [session for session in sessions if session.id.startswith(session_id)]
    ids = dict.fromkeys(session.id for session in found)
    if len(ids) > 1:
        raise UsageError(
            f"several sessions begin with {session_id!r}: {', '.join(ids)}",
            hint="Write one of them out.",
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow(SessionBrief):
    directory: Path
    owner: Alive = Alive.NO


def list_sessions(*places: Path) -> tuple[SessionRow, ...]:
    """Every session of some state dirs, the one with the newest event first; what
    cannot be read, or does not answer, is a row too. Raises EnvironmentFailed."""
    rows: list[SessionRow] = []
    sessions: list[SessionDir] = []
    for place, found in zip(places, _look_into(places), strict=True):
        if isinstance(found, TimeoutError):
            rows.append(_build_faulty(SessionDir(place / "-"), _SILENCE))
        elif not isinstance(found, Exception):
            sessions += found
        elif place == places[0] or not isinstance(found, EnvironmentFailed):
            raise found
    answers = ask_all([partial(describe, one) for one in sessions], ANSWER_SECONDS)
    for session, row in zip(sessions, answers, strict=True):
        if isinstance(row, TimeoutError):
            row = _build_faulty(session, _SILENCE)
        elif isinstance(row, Exception):
            raise row
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: (-row.last_event_at, row.id)))


def _build_faulty(session: SessionDir, problem: str, user: str = "") -> SessionRow:
    return SessionRow(id=session.id, directory=session.path, user=user, problem=problem)


def describe(session: SessionDir) -> SessionRow:
    user = ""
    try:
        user = session.find_user()
        fields = _read_kept(session) or _fold_session(session, keep=not user)
        watch = LeaseWatch(session)
        holder = watch.find_holder()
    except EnvironmentFailed as error:
        return _build_faulty(session, str(error.problem), user)
    return SessionRow(
        id=session.id,
        directory=session.path,
        owner=watch.check_alive(holder, 0.0),
        host=holder.identity.host if holder and holder.identity else "",
        halted_pid=holder.find_halted() if holder else 0,
        user=user,
        **fields,
    )


def _fold_session(session: SessionDir, *, keep: bool) -> dict[str, Any]:
    # The mark is taken first: what is appended meanwhile makes the row stale.
    with explaining(session.path, "read the journal"):
        mark = _build_mark(session)
    state = load_state(session, tail=1).state
    jobs = [state.jobs[name] for name in state.order]
    summary = {
        "name": state.name,
        "counts": dict(Counter(job.state.value for job in jobs)),
        "needs": _count_needs(state, jobs),
        "best": _find_best(state.plan, jobs),
        "last_event_at": state.utc,
        "open": has_work_left(state),
    }
    if keep:
        with suppress(EnvironmentFailed):
            data = json.dumps({"of": mark, "summary": summary}).encode()
            mode = session.read_modes().file
            write_atomic(session.snapshot, data, mode, durable=False)
    return _read_fields(summary)


def _count_needs(state: SessionState, jobs: Sequence[JobRecord]) -> dict[str, int]:
    """How many jobs, and questions, need a person, by how the cockpit says that they
    look."""
    stalled = {one.job for one in state.warnings.values() if one.is_stall}
    looks = {
        "failed": (job.state in _BROKEN and not job.spec.trial for job in jobs),
        "stalled": (
            job.state is JobState.RUNNING and job.name in stalled for job in jobs
        ),
        "asks": (*map(asks, jobs), *(True for _ in list_open_asks(state.asks))),
        "cannot start": (is_doomed(job) and not asks(job) for job in jobs),
    }
    return {look: found for look, those in looks.items() if (found := sum(those))}


def _find_best(plan: Plan | None, jobs: Sequence[JobRecord]) -> BestResult | None:
    """The first row of the session's results, as its journal tells them; of an earlier
    stage while the one that they are of has none."""
    told = {job.spec.stage for job in jobs if job.noted or job.done}
    if plan is None or not told:
        return None
    from autoexp_tui.telemetry.results import (
        ResultTable,
        Source,
        choose_stage,
        group_runs,
        list_result_stages,
    )

    sources = (Source(plan, jobs, (None,) * len(jobs)),)
    stages = list_result_stages(plan)
    for stage in dict.fromkeys((choose_stage(plan, stages), *reversed(stages))):
        groups = group_runs(sources, stage) if stage in told else None
        if groups is not None:
            table = ResultTable(sources, groups, (groups.result,))
            row = table.sort_rows(table.result_column)[0]
            if (mean := table.cell(row, 0).mean) is not None:
                settings = table.describe_row(row)
                return BestResult(str(groups.result), mean, settings, stage)
    return None


def _read_kept(session: SessionDir) -> dict[str, Any] | None:
    """The row as it was made from the very same journal; None: fold again."""
    try:
        kept = json.loads(read_checked(session.snapshot, "session"))
        fields = _read_fields(kept["summary"])
        return fields if kept["of"] == _build_mark(session) else None
    except (OSError, *UNREADABLE):
        return None


def _read_fields(summary: dict[str, Any]) -> dict[str, Any]:
    """What a row says, as it is kept; raises some of `UNREADABLE`."""
    if set(summary) != _KEYS:
        raise ValueError("of another version")
    best = summary["best"]
    if best is not None:
        measure, value, settings, stage = best
        best = BestResult(str(measure), float(value), str(settings), str(stage))
    return {
        "name": str(summary["name"]),
        "counts": {JobState(key): int(n) for key, n in summary["counts"].items()},
        "needs": {str(key): int(n) for key, n in summary["needs"].items()},
        "best": best,
        "last_event_at": float(summary["last_event_at"]),
        "open": bool(summary["open"]),
    }


def _build_mark(session: SessionDir) -> list[object]:
    """What changes whenever the journal does: every part's size."""
    parts = [session.get_part(*part) for part in session.list_parts()]
    there = [path for path in parts if path.exists()]  # a packed one does not change
    return [__version__, *([path.name, path.stat().st_size] for path in there)]


class Size(NamedTuple):
    files: int
    bytes: int


def measure_size(directory: Path) -> Size:
    """How much would go with a directory; what cannot be looked at counts nothing."""
    sizes: list[int] = []
    for home, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                sizes.append(os.lstat(os.path.join(home, name)).st_size)
    return Size(len(sizes), sum(sizes))


def require_removable(session: SessionDir) -> None:
    """Nobody runs it, none of its jobs may, nothing else lies in it; raises
    SessionOwned, UsageError or EnvironmentFailed."""
    if session.path.is_symlink():
        raise UsageError(
            f"it is a link to {session.path.resolve()}",
            str(session.path),
            "Remove the link yourself; what it leads to is no session of this place.",
        )
    session.require_own()
    _require_unowned(session)
    try:
        jobs = load_state(session, tail=1).state.jobs.values()
    except EnvironmentFailed as damage:
        _require_no_open_run(session, damage)
        return
    if active := [job.name for job in jobs if job.state in ACTIVE]:
        more = f" and {len(active) - 3} more" if len(active) > 3 else ""
        raise UsageError(
            f"jobs of session {session.id} may still run: "
            f"{', '.join(active[:3])}{more}",
            hint=f"`autoexp-sessions stop {session.id} --jobs --yes --state-dir "
            f"{session.state_dir}` ends them first.",
        )
    home = os.path.realpath(session.path) + os.sep
    for job in jobs:
        if job.spec.trial:  # of a search or of research, which put its places there
            continue
        for place in (job.spec.output_dir, job.spec.log_dir):
            if place and os.path.realpath(place).startswith(home):
                raise UsageError(
                    f"{job.name} writes into the session's own directory",
                    place,
                    "Move that away first: outputs and logs are never removed.",
                )


def _require_unowned(session: SessionDir) -> None:
    holder, alive = find_engine(session)
    if alive is not Alive.NO:
        is_run = "is run" if alive is Alive.YES else "may be run"
        raise SessionOwned(
            f"session {session.id} {is_run} by {holder}",
            hint=f"`autoexp-sessions stop {session.id} --state-dir "
            f"{session.state_dir}` ends that engine first.",
        )


def _require_no_open_run(session: SessionDir, damage: EnvironmentFailed) -> None:
    """Of a journal that does not read: the jobs' own records say what may run."""
    for begin in session.attempts.glob("*/*/begin.*.json"):
        if not begin.with_name(begin.name.replace("begin", "exit", 1)).exists():
            raise UsageError(
                f"session {session.id} cannot be read, and {begin.parent.parent.name} "
                f"may still run: {damage.problem}",
                damage.where,
                "See that it does not, then remove the directory yourself.",
            )


def remove(session: SessionDir) -> Size:
    """Remove a session's directory; what was removed; raises AutoexpError."""
    require_removable(session)
    size = measure_size(session.path)
    gone = session.path.with_name(f"{_GONE}{session.id}-{secrets.token_hex(4)}")
    with explaining(session.path, "remove"):
        os.rename(session.path, gone)
    try:
        _require_unowned(SessionDir(gone))  # by an engine that came up just now
    except SessionOwned:
        os.rename(gone, session.path)
        raise
    with explaining(gone, "remove all of it"):
        remove_below(gone.parent.resolve(), gone.name)
    return size


def sweep(state_dir: Path) -> None:
    """Remove what killed or refused removals left; raises EnvironmentFailed."""
    with explaining(state_dir, "remove what is left of sessions"):
        for entry in state_dir.glob(f"{_GONE}*"):
            if entry.is_dir() and not entry.is_symlink():
                remove_below(state_dir.resolve(), entry.name)
