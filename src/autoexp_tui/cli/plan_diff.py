"""`autoexp-plan --diff OTHER`, and what changed since the last plan of a config."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.options import Options, state_dir_of
from autoexp_tui.model.errors import AutoexpError, UsageError

if TYPE_CHECKING:
    from autoexp_tui.model.specs import Plan
    from autoexp_tui.storage.session_dir import SessionDir


def show_diff(plan: Plan, other: str, options: Options) -> None:
    """Print how `plan` differs from another one.

    Raises:
        UsageError: there is no such plan, or it does not read.
    """
    from autoexp_tui.planning.compare_words import difference_to_json, headline, told
    from autoexp_tui.storage.plan_history import difference

    old = other_plan(other, options, plan)
    found = difference(old, plan)
    if options.json:
        ids = {"old": old.plan_id, "new": plan.plan_id}
        print(json.dumps(difference_to_json(found) | ids))
        return
    print(f"against   {_title(old)}")
    print(headline(found))
    for line in told(found):
        print(f"  {line}")


def _title(plan: Plan) -> str:
    from autoexp_tui.text.sanitize import clean
    from autoexp_tui.text.spelling import clock_time

    made = clock_time(plan.created_at, time.time())
    return f"{clean(plan.name)}, plan {clean(plan.plan_id)} of {made}"


def since_lines(plan: Plan) -> Iterator[str]:
    """How a plan differs from the last one of its config; nothing without one."""
    from autoexp_tui.planning.compare_words import in_short
    from autoexp_tui.storage.plan_history import since_last
    from autoexp_tui.text.spelling import clock_time

    since = since_last(plan)
    if since is None:
        return
    head, *rest = in_short(since.difference)
    yield f"since the plan of {clock_time(since.created_at, time.time())}: {head}"
    yield from (f"  {line}" for line in rest)


# ------------------------------------------------------------------ the other plan
def other_plan(other: str, options: Options, plan: Plan) -> Plan:
    """The plan of a file, a plan's id, a session, or the newest of a config.

    Raises:
        UsageError: nothing is called so, or it does not read.
    """
    from autoexp_tui.storage.session_dir import read_manifest

    path = Path(other)
    is_file = path.is_file() or path.suffix == ".json"
    return read_manifest(path if is_file else _named(other, options, plan))


def _named(other: str, options: Options, plan: Plan) -> Path:
    from autoexp_tui.storage.plan_history import manifest_of

    place = state_dir_of(options, plan.state_dir)
    if found := manifest_of(place, other.removeprefix("plan_")):
        return found
    sessions = _sessions(options, place)
    if by_id := _session_of(other, sessions):
        return by_id.plan
    return _newest_called(other, place, sessions, plan)


def _sessions(options: Options, place: Path) -> Sequence[SessionDir]:
    """The sessions of every known place; one that cannot be listed has none."""
    from autoexp_tui.cli.open import places_of
    from autoexp_tui.storage.session_dir import sessions_in

    found: list[SessionDir] = []
    for one in dict.fromkeys((place, *places_of(options))):
        with suppress(AutoexpError):
            found += sessions_in(one)
    return found


def _session_of(other: str, sessions: Sequence[SessionDir]) -> SessionDir | None:
    """The session of that id, or of the beginning of one.

    Raises:
        UsageError: several begin so.
    """
    from autoexp_tui.storage.session_dir import called

    found = called(sessions, other)
    return found[0] if found else None


def _newest_called(
    other: str, place: Path, sessions: Sequence[SessionDir], plan: Plan
) -> Path:
    """The newest other plan of a config, or of a session's name.

    Raises:
        UsageError: there is none, with what is called alike.
    """
    from autoexp_tui.storage.plan_history import head_of, manifests
    from autoexp_tui.text.did_you_mean import did_you_mean

    heads = [*manifests(place), *filter(None, (head_of(s.plan) for s in sessions))]
    called = [head for head in heads if other in (head.config_ref, head.name)]
    others = [head for head in called if head.plan_id != plan.plan_id]
    if others:
        return max(others, key=lambda head: head.created_at).path
    if called:
        raise UsageError(
            f"--diff {other}: the only plan of {other} is this one",
            hint="Name a manifest, a plan's id or a session to compare with.",
        )
    known = dict.fromkeys(name for h in heads for name in (h.config_ref, h.plan_id))
    known |= dict.fromkeys(session.id for session in sessions)
    raise UsageError(
        f"--diff {other}: no manifest, plan, session or config of that name",
        str(place),
        did_you_mean(other, filter(None, known), "plans and sessions"),
    )
