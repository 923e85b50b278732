"""Settings of Hydra's own application that do nothing here, or would mislead.

Hydra's sweepers and launchers are replaced by `sweep` and `slurm`: a config that sets
them would run one job where many were meant, so they are refused. Of the rest only
`hydra.searchpath` has an effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from autoexp_tui.config.default_files import ConfigFile, child, defaults_entries
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.override_checks import check_hydra_key


def check_hydra_settings(
    files: Iterable[ConfigFile], overrides: Sequence[str]
) -> Iterator[tuple[Problem, bool]]:
    """Findings of config files and of the command line; whether each is an error."""
    keys = dict.fromkeys(key for file in files for key in _keys_of(file))
    given = (text.partition("=")[0].lstrip("+~") for text in overrides)
    wheres = {**{key: key for key in keys}, **{key: f"override {key}" for key in given}}
    for key, where in wheres.items():
        found = check_hydra_key(key, where)
        if found is not None:
            yield found


def _keys_of(file: ConfigFile) -> Iterator[str]:
    """Keys below `hydra` and groups of Hydra's own that a file sets."""
    node = file.root if file.package == ("hydra",) else child(file.root, "hydra")
    if node is not None and isinstance(node.value, list) and not file.package[1:]:
        yield from (f"hydra.{key.value}" for key, _ in node.value)
    for entry in defaults_entries(file.root):
        if entry.group.strip("/").startswith("hydra/"):
            yield entry.group.strip("/")
