"""The user's list of state directories, and finding sessions by it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from autoexp_tui.cli.assemble import FaultLog
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import create_session, find_session, list_sessions
from autoexp_tui.storage.user_files import (
    find_user_file,
    list_places,
    note_place,
    write_crash_log,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state home of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return tmp_path


def place(home: Path, name: str) -> Path:
    made = home / name
    made.mkdir()
    return made


def session(state_dir: Path, session_id: str) -> SessionDir:
    made = create_session(state_dir, lambda _length: session_id)
    made.get_part(1).touch()
    return made


def listed() -> Path:
    file = find_user_file("state-dirs")
    assert file is not None
    return file


def others() -> tuple[Path, ...]:
    return list_places(Path("/"))[1:]


def test_places_are_remembered_in_order_and_once(home: Path) -> None:
    one, two = place(home, "one"), place(home, "two words")
    for state_dir in (one, two, one):
        note_place(state_dir)
    assert others() == (one, two)
    assert listed().read_text() == f"{one}\n{two}\n"


def test_the_list_is_the_users_alone(home: Path) -> None:
    note_place(place(home, "one"))
    assert listed().stat().st_mode & 0o777 == 0o600
    assert listed().parent.stat().st_mode & 0o777 == 0o700


def test_a_place_that_is_gone_is_skipped(home: Path) -> None:
    one, two = place(home, "one"), place(home, "two")
    note_place(one)
    note_place(two)
    one.rmdir()
    assert others() == (two,)


def test_two_names_of_one_directory_are_one_place(home: Path) -> None:
    one = place(home, "one")
    (home / "link").symlink_to(one)
    note_place(home / "link")
    assert list_places(home / "link") == (home / "link",)
    assert others() == (one,)


def test_a_name_that_is_no_text_is_remembered(home: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(home) + b"/\xff"))
    odd.mkdir()
    note_place(odd)
    assert others() == (odd,)


def test_what_is_no_absolute_path_in_the_list_is_no_place(home: Path) -> None:
    one = place(home, "one")
    note_place(one)
    with listed().open("a") as file:
        file.write(f"relative\n\n\0\n{one}")
    assert others() == (one,)


def test_a_name_with_a_line_break_is_not_listed(home: Path) -> None:
    note_place(place(home, "one\ntwo"))
    assert not listed().exists()


def test_a_list_that_cannot_be_written_hurts_nobody(home: Path) -> None:
    (home / "xdg").write_text("a file in the way")
    note_place(place(home, "one"))
    assert others() == ()


def test_without_a_state_home_the_list_lies_in_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative/counts/as/unset")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (
        find_user_file("state-dirs") == tmp_path / ".local/state/autoexp-tui/state-dirs"
    )


def test_an_id_in_two_places_is_an_error_that_names_both(home: Path) -> None:
    here, there = place(home, "here"), place(home, "there")
    session(here, "k7f2")
    session(there, "k7f2")
    with pytest.raises(UsageError) as raised:
        find_session((here, there), "k7f2")
    assert f"in {here} and in {there}" in str(raised.value)
    assert f"--state-dir {here}" in raised.value.hint


def test_an_unknown_id_says_where_it_was_looked_for_and_what_is_near(
    home: Path,
) -> None:
    here, there = place(home, "here"), place(home, "there")
    session(there, "k7f2")
    with pytest.raises(UsageError) as raised:
        find_session((here, there), "k7f3")
    assert f"in {here}, nor in another known place" in str(raised.value)
    assert "Did you mean k7f2?" in raised.value.hint


def test_a_known_place_that_cannot_be_read_is_passed_over(home: Path) -> None:
    here = place(home, "here")
    made = session(here, "k7f2")
    odd = home / "file"
    odd.write_text("")
    assert find_session((here, odd), "k7f2").path == made.path
    assert [row.id for row in list_sessions(here, odd)] == ["k7f2"]


def test_the_place_where_one_stands_must_be_readable(home: Path) -> None:
    odd = home / "file"
    odd.write_text("")
    with pytest.raises(EnvironmentFailed):
        find_session((odd, place(home, "there")), "k7f2")
    with pytest.raises(EnvironmentFailed):
        list_sessions(odd)


# --------- tracebacks that are kept: for the user alone, where nobody c
def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_private_in_a_private_directory(tmp_path: Path) -> None:
    path = write_crash_log("boom", "planning-7.log", tmp_path / "state" / "crashes")
    assert path.read_text() == "boom"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)


def test_in_a_shared_directory_its_name_cannot_be_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    names = {
        write_crash_log("x", "planning-7.log", tmp_path / "file" / "crashes").name
        for _ in range(2)
    }
    assert len(names) == 2
    assert {mode(tmp_path / name) for name in names} == {0o600}


def test_a_link_that_waits_for_it_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "planning-7.log").symlink_to(victim)
    write_crash_log("x", "planning-7.log", tmp_path)
    assert not victim.exists()


def test_tracebacks_hold_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def breaks(_: object) -> int:
        raise RuntimeError("cannot log in with token=abc-def")

    assert run_guarded(breaks, []) == 70
    (path,) = tmp_path.iterdir()
    assert "abc-def" not in path.read_text() + capsys.readouterr().err
    assert mode(path) == 0o600
    log = tmp_path / "engine.log"
    FaultLog(log).write("failed: HF_TOKEN=abc-def")
    assert log.read_text() == "failed: HF_TOKEN=***\n\n"
    assert os.stat(log).st_mode & 0o077 == 0
