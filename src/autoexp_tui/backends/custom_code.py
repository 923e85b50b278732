"""Where a user's own code is imported from: only what the config names.

Looking at a directory must run nothing of it. So the working directory is not searched
for modules, whatever PYTHONPATH says, until the config names a module; Hydra looks for
plugins among what is installed alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def search_working_directory() -> None:
    """The config names a module: the working directory is searched from now on."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


@contextmanager
def working_directory_left_out() -> Iterator[None]:
    """Import nothing from the working directory meanwhile."""
    before = list(sys.path)
    here = os.path.realpath(os.getcwd())
    sys.path[:] = [place for place in before if os.path.realpath(place) != here]
    try:
        yield
    finally:
        sys.path[:] = before
