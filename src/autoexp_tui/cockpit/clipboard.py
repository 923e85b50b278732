"""Copying from a screen that may be far away: OSC 52, or a file where it is too much.

Terminals answer nothing to OSC 52, so all that can be said is how much was sent.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.cockpit.terminal import BEL, ESC, wrapped
from autoexp_tui.model.wording import size

MOST_BYTES = 74_000
"""Of text: many terminals take no more than 100,000 bytes of base64."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What to write to the terminal, and what to say."""

    sequence: str
    words: str


def copy(text: str, *, tmux: bool, directory: Path) -> Copied:
    """How to copy `text`.

    Args:
        text: as it should be pasted.
        tmux: whether tmux has to pass it on.
        directory: where a text goes that is too long for a terminal.

    Raises:
        OSError: it is too long, and the file cannot be written.
    """
    data = text.encode("utf-8", "replace")
    if not data:
        return Copied("", "nothing to copy")
    if len(data) > MOST_BYTES:
        path = _write(data, directory)
        return Copied("", f"{size(len(data))} is too much for a terminal: see {path}")
    payload = base64.b64encode(data).decode("ascii")
    sequence = wrapped(f"{ESC}]52;c;{payload}{BEL}", tmux=tmux)
    return Copied(sequence, f"{size(len(data))} sent to the clipboard")


def _write(data: bytes, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(1000):
        path = directory / f"autoexp-copy-{number}.txt"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path
    raise FileExistsError(17, f"{directory} holds 1000 copies already")
