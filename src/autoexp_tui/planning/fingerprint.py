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
import math
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from autoexp_tui.text.structural_cache import Fields, Patched, SharedTexts

_WATCHING: Final = (
    "monitoring",
    "ui",
    "tree",
    "research",
    "index",
    "family",
    "_refs",
    "sweep",
)
_PATHS: Final = {
    "project": ("base_output_dir", "share", "mask"),
}
_SLURM: Final = "slurm"
_RUNS_IN: Final = "launcher_cmd"
_MOST_ORIGINS: Final = 256


def hash_job(
    config: Mapping[str, object],
    command: Sequence[str],
    paths: Sequence[str],
    writer: CanonicalWriter | None = None,
) -> str:
    """Hex sha256 of a resolved config and its command.

    `paths`: directories of ours; wherever they stand in a text, they do not count.
    `writer`: what remembers the parts that the configs of a plan share.
    """
    writer = writer or CanonicalWriter()
    # The canonical JSON of both; the whole of one job is of no use to another.
    words = writer.text(list(command), paths)
    text = (
        f'{{"command":{words},"config":{writer.text(writer.counting(config), paths)}}}'
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _select_counting(config: Mapping[str, object]) -> dict[str, object]:
    """What of a config's sections counts."""
    kept = {key: value for key, value in config.items() if key not in _WATCHING}
    for section, names in _PATHS.items():
        inner = kept.get(section)
        if isinstance(inner, Mapping):
            kept[section] = {k: v for k, v in inner.items() if k not in names}
    slurm = kept.pop(_SLURM, None)
    if isinstance(slurm, Mapping) and (launcher := slurm.get(_RUNS_IN)):
        kept[_SLURM] = {_RUNS_IN: launcher}
    return kept


def format_canonical(value: object, paths: Sequence[str] = ()) -> str:
    """JSON with sorted keys and without the given paths."""
    return CanonicalWriter().text(value, paths)


class _Origin(NamedTuple):
    config: dict[str, object]
    """Held, so that its id stays its own."""
    counting: dict[str, object]


class _Ours(NamedTuple):
    """The paths that do not count."""

    mark: str
    """What each of them holds; most texts do not."""
    pattern: re.Pattern[str]
    """Finds them where they stand whole."""

    def taken_out(self, text: str) -> str:
        return self.pattern.sub("\0", text) if self.mark in text else text


class CanonicalWriter:
    """Writes canonical JSON; a dict that many configs share is written once.

    What it has written must not be changed afterwards.
    """

    def __init__(self) -> None:
        self._texts = SharedTexts()
        self._origins: OrderedDict[int, _Origin] = OrderedDict()

    def counting(self, config: Mapping[str, object]) -> dict[str, object]:
        """What of a config counts for a fingerprint; shared where the config is."""
        if not isinstance(config, Patched) or _SLURM in config.changed:
            return _select_counting(config)
        changed = {key: config[key] for key in config.changed}
        return Patched(self._select_shared(config.origin), _select_counting(changed))

    def _select_shared(self, origin: dict[str, object]) -> dict[str, object]:
        known = self._origins.get(id(origin))
        if known is None:
            known = self._origins[id(origin)] = _Origin(
                origin, _select_counting(origin)
            )
            if len(self._origins) > _MOST_ORIGINS:
                self._origins.popitem(last=False)
        return known.counting

    def text(self, value: object, paths: Sequence[str] = ()) -> str:
        """JSON with sorted keys and without the given paths."""
        return self._write(value, _compile_paths(tuple(paths)))

    def _write(self, value: object, ours: _Ours | None) -> str:
        if isinstance(value, str):
            return _quote(ours.taken_out(value) if ours else value)
        if isinstance(value, dict):
            return self._write_dict(value, ours)
        if isinstance(value, list | tuple):
            return f"[{','.join([self._write(item, ours) for item in value])}]"
        if type(value) not in _PLAIN and isinstance(value, Mapping):
            return self._write_dict(dict(value), ours)
        return _format_scalar(value)

    def _write_dict(self, value: dict[Any, object], ours: _Ours | None) -> str:
        def fields(some: Mapping[Any, object]) -> Fields:
            texts = sorted({str(key): item for key, item in some.items()}.items())
            return {key: f"{_quote(key)}:{self._write(it, ours)}" for key, it in texts}

        return self._texts.text(value, ours, fields, _join_fields)


def _join_fields(fields: Fields) -> str:
    return f"{{{','.join(fields.values())}}}"


def _format_scalar(value: object) -> str:
    """As the encoder spells it; the commonest kinds without its calls."""
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    return _encode(value)


_PLAIN: Final = frozenset({int, float, bool, type(None)})
_WORDS: Final = {None: "null", True: "true", False: "false"}
_quote = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(default=str).encode


@lru_cache(maxsize=64)
def _compile_paths(paths: tuple[str, ...]) -> _Ours | None:
    ours = sorted({path for path in paths if path}, key=len, reverse=True)
    if not ours:
        return None
    either = "|".join(map(re.escape, ours))
    mark = "/" if all("/" in path for path in ours) else ""
    return _Ours(mark, re.compile(rf"(?<![\w.\-/])(?:{either})(?![\w.\-])"))
