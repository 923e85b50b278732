"""A composer over plain mappings, and a parser of a few specs: the ports, small.

The composer knows Hydra's overrides (through its own parser) and config groups as
mappings that are merged at the root; nothing is read from disk.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from autoexp_tui.conditions import kinds
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import LogEvent, Monitoring, Progress
from autoexp_tui.model.specs import ExecutorSpec, Resources
from autoexp_tui.planning.ports import CannotCompose, Launch, SpecRefused
from autoexp_tui.sweep.expression import compile_expression

_PARSER = OverridesParser.create()
_ABSENT = object()


def _evaluate(expression: str, *operands: object) -> object:
    names = {f"_{at}": value for at, value in enumerate(operands)}
    return compile_expression(expression).evaluate(names)


def use_resolvers() -> None:
    """Register `oc.eval` in its typed form: `${oc.eval:'_0*2',${a}}`."""
    OmegaConf.register_new_resolver("oc.eval", _evaluate, replace=True)


class FakeView:
    """One config; resolves on demand."""

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        self.selected: list[str] = []
        """Paths that were asked for."""

    def select(self, path: str) -> object:
        self.selected.append(path)
        try:
            found = OmegaConf.select(
                self.config, path, default=_ABSENT, throw_on_missing=True
            )
            if found is not _ABSENT:
                return _plain(found)
        except OmegaConfBaseException as error:
            raise _refused(error, path) from None
        raise KeyError(path)

    def raw(self, path: str) -> object:
        node: Any = self.config
        for key in path.split("."):
            if not isinstance(node, DictConfig) or key not in list(node):
                raise KeyError(path)
            node = node._get_node(key)
        if isinstance(node, DictConfig | ListConfig):
            return OmegaConf.to_container(node, resolve=False)
        return node._value()

    def has(self, path: str) -> bool:
        try:
            self.raw(path)
        except KeyError:
            return False
        return True

    def leaf_paths(self) -> Sequence[str]:
        return list(_leaves(OmegaConf.to_container(self.config, resolve=False), ""))

    def interpolate(self, value: object, at: str = "") -> object:
        try:
            holder = OmegaConf.create({"value": value})
            holder._set_parent(self.config)
            return _plain(holder.value)
        except OmegaConfBaseException as error:
            raise _refused(error, at) from None

    def put(self, path: str, value: object) -> None:
        OmegaConf.update(self.config, path, value, merge=False, force_add=True)

    def to_dict(self) -> Mapping[str, object]:
        try:
            found: Any = _plain(self.config)
        except OmegaConfBaseException as error:
            raise _refused(error, "") from None
        return {str(k): v for k, v in found.items()}

    def written_dict(self) -> Mapping[str, object]:
        found: Any = OmegaConf.to_container(self.config, resolve=False)
        return {str(k): v for k, v in found.items()}


class FakeComposer:
    """Composes one mapping; counts how often."""

    def __init__(
        self,
        config: Mapping[str, Any],
        sweep: Mapping[str, object] | None = None,
        groups: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        self._config = config
        self._sweep = sweep
        self._groups = groups or {}
        self.asked: list[tuple[str, ...]] = []
        """The overrides of each composition."""

    def base(self) -> FakeView:
        return FakeView(OmegaConf.create(copy.deepcopy(dict(self._config))))

    def sweep(self) -> Mapping[str, object] | None:
        return self._sweep

    def compose(
        self, overrides: Sequence[str], mounts: Mapping[str, object]
    ) -> FakeView:
        self.asked.append(tuple(overrides))
        config = OmegaConf.create(copy.deepcopy(dict(self._config)))
        OmegaConf.set_struct(config, True)
        parsed = [_PARSER.parse_override(text) for text in overrides]
        for override in parsed:
            if override.key_or_group in self._groups:
                self._select(config, override)
        for override in parsed:
            if override.key_or_group not in self._groups:
                _apply(config, override)
        OmegaConf.set_struct(config, False)
        for key, value in mounts.items():
            OmegaConf.update(config, key, value, merge=True, force_add=True)
        return FakeView(config)

    def stop_composing(self) -> None:
        """It composes all the same."""

    def group_options(self, key: str) -> tuple[str, ...] | None:
        return tuple(self._groups[key]) if key in self._groups else None

    def settings(self) -> frozenset[str]:
        return frozenset({"backend.seed"})

    def _select(self, config: DictConfig, override: Override) -> None:
        options = self._groups[override.key_or_group]
        choice = str(override.value())
        if choice not in options:
            problem = Problem(f"there is no {choice}", where=override.key_or_group)
            raise CannotCompose((problem,))
        OmegaConf.set_struct(config, False)
        config.merge_with(OmegaConf.create(copy.deepcopy(dict(options[choice]))))
        OmegaConf.set_struct(config, True)


def _apply(config: DictConfig, override: Override) -> None:
    key, value = override.key_or_group, override.value()
    adds = override.is_add() or override.is_force_add()
    try:
        if override.is_delete():
            parent, _, last = key.rpartition(".")
            node = OmegaConf.select(config, parent) if parent else config
            OmegaConf.set_struct(config, False)
            del node[last]
            OmegaConf.set_struct(config, True)
        else:
            OmegaConf.update(config, key, value, merge=True, force_add=adds)
    except OmegaConfBaseException as error:
        raise _refused(error, key) from None


def _refused(error: Exception, where: str) -> CannotCompose:
    message = str(error).splitlines()[0]
    return CannotCompose((Problem(message, where=where),))


def _plain(value: object) -> object:
    if isinstance(value, DictConfig | ListConfig):
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
    return value


def _leaves(value: object, prefix: str) -> Iterator[str]:
    if isinstance(value, Mapping) and (value or not prefix):
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix


class FakeParser:
    """Specs from mappings by field name alone; the command is in `backend.command`."""

    def condition(self, value: Mapping[str, object], where: str) -> Condition:
        kind = str(value.get("class_name", "")).removesuffix("Condition")
        fields: dict[str, Any] = {k: v for k, v in value.items() if k != "class_name"}
        if "job_name" in fields:
            names = fields.pop("job_name")
            fields["jobs"] = (names,) if isinstance(names, str) else tuple(names)
        if "equals" in fields:
            fields["value"] = fields.pop("equals")
        for nested in {"conditions", "show_files", "command"} & fields.keys():
            fields[nested] = tuple(
                self.condition(item, where) if nested == "conditions" else item
                for item in fields[nested]
            )
        if "condition" in fields:
            fields["condition"] = self.condition(fields["condition"], where)
        if not all(isinstance(fields.get(key, ""), str) for key in ("path", "key")):
            raise SpecRefused((Problem("is no text", where=where),))
        try:
            made: Condition = _CONDITIONS[kind](**fields)
        except (KeyError, TypeError) as error:
            problem = Problem(f"is no condition: {error}", where=where)
            raise SpecRefused((problem,)) from None
        return made

    def action(self, value: Mapping[str, object], where: str) -> Action:
        raise SpecRefused((Problem("no actions here", where=where),))

    def monitoring(self, config: Mapping[str, object]) -> Monitoring:
        section: Any = config.get("monitoring") or {}
        if "broken" in section:
            raise SpecRefused((Problem("is broken", where="monitoring"),))
        keys = section.get("extracts", ())
        event = LogEvent(name="e", pattern="x", extract_groups=dict.fromkeys(keys, "1"))
        progress = Progress(total=section.get("total", ""))
        return Monitoring(log_events=(event,), progress=progress)

    def executor(self, config: Mapping[str, object]) -> ExecutorSpec:
        return ExecutorSpec()

    def resources(self, config: Mapping[str, object]) -> Resources:
        section: Any = config.get("slurm") or {}
        return Resources(gpus=section.get("gpus", 0))

    def launch(self, config: Mapping[str, object]) -> Launch:
        section: Any = config.get("backend") or {}
        if section.get("broken"):
            raise SpecRefused((Problem("is broken", where="backend"),))
        words = (f"--{key}={value}" for key, value in section.items())
        return Launch(command=("train", *words))

    def check(self, config: Mapping[str, object]) -> Sequence[Problem]:
        section: Any = config.get("slurm") or {}
        return (Problem("is unknown", "slurm.bad"),) if "bad" in section else ()


_CONDITIONS: Mapping[str, Any] = {
    "FileExists": kinds.FileExists, "FileContent": kinds.FileContent,
    "Metadata": kinds.MetadataIs, "SlurmState": kinds.JobStateIs,
    "Command": kinds.CommandPasses, "LogPattern": kinds.LogPattern,
    "Time": kinds.TimeReached, "Approval": kinds.Approval,
    "Composite": kinds.Composite, "Not": kinds.Not,
}  # fmt: skip
