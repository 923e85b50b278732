"""Between threads, terminals and people: bridge, background, clipboard, bell."""

from __future__ import annotations

import asyncio
import base64
import re
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.background import Background
from autoexp_tui.cockpit.context import CockpitOptions, is_ascii
from autoexp_tui.cockpit.state.causes import CauseGroup, group_causes
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import SessionView, build_session
from autoexp_tui.cockpit.widgets.pane import to_ascii
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import Cause, JobState
from tests.cockpit.seat import cockpit
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
def test_a_copy_is_an_osc_52(tmp_path: Path) -> None:
    sequence, words = terminal.copy_text("héllo", tmux=False, directory=tmp_path)
    payload = base64.b64encode("héllo".encode()).decode()
    assert sequence == f"\x1b]52;c;{payload}\x07"
    assert "6 B" in words


def test_tmux_is_asked_to_pass_it_on(tmp_path: Path) -> None:
    sequence, _ = terminal.copy_text("x", tmux=True, directory=tmp_path)
    assert sequence.startswith("\x1bPtmux;\x1b\x1b]52;c;")
    assert sequence.endswith("\x1b\\")


def test_what_is_too_long_for_a_terminal_goes_to_a_file(tmp_path: Path) -> None:
    for place, letter in enumerate("ab"):
        text = letter * 200_000
        sequence, words = terminal.copy_text(text, tmux=False, directory=tmp_path)
        written = tmp_path / f"autoexp-copy-{place}.txt"
        assert sequence == ""
        assert str(written) in words
        assert written.read_text() == text
        assert written.stat().st_mode & 0o777 == 0o600


def test_nothing_is_nothing_to_copy(tmp_path: Path) -> None:
    assert terminal.copy_text("", tmux=False, directory=tmp_path)[0] == ""


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


def test_a_title_holds_no_sequence_of_others() -> None:
    assert terminal.format_title("a\x1b]0;b\x07c") == "\x1b]2;ac\x07"


def test_a_notification_rings_even_where_it_is_not_known() -> None:
    plain = terminal.format_notification("done", tmux=False)
    wrapped = terminal.format_notification("done", tmux=True)
    assert plain.startswith("\x07")
    assert "\x1b]9;done\x07" in plain
    assert wrapped.startswith("\x07\x1bPtmux;")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({"TMUX": "x"}, True), ({"STY": "x"}, True), ({}, False), ({"TMUX": ""}, False)],
)
def test_a_multiplexer_is_known(environment: dict[str, str], expected: bool) -> None:
    assert terminal.is_multiplexer(environment) is expected


# -------------------------------------------------------------------------- ringer
def looked(snapshot: Snapshot) -> tuple[SessionView, tuple[CauseGroup, ...]]:
    session = build_session(snapshot)
    return session, group_causes(session, PlanWords(snapshot.plan))


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
def test_what_is_new_rings_once(before: Snapshot, after: Snapshot, said: str) -> None:
    bell = terminal.News(*looked(before))
    told = bell.update(*looked(after))
    assert told.startswith(said)
    assert bool(told) is bool(said)
    assert bell.update(*looked(after)) == ""


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
    assert is_ascii(CockpitOptions()) is ascii_only


async def test_ascii_glyphs_stand_apart_from_numbers() -> None:
    async with cockpit(ascii=True) as seat:
        text = seat.pane("header") + seat.pane("stages") + seat.pane("needs")
        drawn = to_ascii(text)
        assert not re.search(r"(?<![\w.])[.0|:x+-]\d+ [a-z]", drawn)
        assert "x 4  out of memory" in drawn
