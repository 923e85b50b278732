"""The difference between two plans in words, and as JSON for scripts.

Alike changes are told once and counted. Everything from a plan is cleaned here: the
sentences may be shown as they are, as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from autoexp_tui.planning.as_json import json_safe
from autoexp_tui.planning.plan_diff import (
    ABSENT,
    EdgeChange,
    JobChange,
    JobsOnly,
    PlanDiff,
    ValueChange,
)
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import fit, plural, spell_value

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


# ---------------------------------------------------------------------- sentences
def headline(found: PlanDiff) -> str:
    """`12 jobs added, 3 removed, 40 changed, 100 the same`; or that nothing differs."""
    if not found.any:
        return f"nothing differs: {plural(found.same, 'job')}"
    counts = [
        (_number(found.added), "added"),
        (_number(found.removed), "removed"),
        (len(found.renamed), "renamed"),
        (len(found.changed), "changed"),
        (found.unseen, "changed in what is not recorded"),
        (found.same, "the same"),
    ]
    parts = [f"{number} {word}" for number, word in counts if number]
    number, word = parts[0].split(" ", 1)
    return ", ".join([f"{plural(int(number), 'job')} {word}", *parts[1:]])


def _number(groups: Iterable[JobsOnly]) -> int:
    return sum(len(group.names) for group in groups)


def diff_lines(found: PlanDiff, most: int = MOST_LINES) -> tuple[MarkedLine, ...]:
    """Everything that differs, a line for each group of alike changes."""
    lines = list(_lines(found))
    hidden = len(lines) - most
    if hidden > 0:
        more = f"and {plural(hidden, 'more difference')}: --json has all"
        lines = [*lines[:most], ("~", more)]
    if found.without_config:
        jobs = plural(found.without_config, "job")
        text = f"configs of {jobs} are not recorded with both plans: not compared"
        lines.append(("!", text))
    return tuple(lines)


def summarize_diff(found: PlanDiff, most: int = 3) -> tuple[str, ...]:
    """The headline, and the first few differences when there are few of them."""
    lines = [f"{mark} {text}" for mark, text in _lines(found)]
    if len(lines) > most:
        more = f"and {len(lines) - most + 1} more: `autoexp-plan --diff` tells them"
        lines = [*lines[: most - 1], more]
    return (headline(found), *lines)


def _lines(found: PlanDiff) -> Iterator[MarkedLine]:
    yield from (("*", _change_text(change)) for change in found.plan)
    yield from (("+", _only_text(group)) for group in found.added)
    yield from (("-", _only_text(group)) for group in found.removed)
    moved = [job for job in found.renamed if not job.changed]
    if moved:
        yield ">", _renamed_text(moved)
    ways: dict[object, list[Sequence[JobChange]]] = {}
    folds = len(found.folded) > _MOST_WAYS
    for at, alike in enumerate(found.folded):
        ways.setdefault(_keys_of(alike[0]) if folds else at, []).append(alike)
    yield from (("~", _changed_text(groups)) for groups in ways.values())


def _only_text(group: JobsOnly) -> str:
    head = plural(len(group.names), "job")
    stage = f" of {clean(group.stage)}" if group.stage else ""
    values = [
        f"{clean(v.key)} {_value_text(v.old if v.new is ABSENT else v.new)}"
        for v in group.values
    ]
    why = f" ({', '.join(_some(values, 3))})" if values else ""
    return f"{head}{stage}{why}: {_names_text(group.names)}"


def _renamed_text(jobs: Sequence[JobChange]) -> str:
    each = [f"{clean(job.old_name)} -> {clean(job.name)}" for job in jobs]
    head = f"{plural(len(jobs), 'job')} renamed: "
    return head + ", ".join(_some(each, _MOST_NAMES))


def _changed_text(ways: Sequence[Sequence[JobChange]]) -> str:
    """Jobs that changed in the same keys, each group alike; the first as example."""
    alike = ways[0]
    first = alike[0]
    name = clean(first.name)
    parts = [*map(_change_text, first.values), *map(_edge_text, first.edges)]
    shown = "; ".join(_some(parts, _MOST_VALUES))
    if len(ways) > 1:
        return f"{sum(map(len, ways))} jobs in {len(ways)} ways: {name}: {shown}"
    if len(alike) > 1:
        return f"{len(alike)} jobs: {shown} ({_names_text([j.name for j in alike])})"
    who = f"{clean(first.old_name)} -> {name}" if first.renamed else name
    return f"{who}: {shown}"


def _keys_of(job: JobChange) -> tuple[str, ...]:
    """What a job changed in, whatever the values."""
    edges = (f"{e.mode} {e.added} {e.stage}" for e in job.edges)
    return (*(change.key for change in job.values), *edges)


def _change_text(change: ValueChange) -> str:
    """`optim.lr 1e-3 -> 3e-4`, `lr added: 0.9`, `lr removed: was 0.9`."""
    key = clean(change.key)
    if change.old is ABSENT:
        return f"{key} added: {_value_text(change.new)}"
    if change.new is ABSENT:
        return f"{key} removed: was {_value_text(change.old)}"
    old, new = (
        _value_text(_round_value(change.old)),
        _value_text(_round_value(change.new)),
    )
    if old == new:
        old, new = _value_text(change.old), _value_text(change.new)
    return f"{key} {old} -> {new}"


def _round_value(value: object) -> object:
    """A number without the noise of computing it: 3e-5 for 2.9999999999999997e-05."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _edge_text(change: EdgeChange) -> str:
    """`waits for a`, `no longer waits for a`."""
    other = clean(change.job)
    if change.mode == "waits":
        return f"{'waits' if change.added else 'no longer waits'} for {other}"
    return f"{'reads' if change.added else 'no longer reads'} {other}"


def _names_text(of: Sequence[str]) -> str:
    """A few names, and how many more."""
    return ", ".join(_some([clean(name) for name in of], _MOST_NAMES))


def _some(texts: Sequence[str], most: int) -> Sequence[str]:
    """The first few; the rest counted in place of the last."""
    if len(texts) <= most:
        return texts
    return [*texts[: most - 1], f"and {len(texts) - most + 1} more"]


def _value_text(value: object) -> str:
    text = clean(value) if isinstance(value, str) else spell_value(value)
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(_value_text, value))}]"
    return fit(text or '""', _VALUE_COLUMNS)


# --------------------------------------------------------------------------- JSON
def diff_to_json(found: PlanDiff) -> dict[str, object]:
    """The whole difference, nothing folded; a value that is absent has no key."""
    return {
        "version": 1,
        "counts": {
            "added": _number(found.added),
            "removed": _number(found.removed),
            "renamed": len(found.renamed),
            "changed": len(found.changed),
            "same": found.same,
            "without_config": found.without_config,
            "unseen": found.unseen,
        },
        "plan": list(map(_change_json, found.plan)),
        "added": list(map(_only_json, found.added)),
        "removed": list(map(_only_json, found.removed)),
        "renamed": [
            {"from": json_safe(job.old_name), "to": json_safe(job.name)}
            for job in found.renamed
        ],
        "changed": list(map(_job_json, found.changed)),
        "alike": [
            {
                "jobs": json_safe([job.name for job in jobs]),
                "text": _changed_text([jobs]),
            }
            for jobs in found.folded
        ],
    }


def _change_json(change: ValueChange) -> dict[str, object]:
    sides = change._asdict().items()
    return {name: json_safe(value) for name, value in sides if value is not ABSENT}


def _only_json(group: JobsOnly) -> dict[str, object]:
    return {
        "stage": json_safe(group.stage),
        "jobs": json_safe(group.names),
        "values": list(map(_change_json, group.values)),
    }


def _job_json(job: JobChange) -> dict[str, object]:
    texts = ("name", "old_name", "stage")
    changes = ("parameters", "config", "conditions", "other")
    return {
        **{name: json_safe(getattr(job, name)) for name in texts},
        **{name: list(map(_change_json, getattr(job, name))) for name in changes},
        "edges": [
            {"kind": e.mode, "added": e.added, "job": json_safe(e.job)}
            for e in job.edges
        ],
    }
