"""What a job with certain sbatch options holds: GPUs, nodes, CPUs. Upper bounds of a
range; what only the cluster knows counts as the least that it can be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from autoexp_tui.model.specs import Scalar

_COUNT: Final = re.compile(r"(?:[A-Za-z_][\w.]*[:=/])*(?:\d+-)?(\d+)([kKmM]?)")
_SCALES: Final = {"": 1, "k": 1024, "m": 1024 * 1024}


def count_gpus(options: Mapping[str, Scalar]) -> int:
    nodes, tasks = count_nodes(options), count_tasks(options)
    sockets = count_of(options.get("sockets-per-node")) or 1
    for option, times in (
        ("gpus", 1),
        ("gpus-per-node", nodes),
        ("gpus-per-task", tasks),
        ("gpus-per-socket", sockets * nodes),
    ):
        if option in options:
            return count_of(options[option]) * times
    per_task = _count_gpus_among(options.get("tres-per-task"))
    return per_task * tasks or _count_gpus_among(options.get("gres")) * nodes


def count_nodes(options: Mapping[str, Scalar]) -> int:
    asked = count_of(options.get("nodes"))
    if asked:
        return asked
    per_node = count_of(options.get("ntasks-per-node"))
    tasks = count_of(options.get("ntasks"))
    return -(-tasks // per_node) if tasks and per_node else 1


def count_tasks(options: Mapping[str, Scalar]) -> int:
    if "ntasks" in options:
        return count_of(options["ntasks"]) or 1
    return (count_of(options.get("ntasks-per-node")) or 1) * count_nodes(options)


def count_cpus(options: Mapping[str, Scalar]) -> int:
    per_task = count_of(options.get("cpus-per-task")) or 1
    per_gpu = count_of(options.get("cpus-per-gpu"))
    return max(count_tasks(options) * per_task, per_gpu * count_gpus(options))


def count_of(value: Scalar) -> int:
    """The number in `4`, `2-4` (the most), `gpu:a100:4`, `1k`, the sum of
    `a100:2,v100:1`; a name is 1, what is no count 0."""
    total = 0
    for part in str("" if value is None else value).split(","):
        text = part.partition("(")[0].strip()
        if found := _COUNT.fullmatch(text):
            total += int(found[1]) * _SCALES[found[2].lower()]
        elif text.isidentifier():
            total += 1
    return total


def _count_gpus_among(value: Scalar) -> int:
    """GPUs in a list such as `gpu:a100:2,shard:1` or `cpu:4,gres/gpu:2`."""
    kinds = (part.strip().removeprefix("gres/") for part in str(value or "").split(","))
    return sum(count_of(part) for part in kinds if re.match(r"gpu\b", part))
