"""autoexp-sessions over a real session."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.sessions import main
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.user_files import note_place
from tests.e2e.campaign import Campaign, wait_until
from tests.storage.test_session_list import Engine
from tests.storage.whole_session import WholeSession, whole

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sessions(tmp_path: Path, say: Say) -> Say:
    return lambda *argv: say(main, *argv, "--state-dir", str(tmp_path / "state"))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Campaign]:
    """A session whose jobs take long, run by another process."""
    campaign = Campaign(tmp_path)
    campaign.write(families=2, seconds=60.0)
    run = campaign.start("--manifest", str(campaign.manifest))
    try:
        wait_until(lambda: len(campaign.living()) > 0)
        yield campaign
    finally:
        run.kill()
        run.communicate()
        for pid in campaign.living():
            os.kill(pid, signal.SIGKILL)


def test_without_sessions_the_list_says_how_to_start_one(sessions: Say) -> None:
    code, out, _ = sessions("list")
    assert code == 0
    assert "No sessions in" in out
    assert "autoexp-tui --config-ref exp" in out


def test_sessions_of_other_known_places_are_listed_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)
    here, there = tmp_path / "outputs/.autoexp", tmp_path / "there"
    Engine(here, "a2aa", 1.0)
    Engine(there, "b2bb", 2.0)
    note_place(there)
    assert run_guarded(main, ["list"]) == 0
    out = capsys.readouterr().out
    places = [line for line in out.splitlines() if line.endswith(":")]
    assert places == [f"{there}:", f"{here}:"]
    assert run_guarded(main, ["check", "b2bb"]) == 0
    assert run_guarded(main, ["check", "b2bb", "--state-dir", str(here)]) == 2


def test_a_running_session_is_listed_shown_and_stopped_with_its_jobs(
    sessions: Say, running: Campaign
) -> None:
    session = running.session()
    code, out, _ = sessions("list", "--json")
    assert code == 0
    assert json.loads(out)[0]["owner"] == "yes"
    code, out, _ = sessions("show", session)
    assert "running" in out
    code, out, _ = sessions("check", session)
    assert (code, "nothing is damaged" in out) == (0, True)
    code, _, err = sessions("stop", session, "--jobs")
    assert (code, "--yes" in err) == (3, True)
    code, out, err = sessions("stop", session, "--jobs", "--yes")
    assert code == 0, err
    wait_until(lambda: not running.living())
    code, out, _ = sessions("check", session)
    assert (code, "nothing is damaged" in out) == (0, True)


def test_killing_and_retrying_a_job_goes_through_the_running_engine(
    sessions: Say, running: Campaign
) -> None:
    session = running.session()
    code, _, err = sessions("kill", session, "stable1", "--yes")
    assert code == 0, err
    wait_until(lambda: "cancelled" in sessions("show", session)[1])
    wait_until(lambda: "skipped" in sessions("show", session)[1])
    code, _, err = sessions("retry", session, "stable1")
    assert code == 0, err
    wait_until(lambda: running.begun()["stable1 2"] == 1)
    sessions("stop", session, "--jobs", "--yes")
    wait_until(lambda: not running.living())


def damaged(state_dir: Path) -> WholeSession:
    """A session with flipped bits in its last commit."""
    made = whole(state_dir / "k7f2")
    path = made.session.get_part(2)
    path.write_bytes(path.read_bytes().replace(b"loss", b"lOsS"))
    return made


def test_a_check_of_a_damaged_session_says_where_and_what_would_help(
    tmp_path: Path, sessions: Say
) -> None:
    damaged(tmp_path / "state")
    code, out, _ = sessions("check", "k7f2")
    assert code == 1
    assert "journal.2.jsonl, line 4" in out
    assert "would: go on after record" in out
    assert "autoexp-sessions check k7f2 --repair --yes" in out
    assert "1 error, 0 warnings" in out
    code, out, _ = sessions("check", "k7f2", "--json")
    (line,) = out.splitlines()
    told = json.loads(line)
    assert (code, told["sound"], told["flaws"][0]["severity"]) == (1, False, "error")


def test_a_repair_is_done_only_with_a_yes(tmp_path: Path, sessions: Say) -> None:
    made = damaged(tmp_path / "state")
    code, out, _ = sessions("check", "k7f2", "--repair")
    assert (code, "add --yes" in out) == (1, True)
    assert made.session.list_parts() == [(1, 0), (2, 0)]
    code, out, _ = sessions("check", "k7f2", "--repair", "--yes")
    assert "done     journal.3.jsonl goes on there" in out
    code, out, _ = sessions("check", "k7f2")
    assert (code, "nothing is damaged" in out) == (0, True)


def test_a_repair_beside_an_engine_is_refused(tmp_path: Path, sessions: Say) -> None:
    made = damaged(tmp_path / "state")
    take_lease(made.session, SystemClock())
    code, _, err = sessions("check", "k7f2", "--repair", "--yes")
    assert code == 4
    assert "autoexp-sessions stop k7f2" in err
