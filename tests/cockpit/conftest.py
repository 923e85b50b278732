"""Screens in tests: one time zone, no motion, nothing of the developer's terminal."""

from __future__ import annotations

import time

import pytest


@pytest.fixture(autouse=True)
def steady(closed_off: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    time.tzset()
