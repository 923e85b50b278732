"""What rules do on this machine: lines in files, commands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoexp_tui.adapters.errands import LocalErrands


def test_lines_are_added_one_after_the_other(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "notes.txt"
    for text in ("one", "two\n", "three"):
        LocalErrands().append(str(place), text)
    assert place.read_text() == "one\ntwo\nthree\n"


def test_a_line_that_was_left_open_is_ended_first(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("half")
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
