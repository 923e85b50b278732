"""What planning asks of the outside: composing configs, and parsing specs from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autoexp_tui.model.agents import AgentsSettings
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Findings, Problem
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import ExecutorSpec, Resources


class CannotCompose(Findings):
    """A config does not compose or resolve."""


class SpecRefused(Findings):
    """A mapping is not a valid condition, action, rule or setting."""


class ConfigView(Protocol):
    """One composed config; `${...}` is resolved only where it is asked for."""

    def select(self, path: str) -> object:
        """The resolved value at a dotted path; raises KeyError, CannotCompose."""

    def raw(self, path: str) -> object:
        """The value as written (interpolations unresolved); KeyError when absent."""

    def has(self, path: str) -> bool:
        """Whether the key exists, resolved or not."""

    def leaf_paths(self) -> Sequence[str]:
        """Dotted paths of all leaves, in order."""

    def interpolate(self, value: object, at: str = "") -> object:
        """`value` with every `${...}` resolved, relative ones as set `at` a key."""

    def put(self, path: str, value: object) -> None:
        """Write `value` (`${...}` and all) at a dotted path, added if need be."""

    def to_dict(self) -> Mapping[str, object]:
        """Everything resolved, plain Python, `sweep` left out."""

    def written_dict(self) -> Mapping[str, object]:
        """The same as written, interpolations unresolved."""


class Composer(Protocol):
    """Composes configs of one primary config, in the planning process."""

    settings: Collection[str]
    """Dotted keys that have a meaning where a config leaves them out."""

    def base(self) -> ConfigView:
        """The primary config with the command line's overrides, no sweep point."""

    def sweep(self) -> Mapping[str, object] | None:
        """The `sweep` subtree as written, interpolations unresolved; None: absent."""

    def compose(
        self, overrides: Sequence[str], mounts: Mapping[str, object]
    ) -> ConfigView:
        """The config with further Hydra overrides, equal to `hydra.compose`.

        `mounts` (stage, index, aux ...) are set at the root before interpolation.
        Raises CannotCompose with Hydra's reason, in our words.
        """

    def is_group(self, key: str) -> bool:
        """Whether a key is a group of configs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    warnings: tuple[Problem, ...] = ()
    """What may be right where the job runs, and looks wrong from here."""


class SpecParser(Protocol):
    """Turns plain mappings into core specs; every method may raise SpecRefused."""

    def condition(self, value: object, where: str) -> Condition:
        """A condition from `{class_name: ..., ...}`."""

    def monitoring(self, config: Mapping[str, object]) -> Monitoring:
        """`monitoring` of a resolved base config."""

    def executor(self, config: Mapping[str, object]) -> ExecutorSpec:
        """`slurm` of a resolved base config."""

    def tree(self, config: Mapping[str, object]) -> Mapping[str, object]:
        """`tree` of a resolved base config, checked; empty where it has none."""

    def research(self, config: Mapping[str, object]) -> Mapping[str, object]:
        """`research` of a resolved base config, checked; empty where it has none."""

    def agents(self, config: Mapping[str, object]) -> AgentsSettings:
        """`agents` of a resolved base config, checked."""

    def resources(self, config: Mapping[str, object]) -> Resources:
        """What one job asks for, from its resolved config."""

    def launch(self, config: Mapping[str, object]) -> Launch:
        """The command of one job, from its resolved config's `backend`."""

    def check(self, config: Mapping[str, object]) -> Sequence[Problem]:
        """Unknown keys and wrong types in the closed subtrees, all at once."""
