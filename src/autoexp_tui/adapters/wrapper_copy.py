"""A session's own copy of the wrapper.

A session keeps the wrapper it started with: a job that waits in a queue for days, and
its later attempts, run under one and the same script whatever is installed meanwhile.
"""

from __future__ import annotations

import re
from pathlib import Path

from autoexp_tui.adapters import wrapper
from autoexp_tui.adapters.atomic import link_new, make_directory

_VERSION = re.compile(rb'^WRAPPER_VERSION = "([^"\n]{1,40})"$', re.MULTILINE)


def install_wrapper(session_dir: Path) -> Path:
    """The session's wrapper, put there first if it has none.

    Raises:
        EnvironmentFailed: the disk refused.
    """
    place = session_dir / "scripts" / "wrapper.py"
    if not place.exists():
        make_directory(place.parent)
        link_new(place, Path(wrapper.__file__).read_bytes(), mode=0o700)
    return place


def version_of(copy: Path) -> str:
    """The version that a copy says it is; empty when it does not say.

    Raises:
        OSError: it cannot be read.
    """
    found = _VERSION.search(copy.read_bytes())
    return found[1].decode() if found else ""
