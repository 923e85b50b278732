"""What is new in a session, for scripts; and when this user last looked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from autoexp_tui.cli import sessions
from autoexp_tui.cli.session_verbs.show import parse_since
from autoexp_tui.model.errors import UsageError
from autoexp_tui.storage.session_dir import SessionDir
from tests.storage.week_session import write_week


@pytest.fixture
def session(tmp_path: Path) -> SessionDir:
    made, _ = write_week(tmp_path, jobs=31, note_seconds=4 * 3600, slots=4)
    return made


def test_leaving_is_remembered_for_each_user(session: SessionDir) -> None:
    assert session.read_last_visit() is None
    session.record_visit()
    left = session.read_last_visit()
    assert left is not None
    assert abs(left - time.time()) < 60
    assert session.visit.name.endswith(str(os.getuid()))
    nowhere = SessionDir(session.path / "nowhere")
    nowhere.record_visit()  # what cannot be kept is no fault
    assert nowhere.read_last_visit() is None


def test_a_moment_is_a_span_ago_a_time_or_when_you_left(session: SessionDir) -> None:
    now = time.time()
    assert parse_since("2h", session, now) == now - 7200
    assert parse_since("03-12", session, now) != now
    with pytest.raises(UsageError, match="have not left"):
        parse_since("left", session, now)
    with pytest.raises(UsageError, match="no time"):
        parse_since("yesterday", session, now)
    session.record_visit()
    assert parse_since("left", session, now) == session.read_last_visit()


def test_show_since_tells_what_is_new(
    session: SessionDir, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--state-dir", str(session.state_dir)]
    since = ["--since", "2026-01-01 00:00"]
    assert sessions.main(["show", session.id, *place, *since]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Since 2026-01-01 00:00: ")
    assert "done" in printed
    assert sessions.main(["show", session.id, *place, "--since", "1m", "--json"]) == 0
    assert '"new": ["Nothing new since then."]' in capsys.readouterr().out
