"""Hydra's loader, which makes and merges the same list of configs only once.

Reading overrides and applying values stays Hydra's own code for every job; the list of
defaults that its choices of groups make, and what the configs of that list merge to,
are made when they are first chosen. That is most of a composition, and all jobs with
the same choices share it. What lists are made of is loaded once for all of them.
"""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import chain, takewhile
from typing import Any, Final, TypeAlias, TypeVar

from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import (
    CachingConfigRepository,
    IConfigRepository,
)
from hydra._internal.defaults_list import (
    DefaultsList,
    Overrides,
    create_defaults_list,
)
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

_HELD: Final = 256
"""Merged configs; each is some 50 KB."""
LOADED: Final = 256
"""Configs as they were loaded; each is a file."""
_UNKEPT: Final = (pickle.PicklingError, TypeError, AttributeError, RecursionError)
"""What pickling raises over types of a user's own schemas."""

Key: TypeAlias = tuple[object, ...]
T = TypeVar("T")


class ListingRepository(CachingConfigRepository):
    """Where configs are found while a list of defaults is made.

    A list reads nothing of a config but its header, its own defaults and whether there
    is more: what was loaded for one list serves for the next. A merge takes the very
    nodes that were loaded into its own tree, so it has them from `for_merging`.
    """

    def __init__(
        self, delegate: IConfigRepository, known: OrderedDict[Key, ConfigResult]
    ) -> None:
        # A search path gives it other sources, and changes none: a shallow copy will
        # do, where Hydra makes a deep one for each composition.
        self.delegate = copy.copy(delegate)
        self.cache = {}
        self._known = known
        self._searched = tuple(_places(self))

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        """Look in these places from now on."""
        super().initialize_sources(config_search_path)
        self._searched = tuple(_places(self))

    def load_config(self, config_path: str) -> ConfigResult | None:
        """The config there; None when there is none."""
        key = (self._searched, config_path)
        found = _take(self._known, key)
        if found is not None:
            return found
        found = super().load_config(config_path)
        if found is not None:
            _put(self._known, key, found, LOADED)
        return found

    def for_merging(self) -> CachingConfigRepository:
        """The same places, from which every config is loaded anew."""
        return CachingConfigRepository(self.delegate)


class RememberingLoader(ConfigLoaderImpl):
    """The config loader of one primary config."""

    def __init__(self, config_search_path: Any, unread: str = "") -> None:
        """`unread`: a key at the top that only the first config that is made has.

        Nobody reads it in the others; large as it may be, each would bring it along.
        """
        super().__init__(config_search_path)
        self._unread = unread
        self._merged: OrderedDict[Key, bytes] = OrderedDict()
        self._loaded: OrderedDict[Key, ConfigResult] = OrderedDict()
        self._lists: OrderedDict[Key, DefaultsList] = OrderedDict()
        self._remembers = True
        self.merges = 0
        """How often configs were merged, not remembered."""

    @contextmanager
    def from_scratch(self) -> Iterator[None]:
        """Inside, nothing is remembered: all is as if it were composed alone."""
        before = self._remembers
        self._remembers = False
        try:
            yield
        finally:
            self._remembers = before

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        if not self._remembers or not self._merged:
            return super()._parse_overrides_and_create_caching_repo(
                config_name, overrides
            )
        parsed = list(chain.from_iterable(map(_read, overrides)))
        repo = ListingRepository(self.repository, self._loaded)
        self._process_config_searchpath(config_name, parsed, repo)
        return parsed, repo

    def _load_configuration_impl(self, *args: Any, **named: Any) -> DictConfig:
        if not self._remembers:
            return super()._load_configuration_impl(*args, **named)
        # The one step that Hydra does not ask its own object for.
        with _in_place_of("create_defaults_list", self._list_of_defaults):
            return super()._load_configuration_impl(*args, **named)

    def _list_of_defaults(
        self, *, repo: IConfigRepository, overrides_list: list[Override], **how: Any
    ) -> DefaultsList:
        """Hydra's `create_defaults_list`; only choices of groups make another list."""
        given = Overrides(repo=repo, overrides_list=overrides_list)
        key = (*_chosen(given), *how.items(), *_places(repo))
        known = _take(self._lists, key)
        if known is None:
            known = create_defaults_list(
                repo=repo, overrides_list=overrides_list, **how
            )
            _put(self._lists, key, known, _HELD)
        return replace(known, config_overrides=given.config_overrides)

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        if not self._remembers:
            return self._merge(defaults, repo)
        key = (*_listed(defaults), *_places(repo))
        known = _take(self._merged, key)
        if known is not None:
            found: DictConfig = pickle.loads(known)
            return found
        config = self._merge(self._behind_hydras(defaults, repo), repo)
        self._keep(key, config)
        return config

    def _behind_hydras(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> list[ResultDefault]:
        """The list with Hydra's own configs, with which it begins, as one.

        They are half of a merge, and one job hardly chooses others than the next.
        """
        own = list(takewhile(_is_hydras, defaults))
        if len(own) in (0, 1, len(defaults)):
            return defaults
        config = self._compose_config_from_defaults_list(own, repo)
        # Outside of `hydra`, which no job keeps, each is to be merged by itself.
        return (
            [_Merged(config), *defaults[len(own) :]]
            if set(config) == {"hydra"}
            else defaults
        )

    def _load_single_config(
        self, default: ResultDefault, repo: IConfigRepository
    ) -> ConfigResult:
        if isinstance(default, _Merged):
            return ConfigResult("hydra", "", default.config, header={})
        return super()._load_single_config(default, repo)

    def _merge(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        self.merges += 1
        if isinstance(repo, ListingRepository):
            repo = repo.for_merging()
        return super()._compose_config_from_defaults_list(defaults, repo)

    def _keep(self, key: Key, config: DictConfig) -> None:
        try:
            with _without(config, self._unread):
                data = pickle.dumps(config, pickle.HIGHEST_PROTOCOL)
        except _UNKEPT:
            return
        _put(self._merged, key, data, _HELD)


class _Merged(ResultDefault):
    """What several entries of a list have been merged to."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__()
        self.config = config


@lru_cache(maxsize=1024)
def _read(override: str) -> Sequence[Override]:
    """An override as Hydra reads it; jobs choose the same groups again and again.

    Raises:
        OverrideParseException: it does not parse.
    """
    return OverridesParser.create().parse_overrides([override])


@contextmanager
def _without(config: DictConfig, key: str) -> Iterator[None]:
    """Inside, the config lacks a key; then it is there again, where it was."""
    content: Any = config._content
    if not isinstance(content, dict) or key not in content:
        yield
        return
    whole = dict(content)
    del content[key]
    try:
        yield
    finally:
        content.clear()
        content.update(whole)


def _take(held: OrderedDict[Key, T], key: Key) -> T | None:
    """A held value, which becomes the newest; None when it is not held."""
    found = held.get(key)
    if found is not None:
        held.move_to_end(key)
    return found


def _put(held: OrderedDict[Key, T], key: Key, value: T, most: int) -> None:
    """Hold a value as the newest, and no more than `most`."""
    held[key] = value
    if len(held) > most:
        held.popitem(last=False)


@contextmanager
def _in_place_of(name: str, function: Callable[..., object]) -> Iterator[None]:
    """Have Hydra's loaders call another function meanwhile."""
    module: Any = config_loader_impl
    own = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, own)


def _chosen(given: Overrides) -> Iterator[object]:
    """What a list reads of the overrides."""
    yield repr(given.override_choices)
    added = given.append_group_defaults
    yield repr([(one.group, one.package, one.value) for one in added])
    yield repr(given.deletions)


def _is_hydras(default: ResultDefault) -> bool:
    return (default.config_path or "").startswith("hydra/") and not default.primary


def _listed(defaults: Sequence[ResultDefault]) -> Iterator[object]:
    """What a merge reads of its list."""
    for one in defaults:
        yield one.config_path, one.package, one.parent, one.is_self, one.primary


def _places(repo: IConfigRepository) -> Iterator[object]:
    """Where configs are looked for: `hydra.searchpath` may change it."""
    for source in repo.get_sources():
        yield source.provider, source.scheme(), source.path
