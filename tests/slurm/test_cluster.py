"""The throw-away cluster leaves nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from tests.e2e.campaign import wait_until
from tests.slurm.cluster import Cluster
from tests.slurm.daemons import kill_marked, remove_leftovers
from tests.slurm.settings import Settings

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).parents[2]
SMALL = Settings(nodes=1, accounting=False)


def test_a_cluster_that_is_down_has_left_nothing(tmp_path: Path) -> None:
    with Cluster(SMALL) as own:
        # A child that leaves its job's session is found all the same.
        own.submit(f"setsid sh -c 'echo $$ > {tmp_path}/pid; sleep 600' & sleep 600")
        wait_until((tmp_path / "pid").exists)
    assert kill_marked(own.home) == 0
    assert not own.home.exists()


def test_what_a_killed_test_run_left_is_removed(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.slurm.cluster import Cluster, Settings;"
        "c = Cluster(Settings(nodes=1, accounting=False)); c.up();"
        f"c.submit('echo $$ > {tmp_path}/pid; sleep 600');"
        "print(c.home, flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code]
    with Popen(argv, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as owner:
        assert owner.stdout is not None
        home = Path(owner.stdout.readline().strip())
        wait_until((tmp_path / "pid").exists)
        owner.kill()
    remove_leftovers()
    assert kill_marked(home) == 0
    assert not home.exists()
