"""A config of which not everything resolves, as far as it does."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from autoexp_tui.plan.ports import CannotCompose, ConfigView


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
