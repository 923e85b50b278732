"""What tells whether a job would do the same work as one that is done.

The fingerprint covers the resolved config (the backend's variables and directory with
it) and the command, without the paths that are ours and without what only concerns
watching or where it runs: moving the outputs, polling more often, another partition, a
longer time limit or adding a job before this one leaves it as it is. Of `slurm` the
launcher counts, which may be a container.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

_WATCHING: Final = ("monitoring", "ui", "index", "family", "_refs", "sweep")
_PATHS: Final = {
    "project": ("base_output_dir",),
}
_RUNS_IN: Final = "launcher_cmd"


def fingerprint(
    config: Mapping[str, object], command: Sequence[str], paths: Sequence[str]
) -> str:
    """Hex sha256 of a resolved config and its command.

    `paths`: directories of ours; wherever they stand in a text, they do not count.
    """
    kept = {key: value for key, value in config.items() if key not in _WATCHING}
    for section, names in _PATHS.items():
        inner = kept.get(section)
        if isinstance(inner, Mapping):
            kept[section] = {k: v for k, v in inner.items() if k not in names}
    slurm = kept.pop("slurm", None)
    if isinstance(slurm, Mapping) and (launcher := slurm.get(_RUNS_IN)):
        kept["slurm"] = {_RUNS_IN: launcher}
    text = canonical({"config": kept, "command": list(command)}, paths)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: object, paths: Sequence[str] = ()) -> str:
    """JSON with sorted keys and without the given paths."""
    ours = sorted({path for path in paths if path}, key=len, reverse=True)
    either = "|".join(map(re.escape, ours))
    pattern = re.compile(rf"(?<![\w.\-/])(?:{either})(?![\w.\-])") if ours else None
    plain = _plain(value, pattern)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), default=str)


def _plain(value: object, ours: re.Pattern[str] | None) -> object:
    if isinstance(value, str):
        return ours.sub("\0", value) if ours else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, ours) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, ours) for item in value]
    return value
