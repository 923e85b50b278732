"""`autoexp-plan --diff OTHER`, and what changed since the last plan of a config. Of
earlier plans what cannot be read is passed over, for nothing depends on it.

For the cockpit, `python -m autoexp_tui.cli.plan_diff STATE_DIR PLAN_ID` says the latter
in one line of JSON: two plans of thousands of jobs are read and compared, which its
keys would feel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from autoexp_tui.cli.open import list_places
from autoexp_tui.cli.options import Options, find_state_dir
from autoexp_tui.cockpit.render.plan_findings import PlanChanges
from autoexp_tui.model.errors import AutoexpError, UsageError
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.plan_diff import (
    Tree,
    ValueChange,
    diff_plans,
    diff_values,
    is_different,
    list_differences,
    summarize_diff,
)
from autoexp_tui.storage.manifests import (
    find_manifest,
    list_manifests,
    read_manifest,
    read_manifest_head,
)
from autoexp_tui.storage.provenance import ProvenanceRecord, load_record
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import find_sessions, match_id
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.plain_tree import flatten
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import clock_time

_SECONDS: Final = 120.0
_MOST_LINES: Final = 1000
_FIRST_LINES: Final = 3
_NICENESS: Final = 10
"""Added for the process: a campaign may be running beside it."""


def compare_to_last(plan: Plan) -> PlanChanges | None:
    """What changed since the last plan of the same config; None: none that reads."""
    mine = (plan.config_ref, plan.config_dir)
    for head in list_manifests(Path(plan.state_dir)) if plan.config_ref else ():
        is_same_config = (head.config_ref, head.config_dir) == mine
        is_earlier = head.created_at <= plan.created_at and head.plan_id != plan.plan_id
        if is_same_config and is_earlier:
            with suppress(AutoexpError):
                found = compare_plans(read_manifest(head.path), plan)
                return PlanChanges(
                    created_at=head.created_at,
                    head=summarize_diff(found),
                    lines=list_differences(found, _MOST_LINES),
                    differs=is_different(found),
                )
            return None
    return None


def compare_plans(old: Plan, new: Plan) -> Tree:
    """How two plans differ, their jobs' recorded configs included."""
    records: list[ProvenanceRecord | None] = [None, None]
    for at, plan in enumerate((old, new)):
        with suppress(AutoexpError):
            records[at] = load_record(Path(plan.state_dir), plan.plan_id)

    def compare_jobs(*names: str) -> list[ValueChange] | None:
        with suppress(AutoexpError):  # a config may be damaged
            trees = [
                record and record.load_resolved(job)
                for record, job in zip(records, names, strict=True)
            ]
            if all(trees):
                return [*diff_values(*(dict(flatten("", tree)) for tree in trees))]
        return None

    return diff_plans(old, new, compare_jobs)


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


def format_since(plan: Plan) -> Iterator[str]:
    """How a plan differs from the last one of its config; nothing without one."""
    if since := compare_to_last(plan):
        yield since.describe(time.time())
        fits = len(since.lines) <= _FIRST_LINES
        shown = since.lines if fits else since.lines[: _FIRST_LINES - 1]
        yield from (f"  {mark} {text}" for mark, text in shown)
        if rest := len(since.lines) - len(shown):
            yield f"  and {rest} more: `autoexp-plan --diff` tells them"


def find_changes(plan: Plan) -> PlanChanges | None:
    """How a plan differs from the last one of its config; None without one.

    Waits for a process: to be called off the screen's thread. What goes wrong there
    is no fault of the plan, and gives None.
    """
    # -P: a file of the user's that is called like a module must not be one.
    words = (sys.executable, "-P", "-m", __name__, plan.state_dir, plan.plan_id)
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        ran = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        if found := json.loads(ran.stdout):
            lines = tuple((mark, text) for mark, text in found.pop("lines"))
            return PlanChanges(lines=lines, **found)
    return None


def main(argv: Sequence[str]) -> int:
    """Compare the plan of a state directory with the one before, and print."""
    with suppress(OSError):
        os.nice(_NICENESS)
    path = find_manifest(Path(argv[0]), argv[1])
    since = compare_to_last(read_manifest(path)) if path is not None else None
    print(json.dumps(since and asdict(since)))
    return 0


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
