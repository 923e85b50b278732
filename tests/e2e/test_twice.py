"""The experiment that is shipped, submitted twice over the same directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.campaign import result_of, run_command

SHORT = (
    "train_iters=200",
    "warmup_iters=10",
    "save_interval=100",
    "cooldown_from=100",
    "cooldown_checkpoint=iter_00000100",
)


def run(place: Path, *words: str) -> dict[str, dict[str, object]]:
    """`autoexp-run` over the shipped experiment, cut short; its jobs."""
    words = ("--config-ref", "exp", "--approve", "all", "--json", *words, *SHORT)
    done = run_command(place, "run", *words, XDG_STATE_HOME=str(place / "xdg"))
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
