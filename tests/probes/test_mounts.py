"""Which file system a path lies on, by the kernel's table and without a look at it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoexp_tui.probes.pools import FRESH_SECONDS, Mounts, mount_points
from autoexp_tui.testing.clock import ManualClock

LINE = "{n} 1 0:{n} / {point} rw,relatime shared:1 - nfs server:/x rw\n"


def table_of(path: Path, *points: str) -> Path:
    path.write_text("".join(LINE.format(n=n, point=p) for n, p in enumerate(points)))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return table_of(tmp_path / "mountinfo", "/", "/home", "/scratch", r"/my\040disk")


@pytest.mark.parametrize(("path", "place"), [
    ("/scratch/a/b", "/scratch"), ("/scratch", "/scratch"), ("/scratch2/a", "/"),
    ("/home/u/../../scratch/x", "/scratch"), ("/my disk/a", "/my disk"),
    ("/scratch/iter_*/done.txt", "/scratch"), ("/scra*/done.txt", "/"),
    ("/etc/hosts", "/"), ("out/done.txt", "/home"),
])  # fmt: skip
def test_the_longest_mount_point_wins_and_no_path_is_touched(
    path: str, place: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = table.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getcwd", lambda: "/home/u")
        mounts = Mounts(ManualClock(), table)
        patch.setattr(Path, "read_text", lambda *_a, **_k: text)
        for name in ("stat", "lstat", "readlink", "listdir"):
            patch.delattr(os, name)
        assert mounts.find(path) == place


def test_what_is_mounted_later_is_known_and_without_a_table_nothing_is(
    table: Path,
) -> None:
    clock = ManualClock()
    mounts = Mounts(clock, table)
    assert mounts.find("/late/x") == "/"
    table_of(table, "/", "/late")
    clock.advance(FRESH_SECONDS)
    assert mounts.find("/late/x") == "/late"
    assert mount_points(table.with_name("none")) == frozenset()
    assert "/" in mount_points()
