"""Snapshots are made of one time zone, one clock, and no motion."""

from __future__ import annotations

import time

import pytest


@pytest.fixture(autouse=True)
def steady(closed_off: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    time.tzset()
