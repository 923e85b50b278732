"""Our ConfigSource: Hydra reads every config tree through it.

The scheme is `autoexp://`; what follows may be a directory, a `file://` URL, or a
`pkg://` package, so that entries of `hydra.searchpath` come here as well. The order of
places is private to Hydra, and so is what it keeps of overrides: nothing but this
module touches those parts.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult, ConfigSource

from autoexp_tui.backends.launch import search_working_directory
from autoexp_tui.config.yaml_files import FILES, SCHEME

_LAST: Final = {"shipped": 1, "schema": 2}
"""Providers that stay behind all others, in this order."""


class AutoexpSource(FileConfigSource):
    """A directory of YAML files; made by Hydra, many times, so the cache is shared."""

    opened: ClassVar[dict[str, str]] = {}
    """Configs that were read, Hydra's own apart, and where each of them stands."""

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider=provider, path=path)
        self.path = _directory(self.path)

    @staticmethod
    def scheme() -> str:
        """The part before `://`."""
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        """The config at `config_path`, with or without `.yaml`; or CannotCompose."""
        name = self._normalize_file_name(config_path)
        loaded = FILES.load(os.path.realpath(os.path.join(self.path, name)))
        if self.provider != "hydra":
            self.opened[name.removesuffix(".yaml")] = os.path.join(self.path, name)
        return ConfigResult(
            config=pickle.loads(loaded.blob),
            path=self.full_path(),
            provider=self.provider,
            header=ConfigSource._get_header_dict(loaded.head),
        )


class SearchPath(ConfigSearchPathImpl):
    """Where Hydra looks, the first that has a config first; what is shipped last."""

    def append(
        self, provider: str, path: str, anchor: SearchPathQuery | None = None
    ) -> None:
        """Add a place, in front of what stays last."""
        if not path.startswith(("structured:", SCHEME)):
            path = f"{SCHEME}://{path}"
        super().append(provider, path, anchor)
        self.config_search_path.sort(key=lambda one: _LAST.get(one.provider or "", 0))


class ConfigLoader(ConfigLoaderImpl):
    """Keeps overrides in `hydra.overrides.task` as texts that stand for no value.
    OmegaConf would read the interpolations in them, by a grammar of other quotes."""

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        parsed, repository = super()._parse_overrides_and_create_caching_repo(
            config_name, overrides
        )
        for override in parsed:
            override.input_line = str(override.input_line).replace("${", "$ {")
        return parsed, repository


def make_hydra(places: Sequence[Path], shipped: Sequence[Path]) -> Hydra:
    """A Hydra that looks in its own places and these; configs have their root first."""
    found = SearchPath()
    for one in create_config_search_path(str(places[0])).get_path():
        found.append(one.provider or "", one.path or "")
    for provider, further in (("autoexp", places[1:]), ("shipped", shipped)):
        for place in further:
            found.append(provider, str(place))
    return Hydra(
        task_name="autoexp", config_loader=ConfigLoader(config_search_path=found)
    )


def _directory(path: str) -> str:
    """The directory that a search path entry names; itself when it cannot be known."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return os.path.abspath(os.path.expanduser(path))
    if scheme != "pkg":
        return _directory(rest)
    for is_last in (False, True):
        if is_last:
            search_working_directory()
        with suppress(ImportError, ValueError):
            if spec := importlib.util.find_spec(rest.replace("/", ".")):
                return next(iter(spec.submodule_search_locations or ()), path)
    return path
