"""Between threads, terminals and people: bridge, background, clipboard, bell."""

from __future__ import annotations

import asyncio
import base64
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.background import Background
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


async def test_of_calls_under_one_key_the_newest_runs() -> None:
    background, gate = Background("test"), threading.Event()
    held = asyncio.create_task(background.fetch("gate", partial(gate.wait, 5)))
    calls = [
        asyncio.create_task(background.fetch("same", partial(int, number)))
        for number in range(5)
    ]
    await asyncio.sleep(0)
    gate.set()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in ended[:4]] == [True] * 4
    assert (ended[4], await held) == (4, True)


async def test_what_nobody_waits_for_any_more_does_not_run() -> None:
    background, gate = Background("test"), threading.Event()
    ran: list[int] = []
    held = asyncio.create_task(background.fetch("gate", partial(gate.wait, 5)))
    left = asyncio.create_task(background.fetch("left", partial(ran.append, 1)))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.sleep(0)
    gate.set()
    await held
    await background.fetch("last", lambda: None)
    assert ran == []


# ----------------------------------------------------------------------- clipboard
@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("TMUX", raising=False)
    return []


def speaker(written: list[str], snapshot: Snapshot | None = None) -> terminal.Notifier:
    model = SessionModel(snapshot or BASE)
    return terminal.Notifier(written.append, model, quiet=False)


def test_a_copy_is_an_osc_52_which_tmux_is_asked_to_pass_on(
    tmp_path: Path, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, _ = speaker(written).copy("héllo", tmp_path)
    payload = base64.b64encode("héllo".encode()).decode()
    assert written == [f"\x1b]52;c;{payload}\x07"]
    assert "6 B" in words
    monkeypatch.setenv("TMUX", "x")
    speaker(written).copy("x", tmp_path)
    assert written[1].startswith("\x1bPtmux;\x1b\x1b]52;c;")
    assert written[1].endswith("\x1b\\")


def test_what_is_too_long_for_a_terminal_goes_to_a_file(
    tmp_path: Path, written: list[str]
) -> None:
    for place, letter in enumerate("ab"):
        text = letter * 200_000
        words, _ = speaker(written).copy(text, tmp_path)
        copy = tmp_path / f"autoexp-copy-{place}.txt"
        assert str(copy) in words
        assert copy.read_text() == text
        assert copy.stat().st_mode & 0o777 == 0o600
    assert speaker(written).copy("", tmp_path)[0] == "nothing to copy"
    assert written == []


# ------------------------------------------------------------------------ terminal
class Dying:
    """A terminal that hangs up at the second write."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> int:
        if self.written:
            raise OSError(5, "Input/output error")
        self.written.append(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def fileno(self) -> int:
        return 2


def test_a_lost_terminal_is_told_once_and_never_written_again() -> None:
    lost: list[int] = []
    file = terminal.LosableFile(Dying(), lambda: lost.append(1))  # type: ignore[arg-type]
    for _ in range(4):
        file.write("x")
        file.flush()
    assert lost == [1]
    assert file.gone


def test_a_title_holds_no_sequence_of_others(written: list[str]) -> None:
    hostile = replace(BASE, name="a\x1b]0;b\x07c")
    speaker(written, hostile).show_title()
    assert written[0].endswith(" ac\x07")
    assert written[0].count("\x1b") == 1


# -------------------------------------------------------------------------- ringer
BASE = campaign(31)
RUNNING = next(job for job in BASE.jobs if job.state is JobState.RUNNING)
WITH_FAILURE = with_job(BASE, RUNNING.name, state=JobState.FAILED, cause=Cause.NAN)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BASE, BASE, ""),
        (BASE, WITH_FAILURE, "dense300m: 1 job failed"),
        (BASE, replace(BASE, open=False), "dense300m: all ended"),
        (
            with_job(BASE, BASE.jobs[-1].name, ask=None),
            BASE,
            "dense300m: 1 thing needs you",
        ),
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


# --------------------------------------------------------------------------- locale
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
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_ascii() is ascii_only
