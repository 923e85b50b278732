"""On a real terminal: its loss, what reaches it, and how little."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest

from tests.cockpit.ptys import ROOT, OnTerminal

pytestmark = pytest.mark.pty
APP = str(ROOT / "tests" / "cockpit" / "terminal_app.py")


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return tmp_path / "result"


def running(result: Path, *arguments: str) -> OnTerminal:
    return OnTerminal([APP, str(result), *arguments])


@pytest.fixture
def moving(result: Path) -> Iterator[OnTerminal]:
    with running(result, "124", "moving") as terminal:
        terminal.read_until(b"leave")
        yield terminal


@pytest.mark.parametrize("hup", ["hup", "nohup"])
def test_a_closed_terminal_ends_the_screen_at_once(result: Path, hup: str) -> None:
    with running(result, "124", "moving", hup) as terminal:
        terminal.read_until(b"leave")
        terminal.hang_up()
        assert terminal.wait() == 0
    assert result.read_text().startswith("lost None")


def leave(terminal: OnTerminal) -> None:
    terminal.type("q")
    terminal.read_until(b"Stay")
    terminal.read_for(0.5)
    terminal.type("y")
    terminal.read_until(b"\x1b[?1004l")
    assert terminal.wait() == 0


def screen_of(written: bytes) -> str:
    screen = pyte.Screen(120, 40)
    pyte.ByteStream(screen).feed(written)
    return "\n".join(screen.display)


def test_the_screen_is_drawn_and_leaving_gives_the_terminal_back(
    moving: OnTerminal, result: Path
) -> None:
    shown = screen_of(moving.written)
    assert all(words in shown for words in ("dense300m", "2 Jobs", "q leave"))
    moving.read_until(b"\x1b]2;61/124 !14 dense300m\x07")  # the title
    assert b"\x1b[?1003h" not in moving.written  # any motion of the mouse
    os.write(moving.master, b"\xff")  # no text, and no end
    moving.read_for(0.5)
    leave(moving)
    assert result.read_text().startswith("left None")
    assert b"\x1b[?1049l" in moving.written


def test_who_was_stopped_and_woken_draws_the_screen_again_hears_keys_and_leaves(
    moving: OnTerminal, result: Path
) -> None:
    process = moving.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)  # as the shell's `kill -STOP` and `fg` do
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    moving.read_for(0.2)
    moving.written = b""
    process.send_signal(signal.SIGCONT)
    moving.read_until(b"\x1b[?1049h")
    shown, deadline = "", time.monotonic() + 20.0
    while "q leave" not in shown:
        assert time.monotonic() < deadline, shown
        moving.read_for(0.2)
        shown = screen_of(moving.written.rpartition(b"\x1b[?1049h")[2])
    assert "dense300m" in shown
    assert "2 Jobs" in shown
    leave(moving)
    assert result.read_text().startswith("left None")


def test_hostile_names_reach_the_terminal_as_text_only(result: Path) -> None:
    with running(result, "60", "hostile") as terminal:
        terminal.read_until(b"leave")
        for keys in ("!", "3", "0", "1l", "5", "8", "2G", "R"):
            terminal.type(keys)
            terminal.read_for(0.4)
        written = terminal.written
    assert not any(bad in written for bad in (b"]52;", b"owned", b"\x1b[2J"))
    assert b"x[/red]dense300m" in written


def test_an_idle_session_writes_nothing_and_live_runs_little(
    result: Path, moving: OnTerminal
) -> None:
    moving.read_for(1.5)
    assert 0 < len(moving.read_for(4)) < 4096 * 4
    with running(result, "31", "still") as terminal:
        terminal.read_until(b"leave")
        for _ in range(20):
            if not terminal.read_for(1.0):
                break
        # The clock's minute may turn in one of them.
        assert min(len(terminal.read_for(2.5)) for _ in range(2)) < 100
