"""Facts for tests: a mapping that is read as `Facts`, and notes who asked for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autoexp_tui.model.facts import (
    Fact,
    FactKey,
    FactValue,
    FileStat,
    JobFact,
    JobKey,
    StatKey,
)
from autoexp_tui.model.states import JobState

NOW = 1_000.0


@dataclass
class Known:
    """Facts as given; `asked` collects the keys that were read."""

    facts: Mapping[FactKey, Fact] = field(default_factory=dict)
    asked: set[FactKey] = field(default_factory=set)

    def get(self, key: FactKey) -> Fact | None:
        self.asked.add(key)
        return self.facts.get(key)


def known(values: Mapping[Any, FactValue], at: float = NOW) -> Known:
    return Known({key: Fact(value, at) for key, value in values.items()})


def failed_look(key: FactKey) -> Known:
    return Known({key: Fact(None, NOW, "Stale file handle")})


def job(state: JobState, **fields: Any) -> JobFact:
    return JobFact(**{"state": state, "attempts": 1, **fields})


def path_and_writer(path: str, writer: JobFact) -> dict[FactKey, FactValue]:
    """A path that is not there, and the job `w` that writes it."""
    return {StatKey(path): FileStat(exists=False), JobKey("w"): writer}
