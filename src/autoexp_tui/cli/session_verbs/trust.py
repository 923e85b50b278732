"""autoexp-sessions trust DIR: write into a directory of an odd owner or mode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.model.errors import UsageError
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.trust import (
    accepted,
    accepted_file,
    encode_accepted,
    identify,
    user_name,
)
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoexp_tui.cli.options import Options


def trust(words: Sequence[str], options: Options) -> int:
    """Record that the user wants to write into a directory as it is now.

    Another owner, or another directory of that name, is asked about again. Sessions and
    manifests of other users stay refused, wherever they lie.

    Raises:
        UsageError: no directory was named, or it is none.
        EnvironmentFailed: the record cannot be read or written.
    """
    if not words:
        raise UsageError("trust: which directory?", hint="autoexp-sessions trust DIR")
    try:
        entry = identify(words[0])
    except OSError as error:
        raise UsageError(f"trust: {error.strerror}", words[0]) from error
    place = accepted_file()
    with explaining(place, "read what you trust"):
        known = accepted()
    make_directory(place.parent)
    others = tuple(one for one in known if one.path != entry.path)
    write_atomic(place, encode_accepted((*others, entry)))
    if options.json:
        print(json.dumps({"path": entry.path, "owner": entry.owner}))
    else:
        owner = clean(user_name(entry.owner))
        print(f"{clean(entry.path)} of {owner} is written to from now on")
    return ExitCode.OK
