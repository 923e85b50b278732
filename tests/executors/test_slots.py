"""Who holds this machine's slots, and how a queued task says so."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import pytest

from autoexp_tui.cli import doctor
from autoexp_tui.executors.local import executor
from autoexp_tui.executors.local.executor import (
    explain_queued,
    find_slots_dir,
    get_usual_dir,
)


def lock(path: Path, text: str) -> TextIO:
    """A file with a text in it that is locked until it is closed."""
    file = path.open("w")
    file.write(text)
    file.flush()
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


FREE = "is about to start"
TAKEN = "waits for a slot: all {} of this machine are taken, by sessions "
ONE = "waits for a slot: the one of this machine is taken"
NO_GPUS = "waits for 2 of this machine's 4 GPUs: 3 are taken, by session a"


def test_a_queued_task_names_what_it_waits_for(tmp_path: Path) -> None:
    for held, count, gpus, wanted, words in (
        ("", 2, 0, 0, FREE),
        ("slot.0=b slot.1=a slot.2=b", 3, 0, 0, TAKEN.format(3) + "b, a"),
        (
            "slot.0=a slot.1=b slot.2=c slot.3=d",
            *(4, 0, 0),
            TAKEN.format(4) + "a, b, c, d",
        ),
        ("slot.0=", 1, 0, 0, ONE),
        ("slot.0=a", 2, 0, 0, FREE),
        ("gpu.0=a gpu.1=a gpu.2=a", 1, 4, 2, NO_GPUS),
        ("gpu.0=a", 1, 2, 1, FREE),
    ):
        (tmp_path / "slot.1").write_text(json.dumps({"session": "given back"}))
        with ExitStack() as locks:
            for name, _, session in (one.partition("=") for one in held.split()):
                text = json.dumps({"session": session})
                locks.enter_context(lock(tmp_path / name, text))
            ids = [str(number) for number in range(gpus)]
            assert explain_queued(tmp_path, count, ids, wanted) == words


def test_a_lock_that_is_not_signed_is_held_all_the_same(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"session": null}'):
        with lock(tmp_path / "slot.0", text):
            assert explain_queued(tmp_path, 1, (), 0) == ONE


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(executor, "TEMPORARY", tmp_path / "tmp")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    return tmp_path


@pytest.fixture
def taken() -> Path:
    """Somebody else has made the usual one, or opened it to all."""
    get_usual_dir().mkdir(mode=0o777)
    get_usual_dir().chmod(0o777)
    return get_usual_dir()


def test_the_usual_directory_is_made_for_the_user_alone() -> None:
    assert find_slots_dir() == get_usual_dir()
    assert get_usual_dir().stat().st_mode & 0o777 == 0o700
    assert doctor._check_slots_dir().grade == "ok"


def test_every_engine_finds_the_same_beside_one_that_is_taken(taken: Path) -> None:
    finding = doctor._check_slots_dir()
    assert (finding.grade, "is not yours alone" in finding.found) == ("hint", True)
    found = find_slots_dir()
    assert found != taken
    assert found.name.startswith(taken.name)
    assert found.stat().st_mode & 0o777 == 0o700
    assert find_slots_dir() == found
    found.rmdir()  # it is made again
    assert find_slots_dir() == found
    found.chmod(0o777)  # somebody took it as well
    other = find_slots_dir()
    assert other not in (found, taken)
    taken.rmdir()  # its name is free again
    assert find_slots_dir() == other


def test_a_link_or_another_users_directory_is_not_used(home: Path) -> None:
    (home / "target").mkdir(mode=0o700)
    get_usual_dir().symlink_to(home / "target")
    assert find_slots_dir() != get_usual_dir()
    if os.geteuid() == 0:  # only root may give files away
        get_usual_dir().unlink()
        get_usual_dir().mkdir(mode=0o700)
        os.chown(get_usual_dir(), 61001, 61001)
        for path in (home / "state-home" / "autoexp-tui").iterdir():
            path.unlink()
        assert find_slots_dir() != get_usual_dir()


def test_the_memory_of_another_place_is_no_way_out_of_it(
    home: Path, taken: Path
) -> None:
    find_slots_dir()
    (memory,) = (home / "state-home" / "autoexp-tui").iterdir()
    assert memory.stat().st_mode & 0o777 == 0o600
    memory.write_text("/etc\n")
    assert find_slots_dir().parent == home / "tmp"
