"""What rules do on this machine: lines in files, commands."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from autoexp_tui.executors.local_actions import LocalErrands
from autoexp_tui.storage.atomic import MODES, PRIVATE


def test_lines_are_added_one_after_the_other(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "notes.txt"
    for text in ("one", "two\n", "three"):
        LocalErrands().append(str(place), text)
    assert place.read_text() == "one\ntwo\nthree\n"
    place.write_text("half")  # a line that was left open is ended first
    LocalErrands().append(str(place), "whole")
    assert place.read_text() == "half\nwhole\n"


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory"):
        LocalErrands().append(str(tmp_path), "x")


def test_a_command_has_its_environment_and_its_place(tmp_path: Path) -> None:
    script = "import os; print(os.getcwd(), os.environ['WHO'], 'PATH' in os.environ)"
    result = LocalErrands().run(
        [sys.executable, "-c", script], 30.0, {"WHO": "me"}, str(tmp_path)
    )
    assert (result.exit_code, result.detail) == (0, f"{tmp_path} me True")


def test_a_command_in_a_place_that_is_not_there_says_so(tmp_path: Path) -> None:
    result = LocalErrands().run(["true"], 5.0, {}, str(tmp_path / "no"))
    assert result.exit_code is None
    assert "cannot start" in result.detail


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    result = LocalErrands().run(["sleep", "60"], 0.2, {}, "")
    assert result.exit_code is None
    assert "longer than 0.2 s" in result.detail


@pytest.mark.parametrize("path", ["../x.txt", "link/x.txt", "file.txt", "/elsewhere/x"])
def test_a_relative_file_stays_below_the_run_s_directory(
    tmp_path: Path, path: str
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "ssh").mkdir()
    (run / "link").symlink_to(tmp_path / "ssh")
    (run / "file.txt").symlink_to(tmp_path / "ssh" / "authorized_keys")
    with pytest.raises(OSError, match="outside of"):
        LocalErrands().append(os.path.join(run, path), "x", str(run))
    assert list((tmp_path / "ssh").iterdir()) == []


def test_a_link_within_the_run_s_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "notes").symlink_to(tmp_path / "real")
    LocalErrands().append(f"{tmp_path}/notes/n.txt", "x", str(tmp_path))
    assert (tmp_path / "real" / "n.txt").read_text() == "x\n"


def test_files_and_directories_are_for_whom_the_project_shares(tmp_path: Path) -> None:
    for modes in (PRIVATE, MODES["group"]):
        place = tmp_path / f"{modes.file:o}" / "deep" / "n.txt"
        LocalErrands(modes).append(str(place), "x")
        made = (place.parent.parent, place.parent, place)
        found = [stat.S_IMODE(path.stat().st_mode) for path in made]
        assert found == [modes.directory, modes.directory, modes.file]
