"""One directory of slots a user a host, whoever sits on its usual name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import doctor
from autoexp_tui.executors.local import slots_dir
from autoexp_tui.executors.local.slots_dir import find_slots_dir, usual_slots_dir
from autoexp_tui.storage.processes import Identity


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(slots_dir, "TEMPORARY", tmp_path / "tmp")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    return tmp_path


def taken() -> None:
    """Somebody else has made the usual one, or opened it to all."""
    usual_slots_dir().mkdir(mode=0o777)
    usual_slots_dir().chmod(0o777)


def test_the_usual_directory_is_made_for_the_user_alone() -> None:
    assert find_slots_dir() == usual_slots_dir()
    assert usual_slots_dir().stat().st_mode & 0o777 == 0o700


def test_every_engine_finds_the_same_beside_one_that_is_taken() -> None:
    taken()
    found = find_slots_dir()
    assert found != usual_slots_dir()
    assert found.name.startswith(usual_slots_dir().name)
    assert found.stat().st_mode & 0o777 == 0o700
    assert find_slots_dir() == found


def test_the_one_that_was_chosen_stays_when_the_usual_name_is_free_again() -> None:
    taken()
    found = find_slots_dir()
    usual_slots_dir().rmdir()
    assert find_slots_dir() == found


def test_one_that_was_cleaned_away_is_made_again() -> None:
    taken()
    found = find_slots_dir()
    found.rmdir()
    assert find_slots_dir() == found


def test_one_that_somebody_took_as_well_is_followed_by_another() -> None:
    taken()
    found = find_slots_dir()
    found.chmod(0o777)
    other = find_slots_dir()
    assert other not in (found, usual_slots_dir())
    assert find_slots_dir() == other


def test_a_link_in_its_place_is_not_followed(home: Path) -> None:
    (home / "target").mkdir(mode=0o700)
    usual_slots_dir().symlink_to(home / "target")
    assert find_slots_dir() != usual_slots_dir()


@pytest.mark.parametrize("elsewhere", [{"boot": "later"}, {"host": "other"}])
def test_another_boot_or_host_has_a_name_of_its_own(
    elsewhere: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken()
    found = find_slots_dir()
    there = replace(Identity.get_own(), **elsewhere)
    monkeypatch.setattr(Identity, "get_own", lambda: there)
    assert find_slots_dir() not in (found, usual_slots_dir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_another_users_directory_stops_no_job() -> None:
    usual_slots_dir().mkdir(mode=0o700)
    os.chown(usual_slots_dir(), 61001, 61001)
    assert find_slots_dir() != usual_slots_dir()


def test_the_memory_of_another_place_is_no_way_out_of_it(home: Path) -> None:
    taken()
    find_slots_dir()
    (memory,) = (home / "state-home" / "autoexp-tui").iterdir()
    assert memory.stat().st_mode & 0o777 == 0o600
    memory.write_text("/etc\n")
    assert find_slots_dir().parent == home / "tmp"


def test_the_doctor_tells_where_slots_lie() -> None:
    assert doctor._check_slots_dir().grade == "ok"
    usual_slots_dir().chmod(0o777)
    finding = doctor._check_slots_dir()
    assert finding.grade == "hint"
    assert "is not yours alone" in finding.found
