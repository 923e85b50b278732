"""A seed is one campaign in whatever process: else no failure could be replayed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from autoexp_tui.testing.sim_room import Room


def digest(seed: int, hash_seed: int) -> str:
    """Of the journal of a campaign behind Slurm's commands, in a process of its own."""
    command = [sys.executable, "-m", "autoexp_tui.cli.simulate", "--digest"]
    ran = subprocess.run(
        [*command, "--seed", str(seed), "--kind", "slurm"],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.partition("\n")[0]


@pytest.mark.parametrize("seed", [0, 4])
def test_a_seed_s_journal_is_the_same_in_every_process(seed: int) -> None:
    assert digest(seed, 0) == digest(seed, 1)


def room(seed: int) -> Room:

    return Room(random.Random(seed))


def test_a_room_that_is_held_is_not_shared() -> None:
    one, other = room(7), room(7)
    try:
        assert one.path != other.path
    finally:
        other.close()
        one.close()


def test_what_a_killed_campaign_left_is_cleared_first() -> None:
    left = room(8)
    (left.path / "logs").mkdir()
    held = left.path
    os.close(left._held or 0)
    again = room(8)
    try:
        assert again.path == held
        assert list(held.iterdir()) == []
    finally:
        again.close()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    one = room(9)
    one.close()
    (tmp_path / "mine").write_text("kept")
    one.path.symlink_to(tmp_path)
    other = room(9)
    try:
        assert other.path != one.path
        assert (tmp_path / "mine").exists()
    finally:
        other.close()
        one.path.unlink()
