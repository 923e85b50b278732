"""Tracebacks that are kept: for the user alone, where nobody can wait for them."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from autoexp_tui.cli.assemble import FaultLog
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.storage.user_files import write_crash_log


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
