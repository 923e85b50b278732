"""Hydra's loader, which merges the same list of configs only once.

Reading overrides, making the list of defaults of them and applying values stays
Hydra's own code for every job; the configs of a list that was merged before are not
merged again. That is half of a composition, and all jobs with the same choices of
groups share it.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra.core.default_element import ResultDefault
from omegaconf import DictConfig

_HELD: Final = 64
"""Merged configs; each is some 50 KB."""
_UNKEPT: Final = (pickle.PicklingError, TypeError, AttributeError, RecursionError)
"""What pickling raises over types of a user's own schemas."""

Key: TypeAlias = tuple[object, ...]


class RememberingLoader(ConfigLoaderImpl):
    """The config loader of one primary config."""

    def __init__(self, config_search_path: Any) -> None:
        super().__init__(config_search_path)
        self._merged: OrderedDict[Key, bytes] = OrderedDict()
        self._remembers = True
        self.merges = 0
        """How often configs were merged, not remembered."""

    @contextmanager
    def from_scratch(self) -> Iterator[None]:
        """Inside, nothing is remembered: all is as if it were composed alone."""
        self._remembers = False
        try:
            yield
        finally:
            self._remembers = True

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        if not self._remembers:
            return self._merge(defaults, repo)
        key = (*_listed(defaults), *_places(repo))
        known = self._merged.get(key)
        if known is not None:
            self._merged.move_to_end(key)
            found: DictConfig = pickle.loads(known)
            return found
        config = self._merge(defaults, repo)
        self._keep(key, config)
        return config

    def _merge(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        self.merges += 1
        return super()._compose_config_from_defaults_list(defaults, repo)

    def _keep(self, key: Key, config: DictConfig) -> None:
        try:
            self._merged[key] = pickle.dumps(config, pickle.HIGHEST_PROTOCOL)
        except _UNKEPT:
            return
        if len(self._merged) > _HELD:
            self._merged.popitem(last=False)


def _listed(defaults: Sequence[ResultDefault]) -> Iterator[object]:
    """What a merge reads of its list."""
    for one in defaults:
        yield one.config_path, one.package, one.parent, one.is_self, one.primary


def _places(repo: IConfigRepository) -> Iterator[object]:
    """Where configs are looked for: `hydra.searchpath` may change it."""
    for source in repo.get_sources():
        yield source.provider, source.scheme(), source.path
