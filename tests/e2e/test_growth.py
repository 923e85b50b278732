"""Engines killed while plans join: each job of all that was asked for runs once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.campaign import run_command

KILLS = 20
EXPERIMENT = """
project: {name: "n{n}", base_output_dir: out}
n: 0
backend: {class_name: Command, command: [sh, -c, 'echo "$0" >> "$1"', "n${n}", %s]}
slurm: {client: {class_name: LocalClient}, max_parallel: 2}
sweep: {params: {n: [0, 1]}}
"""


def list_values(number: int) -> str:
    return f"n=[{','.join(map(str, range(number)))}]"


@pytest.mark.slow
def test_twenty_kills_amid_joins_lose_nothing_and_run_nothing_twice(
    tmp_path: Path,
) -> None:
    (tmp_path / "config").mkdir()
    text = EXPERIMENT % (tmp_path / "ledger")
    (tmp_path / "config/exp.yaml").write_text(text)
    assert run_command(tmp_path, "run").returncode == 0
    (place,) = (tmp_path / "outputs/.autoexp").glob("*/plan.json")
    words = ("--session", place.parent.name, "--yes")
    rng, asked, killed = random.Random(7), 2, 0
    while killed < KILLS:
        asked += 3
        run = subprocess.Popen(
            [sys.executable, "-m", "autoexp_tui.cli.run", *words, list_values(asked)],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        plans = len([*place.parent.glob("plans/*.json")])
        deadline = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < deadline:
            if len([*place.parent.glob("plans/*.json")]) > plans:
                break  # it is about to be asked for
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.4))
        killed += run.poll() is None
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    last = run_command(tmp_path, "run", *words, list_values(asked + 1), "--json")
    assert last.returncode == 0, last.stderr
    jobs = json.loads(last.stdout.splitlines()[-1])["jobs"]
    assert {job["name"] for job in jobs} == {f"n{n}" for n in range(asked + 1)}
    assert {job["attempts"] for job in jobs} == {1}
    ran = Counter((tmp_path / "ledger").read_text().split())
    assert ran == Counter(f"n{n}" for n in range(asked + 1))
