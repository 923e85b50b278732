"""People as this machine knows them."""

from __future__ import annotations

import pwd
from functools import cache


@cache
def person(uid: int) -> str:
    """`ann (uid 1000)`; the number alone for one that the machine does not know."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
