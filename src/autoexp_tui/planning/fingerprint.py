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
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

_WATCHING: Final = (
    *("monitoring", "ui", "tree", "research"),
    *("index", "family", "_refs", "sweep"),
)
_NOT_OF_PROJECT: Final = ("base_output_dir", "share", "mask")


def hash_job(
    config: Mapping[str, object], command: Sequence[str], paths: Sequence[str]
) -> str:
    """Hex sha256 of a resolved config and command; `paths` of ours do not count."""
    kept = {key: value for key, value in config.items() if key not in _WATCHING}
    project = kept.get("project")
    if isinstance(project, Mapping):
        kept["project"] = {k: v for k, v in project.items() if k not in _NOT_OF_PROJECT}
    slurm = kept.pop("slurm", None)
    if isinstance(slurm, Mapping) and (launcher := slurm.get("launcher_cmd")):
        kept["slurm"] = {"launcher_cmd": launcher}
    text = format_canonical({"command": list(command), "config": kept}, paths)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def format_canonical(value: object, paths: Sequence[str] = ()) -> str:
    """JSON with sorted keys and without the given paths."""
    return _encode(_replace_texts(value, _find_cleaner(tuple(paths))))


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def _replace_texts(value: object, clean: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {str(key): _replace_texts(item, clean) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_texts(item, clean) for item in value]
    return value


@lru_cache(maxsize=64)
def _find_cleaner(paths: tuple[str, ...]) -> Callable[[str], str]:
    ours = sorted({path for path in paths if path}, key=len, reverse=True)
    if not ours:
        return str
    either = "|".join(map(re.escape, ours))
    pattern = re.compile(rf"(?<![\w.\-/])(?:{either})(?![\w.\-])")
    mark = "/" if all("/" in path for path in ours) else ""  # most texts have none
    return lambda text: pattern.sub("\0", text) if mark in text else text
