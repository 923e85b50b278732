"""What conditions share is looked at once in a batch: counted in system calls."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.model.facts import (
    Fact,
    FileText,
    GlobKey,
    OutsideKey,
    StatKey,
)
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.testing.clock import ManualClock


class Calls:
    """Counts system calls by name and path while it is on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: Counter[tuple[str, str]] = Counter()
        self._monkeypatch = monkeypatch
        for name in ("stat", "listdir"):
            self._count(name)

    def _count(self, name: str) -> None:
        real = getattr(os, name)

        def counted(*args: object, **fields: object) -> object:
            self.made[name, str(args[0])] += 1
            return real(*args, **fields)

        self._monkeypatch.setattr(os, name, counted)

    def of(self, name: str) -> int:
        return sum(n for (kind, _), n in self.made.items() if kind == name)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    with monkeypatch.context() as patch:
        yield Calls(patch)


def facts() -> OutsideFacts:
    return OutsideFacts(ManualClock(utc=4e9))


def text_of(fact: Fact) -> str | None:
    """What a look at a text has read."""
    assert isinstance(fact.value, FileText)
    return fact.value.text


def test_a_path_that_several_conditions_ask_about_is_asked_once(
    tmp_path: Path, calls: Calls
) -> None:
    path = tmp_path / "done.txt"
    path.touch()
    keys: list[OutsideKey] = [StatKey(str(path)), GlobKey(f"{tmp_path}/*.txt")]
    calls.made.clear()
    found = list(facts().observe_all(keys))
    assert not any(fact.error for fact in found)
    assert calls.made["stat", str(path)] == 1


def test_a_directory_that_patterns_share_is_listed_once(
    tmp_path: Path, calls: Calls
) -> None:
    keys = [GlobKey(f"{tmp_path}/iter_*/a{n}") for n in range(50)]
    calls.made.clear()
    list(facts().observe_all(keys))
    assert calls.of("listdir") == 1


def test_each_look_is_made_when_its_answer_is_asked_for(
    tmp_path: Path, calls: Calls
) -> None:
    paths = [tmp_path / name for name in "ab"]
    answers = facts().observe_all([StatKey(str(path)) for path in paths])
    calls.made.clear()
    next(answers)
    assert [path for name, path in calls.made if name == "stat"] == [str(paths[0])]


def test_a_second_batch_looks_anew(tmp_path: Path) -> None:
    path = tmp_path / "late"
    source = facts()
    key = StatKey(str(path))
    before = source.observe(key)
    path.touch()
    assert source.observe(key).value != before.value
