"""What one job is made of, for people: its config key by key, and how it is started.

Values only. Whoever reads them from disk fills them in; whoever shows them may compare
two jobs by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.specs import JobSpec
from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.sweep.points import plain_key
from autoexp_tui.text.plain_tree import flatten

Origin: TypeAlias = Literal[
    "changed", "swept", "override", "ours", "computed", "file", "given"
]
"""Who set a key: whoever planned the job anew, the sweep, the command line, planning
itself (`stage`, `index`), an expression in a file, or a file; `given`: whoever made the
job without a config."""

_OURS: Final = frozenset({"stage", "index", "family"})


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    """Its path, dotted; items of lists of mappings by number."""
    value: str
    origin: Origin
    written: str = ""
    """The expression that the value was computed from, or the plan's value of one that
    was changed since; empty: it stands as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    entries: tuple[Entry, ...] = ()
    script: tuple[str, ...] = ()
    missing: str = ""
    """Why there is no config, as a sentence; empty: there is one."""


def list_config_entries(
    resolved: Mapping[str, object],
    written: Mapping[str, object],
    job: JobSpec,
    overrides: Sequence[str],
) -> tuple[Entry, ...]:
    """A config key by key, with who set each; `written`: before interpolation."""
    texts = {key: _format_value(value) for key, value in flatten("", written)}
    changed = {plain_key(key): key for key in job.own_values}
    swept = frozenset(map(plain_key, job.parameters))
    given = frozenset(map(read_override_key, overrides))
    found = []
    leaves = flatten("", resolved)
    for key, value in ((key, _format_value(value)) for key, value in leaves):
        if key in changed:
            planned = (job.planned or {}).get(changed[key], "not set")
            before = f"planned: {_format_value(planned)}"
            found.append(Entry(key, value, "changed", before))
            continue
        before = texts.get(key, value)
        computed = before if before != value and "${" in before else ""
        origin: Origin = "computed" if computed else "file"
        above = key.split(".")
        above = [".".join(above[:end]) for end in range(1, len(above) + 1)]
        if above[0] in _OURS:
            origin = "ours"
        if not given.isdisjoint(above):
            origin = "override"
        if not swept.isdisjoint(above):
            origin = "swept"
        found.append(Entry(key, value, origin, computed))
    return tuple(found)


def _format_value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{}" if not value else str(dict(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    return "null" if value is None else str(value)
