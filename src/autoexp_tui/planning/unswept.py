"""What is wrong with a config whose sweep cannot be read.

There are no jobs to look at then. What the base config has wrong is told where no job
could mend it: not at keys that the sweep names, nor at values that do not resolve, for
a job may bring what they need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.conditions import FAULTS
from autoexp_tui.planning.partial import (
    concern_one,
    resolved_where_possible,
    unresolved,
)
from autoexp_tui.planning.ports import ConfigView, SpecParser
from autoexp_tui.sweep.points import plain_key


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
