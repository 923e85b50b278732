"""What a viewer's handle stands on: another engine's session through its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.model.commands import Order, Pause
from autoexp_tui.model.snapshot import EngineView, Live
from autoexp_tui.storage.inbox import FileInbox
from autoexp_tui.storage.json_codec import LiveDetail, encode_live
from autoexp_tui.storage.lease import FileLease, take_lease
from autoexp_tui.storage.live_sink import (
    BEAT_SECONDS,
    LIVE_LAG_SECONDS,
    FileSessionWatcher,
)
from autoexp_tui.testing.clock import ManualClock
from tests.support.journal_contract import Writer, message

from .disk_session import DiskStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskStore:
    return DiskStore(tmp_path / "k7f2", monkeypatch)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lease(store: DiskStore) -> FileLease:
    return take_lease(store.session, ManualClock())


@pytest.fixture
def watcher(store: DiskStore, clock: ManualClock) -> Iterator[FileSessionWatcher]:
    made = FileSessionWatcher(store.session, clock)
    yield made
    made.close()


def write_live(store: DiskStore, seq: int, epoch: int = 1) -> None:
    engine = EngineView(role="live", epoch=epoch)
    detail = LiveDetail(seq=seq, t=1.0, engine=engine, jobs={"a": Live(step=seq)})
    store.session.live.write_bytes(encode_live(detail) + b" " * seq)


def test_news_follow_what_was_loaded(
    store: DiskStore, watcher: FileSessionWatcher
) -> None:
    writer = Writer(store)
    before = writer.begin()
    state, newest = watcher.load()
    added = writer.write(message("1"))
    assert (state.seq, list(newest)) == (len(before), before)
    assert list(watcher.news() or ()) == added


def test_news_before_the_first_load_ask_for_one(watcher: FileSessionWatcher) -> None:
    assert watcher.news() is None


def test_news_that_contradict_what_was_read_ask_for_a_new_load(
    store: DiskStore, watcher: FileSessionWatcher
) -> None:
    Writer(store).begin()
    watcher.load()
    os.truncate(store.session.get_part(1), 10)
    assert watcher.news() is None


def test_an_owner_that_left_is_seen(
    watcher: FileSessionWatcher, lease: FileLease
) -> None:
    assert watcher.owner_alive()
    lease.release()
    assert not watcher.owner_alive()


def test_volatile_detail_is_the_same_until_it_moves(
    store: DiskStore, watcher: FileSessionWatcher, lease: FileLease
) -> None:
    write_live(store, 1)
    first = watcher.live()
    assert first is not None
    assert watcher.live() is first
    write_live(store, 2)
    second = watcher.live()
    assert second is not None
    assert second[1]["a"].step == 2


def test_the_volatile_detail_of_an_owner_that_died_is_of_the_past(
    store: DiskStore, watcher: FileSessionWatcher, lease: FileLease
) -> None:
    write_live(store, 1)
    lease.release()
    watcher.owner_alive()
    assert watcher.live() is None


def test_volatile_detail_that_is_older_than_what_was_loaded_is_of_the_past(
    store: DiskStore, watcher: FileSessionWatcher
) -> None:
    newest = len(Writer(store).begin())
    watcher.load()
    write_live(store, newest - 1)
    assert watcher.live() is None
    write_live(store, newest)
    assert watcher.live() is not None


def test_volatile_detail_of_the_engine_before_is_of_the_past(
    store: DiskStore, watcher: FileSessionWatcher
) -> None:
    newest = len(Writer(store).begin())
    watcher.load()
    write_live(store, newest + 9)
    assert watcher.live() is not None
    Writer(store).begin()
    watcher.news()
    assert watcher.live() is None


def test_volatile_detail_may_be_a_moment_behind_the_news(
    store: DiskStore, watcher: FileSessionWatcher, clock: ManualClock
) -> None:
    writer = Writer(store)
    write_live(store, len(writer.begin()))
    watcher.load()
    writer.write(message("1"))
    watcher.news()
    assert watcher.live() is not None
    clock.advance(LIVE_LAG_SECONDS)
    assert watcher.live() is None


def test_volatile_detail_that_follows_the_news_from_behind_is_told(
    store: DiskStore, watcher: FileSessionWatcher, clock: ManualClock
) -> None:
    writer = Writer(store)
    newest = len(writer.begin())
    watcher.load()
    for behind in range(3):
        writer.write(message("1"))
        watcher.news()
        write_live(store, newest + behind)
        assert watcher.live() is not None
        clock.advance(LIVE_LAG_SECONDS)


def test_a_command_reaches_the_owners_inbox(
    store: DiskStore, watcher: FileSessionWatcher
) -> None:
    order = Order(command_id="c1", command=Pause())
    watcher.leave(order)
    assert list(FileInbox(store.session).take()) == [order]


def test_beats_are_few(
    store: DiskStore, watcher: FileSessionWatcher, clock: ManualClock
) -> None:
    watcher.beat()
    (file,) = store.session.viewers.iterdir()
    os.utime(file, (1, 1))
    watcher.beat()
    assert file.stat().st_mtime == 1
    clock.advance(BEAT_SECONDS)
    watcher.beat()
    assert file.stat().st_mtime > 1


def test_leaving_takes_the_sign_of_life_away(
    store: DiskStore, watcher: FileSessionWatcher
) -> None:
    watcher.beat()
    watcher.close()
    assert list(store.session.viewers.iterdir()) == []
