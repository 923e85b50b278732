"""The suite is closed off from the machine it runs on."""

from __future__ import annotations

import gc
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import settings

# `make thorough` tries more examples. How long one takes depends on who else uses the
# machine: no verdict on it.
for _name, _examples in {"usual": 60, "thorough": 300}.items():
    settings.register_profile(_name, deadline=None, max_examples=_examples)
settings.load_profile("usual")

# Plain asserts of the shipped contract tell what they compared, whoever imports it.
pytest.register_assert_rewrite("autoexp_tui.testing.executor_contract")


# Behind an `&` or nohup these are ignored, and stay so in every process a test begins:
# no shell could trap them. A handler ends where a process begins another.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


SLOW = ("/tests/e2e/", "/tests/simulation/", "/tests/cli/test_secrets.py")
"""Whole campaigns, many processes: `make test` leaves them to `make test-all`."""
LEFT_OUT = {"slurm", "pty", "slow"}
"""Marks of what `make test` leaves out."""


def pytest_ignore_collect(
    collection_path: Path, config: pytest.Config
) -> Literal[True] | None:
    """Where only tests that are left out are wanted, no other file is imported."""
    wanted = set(re.findall(r"\w+", config.getoption("markexpr"))) - {"or"}
    if not wanted or wanted - LEFT_OUT or not collection_path.match("test_*.py"):
        return None
    if any(part in str(collection_path) for part in SLOW):
        return None
    marked = re.search(rf"mark\.({'|'.join(wanted)})\b", collection_path.read_text())
    return None if marked else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests; spread the simulator's, which compute, among those that wait."""
    for item in items:
        if any(part in str(item.path) for part in SLOW):
            item.add_marker(pytest.mark.slow)
    heavy = [item for item in items if "/tests/simulation/" in str(item.path)]
    light = [item for item in items if "/tests/simulation/" not in str(item.path)]
    if heavy and light:
        places = [(n + 0.5) / len(heavy) for n in range(len(heavy))]
        places += [n / len(light) for n in range(len(light))]
        order = sorted(range(len(items)), key=places.__getitem__)
        both = [*heavy, *light]
        items[:] = [both[at] for at in order]


# Collections of garbage leave out what stays: what was imported, and at the end all
# that the tests left after one whole collection, where pytest makes five.
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def closed_off() -> Iterator[None]:
    """No setting of the developer's own shell reaches a test, or a fixture of many."""
    with pytest.MonkeyPatch.context() as patch:
        _close_off(patch)
        yield


def _close_off(monkeypatch: pytest.MonkeyPatch) -> None:
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
