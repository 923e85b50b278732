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
from functools import lru_cache
from typing import Any, Final

from autoexp_tui.core.shared_texts import SharedTexts

_WATCHING: Final = ("monitoring", "ui", "index", "family", "_refs", "sweep")
_PATHS: Final = {
    "project": ("base_output_dir",),
}
_RUNS_IN: Final = "launcher_cmd"


def fingerprint(
    config: Mapping[str, object],
    command: Sequence[str],
    paths: Sequence[str],
    writer: CanonicalWriter | None = None,
) -> str:
    """Hex sha256 of a resolved config and its command.

    `paths`: directories of ours; wherever they stand in a text, they do not count.
    `writer`: what remembers the parts that the configs of a plan share.
    """
    kept = {key: value for key, value in config.items() if key not in _WATCHING}
    for section, names in _PATHS.items():
        inner = kept.get(section)
        if isinstance(inner, Mapping):
            kept[section] = {k: v for k, v in inner.items() if k not in names}
    slurm = kept.pop("slurm", None)
    if isinstance(slurm, Mapping) and (launcher := slurm.get(_RUNS_IN)):
        kept["slurm"] = {_RUNS_IN: launcher}
    whole = {"config": kept, "command": list(command)}
    text = (writer or CanonicalWriter()).text(whole, paths)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: object, paths: Sequence[str] = ()) -> str:
    """JSON with sorted keys and without the given paths."""
    return CanonicalWriter().text(value, paths)


class CanonicalWriter:
    """Writes canonical JSON; a dict that many configs share is written once.

    What it has written must not be changed afterwards.
    """

    def __init__(self) -> None:
        self._texts = SharedTexts()

    def text(self, value: object, paths: Sequence[str] = ()) -> str:
        """JSON with sorted keys and without the given paths."""
        return self._text(value, _pattern(tuple(paths)))

    def _text(self, value: object, ours: re.Pattern[str] | None) -> str:
        if isinstance(value, str):
            return _quoted(ours.sub("\0", value) if ours else value)
        if isinstance(value, dict):
            return self._of_dict(value, ours)
        if isinstance(value, list | tuple):
            return f"[{','.join([self._text(item, ours) for item in value])}]"
        if isinstance(value, Mapping):
            return self._of_dict(dict(value), ours)
        return _encoded(value)

    def _of_dict(self, value: dict[Any, object], ours: re.Pattern[str] | None) -> str:
        known = self._texts.of(value, ours)
        if known is not None:
            return known
        fields = sorted({str(key): item for key, item in value.items()}.items())
        texts = [f"{_quoted(key)}:{self._text(item, ours)}" for key, item in fields]
        return self._texts.keep(value, ours, f"{{{','.join(texts)}}}")


_quoted = json.encoder.encode_basestring_ascii
_encoded = json.JSONEncoder(default=str).encode


@lru_cache(maxsize=64)
def _pattern(paths: tuple[str, ...]) -> re.Pattern[str] | None:
    """What finds the paths where they stand whole."""
    ours = sorted({path for path in paths if path}, key=len, reverse=True)
    either = "|".join(map(re.escape, ours))
    return re.compile(rf"(?<![\w.\-/])(?:{either})(?![\w.\-])") if ours else None
