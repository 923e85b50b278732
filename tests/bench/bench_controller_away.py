"""A cockpit on a cluster whose controller is away: keys and commits go on.

    python -m tests.bench.bench_controller_away [SECONDS]

Starts a real, throw-away cluster; says so and ends where there can be none.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.slurm.campaign import SlurmCampaign
from tests.slurm.cluster import Cluster
from tests.slurm.settings import Settings, why_no_cluster
from tests.slurm.test_away import cockpit_of, submit, watch

SECONDS = 60.0


def main() -> None:
    if reason := why_no_cluster():
        print(f"controller away: not measured: {reason}")
        return
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with (
        TemporaryDirectory() as root,
        Cluster(Settings(accounting=False, gpus=0)) as cluster,
    ):
        campaign = SlurmCampaign(Path(root), cluster)
        submit(campaign, seconds)
        with closing(cockpit_of(campaign)) as terminal:
            terminal.wait_for("running")
            seen = watch(campaign, terminal, seconds)
    print(f"controller away for {seconds:g} s: {seen.figures()}")


if __name__ == "__main__":
    main()
