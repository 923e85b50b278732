"""Whole files or nothing, what a person reads when the disk refuses, crash logs."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from autoexp_tui.cli.assemble import log_fault
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.atomic import (
    Place,
    explain,
    link_new,
    make_directory,
    write_all,
    write_atomic,
)
from autoexp_tui.storage.user_files import write_crash_log

from .disk_session import failing, mode


def content(directory: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in directory.iterdir()}


def test_a_file_is_replaced_as_a_whole_durable_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = list[int](), os.pwrite
    monkeypatch.setattr(os, "fsync", synced.append)
    write_atomic(tmp_path / "a", b"old and long")
    assert len(synced) == 2  # the file and its directory
    write_atomic(tmp_path / "a", b"new", durable=False)
    assert len(synced) == 2
    assert (content(tmp_path), mode(tmp_path / "a")) == ({"a": b"new"}, 0o600)
    # a write that the system cuts short is completed
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    with (tmp_path / "a").open("wb") as file:
        write_all(file.fileno(), b"0123456789", 0)
    assert content(tmp_path) == {"a": b"0123456789"}


@pytest.mark.parametrize("fails", ["pwrite", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    write_atomic(tmp_path / "a", b"old")
    monkeypatch.setattr(os, fails, failing())
    with pytest.raises(EnvironmentFailed, match="disk is full") as caught:
        write_atomic(tmp_path / "a", b"new")
    assert str(tmp_path / "a") in str(caught.value)
    assert content(tmp_path) == {"a": b"old"}


def test_what_a_disk_says_comes_with_a_next_step_and_on_one_line_too() -> None:
    def told(code: int, place: Place = "state") -> EnvironmentFailed:
        return explain(OSError(code, os.strerror(code)), "/x", "write", place)

    for code in (errno.ENOSPC, errno.EACCES, errno.ENOTDIR, errno.EEXIST):
        assert told(code, "output").hint.endswith("project.base_output_dir.")
        assert told(code, "logs").hint.endswith("slurm.log_dir.")
    for code in (errno.EDQUOT, errno.EIO, errno.ESTALE):
        assert os.strerror(code) in told(code).problem
        assert told(code).hint
    assert told(errno.EROFS).line == (
        "/x: cannot write: Read-only file system. It is mounted read-only: choose "
        "another place with --state-dir"
    )
    with pytest.raises(EnvironmentFailed, match="check the path") as caught:
        write_atomic(Path("/gone/away/a"), b"x")
    assert caught.value.exit_code == 5


def test_a_link_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert link_new(tmp_path / "a", b"first")
    assert not link_new(tmp_path / "a", b"second")
    assert content(tmp_path) == {"a": b"first"}
    real = os.link

    def repeated(source: Path, target: Path) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", repeated)
    assert link_new(tmp_path / "b", b"x")  # the answer was lost: it counts as made
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(EnvironmentFailed, match="no hard links"):
        link_new(tmp_path / "c", b"x")


def test_directories_on_the_way_are_private_and_what_exists_keeps_its_mode(
    tmp_path: Path,
) -> None:
    make_directory(tmp_path / "a" / "b")
    assert {mode(path) for path in tmp_path.rglob("*")} == {0o700}
    (tmp_path / "a").chmod(0o755)
    make_directory(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o755
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailed, match="make the directory"):
        make_directory(tmp_path / "file")


# ------------------------------------------------------------- tracebacks that are kept
def test_a_crash_log_is_private_and_follows_no_link_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state" / "crashes"
    path = write_crash_log("boom", "planning-7.log", state)
    assert (path.read_text(), mode(path), mode(state)) == ("boom", 0o600, 0o700)
    (state / "planning-7.log").symlink_to(tmp_path / "victim")
    write_crash_log("x", "planning-7.log", state)
    assert not (tmp_path / "victim").exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    shared = [write_crash_log("x", "p-7.log", tmp_path / "file/c") for _ in range(2)]
    assert len(set(shared)) == 2  # their names cannot be guessed
    assert {(path.parent, mode(path)) for path in shared} == {(tmp_path, 0o600)}


def test_tracebacks_hold_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: object) -> int:
        raise RuntimeError("cannot log in with token=abc-def")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run_guarded(breaks, []) == 70
    (path,) = tmp_path.iterdir()
    assert "abc-def" not in path.read_text() + capsys.readouterr().err
    log_fault(tmp_path / "engine.log", "failed: HF_TOKEN=abc-def")
    assert content(tmp_path)["engine.log"] == b"failed: HF_TOKEN=***\n\n"
    assert {mode(one) & 0o077 for one in tmp_path.iterdir()} == {0}
