"""A config tree as large as real ones: six groups, some 330 keys, interpolations.

Its shape follows what large training set-ups have: nested interpolation, `oc.select`,
`oc.env`, `oc.eval`, package directives, lists, values that are still missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.config import config_trees

OPTIONS: Final = ("small", "medium", "large")
GROUPS: Final[Mapping[str, int]] = {
    "model": 70, "optim": 45, "data": 60, "train": 80, "logger": 30, "machine": 40,
}  # fmt: skip
"""Group -> how many keys each of its options has."""

EXPERIMENT: Final = """\
defaults:
{defaults}
  - _self_

project:
  name: "run_{{index}}"
  base_output_dir: out
seed: 1
tokens: 1000000000
table: {{small: 1, medium: 2, large: 4}}
size: ${{model.kind}}
scale: ${{table.${{size}}}}
warmup: "${{oc.eval:'int(_0*0.01)',${{train.steps}}}}"
user: "${{oc.env:AUTOEXP_NOBODY,nobody}}"
chosen: "${{oc.select:optim.name,none}}"
absent: "${{oc.select:nowhere.at_all,fallback}}"
path: "${{project.base_output_dir}}/${{size}}/lr${{optim.lr}}"
run_of: "${{path}}-${{seed}}"
backend:
  class_name: Command
  command: [train, --lr, "${{optim.lr}}", --steps, "${{train.steps}}", "${{size}}"]
slurm:
  client: {{class_name: Local}}
monitoring:
  state_dir: out/.autoexp
"""


def write_tree(
    root: Path, sweep: Mapping[str, Any] | None = None, name: str = "exp"
) -> Path:
    """Write the tree below `root`; the primary config is `name`."""
    defaults = "\n".join(f"  - {group}: small" for group in GROUPS)
    files = {name: EXPERIMENT.format(defaults=defaults)}
    if sweep is not None:
        files[name] += yaml.safe_dump({"sweep": dict(sweep)}, sort_keys=False)
    for group, count in GROUPS.items():
        for at, option in enumerate(OPTIONS):
            head = "# @package machine_room\n" if group == "machine" else ""
            text = yaml.safe_dump(_option(group, option, at, count), sort_keys=False)
            files[f"{group}__{option}"] = head + text
    return config_trees.write_tree(root, **files)


def _option(group: str, option: str, at: int, count: int) -> dict[str, Any]:
    every: dict[str, dict[str, Any]] = {
        "model": {"kind": option, "layers": 4 * (at + 1), "width": 256 << at},
        "optim": {"name": "adam", "lr": 1e-3, "betas": [0.9, 0.95], "decay": 0.1},
        "data": {"path": f"/data/{option}", "mix": [{"name": "a", "weight": 1.0}]},
        "train": {"steps": 1000 * (at + 1), "batch": 64,
                  "micro": "${oc.eval:'_0//8',${.batch}}",
                  "tokens": "${oc.eval:'_0*_1*1024',${.steps},${.batch}}",
                  "ffn": "${oc.eval:'4*_0',${model.width}}"},
        "logger": {"project": "${project.name}", "tags": ["${size}", "${seed}"]},
        "machine": {"nodes": 1 + at, "gpus": 4, "total": "${.nodes}x${.gpus}"},
    }  # fmt: skip
    own = every[group]
    nested: dict[str, Any] = {}
    for n in range(count - len(own)):
        nested.setdefault(f"part{n // 12}", {})[f"key{n}"] = _value(n)
    return {**own, **nested}


def _value(n: int) -> Any:
    """Something like what such configs hold: few interpolations, most of them plain."""
    if n % 17 == 16:
        return "${seed}"
    if n % 23 == 22:
        return "${train.steps}"
    return (n, n / 7, f"text {n}", n % 2 == 0, None)[n % 5]


CHOICES: Final[Mapping[str, Sequence[str]]] = {
    **{group: ["medium"] for group in GROUPS},
    "model": list(OPTIONS),
    "optim": list(OPTIONS[:2]),
}
"""Each job chooses all six groups, in six ways."""


def two_stages(jobs: int, *, choices: bool = False) -> dict[str, Any]:
    """A sweep of distinct jobs in two stages, the second reading the first.

    `jobs`: how many; with `choices` of groups it is rounded up to a multiple of twelve.
    """
    pairs = -(-jobs // (12 if choices else 2))
    rates = [round(1e-4 + n * 1e-7, 10) for n in range(pairs)]
    wait = {"class_name": "JobState", "job_name": "{sibling.stable.name}"}
    cooled = {
        "stage": "cool", "aux.source": "{sibling.stable.output_dir}",
        "train.steps": "${oc.eval:'_0*2',${data.part0.key5}}",
        "project.name": "cool_{index}",
        "start_conditions": [{**wait, "state": "COMPLETED", "timeout_seconds": 86400}],
    }  # fmt: skip
    stable = {"stage": "stable", "project.name": "stable_{index}"}
    nodes = [{"params": {"optim.lr": rates}}, {"configs": [stable, cooled]}]
    return {"type": "product", "groups": [{"params": dict(CHOICES)}] * choices + nodes}
