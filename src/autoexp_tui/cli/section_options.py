"""Options of a command that win over keys of a section of its config."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple

from autoexp_tui.cli.options import Flag, option

_TEXTS: Final = frozenset({"TEXT", "NAME", "DIR"})
"""What an option takes that is no number and no word of ours."""


class SectionOptions(NamedTuple):
    section: str
    table: str
    """Rows of a key below the section, what it takes, and what it is; `-`: nothing."""

    def _list_rows(self) -> Iterator[list[str]]:
        for row in self.table.strip().splitlines():
            yield row.split(" ", 2)

    def list_flags(self) -> Iterator[Flag]:
        for key, metavar, about in self._list_rows():
            flag = "--" + key.replace(".", "-").replace("_", "-")
            takes = () if metavar == "-" else (metavar,)
            yield option(flag, f"{about}: {self.section}.{key}", *takes, dest=key)

    def list_overrides(self, args: argparse.Namespace) -> Iterator[str]:
        from autoexp_tui.planning.overrides import quote

        for key, metavar, _ in self._list_rows():
            if value := getattr(args, key):
                text = quote(value) if metavar in _TEXTS else str(value).lower()
                yield f"++{self.section}.{key}={text}"
