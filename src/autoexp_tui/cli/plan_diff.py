"""`autoexp-plan --diff OTHER`, and what changed since the last plan of a config."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from autoexp_tui.cli.open import list_places
from autoexp_tui.cli.options import Options, find_state_dir
from autoexp_tui.cockpit.render.plan_findings import PlanChanges
from autoexp_tui.model.errors import AutoexpError, UsageError
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.plan_diff import list_differences, summarize_diff
from autoexp_tui.storage.manifests import (
    find_manifest,
    list_manifests,
    read_manifest,
    read_manifest_head,
)
from autoexp_tui.storage.plan_changes import compare_plans
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import find_sessions, match_id
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import clock_time

_FIRST_LINES: Final = 3


def show_diff(plan: Plan, other: str, options: Options) -> None:
    """Print how `plan` differs from another one; raises UsageError."""
    old = _find_plan(other, options, plan)
    found = compare_plans(old, plan)
    if options.json:
        ids = {"old": old.plan_id, "new": plan.plan_id}
        print(json.dumps(found | ids))
        return
    made = clock_time(old.created_at, time.time())
    print(f"against   {clean(old.name)}, plan {clean(old.plan_id)} of {made}")
    print(summarize_diff(found))
    for mark, text in list_differences(found):
        print(f"  {mark} {text}")


def format_since(since: PlanChanges) -> Iterator[str]:
    """How a plan differs from the last one of its config, in few lines."""
    yield since.describe(time.time())
    fits = len(since.lines) <= _FIRST_LINES
    shown = since.lines if fits else since.lines[: _FIRST_LINES - 1]
    yield from (f"  {mark} {text}" for mark, text in shown)
    if rest := len(since.lines) - len(shown):
        yield f"  and {rest} more: `autoexp-plan --diff` tells them"


def _find_plan(other: str, options: Options, plan: Plan) -> Plan:
    """The plan of a file, a plan's id, a session, or the newest of a config."""
    path = Path(other)
    if path.is_file() or path.suffix == ".json":
        return read_manifest(path)
    place = find_state_dir(options, plan.state_dir)
    if found := find_manifest(place, other.removeprefix("plan_")):
        return read_manifest(found)
    sessions: list[SessionDir] = []
    for one in dict.fromkeys((place, *list_places(options))):
        with suppress(AutoexpError):  # one that cannot be listed has none
            sessions += find_sessions(one)
    if by_id := match_id(sessions, other):
        return read_manifest(by_id[0].plan)
    of_sessions = (read_manifest_head(one.plan) for one in sessions)
    heads = [*list_manifests(place), *filter(None, of_sessions)]
    heads = [head for head in heads if head.plan_id != plan.plan_id]
    named = [head for head in heads if other in (head.config_ref, head.name)]
    if named:
        return read_manifest(max(named, key=lambda head: head.created_at).path)
    known = {name for head in heads for name in (head.config_ref, head.plan_id)}
    known |= {session.id for session in sessions}
    raise UsageError(
        f"--diff {other}: no other manifest, plan, session or config of that name",
        str(place),
        did_you_mean(other, filter(None, sorted(known)), "plans and sessions"),
    )
