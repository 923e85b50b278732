"""What conditions share is looked at once in a batch: counted in system calls."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from autoexp_tui.model.facts import GlobKey, OutsideKey, StatKey
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.testing.clock import ManualClock

Calls = Counter[tuple[str, str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """How often `os.stat` and `os.listdir` were called, and with which path."""
    made: Calls = Counter()

    def count(name: str) -> None:
        real = getattr(os, name)

        def counted(*args: object, **fields: object) -> object:
            made[name, str(args[0])] += 1
            return real(*args, **fields)

        monkeypatch.setattr(os, name, counted)

    count("stat")
    count("listdir")
    return made


def facts() -> OutsideFacts:
    return OutsideFacts(ManualClock(utc=4e9))


def test_a_path_many_ask_about_is_asked_once(tmp_path: Path, calls: Calls) -> None:
    path = tmp_path / "done.txt"
    path.touch()
    keys: list[OutsideKey] = [StatKey(str(path)), GlobKey(f"{tmp_path}/*.txt")]
    calls.clear()
    assert not any(fact.error for fact in facts().observe_all(keys))
    assert calls["stat", str(path)] == 1


def test_a_directory_that_patterns_share_is_listed_once(
    tmp_path: Path, calls: Calls
) -> None:
    keys = [GlobKey(f"{tmp_path}/iter_*/a{n}") for n in range(50)]
    calls.clear()
    list(facts().observe_all(keys))
    assert sum(n for (kind, _), n in calls.items() if kind == "listdir") == 1


def test_each_look_is_made_when_asked_for(tmp_path: Path, calls: Calls) -> None:
    answers = facts().observe_all([StatKey(f"{tmp_path}/{name}") for name in "ab"])
    calls.clear()
    next(answers)
    assert [path for name, path in calls if name == "stat"] == [f"{tmp_path}/a"]
