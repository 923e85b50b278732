"""A session's own copy of the wrapper.

A session keeps the wrapper it started with: a job that waits in a queue for days, and
its later attempts, run under one and the same script whatever is installed meanwhile.
"""

from __future__ import annotations

import py_compile
import re
import sys
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


def compiled(script: Path) -> Path:
    """What this interpreter runs `script` from: its compiled form beside it.

    A script that is started by its name is compiled each time, which takes a third of
    a start. Where it cannot be compiled the script itself is the answer.
    """
    place = script.with_suffix(f".{sys.implementation.cache_tag}.pyc")
    try:
        if not place.exists() or place.stat().st_mtime < script.stat().st_mtime:
            py_compile.compile(str(script), str(place), doraise=True)
            place.chmod(0o600)
    except (OSError, py_compile.PyCompileError):
        return script
    return place
