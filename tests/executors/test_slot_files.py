"""Who holds this machine's slots, and how a queued task says so."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoexp_tui.executors.local.slot_files import (
    Taken,
    gpus_taken,
    slots_taken,
    why_queued,
)

Lock = Callable[[str, str], None]


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[Lock]:
    """Holds a lock with a text in it until the test is over."""
    handles: list[int] = []

    def hold(name: str, text: str) -> None:
        handle = os.open(tmp_path / name, os.O_RDWR | os.O_CREAT)
        os.write(handle, text.encode())
        fcntl.flock(handle, fcntl.LOCK_EX)
        handles.append(handle)

    yield hold
    for handle in handles:
        os.close(handle)


def signed(session: str) -> str:
    return json.dumps({"session": session})


def test_slots_that_nobody_ever_took_are_free(tmp_path: Path) -> None:
    assert slots_taken(tmp_path / "none", 2) == Taken(0, 2)


def test_a_slot_that_was_given_back_is_free(tmp_path: Path) -> None:
    (tmp_path / "slot.0").write_text(signed("a"))
    assert slots_taken(tmp_path, 1) == Taken(0, 1)


def test_sessions_are_named_once_each(tmp_path: Path, lock: Lock) -> None:
    for name, session in (("slot.0", "b"), ("slot.1", "a"), ("slot.2", "b")):
        lock(name, signed(session))
    assert slots_taken(tmp_path, 4) == Taken(3, 4, ("b", "a"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"session": null}'])
def test_a_lock_that_is_not_signed_is_held_all_the_same(
    text: str, tmp_path: Path, lock: Lock
) -> None:
    lock("gpu.0", text)
    assert gpus_taken(tmp_path, ["0", "1"]) == Taken(1, 2)


@pytest.mark.parametrize(
    ("slots", "gpus", "wanted", "words"),
    [
        (
            Taken(2, 2, ("a", "b")),
            Taken(0, 0),
            0,
            "waits for a slot: all 2 of this machine are taken, by sessions a, b",
        ),
        (
            Taken(5, 5, ("a", "b", "c", "d")),
            Taken(0, 0),
            0,
            "waits for a slot: all 5 of this machine are taken, by sessions a, b, c "
            "and 1 more",
        ),
        (
            Taken(1, 1),
            Taken(0, 0),
            0,
            "waits for a slot: the one of this machine is taken",
        ),
        (
            Taken(1, 2, ("a",)),
            Taken(3, 4, ("a",)),
            2,
            "waits for 2 of this machine's 4 GPUs: 3 are taken, by session a",
        ),
        (Taken(1, 2, ("a",)), Taken(0, 0), 0, "is about to start"),
    ],
)
def test_a_queued_task_names_what_it_waits_for(
    slots: Taken, gpus: Taken, wanted: int, words: str
) -> None:
    assert why_queued(slots, gpus, wanted) == words
