"""A config of which not everything resolves, as far as it does.

If the sweep cannot be read there are no jobs to look at. What the base config has
wrong is told then where no job could mend it: not at keys that the sweep names, nor at
values that do not resolve, for a job may bring what they need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.conditions import FAULTS
from autoexp_tui.planning.ports import CannotCompose, ConfigView, SpecParser
from autoexp_tui.sweep.points import plain_key


def resolved_where_possible(view: ConfigView, *, as_written: bool) -> dict[str, object]:
    """The config with all values that can be had.

    `as_written`: whether the others stay as they are written; else they are None, as
    if they were left out.
    """
    return {
        key: _either(view, key, written, as_written)
        for key, written in view.written_dict().items()
    }


def _either(
    view: ConfigView,
    path: str,
    written: object,
    as_written: bool,  # noqa: FBT001
) -> object:
    with suppress(CannotCompose, KeyError):  # no path leads to a key with a dot in it
        return view.select(path)
    if isinstance(written, Mapping):
        return {
            key: _either(view, f"{path}.{key}", value, as_written)
            for key, value in written.items()
        }
    return written if as_written else None


def unresolved(view: ConfigView) -> Sequence[str]:
    """The keys that `resolved_where_possible` has no value for; a list is one key."""
    return [path for path in view.leaf_paths() if not _resolves(view, path)]


def _resolves(view: ConfigView, path: str) -> bool:
    try:
        view.select(path)
    except (CannotCompose, KeyError):
        return False
    return True


def concern_one(key: str, other: str) -> bool:
    """Whether two keys are one, or one lies below the other."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


# ------------------------------------------------------------------- without jobs
def faults_without_jobs(
    base: ConfigView, parser: SpecParser, sweep: Mapping[str, object] | None
) -> Sequence[Problem]:
    """The findings about `base` that hold for every job, whatever the sweep means."""
    try:
        found = parser.check(resolved_where_possible(base, as_written=False))
    except FAULTS:
        return ()
    doubtful = {*_keys_in(sweep), *unresolved(base)}
    return [
        problem
        for problem in found
        if not any(concern_one(problem.where, key) for key in doubtful)
    ]


def _keys_in(value: object) -> Iterator[str]:
    """Every key below a value, as it would stand in the config."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield plain_key(str(key)).replace("/", ".")
            yield from _keys_in(inner)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys_in(item)
