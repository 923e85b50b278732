"""The modes of what we make: the user's alone, or readable or writable by the group.

The umask stays the user's own, also for jobs. So a mode that a umask might take bits
from is set behind it, and only on what was just made: what was there keeps its mode.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from autoexp_tui.model.specs import Share


@dataclass(frozen=True, slots=True)
class Modes:
    """Of directories and of files in them."""

    directory: int = 0o700
    file: int = 0o600


PRIVATE: Final = Modes()
MODES: Final = MappingProxyType[Share, Modes](
    {
        "private": PRIVATE,
        "group": Modes(0o2750, 0o640),
        "group_write": Modes(0o2770, 0o660),
    }
)
"""The setgid bit gives the group of a directory to what is made in it."""
SESSION_MODES: Final[Mapping[Share, Modes]] = MappingProxyType(
    {**MODES, "group_write": MODES["group"]}
)
"""Of a session, in which nobody else ever writes."""


def session_modes(session: Path) -> Modes:
    """The modes of what is made in a session, as those of its directory tell.

    Raises:
        OSError: it cannot be looked at.
    """
    for_others = stat.S_IMODE(session.stat().st_mode) & 0o077
    return SESSION_MODES["group"] if for_others == 0o050 else PRIVATE
