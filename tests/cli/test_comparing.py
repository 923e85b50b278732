"""Looking at several sessions from the shell's side: curves of their logs, and the way
from the list to the results and back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoexp_tui.cli import tui
from autoexp_tui.cli.curves import read_curves
from autoexp_tui.cli.options import parse_options
from autoexp_tui.cockpit.context import LeaveWay
from autoexp_tui.cockpit.screens.picker import Choice, SessionPicker
from autoexp_tui.events.events import MetricsNoted, RunBegan
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged
from tests.storage.whole_session import WholeSession


@pytest.fixture
def ran(tmp_path: Path) -> WholeSession:
    """A session whose job wrote a log, and told twice how far it was."""
    made = WholeSession(tmp_path / "state" / "k7f2")
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {n}/9 loss {9 - n}.5\n" for n in range(1, 10)))
    made.submit()
    where: dict[str, Any] = {"job": "a", "attempt": 1, "run": 0}
    made.write(RunBegan(**where, began_at=2.0, pid=1, log_path=str(log)))
    for step in (1, 9):
        values: Any = {"loss": 9.5 - step}
        made.write(MetricsNoted(**where, step=step, total=9, values=values))
    made.leave()
    return made


def list_files(place: Path) -> dict[Path, int]:
    return {one: one.stat().st_mtime_ns for one in place.rglob("*")}


def test_curves_are_those_of_the_log_else_of_the_journal_and_nothing_is_written(
    ran: WholeSession, tmp_path: Path
) -> None:
    path = ran.session.path
    before = list_files(path)
    live = read_curves(str(path), ["a", "none"])["a"]
    assert live.curves["loss"].values == tuple(9.5 - n for n in range(1, 10))
    (tmp_path / "train.log").unlink()
    (noted,) = read_curves(str(path), ["a"]).values()
    assert noted.curves["loss"].steps == (1, 9)
    assert list_files(path) == before
    ran.session.get_part(1).write_bytes(b"oh no\n")
    with pytest.raises((JournalDamaged, EnvironmentFailed), match="JSON"):
        read_curves(str(path), ["a"])


def test_results_of_marked_sessions_lead_back_to_the_list_which_keeps_the_marks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marks: list[Sequence[str]] = []
    opened: list[tuple[object, ...]] = []
    choices = iter((Choice(("a", "b"), compares=True), Choice(("c",))))

    def run(picker: SessionPicker, **options: object) -> Choice:
        marks.append((*picker.pane.marks,))
        return next(choices)

    class Cockpit(SimpleNamespace):
        def __init__(self, options: Any, args: Any, *beside: object) -> None:
            opened.append((options.session, args.read_only, *beside))
            super().__init__(way=LeaveWay.BACK, run=lambda: 7)

    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(SessionPicker, "run", run)
    monkeypatch.setattr(tui, "Cockpit", Cockpit)
    assert tui.main(["--state-dir", str(tmp_path)]) == 7
    assert opened == [("a", True, ("b",)), ("c", False)]
    assert marks == [(), ("a", "b")]


def test_of_sessions_that_are_compared_the_first_that_reads_is_opened(
    ran: WholeSession, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    bad = WholeSession(state / "a2aa")
    bad.leave()
    bad.session.get_part(1).write_bytes(b"oh no\n")
    options, args = parse_options(
        "autoexp-tui", "", ["--state-dir", str(state), "--session", "a2aa"], tui._FLAGS
    )
    cockpit = tui.Cockpit(options, args, ("k7f2",))
    cockpit._app = SimpleNamespace(
        context=SimpleNamespace(model=SimpleNamespace(left_out={}))
    )  # type: ignore[assignment]
    handle = cockpit._open_now()
    handle.close()
    assert handle.snapshot().session == "k7f2"
    assert handle.read_only
    assert "JSON" in cockpit._app.context.model.left_out["a2aa"]


def test_a_session_on_a_disk_that_refuses_says_how_it_can_be_looked_at(
    ran: WholeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--state-dir", str(tmp_path / "state"), "--session", "k7f2"]
    cockpit = tui.Cockpit(*parse_options("autoexp-tui", "", words, tui._FLAGS))

    def refuse(*_: object) -> None:
        raise EnvironmentFailed("disk full", hint="Make room.", passing=True)

    monkeypatch.setattr(cockpit._entry, "enter", refuse)
    with pytest.raises(EnvironmentFailed) as refused:
        cockpit._open_now()
    assert refused.value.hint == (
        f"Make room. `autoexp-tui --session k7f2 --state-dir {tmp_path}/state "
        "--read-only` shows it as it is."
    )
