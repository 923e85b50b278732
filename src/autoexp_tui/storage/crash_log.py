"""Tracebacks for whoever mends us: for the user alone, and never where others may wait.

Below a directory of the user's own a log has the name that it is given. In a shared one
its name cannot be guessed, so that nobody has put a link there before.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from autoexp_tui.storage.atomic import make_private


def write_crash_log(text: str, name: str, directory: Path) -> Path:
    """Keep a text in a new file, 0600: below `directory`, else among temporary files.

    Raises:
        OSError: neither can be written.
    """
    data = text.encode("utf-8", "backslashreplace")
    stem, suffix = os.path.splitext(name)
    try:
        make_private(directory)
        handle, path = tempfile.mkstemp(suffix, f"{stem}-", directory)
    except OSError:
        handle, path = tempfile.mkstemp(suffix, f"autoexp-{stem}-")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return Path(path)
