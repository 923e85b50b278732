"""Who holds this machine's slots, and how a queued task says so."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import doctor
from autoexp_tui.executors.local import slots
from autoexp_tui.executors.local.slots import (
    explain_queued,
    find_slots_dir,
    get_usual_dir,
)
from autoexp_tui.storage.processes import Identity

Lock = Callable[[str, str], None]


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[Lock]:
    """Holds a lock with a text in it until the test is over."""
    handles: list[int] = []

    def hold(name: str, text: str) -> None:
        handle = os.open(tmp_path / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(handle, text.encode())
        fcntl.flock(handle, fcntl.LOCK_EX)
        handles.append(handle)

    yield hold
    for handle in handles:
        os.close(handle)


def signed(session: str) -> str:
    return json.dumps({"session": session})


FREE = "is about to start"


@pytest.mark.parametrize(
    ("held", "count", "gpus", "wanted", "words"),
    [
        ("", 2, 0, 0, FREE),
        (
            "slot.0=b slot.1=a slot.2=b",
            3,
            0,
            0,
            "waits for a slot: all 3 of this machine are taken, by sessions b, a",
        ),
        (
            "slot.0=a slot.1=b slot.2=c slot.3=d",
            4,
            0,
            0,
            "waits for a slot: all 4 of this machine are taken, by sessions a, b, c "
            "and 1 more",
        ),
        ("slot.0=", 1, 0, 0, "waits for a slot: the one of this machine is taken"),
        ("slot.0=a", 2, 0, 0, FREE),
        (
            "gpu.0=a gpu.1=a gpu.2=a",
            1,
            4,
            2,
            "waits for 2 of this machine's 4 GPUs: 3 are taken, by session a",
        ),
        ("gpu.0=a", 1, 2, 1, FREE),
    ],
)
def test_a_queued_task_names_what_it_waits_for(
    held: str,
    count: int,
    gpus: int,
    wanted: int,
    words: str,
    tmp_path: Path,
    lock: Lock,
) -> None:
    (tmp_path / "slot.1").write_text(signed("given back"))
    for name, _, session in (one.partition("=") for one in held.split()):
        lock(name, signed(session))
    ids = [str(number) for number in range(gpus)]
    assert explain_queued(tmp_path, count, ids, wanted) == words


@pytest.mark.parametrize("text", ["", "{", "[]", '{"session": null}'])
def test_a_lock_that_is_not_signed_is_held_all_the_same(
    text: str, tmp_path: Path, lock: Lock
) -> None:
    lock("slot.0", text)
    told = explain_queued(tmp_path, 1, (), 0)
    assert told == "waits for a slot: the one of this machine is taken"


# ----------------- one directory of slots a user a host, whoever sits on its us
@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(slots, "TEMPORARY", tmp_path / "tmp")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    return tmp_path


def taken() -> None:
    """Somebody else has made the usual one, or opened it to all."""
    get_usual_dir().mkdir(mode=0o777)
    get_usual_dir().chmod(0o777)


def test_the_usual_directory_is_made_for_the_user_alone() -> None:
    assert find_slots_dir() == get_usual_dir()
    assert get_usual_dir().stat().st_mode & 0o777 == 0o700


def test_every_engine_finds_the_same_beside_one_that_is_taken() -> None:
    taken()
    found = find_slots_dir()
    assert found != get_usual_dir()
    assert found.name.startswith(get_usual_dir().name)
    assert found.stat().st_mode & 0o777 == 0o700
    assert find_slots_dir() == found
    found.rmdir()  # it is made again
    assert find_slots_dir() == found
    get_usual_dir().rmdir()  # its name is free again
    assert find_slots_dir() == found


def test_one_that_somebody_took_as_well_is_followed_by_another() -> None:
    taken()
    found = find_slots_dir()
    found.chmod(0o777)
    other = find_slots_dir()
    assert other not in (found, get_usual_dir())
    assert find_slots_dir() == other


def test_a_link_in_its_place_is_not_followed(home: Path) -> None:
    (home / "target").mkdir(mode=0o700)
    get_usual_dir().symlink_to(home / "target")
    assert find_slots_dir() != get_usual_dir()


@pytest.mark.parametrize("elsewhere", [{"boot": "later"}, {"host": "other"}])
def test_another_boot_or_host_has_a_name_of_its_own(
    elsewhere: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken()
    found = find_slots_dir()
    there = replace(Identity.get_own(), **elsewhere)
    monkeypatch.setattr(Identity, "get_own", lambda: there)
    assert find_slots_dir() not in (found, get_usual_dir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_another_users_directory_stops_no_job() -> None:
    get_usual_dir().mkdir(mode=0o700)
    os.chown(get_usual_dir(), 61001, 61001)
    assert find_slots_dir() != get_usual_dir()


def test_the_memory_of_another_place_is_no_way_out_of_it(home: Path) -> None:
    taken()
    find_slots_dir()
    (memory,) = (home / "state-home" / "autoexp-tui").iterdir()
    assert memory.stat().st_mode & 0o777 == 0o600
    memory.write_text("/etc\n")
    assert find_slots_dir().parent == home / "tmp"


def test_the_doctor_tells_where_slots_lie() -> None:
    assert doctor._check_slots_dir().grade == "ok"
    get_usual_dir().chmod(0o777)
    finding = doctor._check_slots_dir()
    assert finding.grade == "hint"
    assert "is not yours alone" in finding.found
