"""Plans of configs that tests hold as mappings, composed by Hydra itself."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from functools import cache
from json import dumps, loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from autoexp_tui.config.config_view import ConfigTree
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.build import PlanOutcome, build_plan_outcome

Sweep = Mapping[str, Any]
EVENT = {"name": "e", "pattern": "x"}


def extracting(*keys: str) -> list[Any]:
    return [{**EVENT, "pattern": "(x)", "extract_groups": dict.fromkeys(keys, "1")}]


CONFIG: Mapping[str, Any] = {
    "project": {"name": "lr${backend.lr}_${stage}", "base_output_dir": "/out"},
    "backend": {
        "class_name": "Command", "lr": 1e-3, "iters": 100, "load": None, "save": None,
        "command": ["train", *(f"--{key}=${{backend.{key}}}"
                               for key in ("lr", "iters", "load", "save"))],
    },
    "slurm": {"log_dir": "/logs"},
    "monitoring": {"log_events": extracting("checkpoint_iteration"),
                   "progress": {"total": "backend.iters"}},
    "target": 80,
}  # fmt: skip
GROUPS = {
    "backend/other": {"momentum": 0.5},
    "monitoring/strict": {"log_events": extracting("loss")},
}


@cache
def _write_files(config: str) -> TemporaryDirectory[str]:
    place = TemporaryDirectory(prefix="configs-")
    atexit.register(place.cleanup)
    for name, tree in {**GROUPS, "exp": loads(config)}.items():
        path = Path(place.name, f"{name}.yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return place


class CountingComposer(HydraComposer):
    """Composes a mapping with choices of two groups; keeps what it was asked for."""

    def __init__(self, sweep: Sweep | None = None, **changes: Any) -> None:
        super().__init__(
            "exp", Path(_write_files(dumps({**CONFIG, **changes})).name), environ={}
        )
        self._given = sweep
        self.asked: list[tuple[str, ...]] = []

    def sweep(self) -> Sweep | None:
        return self._given

    def compose(
        self, overrides: Sequence[str], mounts: Mapping[str, object]
    ) -> ConfigTree:
        self.asked.append(tuple(overrides))
        return super().compose(overrides, mounts)


def outcome(sweep: Sweep | None, **changes: Any) -> PlanOutcome:
    """What planning makes of a sweep below `CONFIG`, of which these keys differ."""
    composer = CountingComposer(sweep, **changes)
    parser = HouseParser("/cwd")
    return build_plan_outcome(composer=composer, parser=parser)


def planned(sweep: Sweep | None, **changes: Any) -> Plan:
    found = outcome(sweep, **changes)
    assert not found.errors, found.errors
    assert found.plan is not None
    return found.plan
