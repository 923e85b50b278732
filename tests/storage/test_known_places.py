"""The user's list of state directories, and finding sessions by it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.storage.session_dir import SessionDir, create_session
from autoexp_tui.storage.session_list import list_sessions
from autoexp_tui.storage.session_registry import (
    find_in,
    list_file,
    remember,
    remembered,
    with_remembered,
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
    made.journal_part(1).touch()
    return made


def listed() -> Path:
    file = list_file()
    assert file is not None
    return file


def test_places_are_remembered_in_order_and_once(home: Path) -> None:
    one, two = place(home, "one"), place(home, "two words")
    for state_dir in (one, two, one):
        remember(state_dir)
    assert remembered() == (one, two)
    assert listed().read_text() == f"{one}\n{two}\n"


def test_the_list_is_the_users_alone(home: Path) -> None:
    remember(place(home, "one"))
    assert listed().stat().st_mode & 0o777 == 0o600
    assert listed().parent.stat().st_mode & 0o777 == 0o700


def test_a_place_that_is_gone_is_skipped(home: Path) -> None:
    one, two = place(home, "one"), place(home, "two")
    remember(one)
    remember(two)
    one.rmdir()
    assert remembered() == (two,)


def test_two_names_of_one_directory_are_one_place(home: Path) -> None:
    one = place(home, "one")
    (home / "link").symlink_to(one)
    remember(home / "link")
    assert with_remembered(home / "link") == (home / "link",)
    assert remembered() == (one,)


def test_a_name_that_is_no_text_is_remembered(home: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(home) + b"/\xff"))
    odd.mkdir()
    remember(odd)
    assert remembered() == (odd,)


def test_what_is_no_absolute_path_in_the_list_is_no_place(home: Path) -> None:
    one = place(home, "one")
    remember(one)
    with listed().open("a") as file:
        file.write(f"relative\n\n\0\n{one}")
    assert remembered() == (one,)


def test_a_name_with_a_line_break_is_not_listed(home: Path) -> None:
    remember(place(home, "one\ntwo"))
    assert not listed().exists()


def test_a_list_that_cannot_be_written_hurts_nobody(home: Path) -> None:
    (home / "xdg").write_text("a file in the way")
    remember(place(home, "one"))
    assert remembered() == ()


def test_without_a_state_home_the_list_lies_in_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative/counts/as/unset")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert list_file() == tmp_path / ".local/state/autoexp-tui/state-dirs"


# -------------------------------------------------------------------------- finding
def test_a_session_is_found_wherever_it_lies(home: Path) -> None:
    here, there = place(home, "here"), place(home, "there")
    made = session(there, "k7f2")
    assert find_in((here, there), "k7f2").path == made.path


def test_an_id_in_two_places_is_an_error_that_names_both(home: Path) -> None:
    here, there = place(home, "here"), place(home, "there")
    session(here, "k7f2")
    session(there, "k7f2")
    with pytest.raises(UsageError) as raised:
        find_in((here, there), "k7f2")
    assert f"in {here} and in {there}" in str(raised.value)
    assert f"--state-dir {here}" in raised.value.hint


def test_an_unknown_id_says_where_it_was_looked_for_and_what_is_near(
    home: Path,
) -> None:
    here, there = place(home, "here"), place(home, "there")
    session(there, "k7f2")
    with pytest.raises(UsageError) as raised:
        find_in((here, there), "k7f3")
    assert f"in {here}, nor in another known place" in str(raised.value)
    assert "Did you mean k7f2?" in raised.value.hint


def test_a_known_place_that_cannot_be_read_is_passed_over(home: Path) -> None:
    here = place(home, "here")
    made = session(here, "k7f2")
    odd = home / "file"
    odd.write_text("")
    assert find_in((here, odd), "k7f2").path == made.path
    assert [row.id for row in list_sessions(here, odd)] == ["k7f2"]


def test_the_place_where_one_stands_must_be_readable(home: Path) -> None:
    odd = home / "file"
    odd.write_text("")
    with pytest.raises(EnvironmentFailed):
        find_in((odd, place(home, "there")), "k7f2")
    with pytest.raises(EnvironmentFailed):
        list_sessions(odd)
