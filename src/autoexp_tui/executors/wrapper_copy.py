"""A session's own copy of the wrapper.

Later attempts run under the one it started with, whatever is installed meanwhile.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from autoexp_tui.executors import wrapper
from autoexp_tui.storage.atomic import make_directory, write_atomic
from autoexp_tui.storage.trust import read_checked

_VERSION = re.compile(rb'^WRAPPER_VERSION = "([^"\n]{1,40})"$', re.MULTILINE)


def install_wrapper(session_dir: Path, recorded: str = "") -> Path:
    """The session's wrapper, put there if it has none or another than `recorded`."""
    place = get_wrapper(session_dir)
    if not place.exists() or find_wrapper_problem(session_dir, recorded):
        make_directory(place.parent)
        data = Path(wrapper.__file__).read_bytes()
        write_atomic(place, data, mode=0o700, durable=False)  # its digest is known
    return place


def get_wrapper(session_dir: Path) -> Path:
    return session_dir / "scripts" / "wrapper.py"


def find_wrapper_problem(session_dir: Path, recorded: str) -> str:
    """Why a session's wrapper, by its recorded digest, is not to be used; or empty."""
    place = get_wrapper(session_dir)
    try:
        digest = hash_wrapper(place)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    same = recorded in ("", digest)
    return "" if same else "somebody changed it since the session last used it"


def hash_wrapper(copy: Path) -> str:
    """The digest of a copy; raises OSError where others may have written it."""
    return hashlib.sha256(read_checked(copy, "own")).hexdigest()


def read_wrapper_version(copy: Path) -> str:
    """The version that a copy says it is, or empty; raises OSError."""
    found = _VERSION.search(copy.read_bytes())
    return found[1].decode() if found else ""
