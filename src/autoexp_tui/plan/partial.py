"""A config of which not everything resolves, as far as it does."""

from __future__ import annotations

from collections.abc import Mapping

from autoexp_tui.plan.ports import CannotCompose, ConfigView


def resolved_where_possible(view: ConfigView, *, as_written: bool) -> dict[str, object]:
    """The config with all values that can be had.

    `as_written`: whether the others stay as they are written; else they are None, as
    if they were left out.
    """
    tops = dict.fromkeys(path.partition(".")[0] for path in view.leaf_paths())
    return {key: _either(view, key, as_written) for key in tops}


def _either(view: ConfigView, path: str, as_written: bool) -> object:  # noqa: FBT001
    try:
        return view.select(path)
    except CannotCompose:
        value = view.raw(path)
    if isinstance(value, Mapping):
        return {key: _either(view, f"{path}.{key}", as_written) for key in value}
    return value if as_written else None
