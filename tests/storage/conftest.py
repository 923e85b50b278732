"""A session's directory, a clock that stands, and a journal on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock

from .disk_session import DiskStore


@pytest.fixture
def session(tmp_path: Path) -> SessionDir:
    made = SessionDir(tmp_path / "k7f2")
    made.make()
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskStore:
    return DiskStore(tmp_path / "k7f2", monkeypatch)
