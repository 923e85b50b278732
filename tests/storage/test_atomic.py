"""Whole files or nothing, and what a person reads when the disk refuses."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.atomic import (
    Place,
    explain,
    link_new,
    make_directory,
    write_all,
    write_atomic,
)


def no_space(*_args: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old and long")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_a_written_file_is_private(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, "pwrite", no_space)
    with pytest.raises(EnvironmentFailed, match="disk is full") as caught:
        write_atomic(path, b"new")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_rename_that_fails_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(EnvironmentFailed):
        write_atomic(tmp_path / "a", b"new")
    assert names(tmp_path) == []


def test_a_directory_that_is_gone_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="check the path") as caught:
        write_atomic(tmp_path / "gone" / "a", b"x")
    assert caught.value.exit_code == 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentFailed, match="--state-dir"):
        write_atomic(tmp_path / "a", b"x")


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EACCES, errno.ENOTDIR, errno.EEXIST]
)
@pytest.mark.parametrize(
    ("place", "choice"),
    [
        ("state", "--state-dir"),
        ("output", "project.base_output_dir"),
        ("logs", "slurm.log_dir"),
    ],
)
def test_another_place_is_chosen_where_this_one_was(
    code: int, place: Place, choice: str
) -> None:
    failed = explain(OSError(code, os.strerror(code)), "/x", "write", place)
    assert failed.hint.endswith(f"{choice}.")


def test_a_disk_error_reads_on_one_line_too() -> None:
    failed = explain(OSError(errno.EROFS, "Read-only file system"), "/x", "write")
    assert failed.line == (
        "/x: cannot write: Read-only file system. It is mounted read-only: choose "
        "another place with --state-dir"
    )


@pytest.mark.parametrize("code", [errno.EROFS, errno.EDQUOT, errno.EIO, errno.ESTALE])
def test_what_a_disk_says_comes_with_a_next_step(code: int) -> None:
    failed = explain(OSError(code, os.strerror(code)), "/x", "write")
    assert failed.where == "/x"
    assert os.strerror(code) in failed.problem
    assert failed.hint


def test_a_link_is_made_once(tmp_path: Path) -> None:
    assert link_new(tmp_path / "a", b"first")
    assert not link_new(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_a_link_whose_answer_was_lost_counts_as_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def repeated(source: Path, target: Path) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", repeated)
    assert link_new(tmp_path / "a", b"x")


def test_a_disk_without_hard_links_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(_source: Path, _target: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", unsupported)
    with pytest.raises(EnvironmentFailed, match="no hard links"):
        link_new(tmp_path / "a", b"x")


def test_directories_on_the_way_are_private_too(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {0o700}


def test_a_directory_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o755)
    make_directory(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(EnvironmentFailed, match="make the directory"):
        make_directory(tmp_path / "a")


def test_a_write_that_the_system_cuts_short_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    with (tmp_path / "a").open("wb") as file:
        write_all(file.fileno(), b"0123456789", 0)
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_durable_file_is_synced_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_atomic(tmp_path / "a", b"x")
    assert len(synced) == 2


def test_a_volatile_file_costs_no_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", no_space)
    write_atomic(tmp_path / "a", b"x", durable=False)
    assert (tmp_path / "a").read_bytes() == b"x"
