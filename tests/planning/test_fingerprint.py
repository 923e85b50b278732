"""What makes two jobs the same work."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.planning.job_config import hash_job

CONFIG: dict[str, Any] = {
    "project": {"name": "x", "base_output_dir": "/out"},
    "backend": {"lr": 1e-3, "args": {"save": "/out/x/ckpt"}},
    "slurm": {"log_dir": "/logs", "sbatch": {"time": 1}},
    "monitoring": {"poll_seconds": 1},
    "index": 3,
}


def of(config: dict[str, Any], *command: str, paths: tuple[str, ...] = ()) -> str:
    return hash_job(config, command or ("train",), paths)


def test_fingerprints_of_earlier_versions_are_the_same() -> None:
    """They are kept in done.json beside results: another one would make jobs anew."""
    config = {
        "b": {"x": 1.5, "y": ["/o/a", None, True]},
        "a": "ä",
        "slurm": {"launcher_cmd": "l", "partition": "p"},
        "monitoring": {"k": 1},
    }
    known = "085424c9d25d8d48b9ca34415bf5cc6566c4839c2d44366d95c2667c440934c7"
    assert of(config, "train", "--lr", "1e-3", "/o/a/ckpt", paths=("/o/a",)) == known


@pytest.mark.parametrize("change", [
    {"index": 4}, {"family": "f1"}, {"monitoring": {"poll_seconds": 9}},
    {"ui": {"theme": "light"}},
    {"project": {"name": "x", "base_output_dir": "/elsewhere"}},
    {"slurm": {"log_dir": "/l", "client": "S", "sbatch": {"time": 1}}},
    {"slurm": {"sbatch": {"time": 2, "partition": "gpu"}, "srun_opts": "-v"}},
    {"slurm": {"template_path": "/a.sbatch", "launcher_cmd": ""}},
])  # fmt: skip
def test_what_does_not_change_the_work_does_not_count(change: dict[str, Any]) -> None:
    assert of({**CONFIG, **change}) == of(CONFIG)


@pytest.mark.parametrize("change", [
    {"backend": {"lr": 2e-3, "args": {"save": "/out/x/ckpt"}}}, {"seed": 1},
    {"project": {"name": "y"}}, {"slurm": {"launcher_cmd": "apptainer exec a.sif"}},
])  # fmt: skip
def test_what_changes_the_work_counts(change: dict[str, Any]) -> None:
    assert of({**CONFIG, **change}) != of(CONFIG)
    assert of(CONFIG, "train", "--fast") != of(CONFIG)


def test_our_paths_do_not_count_wherever_they_stand() -> None:
    moved = {**CONFIG, "backend": {"lr": 1e-3, "args": {"save": "/new/x/ckpt"}}}
    here = of(CONFIG, "train", "--save=/out/x", paths=("/out", "/logs"))
    assert here == of(moved, "train", "--save=/new/x", paths=("/new", "/logs"))
    config = {"backend": {"dropout": "no dropout"}}  # a word that only holds one stays
    assert of(config, paths=("out",)) == of(config, paths=("runs",))
    relative = of({"a": "out/x"}, "train", "out", paths=("out", "/logs"))
    assert relative == of({"a": "new/x"}, "train", "new", paths=("new", "/logs"))
