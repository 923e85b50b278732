"""What a job is called, where it lies, and what the plan mounts into its config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.overrides import literal
from autoexp_tui.planning.ports import CannotCompose, ConfigView
from autoexp_tui.planning.references import Identity
from autoexp_tui.sweep.families import called
from autoexp_tui.sweep.names import inside
from autoexp_tui.sweep.points import SweepPoint
from autoexp_tui.sweep.schema import shown

NAME: Final = "project.name"
_DIRECTORIES: Final = (
    "project.base_output_dir",
    "slurm.log_dir",
    "slurm.script_dir",
)


def mounts_of(
    stage: str, index: int, family: str, base: ConfigView
) -> dict[str, object]:
    """What is mounted at the root of a job's config.

    A config may have a `family` of its own, and a `stage` while its sweep has none.
    """
    mounts: dict[str, object] = {"index": index}
    if stage or not base.has("stage"):
        mounts["stage"] = literal(stage)
    if not base.has("family"):
        mounts["family"] = family
    return mounts


def written_name(view: ConfigView) -> object:
    """`project.name` as written.

    Raises:
        CannotCompose: it is not set, or is no text.
    """
    hint = 'project: {name: "lr{lr}_{stage}"}'
    try:
        raw = view.raw(NAME)
    except KeyError:
        raw = None
    if raw is None:
        raise CannotCompose((Problem("is not set", NAME, hint=hint),))
    if isinstance(raw, Mapping | list):
        message = f"is {shown(repr(raw))}, not a text"
        raise CannotCompose((Problem(message, NAME, hint=hint),))
    return raw


def directories_of(view: ConfigView) -> Sequence[str]:
    """Where a config puts outputs, logs and scripts; empty where it does not say.

    Raises:
        CannotCompose: a place does not resolve.
    """
    return [_text(view, path) for path in _DIRECTORIES]


def _text(view: ConfigView, path: str) -> str:
    """A text of the config; empty when it is not set."""
    try:
        found = view.select(path)
    except KeyError:
        return ""
    return "" if found is None else str(found)


def nobody_yet(point: SweepPoint, family: str) -> Identity:
    """Who a job is before it has a name."""
    return Identity(
        name=called(point),
        output_dir="",
        log_dir="",
        script_path="",
        stage=point.stage,
        index=point.index,
        family=family,
    )


def identity_of(nobody: Identity, name: str, directories: Sequence[str]) -> Identity:
    """Who a job is, once it has a name; `directories`: see `directories_of`."""
    base, logs, scripts = directories
    base = base or "outputs"
    return replace(
        nobody,
        name=name,
        output_dir=inside(base, name),
        log_dir=inside(logs or inside(base, "logs"), name),
        script_path=inside(scripts or inside(base, "scripts"), f"{name}.sbatch"),
    )


def paths_of(config: Mapping[str, object]) -> Sequence[str]:
    """The directories of a resolved config that do not count for the fingerprint."""
    found: list[str] = []
    for path in (*_DIRECTORIES, "monitoring.state_dir"):
        section, _, key = path.partition(".")
        inner = config.get(section)
        value = inner.get(key) if isinstance(inner, Mapping) else None
        found += [] if value is None else [str(value)]
    return found
