"""The difference between two plans in words, and as JSON for scripts.

Alike changes are told once and counted. Everything from a plan is cleaned here: the
sentences may be shown as they are, as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from autoexp_tui.planning.as_json import json_safe
from autoexp_tui.planning.compare import (
    EdgeChange,
    JobChange,
    JobsOnly,
    PlanDifference,
    ValueChange,
)
from autoexp_tui.planning.config_lines import ABSENT
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import fit, plural, spell_float

Mark: TypeAlias = Literal["+", "-", ">", "~", "*", "!"]
"""Added, removed, renamed, changed; of the plan as a whole; what was not compared."""

NOTHING: Final = "nothing differs"
MOST_LINES: Final = 40
"""Groups of alike changes that are told before the rest is counted."""
_MOST_WAYS: Final = 12
"""Groups of alike changes before those in the same keys are told as one."""
_MOST_NAMES: Final = 4
_MOST_VALUES: Final = 6
"""Values of one group before the rest is counted."""
_VALUE_COLUMNS: Final = 60


@dataclass(frozen=True, slots=True)
class Told:
    """One line of a difference."""

    mark: Mark
    text: str

    def __str__(self) -> str:
        return f"{self.mark} {self.text}"


# ---------------------------------------------------------------------- sentences
def headline(found: PlanDifference) -> str:
    """`12 jobs added, 3 removed, 40 changed, 100 the same`; or that nothing differs."""
    if not found.any:
        return f"{NOTHING}: {plural(found.same, 'job')}"
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


def told(found: PlanDifference, most: int = MOST_LINES) -> tuple[Told, ...]:
    """Everything that differs, a line for each group of alike changes."""
    lines = list(_lines(found))
    hidden = len(lines) - most
    if hidden > 0:
        more = Told("~", f"and {plural(hidden, 'more difference')}: --json has all")
        lines = [*lines[:most], more]
    return (*lines, *_not_compared(found))


def in_short(found: PlanDifference, most: int = 3) -> tuple[str, ...]:
    """The headline, and the first few differences when there are few of them."""
    lines = list(_lines(found))
    if len(lines) > most:
        more = f"and {len(lines) - most + 1} more: `autoexp-plan --diff` tells them"
        shown = [*map(str, lines[: most - 1]), more]
    else:
        shown = list(map(str, lines))
    return (headline(found), *shown)


def _lines(found: PlanDifference) -> Iterator[Told]:
    for change in found.plan:
        yield Told("*", change_text(change))
    for group in found.added:
        yield Told("+", _only(group))
    for group in found.removed:
        yield Told("-", _only(group))
    moved = [job for job in found.renamed if not job.changed]
    if moved:
        yield Told(">", _moved(moved))
    groups = found.folded
    if len(groups) <= _MOST_WAYS:
        for alike in groups:
            yield Told("~", _changed(alike))
        return
    by_keys: dict[tuple[str, ...], list[Sequence[JobChange]]] = {}
    for alike in groups:
        by_keys.setdefault(_keys_of(alike[0]), []).append(alike)
    for ways in by_keys.values():
        yield Told("~", _changed(ways[0]) if len(ways) == 1 else _in_ways(ways))


def _not_compared(found: PlanDifference) -> Iterator[Told]:
    if found.without_config:
        jobs = plural(found.without_config, "job")
        text = f"configs of {jobs} are not recorded with both plans: not compared"
        yield Told("!", text)


def _only(group: JobsOnly) -> str:
    head = plural(len(group.names), "job")
    stage = f" of {clean(group.stage)}" if group.stage else ""
    values = [f"{clean(v.key)} {_value(_present(v))}" for v in group.values]
    why = f" ({', '.join(_some(values, 3))})" if values else ""
    return f"{head}{stage}{why}: {names(group.names)}"


def _present(change: ValueChange) -> object:
    return change.old if change.new is ABSENT else change.new


def _moved(jobs: Sequence[JobChange]) -> str:
    each = [f"{clean(job.old_name)} -> {clean(job.name)}" for job in jobs]
    head = f"{plural(len(jobs), 'job')} renamed: "
    return head + ", ".join(_some(each, _MOST_NAMES))


def _changed(alike: Sequence[JobChange]) -> str:
    first = alike[0]
    who = clean(first.name) if len(alike) == 1 else plural(len(alike), "job")
    if len(alike) == 1 and first.renamed:
        who = f"{clean(first.old_name)} -> {who}"
    parts = [*map(change_text, first.values), *map(edge_text, first.edges)]
    text = f"{who}: {'; '.join(_some(parts, _MOST_VALUES))}"
    return text if len(alike) == 1 else f"{text} ({names([j.name for j in alike])})"


def _keys_of(job: JobChange) -> tuple[str, ...]:
    """What a job changed in, whatever the values."""
    edges = (f"{e.mode} {e.added} {e.stage}" for e in job.edges)
    return (*(change.key for change in job.values), *edges)


def _in_ways(ways: Sequence[Sequence[JobChange]]) -> str:
    """Jobs that changed in the same keys, each in its own way; the first as example."""
    jobs = [job for alike in ways for job in alike]
    first = jobs[0]
    parts = [*map(change_text, first.values), *map(edge_text, first.edges)]
    shown = "; ".join(_some(parts, _MOST_VALUES))
    return f"{len(jobs)} jobs in {len(ways)} ways: {clean(first.name)}: {shown}"


def change_text(change: ValueChange) -> str:
    """`optim.lr 1e-3 -> 3e-4`, `lr added: 0.9`, `lr removed: was 0.9`."""
    key = clean(change.key)
    if change.old is ABSENT:
        return f"{key} added: {_value(change.new)}"
    if change.new is ABSENT:
        return f"{key} removed: was {_value(change.old)}"
    old, new = _value(_rounded(change.old)), _value(_rounded(change.new))
    if old == new:
        old, new = _value(change.old), _value(change.new)
    return f"{key} {old} -> {new}"


def _rounded(value: object) -> object:
    """A number without the noise of computing it: 3e-5 for 2.9999999999999997e-05."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def edge_text(change: EdgeChange) -> str:
    """`waits for a`, `no longer waits for a`."""
    other = clean(change.job)
    if change.mode == "waits":
        return f"{'waits' if change.added else 'no longer waits'} for {other}"
    return f"{'reads' if change.added else 'no longer reads'} {other}"


def names(of: Sequence[str]) -> str:
    """A few names, and how many more."""
    return ", ".join(_some([clean(name) for name in of], _MOST_NAMES))


def _some(texts: Sequence[str], most: int) -> Sequence[str]:
    """The first few; the rest counted in place of the last."""
    if len(texts) <= most:
        return texts
    return [*texts[: most - 1], f"and {len(texts) - most + 1} more"]


def _value(value: object) -> str:
    match value:
        case None:
            text = "null"
        case bool():
            text = str(value).lower()
        case float():
            text = spell_float(value)
        case list() | tuple():
            text = f"[{', '.join(map(_value, value))}]"
        case _:
            text = clean(str(value)) or '""'
    return fit(text, _VALUE_COLUMNS)


# --------------------------------------------------------------------------- JSON
def difference_to_json(found: PlanDifference) -> dict[str, object]:
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
                "text": _changed(jobs),
            }
            for jobs in found.folded
        ],
    }


def _change_json(change: ValueChange) -> dict[str, object]:
    tree: dict[str, object] = {"key": json_safe(change.key)}
    for side, value in (("old", change.old), ("new", change.new)):
        if value is not ABSENT:
            tree[side] = json_safe(value)
    return tree


def _only_json(group: JobsOnly) -> dict[str, object]:
    return {
        "stage": json_safe(group.stage),
        "jobs": json_safe(group.names),
        "values": list(map(_change_json, group.values)),
    }


def _job_json(job: JobChange) -> dict[str, object]:
    return {
        "name": json_safe(job.name),
        "old_name": json_safe(job.old_name),
        "stage": json_safe(job.stage),
        "parameters": list(map(_change_json, job.parameters)),
        "config": list(map(_change_json, job.config)),
        "conditions": list(map(_change_json, job.conditions)),
        "other": list(map(_change_json, job.other)),
        "edges": [
            {"kind": e.mode, "added": e.added, "job": json_safe(e.job)}
            for e in job.edges
        ],
    }
