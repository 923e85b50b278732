"""Which file system a path lies on, by the kernel's table and without a look at it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoexp_tui.probes.mounts import FRESH_SECONDS, Mounts, mount_points
from autoexp_tui.testing.clock import ManualClock

LINE = "{n} 1 0:{n} / {point} rw,relatime shared:1 - nfs server:/x rw\n"


def table_of(path: Path, *points: str) -> Path:
    path.write_text("".join(LINE.format(n=n, point=p) for n, p in enumerate(points)))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return table_of(tmp_path / "mountinfo", "/", "/home", "/scratch", r"/my\040disk")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/scratch/a/b", "/scratch"),
        ("/scratch", "/scratch"),
        ("/scratch2/a", "/"),
        ("/home/u/../../scratch/x", "/scratch"),
        ("/my disk/a", "/my disk"),
        ("/scratch/iter_*/done.txt", "/scratch"),
        ("/scra*/done.txt", "/"),
        ("/etc/hosts", "/"),
    ],
)
def test_the_longest_mount_point_wins(path: str, place: str, table: Path) -> None:
    assert Mounts(ManualClock(), table).find(path) == place


def test_a_relative_path_lies_where_we_are(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/home/u")
    assert Mounts(ManualClock(), table).find("out/done.txt") == "/home"


def test_the_path_itself_is_not_touched(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = Mounts(ManualClock(), table)

    def touched(*_: object, **__: object) -> object:
        raise AssertionError("touched")

    for name in ("stat", "lstat", "readlink", "listdir"):
        monkeypatch.setattr(os, name, touched)
    monkeypatch.setattr(
        Path, "read_text", lambda *_a, **_k: LINE.format(n=1, point="/s")
    )
    assert mounts.find("/s/x") == "/s"


def test_what_is_mounted_later_is_known_after_a_while(table: Path) -> None:
    clock = ManualClock()
    mounts = Mounts(clock, table)
    assert mounts.find("/late/x") == "/"
    table_of(table, "/", "/late")
    clock.advance(FRESH_SECONDS)
    assert mounts.find("/late/x") == "/late"


def test_without_a_table_all_is_one_place(tmp_path: Path) -> None:
    assert mount_points(tmp_path / "none") == frozenset()
    assert Mounts(ManualClock(), tmp_path / "none").find("/scratch/x") == "/"


def test_this_machine_s_table_reads() -> None:
    assert "/" in mount_points()
