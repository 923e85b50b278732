"""The difference between two plans in words, and as JSON for scripts.

Alike changes are told once and counted. Everything from a plan is cleaned here: the
sentences may be shown as they are, as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from autoexp_tui.planning.as_json import json_safe
from autoexp_tui.planning.plan_diff import (
    JobChange,
    JobsOnly,
    PlanDiff,
    ValueChange,
)
from autoexp_tui.text.plain_tree import ABSENT
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import fit, format_yaml_value, plural

Mark: TypeAlias = Literal["+", "-", ">", "~", "*", "!"]
"""Added, removed, renamed, changed; of the plan as a whole; what was not compared."""
MarkedLine: TypeAlias = tuple[Mark, str]

MOST_LINES: Final = 40
"""Groups of alike changes that are told before the rest is counted."""
_MOST_WAYS: Final = 12
"""Groups of alike changes before those in the same keys are told as one."""
_MOST_NAMES: Final = 4
_MOST_VALUES: Final = 6
"""Values of one group before the rest is counted."""
_VALUE_COLUMNS: Final = 60
_COUNTS: Final = {
    **{name: name for name in ("added", "removed", "renamed", "changed")},
    "unseen": "changed in what is not recorded",
    "same": "the same",
}


def summarize_diff(found: PlanDiff) -> str:
    """`12 jobs added, 3 removed, 40 changed, 100 the same`; or that nothing differs."""
    if not found.differs:
        return f"nothing differs: {plural(found.same, 'job')}"
    told = [(found.counts[name], word) for name, word in _COUNTS.items()]
    (number, word), *rest = [one for one in told if one[0]]
    return ", ".join(
        [f"{plural(number, 'job')} {word}", *(f"{n} {w}" for n, w in rest)]
    )


def list_differences(found: PlanDiff, most: int = MOST_LINES) -> tuple[MarkedLine, ...]:
    """Everything that differs, a line for each group of alike changes."""
    lines = list(_list_lines(found))
    hidden = len(lines) - most
    if hidden > 0:
        more = f"and {plural(hidden, 'more difference')}: --json has all"
        lines = [*lines[:most], ("~", more)]
    if found.without_config:
        jobs = plural(found.without_config, "job")
        text = f"configs of {jobs} are not recorded with both plans: not compared"
        lines.append(("!", text))
    return tuple(lines)


def list_first_differences(found: PlanDiff, most: int = 3) -> tuple[str, ...]:
    """The headline, and the first few differences when there are few of them."""
    lines = [f"{mark} {text}" for mark, text in _list_lines(found)]
    if len(lines) > most:
        more = f"and {len(lines) - most + 1} more: `autoexp-plan --diff` tells them"
        lines = [*lines[: most - 1], more]
    return (summarize_diff(found), *lines)


def _list_lines(found: PlanDiff) -> Iterator[MarkedLine]:
    yield from (("*", _format_change(change)) for change in found.plan)
    yield from (("+", _format_only(group)) for group in found.added)
    yield from (("-", _format_only(group)) for group in found.removed)
    moved = [job for job in found.renamed if not job.is_changed]
    if moved:
        each = [f"{clean(job.old_name)} -> {clean(job.name)}" for job in moved]
        head = f"{plural(len(moved), 'job')} renamed: "
        yield ">", head + ", ".join(_shorten(each, _MOST_NAMES))
    ways: dict[object, list[Sequence[JobChange]]] = {}
    folds = len(found.alike) > _MOST_WAYS
    for at, alike in enumerate(found.alike):
        edges = (f"{e.mode} {e.added} {e.stage}" for e in alike[0].edges)
        keys = (*(change.key for change in alike[0].values), *edges)
        ways.setdefault(keys if folds else at, []).append(alike)
    yield from (("~", _format_changed(groups)) for groups in ways.values())


def _format_only(group: JobsOnly) -> str:
    head = plural(len(group.names), "job")
    stage = f" of {clean(group.stage)}" if group.stage else ""
    values = [
        f"{clean(v.key)} {_format_value(v.old if v.new is ABSENT else v.new)}"
        for v in group.values
    ]
    why = f" ({', '.join(_shorten(values, 3))})" if values else ""
    return f"{head}{stage}{why}: {_format_names(group.names)}"


def _format_changed(ways: Sequence[Sequence[JobChange]]) -> str:
    """Jobs that changed in the same keys, each group alike; the first as example."""
    alike = ways[0]
    first = alike[0]
    name = clean(first.name)
    parts = list(map(_format_change, first.values))
    for edge in first.edges:
        verb = "waits for" if edge.mode == "waits" else "reads"
        parts.append(f"{'' if edge.added else 'no longer '}{verb} {clean(edge.job)}")
    shown = "; ".join(_shorten(parts, _MOST_VALUES))
    if len(ways) > 1:
        return f"{sum(map(len, ways))} jobs in {len(ways)} ways: {name}: {shown}"
    if len(alike) > 1:
        return f"{len(alike)} jobs: {shown} ({_format_names([j.name for j in alike])})"
    who = f"{clean(first.old_name)} -> {name}" if first.is_renamed else name
    return f"{who}: {shown}"


def _format_change(change: ValueChange) -> str:
    """`optim.lr 1e-3 -> 3e-4`, `lr added: 0.9`, `lr removed: was 0.9`."""
    key = clean(change.key)
    if change.old is ABSENT:
        return f"{key} added: {_format_value(change.new)}"
    if change.new is ABSENT:
        return f"{key} removed: was {_format_value(change.old)}"
    # A number without the noise of computing it: 3e-5 for 2.9999999999999997e-05.
    old, new = (
        _format_value(float(f"{one:.6g}") if isinstance(one, float) else one)
        for one in (change.old, change.new)
    )
    if old == new:
        old, new = _format_value(change.old), _format_value(change.new)
    return f"{key} {old} -> {new}"


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(_shorten([clean(name) for name in names], _MOST_NAMES))


def _shorten(texts: Sequence[str], most: int) -> Sequence[str]:
    if len(texts) <= most:
        return texts
    return [*texts[: most - 1], f"and {len(texts) - most + 1} more"]


def _format_value(value: object) -> str:
    text = clean(value) if isinstance(value, str) else format_yaml_value(value)
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(_format_value, value))}]"
    return fit(text or '""', _VALUE_COLUMNS)


def diff_to_json(found: PlanDiff) -> dict[str, object]:
    """The whole difference, nothing folded; a value that is absent has no key."""
    return {
        "version": 1,
        "counts": found.counts,
        "plan": list(map(_change_to_json, found.plan)),
        **{
            name: [
                {
                    "stage": json_safe(group.stage),
                    "jobs": json_safe(group.names),
                    "values": list(map(_change_to_json, group.values)),
                }
                for group in groups
            ]
            for name, groups in (("added", found.added), ("removed", found.removed))
        },
        "renamed": [
            {"from": json_safe(job.old_name), "to": json_safe(job.name)}
            for job in found.renamed
        ],
        "changed": list(map(_job_to_json, found.changed)),
        "alike": [
            {
                "jobs": json_safe([job.name for job in jobs]),
                "text": _format_changed([jobs]),
            }
            for jobs in found.alike
        ],
    }


def _change_to_json(change: ValueChange) -> dict[str, object]:
    sides = change._asdict().items()
    return {name: json_safe(value) for name, value in sides if value is not ABSENT}


def _job_to_json(job: JobChange) -> dict[str, object]:
    texts = ("name", "old_name", "stage")
    changes = ("parameters", "config", "conditions", "other")
    return {
        **{name: json_safe(getattr(job, name)) for name in texts},
        **{name: list(map(_change_to_json, getattr(job, name))) for name in changes},
        "edges": [
            {"kind": e.mode, "added": e.added, "job": json_safe(e.job)}
            for e in job.edges
        ],
    }
