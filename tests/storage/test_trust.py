"""What counts as ours, and where we write."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage import trust
from autoexp_tui.storage.trust import (
    Untrusted,
    Who,
    has_no_modes,
    open_checked,
    read_checked,
    require_below,
    require_logs,
    require_own_session,
    require_place,
)

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
OTHER = 61001


@pytest.fixture(autouse=True)
def nothing_probed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trust, "_PROBED", {})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))


def file(tmp_path: Path, mode: int = 0o600) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o444, 0o755])
def test_a_file_of_the_users_own_is_read(tmp_path: Path, mode: int) -> None:
    assert read_checked(file(tmp_path, mode), "own") == b"data"


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o620])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = file(tmp_path, mode)
    os.chown(path, -1, 0 if os.geteuid() else 61010)
    with pytest.raises(Untrusted, match=f"mode {mode:04o}") as refused:
        read_checked(path, "own")
    assert f"chmod go-w {path}" in refused.value.hint


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = file(tmp_path)
    os.truncate(path, 1 << 40)
    with pytest.raises(Untrusted, match="bytes, more than"):
        read_checked(path, "own")


def test_a_missing_file_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_checked(tmp_path / "none", "own")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
        with pytest.raises(Untrusted, match="a socket or a device"):
            read_checked("s", "own")


@pytest.mark.parametrize("who", ["own", "anybody"])
def test_a_fifo_is_not_waited_for(tmp_path: Path, who: Who) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Untrusted, match="it is a FIFO, not a regular file"):
        read_checked(tmp_path / "fifo", who)


def test_a_link_is_not_followed_to_what_is_ours(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file(tmp_path))
    with pytest.raises(Untrusted, match="a symbolic link"):
        read_checked(tmp_path / "link", "own")
    assert read_checked(tmp_path / "link", "anybody") == b"data"


def test_no_handle_stays_open_after_a_refusal(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    path = file(tmp_path, 0o666)
    for _ in range(5):
        with pytest.raises(Untrusted):
            open_checked(path, "own")
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_modes_mean_nothing_the_owner_alone_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path.stat().st_dev
    made_up = trust._FileSystem(os.geteuid(), modes=False)
    monkeypatch.setitem(trust._PROBED, device, made_up)
    assert read_checked(file(tmp_path, 0o777), "own") == b"data"
    tmp_path.chmod(0o777)
    require_place(tmp_path)
    require_own_session(tmp_path)
    assert has_no_modes(tmp_path)


@root
def test_who_makes_files_under_another_name_is_known_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path)
    os.chown(path, OTHER, OTHER)
    with pytest.raises(Untrusted, match=f"user {OTHER}"):
        read_checked(path, "own")
    squashed = trust._FileSystem(OTHER, modes=True)
    monkeypatch.setitem(trust._PROBED, tmp_path.stat().st_dev, squashed)
    assert read_checked(path, "own") == b"data"


def test_a_file_system_is_asked_only_where_it_matters(tmp_path: Path) -> None:
    read_checked(file(tmp_path), "own")
    require_place(tmp_path)
    assert trust._PROBED == {}
    assert not has_no_modes(tmp_path)


def test_what_a_file_system_is_asked_with_is_gone_again(tmp_path: Path) -> None:
    path = file(tmp_path, 0o666)
    with pytest.raises(Untrusted):
        read_checked(path, "own")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_the_group_of_the_user_alone_is_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, 0o664)
    os.chown(path, -1, os.getegid())
    me = SimpleNamespace(pw_name="ann", pw_gid=os.getegid())
    group = SimpleNamespace(gr_name="ann", gr_gid=os.getegid(), gr_mem=["ann"])
    monkeypatch.setattr("pwd.getpwuid", lambda _uid: me)
    monkeypatch.setattr("grp.getgrgid", lambda _gid: group)
    assert read_checked(path, "own") == b"data"
    group.gr_mem.append("ben")
    with pytest.raises(Untrusted, match="others may write"):
        read_checked(path, "own")


def test_a_place_that_is_not_there_yet_is_ours_to_make(tmp_path: Path) -> None:
    require_place(tmp_path / "a" / "b")
    require_below(tmp_path / "a", tmp_path / "a" / "b" / "c")
    require_below(tmp_path, tmp_path / "b" / "c")


def test_a_place_with_the_sticky_bit_may_be_open_to_all(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    require_below(tmp_path, tmp_path / "a")


def test_a_link_of_the_users_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "link").symlink_to(tmp_path / "real")
    require_below(tmp_path / "base", tmp_path / "base" / "link" / "a")
    (tmp_path / "real" / "a").chmod(0o777)
    with pytest.raises(Untrusted, match="everybody may write"):
        require_below(tmp_path / "base", tmp_path / "base" / "link" / "a")


def test_what_lies_outside_the_place_was_named_itself(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    require_below(tmp_path / "base", elsewhere)
    elsewhere.chmod(0o777)
    with pytest.raises(Untrusted, match="without the sticky bit"):
        require_below(tmp_path / "base", elsewhere)


@root
def test_logs_below_the_outputs_are_reached_through_them(tmp_path: Path) -> None:
    (tmp_path / "exp").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "exp" / "logs").symlink_to(tmp_path / "target")
    os.chown(tmp_path / "exp" / "logs", OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(Untrusted, match=f"a link that user {OTHER} made"):
        require_logs(tmp_path / "exp", tmp_path / "exp" / "logs" / "job")


@root
def test_a_file_in_the_way_is_left_to_who_meets_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    require_below(tmp_path, tmp_path / "a" / "b")


def test_a_look_that_hangs_is_given_up_and_holds_up_no_other() -> None:
    hangs = threading.Event()
    try:
        calls: list[Callable[[], object]] = [hangs.wait] * 6 + [lambda: 1, fails]
        began = time.monotonic()
        answers = ask_all(calls, 0.2, at_once=3)
        assert time.monotonic() - began < 5.0
    finally:
        hangs.set()
    assert all(isinstance(answer, TimeoutError) for answer in answers[:6])
    assert answers[6] == 1
    assert isinstance(answers[7], OSError)


def test_a_look_that_computes_is_given_longer_but_not_for_ever() -> None:
    over = threading.Event()

    def computes(until: float = 0.0) -> int:
        began = time.monotonic()
        while not over.is_set() and (not until or time.monotonic() - began < until):
            sum(range(1000))
        return 1

    try:
        calls: list[Callable[[], object]] = [partial(computes, 0.5), computes]
        answers = ask_all(calls, 0.3)
    finally:
        over.set()
    assert answers[0] == 1
    assert isinstance(answers[1], TimeoutError)


def fails() -> object:
    raise OSError(errno.EIO, "the disk failed")
