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
    with pytest.raises(OSError, match="Is a directory"):
        LocalErrands().append(str(tmp_path), "x")


def test_a_command_has_its_environment_and_its_place(tmp_path: Path) -> None:
    script = "import os; print(os.getcwd(), os.environ['WHO'], 'PATH' in os.environ)"
    words = [sys.executable, "-c", script]
    result = LocalErrands().run(words, 30.0, {"WHO": "me"}, str(tmp_path))
    assert (result.exit_code, result.detail) == (0, f"{tmp_path} me True")


def test_a_relative_file_stays_below_the_run_s_directory(tmp_path: Path) -> None:
    """A link within it is followed."""
    run, real = tmp_path / "run", tmp_path / "run" / "real"
    for directory in (real, tmp_path / "ssh"):
        directory.mkdir(parents=True)
    (run / "link").symlink_to(tmp_path / "ssh")
    (run / "file.txt").symlink_to(tmp_path / "ssh" / "authorized_keys")
    (run / "notes").symlink_to(real)
    for path in ("../x.txt", "link/x.txt", "file.txt", "/elsewhere/x", "."):
        with pytest.raises(OSError, match="outside of"):
            LocalErrands().append(os.path.join(run, path), "x", str(run))
    assert list((tmp_path / "ssh").iterdir()) == []
    LocalErrands().append(f"{run}/notes/n.txt", "x", str(run))
    assert (real / "n.txt").read_text() == "x\n"


def test_files_and_directories_are_for_whom_the_project_shares(tmp_path: Path) -> None:
    for modes in (PRIVATE, MODES["group"]):
        place = tmp_path / f"{modes.file:o}" / "deep" / "n.txt"
        LocalErrands(modes).append(str(place), "x")
        made = (place.parent.parent, place.parent, place)
        found = [stat.S_IMODE(path.stat().st_mode) for path in made]
        assert found == [modes.directory, modes.directory, modes.file]
