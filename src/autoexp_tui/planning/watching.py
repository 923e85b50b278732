"""How jobs are watched: what is a job's own to say, and what holds for the session.

Rules over logs and ends, metrics, progress, anomalies and what becomes of doomed waits
are each job's own, as its composed config says. One engine polls, one executor runs
and one screen shows all jobs: those settings are taken from the config without any
point, and a point that changes one is told that it has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.ids import digest
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.planning.ports import ConfigView
from autoexp_tui.sweep.points import plain_key

CLOSED: Final = ("slurm", "monitoring", "ui", "tree", "research")
"""The sections that are checked, and that hold what is the session's."""
_OF_THE_SESSION: Final = (
    *("monitoring.state_dir", "monitoring.poll_seconds", "monitoring.storm"),
    "monitoring.lock_stale_seconds",
    *("slurm.client", "slurm.max_parallel", "slurm.template_path"),
    *("slurm.launcher_cmd", "slurm.srun_opts", "slurm.confirm", "ui"),
)


_BEFORE: Final = {
    "hydra": "Hydra reads it before any job is composed",
    "defaults": "Hydra reads it before any job is composed",
    "sweep": "the sweep is read before any job is composed",
}
"""Keys at the top that no composition of a job sees, and why."""


def is_settled(key: str) -> bool:
    """Whether a parameter sets what is settled before jobs are composed."""
    return _top(key) in _BEFORE


def settled_too_early(key: str) -> Problem:
    """The warning for a parameter that `is_settled`."""
    top = _top(key)
    return Problem(
        f"has no effect in a sweep: {_BEFORE[top]}",
        where=key,
        hint=f"set `{plain_key(key)}` in the config, outside the sweep",
    )


def is_rule(key: str) -> bool:
    """Whether a parameter sets rules: braces in them are read when a rule fires."""
    return _top(key) == "monitoring"


@lru_cache(maxsize=4096)
def _top(key: str) -> str:
    """The section of the config that a parameter sets something in."""
    return plain_key(key).partition(".")[0]


@dataclass(frozen=True, slots=True)
class SessionWide:
    """What the config says without any point."""

    config: Mapping[str, object] = field(default_factory=dict)
    """The closed sections, resolved."""
    monitoring: Monitoring = field(default_factory=Monitoring)

    def own(self, monitoring: Monitoring) -> Monitoring:
        """A job's rules, with what is the session's as the session has it."""
        ours = self.monitoring
        return replace(
            monitoring,
            poll_seconds=ours.poll_seconds,
            storm=ours.storm,
            lock_stale_seconds=ours.lock_stale_seconds,
        )

    def without_effect(
        self, config: Mapping[str, object], parameters: Iterable[str]
    ) -> Iterator[Problem]:
        """Settings of the session that a job's config has otherwise.

        `parameters`: the keys that its point sets, to name the one that did it.
        """
        keys = list(parameters)
        for path in _OF_THE_SESSION:
            ours, theirs = _leaves(self.config, path), _leaves(config, path)
            for leaf in dict.fromkeys((*ours, *theirs)):
                if ours.get(leaf) != theirs.get(leaf):
                    yield _no_effect(leaf, ours.get(leaf), keys)


def _no_effect(leaf: str, kept: object, keys: Iterable[str]) -> Problem:
    """The warning, at the parameter that sets `leaf` or chooses its group."""
    setters = (key for key in keys if f"{leaf}.".startswith(f"{plain_key(key)}."))
    where = max(setters, key=len, default=leaf)
    what = "it" if plain_key(where) == leaf else f"`{leaf}`"
    stays = "unset" if kept is None else repr(kept)
    return Problem(
        "has no effect in a sweep: "
        f"{what} is one for the whole session, and stays {stays}",
        where=where,
        hint=f"set `{leaf}` outside the sweep, in the config or on the command line",
    )


def _leaves(config: Mapping[str, object], path: str) -> dict[str, object]:
    """Dotted path -> value of everything at `path` and below it."""
    found: object = config
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return dict(_flat(found, path))


def _flat(value: object, path: str) -> Iterator[tuple[str, object]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{path}.{key}")


class RuleSets:
    """The sets of rules that jobs have of their own, each kept once."""

    def __init__(self, common: Monitoring) -> None:
        self._common = common
        self._names: dict[int, str] = {}
        self.sets: dict[str, Monitoring] = {}

    def named(self, rules: Monitoring) -> str:
        """The name of a set; empty for the plan's own."""
        if id(rules) not in self._names:
            self._names[id(rules)] = self._kept(rules)
        return self._names[id(rules)]

    def _kept(self, rules: Monitoring) -> str:
        if rules == self._common:
            return ""
        name = digest(repr(rules))
        self.sets.setdefault(name, rules)
        return name


# ------------------------------------------------------------------------- progress
def last_step(view: ConfigView, path: str) -> int | None:
    """The whole number at a config path; None when there is none.

    Raises:
        CannotCompose: it does not resolve.
    """
    if not path or not view.has(path):
        return None
    value = view.select(path)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return int(str(value)) if whole else None
