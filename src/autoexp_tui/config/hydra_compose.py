"""Composes configs with Hydra: the `planning.ports.Composer` of the planning process.

Owns Hydra's globals (one primary config a process). A job's config equals
`hydra.compose` with its overrides; around that, our additions: `sweep` is kept aside,
its overrides may name literal dotted keys, mounts lie at the root, `${oc.eval:...}`
is our evaluator's, and the environment is read once.
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import count, zip_longest
from pathlib import Path
from pprint import pformat
from typing import Any, Final

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from hydra.version import setbase
from omegaconf import AnyNode, DictConfig, ListConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from autoexp_tui.backends.launch import skip_working_directory
from autoexp_tui.config.config_view import ConfigTree, list_leaf_paths, settle_relatives
from autoexp_tui.config.hydra_errors import (
    compose_problem,
    explain_unreadable,
    find_unlisted_group,
)
from autoexp_tui.config.hydra_source import AutoexpSource, make_hydra
from autoexp_tui.config.job_template import JobKeys, Template, is_open, split_overrides
from autoexp_tui.config.resolvers import (
    Environment,
    register_resolvers,
    rewrite_override,
    rewrite_tree,
)
from autoexp_tui.config.settings import list_closed_keys
from autoexp_tui.config.sweep_overrides import INTO_SWEEP, apply_sweep_overrides
from autoexp_tui.config.yaml_files import (
    FILES,
    explain_too_deep,
    make_refusal,
    show_path,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.job_config import OUR_PLACES
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.probes.config_files import config_roots, find_config, list_configs
from autoexp_tui.text.did_you_mean import did_you_mean, find_slip
from autoexp_tui.text.plain_tree import leaves, with_values

SWITCH: Final = "AUTOEXP_COMPOSE"
"""The environment variable that, set to `hydra`, has every job composed by Hydra."""
_MOST_TEMPLATES: Final = 1024
"""Of a config of 300 keys each is some 50 KB."""
_SWEEP: Final = "sweep"
_OUR_GROUPS: Final = frozenset({"backend", "slurm", "monitoring", "environment"})
"""Shipped, so that a choice needs no entry in the config's own defaults."""
_HYDRAS: Final = (
    HydraException,
    OmegaConfBaseException,
    ValueError,
    RecursionError,
    AssertionError,
)
"""What composing raises over configs and overrides."""
_COMPARED_EVERY: Final = 1000
_HYDRA_BASE: Final = "1.3"
"""Whose defaults a config is read by, whatever release is installed."""


class HydraComposer:
    """Composes one primary config under one set of command-line overrides."""

    def __init__(
        self,
        config_ref: str,
        config_dir: Path,
        overrides: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        cwd: str = "",
        now: float | None = None,
        search_dirs: Sequence[str] = (),
    ) -> None:
        """`environ`: what `oc.env` sees; the process's own when None. `cwd`: where our
        relative directories start; empty: they stay as written. `now`: what
        `${now:...}` shows; the present when None. `search_dirs`: where groups are
        looked for after `config_dir`."""
        self.config_ref = config_ref.removesuffix(".yaml")
        self.config_dir = Path(config_dir)
        self.roots = config_roots(self.config_dir)
        """Where configs are looked for, first to last."""
        self._cwd = cwd
        self._now = time.time() if now is None else now
        given = os.environ if environ is None else environ
        self.environment = Environment(dict(given))
        self._may_share = given.get(SWITCH) != "hydra"
        self.warnings: list[Problem] = []
        self.composed = 0
        """How often Hydra composed: one for the base, one for each job."""
        self._parser = OverridesParser.create()
        texts = tuple(map(rewrite_override, overrides))
        self._sweep_overrides = [text for text in texts if INTO_SWEEP.match(text)]
        self._overrides = [text for text in texts if not INTO_SWEEP.match(text)]
        self.settings: Collection[str] = list_closed_keys()
        """The keys of the closed subtrees."""
        self._base: Mapping[str, object] | None = None
        self._sweep: Mapping[str, object] | None = None
        self._templates: dict[object, Template | None] = {}
        self._shared = count(1)
        """Jobs that were made of a template."""
        self._further: tuple[str, ...] = ()
        """Overrides that all composed with these have besides, before their own."""
        self._groups: dict[str, bool] = {}
        self._files: list[tuple[Path, tuple[str, ...]]] = []
        self._unlisted: set[str] = set()
        """Groups of ours that are chosen, and that the defaults lists do not name."""
        setbase(_HYDRA_BASE)
        with skip_working_directory():
            Plugins.instance().register(AutoexpSource)
        places = (self.config_dir, *map(Path, search_dirs))
        self._hydra = make_hydra(places, self.roots[1:])
        self._take_over()

    def close(self) -> None:
        """Give Hydra's globals back."""
        GlobalHydra.instance().clear()

    def _take_over(self) -> None:
        """Be the process's Hydra, in case another composer came in between."""
        current = GlobalHydra.instance()
        if current.hydra is not self._hydra:
            current.clear()
            current.initialize(self._hydra)
            register_resolvers(self.environment, self._now)

    def base(self) -> ConfigTree:
        """The primary config with the command line's overrides."""
        if self._further:
            return self.compose((), {})
        return self._anchor(ConfigTree(self._base_tree(), self._make_config))

    def sweep(self) -> Mapping[str, object] | None:
        """The `sweep` subtree as written; None when absent."""
        self._base_tree()
        return self._sweep

    def extend(self, overrides: Sequence[str]) -> HydraComposer | None:
        """The same with further overrides, which shares what is composed already; None:
        they may do more than set values, or belong to one that was extended."""
        texts = tuple(map(rewrite_override, overrides))
        into = [self._parse(text) for text in texts if INTO_SWEEP.match(text)]
        own = tuple(text for text in texts if not INTO_SWEEP.match(text))
        sweep, keys = self.sweep(), split_overrides(own, {}, self.is_group)
        is_sweep = any(one.path[0] == _SWEEP for one in keys.settings)
        if keys.texts or is_sweep or self._further:
            return None
        made = copy(self)
        made._further = own
        made._sweep = apply_sweep_overrides(sweep or {}, into) if into else sweep
        return made

    def compose(
        self, overrides: Sequence[str], mounts: Mapping[str, object]
    ) -> ConfigTree:
        """One job's config; raises CannotCompose with Hydra's reason, in our words."""
        if not self._may_share:
            return self.compose_by_hydra(overrides, mounts)
        texts = (*self._further, *map(rewrite_override, overrides))
        self._base_tree()
        keys = split_overrides(texts, mounts, self.is_group)
        if keys.structure not in self._templates:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            self._templates[keys.structure] = self._make_template(keys)
        template = self._templates.get(keys.structure)
        if template is None or not template.takes(keys.settings, self.settings):
            tree = self._compose_tree(texts, mounts)
            return self._anchor(ConfigTree(tree, self._make_config))
        values = {one.path: one.value for one in keys.settings}
        tree = with_values(template.tree, values)
        made = ConfigTree(tree, self._make_config, template, tuple(values))
        view = self._anchor(made)
        if next(self._shared) % _COMPARED_EVERY == 1:
            self._compare(view, overrides, mounts)
        return view

    def _make_template(self, keys: JobKeys) -> Template | None:
        """What jobs share that have the same choices."""
        tree = self._base_tree()
        if keys.texts or keys.mounts:
            try:
                tree = self._compose_tree(tuple(keys.texts), keys.mounts)
            except CannotCompose:  # told for the job as a whole
                return None
        if not self._may_share:
            return None
        view = ConfigTree(tree, self._make_config)
        # All jobs that set nothing there have the same text.
        common = [k for k in OUR_PLACES if view.has(k) and not is_open(view.raw(k))]
        return Template(self._anchor(view, common).tree)

    def _compare(
        self, view: ConfigTree, overrides: Sequence[str], mounts: Mapping[str, object]
    ) -> None:
        """Have Hydra compose this job too (which costs as much as a hundred others);
        refuse a config that is not Hydra's, with types, the order of keys apart.
        """
        try:
            ours = view.to_dict()
        except CannotCompose:  # told when it is asked for
            return
        hydras = self.compose_by_hydra(overrides, mounts).to_dict()
        if pformat(ours) == pformat(hydras):
            return
        pairs = zip_longest(leaves(ours), leaves(hydras), fillvalue=((), None))
        where = next((a[0] or b[0] for a, b in pairs if repr(a) != repr(b)), ())
        message = "a job that was composed from another one is not what Hydra composes"
        hint = f"set {SWITCH}=hydra to have every job composed by Hydra, and report it"
        place = ".".join(map(str, where))
        problem = Problem(f"{message}; this is a bug of ours", place, hint=hint)
        raise CannotCompose((problem,))

    def compose_by_hydra(
        self, overrides: Sequence[str], mounts: Mapping[str, object]
    ) -> ConfigTree:
        """What `compose` gives, whatever is known of other jobs."""
        texts = (*self._further, *map(rewrite_override, overrides))
        tree = self._compose_tree(texts, mounts)
        return self._anchor(ConfigTree(tree, self._make_config, is_certain=False))

    def _make_config(self, tree: Any) -> DictConfig:
        """OmegaConf's config of a tree, for what our own reading is not certain of."""
        config: DictConfig = OmegaConf.create(tree)
        OmegaConf.set_struct(config, value=True)
        return config

    def is_group(self, key: str) -> bool:
        """Whether a key, with `/`, is a group of configs."""
        if key not in self._groups:
            name = key.lstrip("+~").partition("@")[0]
            may_be = name and not name.startswith("/") and ".." not in name
            self._groups[key] = bool(may_be and self._list_options(name, None))
        return self._groups[key]

    def _list_options(self, group: str, wanted: ObjectType | None) -> tuple[str, ...]:
        """What a group has, in the order of their names."""
        self._take_over()
        loader = GlobalHydra.instance().config_loader()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said once, when the base is composed
                own = self.config_ref, self._overrides
                return tuple(loader.get_group_options(group, wanted, *own))
        except _HYDRAS as error:
            raise self._explain_refusal(error, known=False) from None

    def list_files(self) -> Sequence[tuple[Path, tuple[str, ...]]]:
        """The files of the config, each before those that it covers, and the keys that
        each one's go below. Where defaults do not resolve, the primary config alone."""
        if not self._files:
            self._files += self._find_files()
        return self._files

    def _find_files(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        self._take_over()
        loader = GlobalHydra.instance().config_loader()
        AutoexpSource.opened.clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = loader.compute_defaults_list(
                    self.config_ref, list(self._merge_overrides(())), RunMode.RUN
                )
        except (*_HYDRAS, CannotCompose):
            primary = find_config(self.config_ref, self.roots)
            yield from [(primary, ())] if primary else ()
            return
        names = ((one.config_path or "", one.package or "") for one in found.defaults)
        for name, package in reversed(dict.fromkeys(names)):
            if name in AutoexpSource.opened:
                keys = tuple(package.split(".")) if package else ()
                yield Path(AutoexpSource.opened[name]), keys

    def _base_tree(self) -> Mapping[str, object]:
        """The primary config as written, without its sweep."""
        self._take_over()
        if self._base is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                config = self._compose(())
            absent = [self._keep_warning(str(one.message)) for one in caught]
            if problems := tuple(dict.fromkeys(filter(None, absent))):
                raise CannotCompose(problems)
            tree: Any = OmegaConf.to_container(config, resolve=False)
            node = FILES.as_written(tree.pop(_SWEEP, None))
            if node is not None and not isinstance(node, Mapping):
                hint = "write it as a mapping: type, and params, configs or groups"
                raise make_refusal(f"is {node!r}, not a mapping", "sweep", hint)
            sweep = None if node is None else {str(key): v for key, v in node.items()}
            if values := [self._parse(text) for text in self._sweep_overrides]:
                sweep = apply_sweep_overrides(sweep or {}, values)
            self._sweep = sweep
            self._base = tree
        return self._base

    def _compose_tree(
        self, texts: tuple[str, ...], mounts: Mapping[str, object]
    ) -> Mapping[str, object]:
        """One job's config by Hydra, as written."""
        config = self._compose(texts)
        with read_write(config), open_dict(config):
            for key, value in mounts.items():
                ready = rewrite_tree(value)
                OmegaConf.update(config, key, ready, merge=True, force_add=True)
        tree: Any = OmegaConf.to_container(config, resolve=False)
        tree.pop(_SWEEP, None)
        relative = (self._parse(text) for text in texts if "${." in text)
        keys = [one.key_or_group for one in relative if not one.is_delete()]
        view = ConfigTree(tree, self._make_config)
        for key in [*keys, *({"aux"} & mounts.keys())] if "aux" in tree else ():
            with suppress(KeyError):
                value = view.raw(key)  # `${.x}` in it falls back to `aux.x`
                view.put(key, settle_relatives(view, value, key))
        return view.written_dict() if "aux" in tree else tree

    def _compose(self, texts: tuple[str, ...]) -> DictConfig:
        """The composed config as Hydra makes it: every job passes through here."""
        self._take_over()
        self.composed += 1
        while True:
            given = self._merge_overrides(texts)
            try:
                config = hydra.compose(self.config_ref, overrides=list(given))
            except _HYDRAS as error:
                group = find_unlisted_group(error)
                if group not in _OUR_GROUPS or group in self._unlisted:
                    raise self._explain_refusal(error, given) from None
                self._unlisted.add(group)
            else:
                self._may_share = self._may_share and _is_untyped(config)
                return config

    def _merge_overrides(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """The command line's overrides, then the job's. An added group (`+g=a`) that is
        chosen again keeps its `+` and takes the later choice; Hydra would take both."""
        merged: list[str] = []
        added: dict[str, int] = {}
        for text in (*self._overrides, *texts):
            key = text.partition("=")[0]
            bare = key.lstrip("+")
            if key in self._unlisted:
                key, text = f"+{key}", f"+{text}"
            if bare in added:
                merged[added[bare]] = "+" + text.lstrip("+")
                continue
            if key.startswith("+") and self.is_group(bare):
                added[bare] = len(merged)
            # Keys of ours have a meaning, and a default, where a config lacks them.
            merged.append(f"++{text}" if key in self.settings else text)
        return tuple(merged)

    def _anchor(self, view: ConfigTree, keys: Sequence[str] = OUR_PLACES) -> ConfigTree:
        """Make our directories absolute, those that resolve by now."""
        for key in keys if self._cwd else ():
            with suppress(KeyError, CannotCompose):
                path = view.select(key)
                if isinstance(path, str) and path and not os.path.isabs(path):
                    view.put(key, os.path.normpath(os.path.join(self._cwd, path)))
        return view

    def _parse(self, text: str) -> Override:
        try:
            return self._parser.parse_overrides([text])[0]
        except OverrideParseException:
            raise CannotCompose((explain_unreadable(text),)) from None
        except RecursionError:
            where = f"override {text.partition('=')[0]}"
            raise CannotCompose((explain_too_deep(where),)) from None

    def _explain_refusal(
        self, error: Exception, overrides: Sequence[str] = (), *, known: bool = True
    ) -> CannotCompose:
        ref, place = self.config_ref, show_path(str(self.config_dir))
        if ref.startswith(("/", "~")) or ".." in ref.split("/"):
            message = f"`{ref}` is a path; --config-ref takes a config's name"
            head, name = os.path.split(ref)
            hint = f"--config-dir {head} --config-ref {name}, if that is the directory"
            return make_refusal(message, place, hint)
        primary = find_config(ref, self.roots)
        if primary is None:
            names = list_configs(self.roots)
            hint = did_you_mean(find_slip(ref, names) or ref, names, "configs")
            return make_refusal(f"there is no config `{ref}`", place, hint)
        groups = self._list_options("", ObjectType.GROUP) if known else ()
        problem = compose_problem(
            error,
            where=show_path(str(primary)),
            overrides=overrides,
            keys=self._list_keys() if known else (),
            groups=[name for name in groups if name != "hydra"],
        )
        return CannotCompose((problem,))

    def _list_keys(self) -> Sequence[str]:
        """Every key of the primary config, for near misses."""
        tree: Any = self._base
        if tree is None:
            try:
                found = hydra.compose(self.config_ref)
            except (*_HYDRAS, CannotCompose):
                return ()
            tree = OmegaConf.to_container(found, resolve=False)
        paths = tuple(list_leaf_paths(tree))
        parents = (path.rpartition(".")[0] for path in paths)
        return (*paths, *dict.fromkeys(parent for parent in parents if parent))

    def _keep_warning(self, text: str) -> Problem | None:
        """As Hydra warns; a place to search that is not there is a problem."""
        if absent := re.match(
            r"provider=(hydra\.searchpath.*?), path=(.*) is not", text
        ):
            hint = "correct the path, or take the entry out"
            return Problem(f"{absent[2]} is not there", "hydra.searchpath", hint=hint)
        finding = Problem(text, where=self.config_ref)
        if finding not in self.warnings:
            self.warnings.append(finding)
        return None


def _is_untyped(node: Any) -> bool:
    """Whether no schema converts or refuses a value that is set anywhere."""
    if not isinstance(node, DictConfig | ListConfig):
        return type(node) is AnyNode
    own, held = node._metadata, node._content
    nodes: Any = held.values() if isinstance(held, dict) else held
    return (
        own.object_type in (dict, list, None)
        and own.element_type is Any
        and (not isinstance(held, dict | list) or all(map(_is_untyped, nodes)))
    )
