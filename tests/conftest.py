"""The suite is closed off from the machine it runs on."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

# How long an example takes depends on who else uses the machine: no verdict on it.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Plain asserts of the shipped contract tell what they compared, whoever imports it.
pytest.register_assert_rewrite("autoexp_tui.testing.executor_contract")


# Behind an `&` or nohup these are ignored, and stay so in every process a test begins:
# no shell could trap them. A handler ends where a process begins another.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


@pytest.fixture(autouse=True)
def closed_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's own shell reaches a test."""
    for name in (
        "AUTOEXP_STATE_DIR",
        "AUTOEXP_RESUME",
        "NO_COLOR",
        "COLORTERM",
        "TEXTUAL_THEME",
        "SSH_TTY",
        "SSH_CONNECTION",
        "TMUX",
        "STY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    # Neither readable nor writable: the user's own lists stay as they are.
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
