"""A seed is one campaign in whatever process: else no failure could be replayed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import closing
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
    with closing(Campaign(5, ALL_KINDS["slurm"]).cluster):
        assert digest(5, 0, *SMALL) == alone


def room(seed: int) -> closing[Room]:
    return closing(Room(random.Random(seed)))


@has_own_names
def test_a_room_has_one_name_in_every_process_at_once() -> None:
    text = (
        "import random; from tests.support.sim_room import Room; "
        "one = Room(random.Random(6)); print(one.path); one.close()"
    )
    with room(6) as one:
        elsewhere = subprocess.check_output([sys.executable, "-c", text], text=True)
        assert elsewhere.strip() == str(one.path)


def test_a_room_that_is_held_is_not_shared_and_a_closed_one_leaves_nothing() -> None:
    with room(7) as one:
        (one.path / "mine").touch()
        with room(7) as other:
            assert list(other.path.iterdir()) == []
            assert one.path != other.path
    assert not one.directory.exists()
    assert not (one.path / "mine").exists()


def test_what_a_killed_campaign_left_is_cleared_first() -> None:
    left = Room(random.Random(8))
    (left.path / "logs").mkdir()
    os.close(left._held or 0)
    with room(8) as again:
        assert again.directory == left.directory
        assert list(left.directory.iterdir()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    with room(9) as one:
        pass
    (tmp_path / "mine").write_text("kept")
    one.directory.symlink_to(tmp_path)
    try:
        with room(9) as other:
            assert other.directory != one.directory
            assert (tmp_path / "mine").exists()
    finally:
        one.directory.unlink()
