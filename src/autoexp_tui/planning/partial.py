"""A config of which not everything resolves, as far as it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from autoexp_tui.planning.ports import CannotCompose, ConfigView


def resolved_where_possible(view: ConfigView, *, as_written: bool) -> dict[str, object]:
    """The config with all values that can be had.

    `as_written`: whether the others stay as they are written; else they are None, as
    if they were left out.
    """
    return {
        key: _either(view, key, written, as_written)
        for key, written in view.written_dict().items()
    }


def _either(
    view: ConfigView,
    path: str,
    written: object,
    as_written: bool,  # noqa: FBT001
) -> object:
    with suppress(CannotCompose, KeyError):  # no path leads to a key with a dot in it
        return view.select(path)
    if isinstance(written, Mapping):
        return {
            key: _either(view, f"{path}.{key}", value, as_written)
            for key, value in written.items()
        }
    return written if as_written else None


def unresolved(view: ConfigView) -> Sequence[str]:
    """The keys that `resolved_where_possible` has no value for; a list is one key."""
    return [path for path in view.leaf_paths() if not _resolves(view, path)]


def _resolves(view: ConfigView, path: str) -> bool:
    try:
        view.select(path)
    except (CannotCompose, KeyError):
        return False
    return True


def concern_one(key: str, other: str) -> bool:
    """Whether two keys are one, or one lies below the other."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")
