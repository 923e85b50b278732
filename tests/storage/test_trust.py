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
    has_no_modes,
    open_checked,
    read_checked,
    require_below,
    require_logs,
    require_own_session,
    require_place,
)

from .disk_session import failing

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


def require_refused(path: Path | str, why: str) -> str:
    """What to do about it."""
    with pytest.raises(Untrusted, match=why) as refused:
        read_checked(path, "own")
    return refused.value.hint


# -------------------------------------------------- what is read as ours
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o444, 0o755, 0o666, 0o602, 0o620])
def test_a_file_is_read_that_the_user_alone_may_write(
    tmp_path: Path, mode: int
) -> None:
    path = file(tmp_path, mode)
    if not mode & 0o022:
        assert read_checked(path, "own") == b"data"
        assert trust._PROBED == {}  # the file system is asked only where it matters
        return
    os.chown(path, -1, 0 if os.geteuid() else 61010)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        hint = require_refused(path, f"mode {mode:04o}")
    assert f"chmod go-w {path}" in hint
    assert len(os.listdir("/proc/self/fd")) == before  # no handle stays open
    assert os.listdir(tmp_path) == ["file"]  # nor what it was asked with


def test_what_is_no_regular_file_of_a_bounded_size_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with pytest.raises(FileNotFoundError):
        read_checked("none", "own")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
        require_refused("s", "a socket or a device")
    os.mkfifo("fifo")
    require_refused("fifo", "it is a FIFO, not a regular file")
    with pytest.raises(Untrusted, match="it is a FIFO"):
        read_checked("fifo", "anybody")
    Path("link").symlink_to(file(tmp_path))
    require_refused("link", "a symbolic link")
    assert read_checked("link", "anybody") == b"data"
    os.truncate("file", 1 << 40)
    require_refused("file", "bytes, more than")
    with pytest.raises(Untrusted):
        open_checked("file", "anybody")


@root
def test_who_makes_files_under_another_name_is_known_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path)
    os.chown(path, OTHER, OTHER)
    require_refused(path, f"user {OTHER}")
    squashed = trust._FileSystem(OTHER, modes=True)
    monkeypatch.setitem(trust._PROBED, tmp_path.stat().st_dev, squashed)
    assert read_checked(path, "own") == b"data"


def test_where_modes_mean_nothing_the_owner_alone_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not has_no_modes(tmp_path)
    made_up = trust._FileSystem(os.geteuid(), modes=False)
    monkeypatch.setitem(trust._PROBED, tmp_path.stat().st_dev, made_up)
    assert read_checked(file(tmp_path, 0o777), "own") == b"data"
    tmp_path.chmod(0o777)
    require_place(tmp_path)
    require_own_session(tmp_path)
    assert has_no_modes(tmp_path)


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
    require_refused(path, "others may write")


# -------------------------------------------------- what is written into
def test_a_place_that_is_not_there_yet_or_has_the_sticky_bit_is_ours_to_use(
    tmp_path: Path,
) -> None:
    require_place(tmp_path / "a" / "b")
    require_below(tmp_path / "a", tmp_path / "a" / "b" / "c")
    require_below(tmp_path, tmp_path / "b" / "c")
    file(tmp_path)  # in the way: left to who meets it
    require_below(tmp_path, tmp_path / "file" / "b")
    require_place(tmp_path)
    assert trust._PROBED == {}
    tmp_path.chmod(0o1777)
    require_below(tmp_path, tmp_path / "a")


def test_a_link_of_the_users_own_is_followed_and_where_it_leads_is_judged(
    tmp_path: Path,
) -> None:
    base, target = tmp_path / "base", tmp_path / "real" / "a"
    target.mkdir(parents=True)
    base.mkdir()
    (base / "link").symlink_to(tmp_path / "real")
    require_below(base, base / "link" / "a")
    require_below(base, target)  # outside the place: it was named itself
    target.chmod(0o777)
    with pytest.raises(Untrusted, match="everybody may write"):
        require_below(base, base / "link" / "a")
    with pytest.raises(Untrusted, match="without the sticky bit"):
        require_below(base, target)


@root
def test_logs_below_the_outputs_are_reached_through_them(tmp_path: Path) -> None:
    (tmp_path / "exp").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "exp" / "logs").symlink_to(tmp_path / "target")
    os.chown(tmp_path / "exp" / "logs", OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(Untrusted, match=f"a link that user {OTHER} made"):
        require_logs(tmp_path / "exp", tmp_path / "exp" / "logs" / "job")


# ------------------------------------------------------------------- disks that hang
def test_a_look_that_hangs_or_computes_for_ever_is_given_up_and_holds_up_no_other() -> (
    None
):
    over = threading.Event()

    def computes(until: float = 0.0) -> int:
        began = time.monotonic()
        while not over.is_set() and (not until or time.monotonic() - began < until):
            sum(range(1000))
        return 1

    calls: list[Callable[[], object]] = [*[over.wait] * 6, lambda: 1, computes]
    try:
        answers = ask_all([*calls, failing(errno.EIO)], 0.2, at_once=3)
        longer = ask_all([partial(computes, 0.5)], 0.3)
    finally:
        over.set()
    assert [type(answer) for answer in answers[:6]] == [TimeoutError] * 6
    assert answers[6] == 1
    assert isinstance(answers[7], TimeoutError)
    assert isinstance(answers[8], OSError)
    assert longer == [1]  # what works is given longer
