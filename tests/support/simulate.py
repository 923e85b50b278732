"""The simulator of `simulation`, with the clusters behind Slurm's commands too.

python -m tests.support.simulate --seeds 200
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Final

from tests.support.sim_clusters import KINDS, Kind
from tests.support.sim_slurm import SlurmCluster
from tests.support.simulation import main

ALL_KINDS: Final[Mapping[str, Kind]] = {
    **KINDS,
    "slurm": partial(SlurmCluster, accounting=True),
    "bare": partial(SlurmCluster, accounting=False),
}
"""Campaigns by what runs their jobs; `bare`: a Slurm without accounting."""

if __name__ == "__main__":
    sys.exit(main(kinds=ALL_KINDS))
