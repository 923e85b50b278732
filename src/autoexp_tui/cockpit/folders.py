"""A directory of small files as text to read: evidence that was kept of a run.

Only regular files are opened, the beginning of each; links are named, not followed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from autoexp_tui.cockpit.spans import Line, Span, outside
from autoexp_tui.model.wording import size

MOST_FILES = 30
MOST_BYTES = 1 << 16
"""Of each file that is shown."""


def read_folder(path: str) -> Sequence[Line]:
    """What lies in a directory, a file after the other, as safe lines.

    Raises:
        OSError: it cannot be listed.
    """
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    lines: list[Line] = [(Span(outside(path, 4000), "muted"),)]
    for entry in entries[:MOST_FILES]:
        lines += _file(entry)
    if len(entries) > MOST_FILES:
        lines += [(), (Span(f"and {len(entries) - MOST_FILES} more", "muted"),)]
    if not entries:
        lines += [(), (Span("nothing lies there", "muted"),)]
    return lines


def _file(entry: os.DirEntry[str]) -> Sequence[Line]:
    name = Span(outside(entry.name), "title")
    if not entry.is_file(follow_symlinks=False):
        return [(), (name, Span("  no plain file: not opened", "muted"))]
    try:
        length = entry.stat(follow_symlinks=False).st_size
        with open(entry.path, "rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        return [(), (name, Span(f"  cannot be read: {error.strerror}", "warning"))]
    head: Line = (name, Span(f"  {size(length)}", "muted"))
    rows = data.decode("utf-8", "replace").splitlines()
    lines: list[Line] = [(Span(outside(row, 4000)),) for row in rows]
    if length > len(data):
        lines.append((Span(f"({length - len(data)} further bytes)", "muted"),))
    return [(), head, *lines]
