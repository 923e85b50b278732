"""A seed is one campaign in whatever process: else no failure could be replayed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sim_campaign import Campaign
from tests.support.sim_room import OWN_NAMES, Room
from tests.support.simulate import ALL_KINDS

SMALL = ("--families", "2")
"""A campaign that is over soon, and yet tells of files by ids made of their paths."""
has_own_names = pytest.mark.skipif(
    not os.path.isdir(OWN_NAMES), reason="no names that are a process's own"
)


def digest(seed: int, hash_seed: int, *options: str) -> str:
    """Of the journal of a campaign behind Slurm's commands, in a process of its own."""
    command = [sys.executable, "-m", "tests.support.simulate", "--digest"]
    ran = subprocess.run(
        [*command, "--seed", str(seed), "--kind", "slurm", *options],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.partition("\n")[0]


@pytest.mark.parametrize("seed", [0, 4])
def test_a_seed_s_journal_is_the_same_in_every_process(seed: int) -> None:
    assert digest(seed, 0) == digest(seed, 1)


@has_own_names
def test_a_seed_s_journal_is_the_same_while_another_campaign_has_its_place() -> None:
    alone = digest(5, 0, *SMALL)
    other = Campaign(5, ALL_KINDS["slurm"])
    try:
        assert digest(5, 0, *SMALL) == alone
    finally:
        other.cluster.close()


def room(seed: int) -> Room:
    return Room(random.Random(seed))


def name_elsewhere(seed: int) -> str:
    """What a campaign in another process would call its room."""
    text = (
        "import random; from tests.support.sim_room import Room; "
        f"one = Room(random.Random({seed})); print(one.path); one.close()"
    )
    command = [sys.executable, "-c", text]
    return subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.strip()


@has_own_names
def test_a_room_has_one_name_in_every_process_at_once() -> None:
    one = room(6)
    try:
        assert name_elsewhere(6) == str(one.path)
    finally:
        one.close()


def test_a_room_that_is_held_is_not_shared() -> None:
    one, other = room(7), room(7)
    try:
        (one.path / "mine").touch()
        assert list(other.path.iterdir()) == []
        assert one.path != other.path
    finally:
        other.close()
        one.close()


def test_a_closed_room_leaves_nothing() -> None:
    one = room(10)
    (one.path / "logs").mkdir()
    one.close()
    assert not one.directory.exists()
    assert not (one.path / "logs").exists()


def test_what_a_killed_campaign_left_is_cleared_first() -> None:
    left = room(8)
    (left.path / "logs").mkdir()
    held = left.directory
    os.close(left._held or 0)
    again = room(8)
    try:
        assert again.directory == held
        assert list(held.iterdir()) == []
    finally:
        again.close()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    one = room(9)
    one.close()
    (tmp_path / "mine").write_text("kept")
    one.directory.symlink_to(tmp_path)
    other = room(9)
    try:
        assert other.directory != one.directory
        assert (tmp_path / "mine").exists()
    finally:
        other.close()
        one.directory.unlink()
