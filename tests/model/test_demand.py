"""What jobs hold, as sbatch's options say it."""

from __future__ import annotations

import pytest

from autoexp_tui.model.specs import (
    Scalar,
    count_cpus,
    count_gpus,
    count_nodes,
    count_of,
)


@pytest.mark.parametrize(("options", "nodes", "cpus", "gpus"), [
    ({}, 1, 1, 0), ({"nodes": 3}, 3, 3, 0), ({"gres": "gpumem:40"}, 1, 1, 0),
    ({"nodes": "2-4", "ntasks-per-node": 2, "cpus-per-task": 8}, 4, 64, 0),
    ({"ntasks": 5, "ntasks-per-node": 2}, 3, 5, 0),
    ({"gpus": 4, "cpus-per-gpu": 16}, 1, 64, 4),
    ({"nodes": "2-4", "gpus-per-node": 4}, 4, 4, 16),
    ({"gpus": "a100:2,v100:1"}, 1, 1, 3),
    ({"nodes": 2, "gpus-per-socket": 2, "sockets-per-node": 2}, 2, 2, 8),
    ({"ntasks": 4, "tres-per-task": "cpu:8,gres/gpu:2"}, 1, 4, 8),
    ({"gres": "gpu:a100:4(S:0-1)", "ntasks": 16, "ntasks-per-node": 8}, 2, 16, 8),
])  # fmt: skip
def test_what_is_held_is_counted_for_the_most_nodes(
    options: dict[str, Scalar], nodes: int, cpus: int, gpus: int
) -> None:
    assert count_gpus(options) == gpus
    assert (count_nodes(options), count_cpus(options)) == (nodes, cpus)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), (4, 4), ("2-4", 4), ("1k", 1024), ("gpu", 1), (None, 0), ("x-y", 0)],
)
def test_a_count_is_read_as_slurm_writes_it(text: Scalar, number: int) -> None:
    assert count_of(text) == number
