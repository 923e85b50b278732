"""The user's own key for digests of values that may be secrets.

Who has only the digest of a short password finds it by trying; without the key they
do not. It lies in `$XDG_STATE_HOME/autoexp-tui/digest-key`, 0600, made at its first
use, so that digests of one user can be compared. Where it cannot be kept, each process
has its own, and digests of two plans then differ.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from functools import cache
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.atomic import link_new, make_directory
from autoexp_tui.storage.session_registry import list_file
from autoexp_tui.storage.trust import opened

_BYTES = 32


def keyed_digest(text: str) -> str:
    """The digest of a text under the user's key, in hex."""
    data = text.encode("utf-8", "surrogatepass")
    return hmac.new(_key(), data, hashlib.sha256).hexdigest()[:32]


@cache
def _key() -> bytes:
    listed = list_file()
    made = secrets.token_bytes(_BYTES)
    if listed is None:
        return made
    place = listed.with_name("digest-key")
    try:
        found = _read(place)
        if len(found) != _BYTES:
            make_directory(place.parent)
            link_new(place, made)
            found = _read(place)
    except (OSError, EnvironmentFailed):
        return made
    return found if len(found) == _BYTES else made


def _read(place: Path) -> bytes:
    with opened(str(place)) as handle:
        return os.read(handle, _BYTES + 1) if handle is not None else b""
