"""The columns that a person chose for the table of a config: `columns.json` in the
user's state, `{"version": 1, "configs": {CONFIG: [ID, ...]}}`, the newest last."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.storage.user_files import find_user_file

_MOST_CONFIGS: Final = 200
_MOST_BYTES: Final = 1 << 20


def read_columns(config: str) -> Sequence[str]:
    """The ids of a config's columns, none where nobody chose any; raises
    EnvironmentFailed for a file that cannot be read, or is none of ours."""
    file = find_user_file("columns.json")
    return _read(file).get(config, ()) if file is not None else ()


def keep_columns(config: str, columns: Sequence[str]) -> None:
    """Remember a config's columns, none for the usual ones; what cannot be read is put
    aside as `columns.json.bad`; raises EnvironmentFailed."""
    file = find_user_file("columns.json")
    if file is None:
        raise EnvironmentFailed("there is no home directory", "$HOME")
    try:
        known = dict(_read(file))
    except EnvironmentFailed:
        known = {}
        with suppress(OSError):
            os.replace(file, f"{file}.bad")
    known.pop(config, None)
    if columns:
        known[config] = tuple(columns)
    newest = dict([*known.items()][-_MOST_CONFIGS:])
    make_directory(file.parent)
    data = json.dumps({"version": 1, "configs": newest}, indent=1).encode()
    write_atomic(file, data, durable=False)


def _read(file: Path) -> Mapping[str, Sequence[str]]:
    with explaining(file, "read"):
        try:
            data = read_checked(file, "own", _MOST_BYTES)
        except FileNotFoundError:
            return {}
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    configs = content.get("configs") if isinstance(content, dict) else None
    if not isinstance(configs, dict) or not all(map(_is_choice, configs.values())):
        problem = "this is no list of columns by config"
        hint = "It is put aside when columns are chosen again."
        raise EnvironmentFailed(problem, str(file), hint)
    return {config: tuple(chosen) for config, chosen in configs.items()}


def _is_choice(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
