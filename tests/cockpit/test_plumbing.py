"""Between threads, terminals and people: background, clipboard, title, bell."""

from __future__ import annotations

import asyncio
import base64
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.context import Background
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.themes import is_ascii
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import Cause, JobState
from tests.support.campaigns import campaign
from tests.support.scripted_handle import with_job


# ---------------------------------------------------------------------- background
async def test_a_fault_is_delivered_and_the_worker_goes_on() -> None:
    background = Background("test")
    with pytest.raises(ZeroDivisionError):
        await background.fetch("k", lambda: 1 / 0)
    assert await background.fetch("k", lambda: 7) == 7
    assert background.is_idle


async def test_only_the_newest_call_of_a_key_that_is_still_waited_for_runs() -> None:
    background, gate = Background("test"), threading.Event()
    ran: list[int] = []
    held = asyncio.create_task(background.fetch("gate", partial(gate.wait, 5)))
    calls = [
        asyncio.create_task(background.fetch("same", partial(ran.append, number)))
        for number in range(5)
    ]
    left = asyncio.create_task(background.fetch("left", partial(ran.append, 9)))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.sleep(0)
    gate.set()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in ended[:4]] == [True] * 4
    assert await held
    await background.fetch("last", lambda: None)
    assert ran == [4]


# ------------------------------------------------------------- clipboard, title, bell
BASE = campaign(31)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("TMUX", raising=False)
    return []


def notifier(written: list[str], snapshot: Snapshot = BASE) -> terminal.Notifier:
    return terminal.Notifier(written.append, SessionModel(snapshot), quiet=False)


def test_a_copy_is_an_osc_52_which_tmux_is_asked_to_pass_on(
    tmp_path: Path, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = notifier(written).copy("héllo", tmp_path)
    payload = base64.b64encode("héllo".encode()).decode()
    assert written == [f"\x1b]52;c;{payload}\x07"]
    assert "6 B" in words
    monkeypatch.setenv("TMUX", "x")
    notifier(written).copy("x", tmp_path)
    assert written[1].startswith("\x1bPtmux;\x1b\x1b]52;c;")
    assert written[1].endswith("\x1b\\")


def test_what_is_too_long_for_a_terminal_goes_to_a_file(
    tmp_path: Path, written: list[str]
) -> None:
    for place, letter in enumerate("ab"):
        text = letter * 200_000
        words = notifier(written).copy(text, tmp_path)
        copy = tmp_path / f"autoexp-copy-{place}.txt"
        assert str(copy) in words
        assert copy.read_text() == text
        assert copy.stat().st_mode & 0o777 == 0o600
    assert notifier(written).copy("", tmp_path) == "nothing to copy"
    assert written == []


def test_a_title_holds_no_sequence_of_others(written: list[str]) -> None:
    notifier(written, replace(BASE, name="a\x1b]0;b\x07c")).show_title()
    assert written[0].endswith(" ac\x07")
    assert written[0].count("\x1b") == 1


RUNNING = next(job.name for job in BASE.jobs if job.state is JobState.RUNNING)
FAILED = with_job(BASE, RUNNING, state=JobState.FAILED, cause=Cause.NAN)
ANSWERED = with_job(BASE, BASE.jobs[-1].name, ask=None)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BASE, BASE, ""),
        (BASE, FAILED, "dense300m: 1 job failed"),
        (BASE, replace(BASE, open=False), "dense300m: all ended"),
        (ANSWERED, BASE, "dense300m: 1 thing needs you"),
    ],
    ids=["what was there", "a failure", "the end of everything", "a new question"],
)
def test_what_is_new_rings_once(
    before: Snapshot, after: Snapshot, said: str, written: list[str]
) -> None:
    model = SessionModel(before)
    bell = terminal.Notifier(written.append, model, quiet=False)
    model.take(after)
    bell.notify()
    bell.notify()
    assert len(written) == bool(said)
    assert not said or written[0].startswith(f"\x07\x1b]9;{said}")


# ------------------------------------------------------------------------ terminal
class Dying:
    """A terminal that hangs up at the second write."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        if self.writes > 1:
            raise OSError(5, "Input/output error")
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def fileno(self) -> int:
        return 2


def test_a_lost_terminal_is_told_once_and_never_written_again() -> None:
    lost: list[int] = []
    dying = Dying()
    file = terminal.LosableFile(dying, lambda: lost.append(1))  # type: ignore[arg-type]
    for _ in range(4):
        file.write("x")
        file.flush()
    assert (lost, dying.writes, file.gone) == ([1], 2, True)


@pytest.mark.parametrize(
    ("environment", "ascii_only"),
    [
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "POSIX"}, True),
        ({"LC_CTYPE": "en_US.ISO-8859-1"}, True),
        ({}, True),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LC_CTYPE": "C.utf8", "LANG": "C"}, False),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, False),
    ],
)
def test_the_environment_s_locale_decides_about_ascii(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], ascii_only: bool
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
        if name in environment:
            monkeypatch.setenv(name, environment[name])
    assert is_ascii() is ascii_only
