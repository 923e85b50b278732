"""A directory of evidence is read out without following or running anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoexp_tui.cockpit.dialogs import reader as folders
from autoexp_tui.cockpit.dialogs.reader import read_folder
from autoexp_tui.cockpit.spans import plain


def text(path: Path) -> str:
    return "\n".join(plain(line) for line in read_folder(str(path)))


def test_files_are_shown_by_name_with_their_text(tmp_path: Path) -> None:
    (tmp_path / "stack.txt").write_text("Thread 1\n  train()\n")
    (tmp_path / "log-tail.txt").write_text("iteration 5")
    told = text(tmp_path)
    assert told.index("log-tail.txt") < told.index("stack.txt")
    assert "train()" in told


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    told = text(tmp_path)
    assert told.count("no plain file") == 2
    assert "root:" not in told


def test_text_from_outside_is_made_safe(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2J").write_bytes(b"\x1b]52;c;eA==\x07 \xff\n")
    assert "\x1b" not in text(tmp_path)


def test_large_files_and_many_files_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MOST_BYTES", 10)
    monkeypatch.setattr(folders, "MOST_FILES", 2)
    for n in range(4):
        (tmp_path / f"{n}").write_text("x" * 25)
    told = text(tmp_path)
    assert "(15 further bytes)" in told
    assert "and 2 more" in told


def test_an_empty_one_says_so(tmp_path: Path) -> None:
    assert "nothing lies there" in text(tmp_path)
