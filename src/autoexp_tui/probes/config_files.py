"""Where configs and themes are found: beside the user, or shipped with the package.
Only looks at the disk, so that the cockpit may ask for its themes before it paints."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import autoexp_tui
from autoexp_tui.model.errors import EnvironmentFailed, UsageError

DEFAULT_STATE_DIR: Final = "outputs/.autoexp"
"""Where sessions and manifests live when neither flag, variable nor config says so."""

STATE_DIR_VARIABLE: Final = "AUTOEXP_STATE_DIR"


def find_shipped(kind: str) -> Path:
    """The directory `config` or `themes` that comes with the package. In a wheel it
    lies in the package's `_data`; in a checkout, at the top. Raises EnvironmentFailed:
    neither is there; the installation is damaged."""
    package = Path(autoexp_tui.__file__).resolve().parent
    places = (package / "_data" / kind, package.parents[1] / kind)
    if there := next(filter(Path.is_dir, places), None):
        return there
    problem = f"the installed package has no {kind}/ directory"
    raise EnvironmentFailed(problem, str(places[0]), "Install autoexp-tui again.")


def find_config_dir(chosen: str | None, cwd: Path) -> Path:
    """The root of the configs: `-C DIR`, else ./config if there, else the shipped one.
    Raises UsageError: the chosen directory is not one."""
    if chosen is None:
        own = cwd / "config"
        return own if own.is_dir() else find_shipped("config")
    place = Path(os.path.abspath(cwd / Path(chosen).expanduser()))
    if place.is_dir():
        return place
    what = "is a file, not a directory" if place.exists() else "is not there"
    raise UsageError(
        f"the config directory {what}",
        where=f"-C {chosen}",
        hint="Name the directory that holds your primary config, such as ./config.",
    )


def config_roots(directory: Path) -> tuple[Path, ...]:
    """Where a config, and the choices of a group, are looked for, first to last. The
    shipped root is always the last: `slurm=generic` is there beside own configs."""
    last = find_shipped("config")
    same = os.path.realpath(directory) == os.path.realpath(last)
    return (directory,) if same else (directory, last)


def find_config(name: str, roots: Iterable[Path]) -> Path | None:
    places = (root / f"{name}.yaml" for root in roots)
    return next((place for place in places if place.is_file()), None)


def list_configs(roots: Iterable[Path]) -> tuple[str, ...]:
    """Every config below the roots, as `--config-ref` names it."""
    return tuple(
        dict.fromkeys(
            str(file.relative_to(root).with_suffix(""))
            for root in roots
            for file in sorted(root.rglob("*.yaml"))
        )
    )


def find_state_dir(chosen: str | None, configured: str | None, cwd: Path) -> Path:
    """The absolute state directory: flag, then variable, then config, then default."""
    variable = os.environ.get(STATE_DIR_VARIABLE)
    name = chosen or variable or configured or DEFAULT_STATE_DIR
    return Path(os.path.abspath(cwd / Path(name).expanduser()))
