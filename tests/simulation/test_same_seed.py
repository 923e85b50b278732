"""A seed is one campaign in whatever process: else no failure could be replayed."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing

import pytest

from tests.support.sim_campaign import Campaign
from tests.support.sim_slurm import KINDS, OWN_NAMES

SMALL = ("--families", "2")
"""A campaign that is over soon, and yet tells of files by ids made of their paths."""


def digest(seed: int, hash_seed: int, *options: str) -> str:
    """Of the journal of a campaign behind Slurm's commands, in a process of its own."""
    command = [sys.executable, "-m", "tests.support.simulation", "--digest"]
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
    assert digest(seed, 0, *SMALL) == digest(seed, 1, *SMALL)


def test_a_campaign_has_a_place_of_its_own_by_one_name_and_leaves_nothing() -> None:
    with closing(Campaign(5, KINDS["slurm"]).cluster) as one:
        with closing(Campaign(5, KINDS["slurm"]).cluster) as other:
            assert one.directory != other.directory
            assert one.root != other.root
        if os.path.isdir(OWN_NAMES):
            assert digest(5, 0, *SMALL) == digest(5, 0, *SMALL)
    assert not one.directory.exists()
