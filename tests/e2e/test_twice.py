"""The experiment that is shipped, submitted twice over the same directories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.campaign import result_of

SHORT = (
    "train_iters=200",
    "warmup_iters=10",
    "save_interval=100",
    "cooldown_from=100",
    "cooldown_checkpoint=iter_00000100",
)


def run(place: Path, *words: str) -> dict[str, dict[str, object]]:
    """`autoexp-run` over the shipped experiment, cut short; its jobs."""
    command = [sys.executable, "-m", "autoexp_tui.cli.run", "--config-ref", "exp"]
    done = subprocess.run(
        [*command, "--approve", "all", "--quiet", "--json", *words, *SHORT],
        cwd=place,
        env={**os.environ, "XDG_STATE_HOME": str(place / "xdg")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return result_of(done.stdout)


def attempts(place: Path) -> int:
    """How many attempts any session of `place` has records of."""
    return len(list(place.glob("outputs/.autoexp/*/attempts/*/*")))


@pytest.mark.slow
def test_the_default_experiment_run_twice_starts_nothing_the_second_time(
    tmp_path: Path,
) -> None:
    first = run(tmp_path)
    begun = attempts(tmp_path)
    assert (len(first), begun) == (10, 10)
    second = run(tmp_path)
    assert {job["state"] for job in second.values()} == {"COMPLETED"}
    assert {job["attempts"] for job in second.values()} == {0}
    assert attempts(tmp_path) == begun
    changed = run(tmp_path, "clip_grad=0.5")
    assert {job["attempts"] for job in changed.values()} == {1}
