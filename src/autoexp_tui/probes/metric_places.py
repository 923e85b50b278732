"""Which files of metrics a job has, and how much of each is not of its present attempt.

A run may append to the file of an earlier one, also of an earlier session. So the
lengths are kept, beside the attempt's records, before it is sent; a file that is not
the same any more has no earlier part.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from autoexp_tui.engine.ports import FoundFile
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.probes.globbing import expand
from autoexp_tui.storage.atomic import write_atomic
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.telemetry.metric_files import is_pattern

MOST_FILES: Final = 32
"""Of one job."""
_NAME: Final = "files_before.json"

_Length: TypeAlias = tuple[int, int]
"""(inode, bytes)."""


def note_lengths(attempt_dir: Path, patterns: Sequence[str]) -> None:
    """Keep, once, how long the files are before an attempt is sent."""
    path = attempt_dir / _NAME
    if not patterns or path.exists():
        return
    lengths = dict(_list_lengths(_find_matching(patterns)))
    with suppress(EnvironmentFailed):
        write_atomic(path, json.dumps(lengths).encode(), durable=False)


def find_files(patterns: Sequence[str], first: str, present: str) -> list[FoundFile]:
    """The files that match, with their earlier parts; see `LogSource.find`."""
    paths = _find_matching(patterns)
    if not paths:
        return []
    now = dict(_list_lengths(paths))
    at_first, at_present = _read_lengths(first), _read_lengths(present)
    return [
        FoundFile(
            path=path,
            pattern=paths[path],
            foreign=_count_earlier(at_first, now, path),
            before=_count_earlier(at_present, now, path),
            is_new=path not in at_present,
        )
        for path in now
    ]


def _find_matching(patterns: Sequence[str]) -> dict[str, int]:
    """Path -> the first of the patterns that it matches, in their order."""
    found: dict[str, int] = {}
    for index, pattern in enumerate(patterns):
        if is_pattern(pattern):
            paths = sorted(expand(pattern).paths)
        else:
            paths = [pattern] if os.path.exists(pattern) else []
        for path in paths:
            found.setdefault(path, index)
    return dict(islice(found.items(), MOST_FILES))


def _list_lengths(paths: Iterable[str]) -> Iterator[tuple[str, _Length]]:
    for path in paths:
        with suppress(OSError):
            found = os.stat(path)
            yield path, (found.st_ino, found.st_size)


def _read_lengths(attempt_dir: str) -> Mapping[str, object]:
    try:
        found = json.loads(read_checked(Path(attempt_dir, _NAME), "own"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _count_earlier(
    noted: Mapping[str, object], now: Mapping[str, _Length], path: str
) -> int:
    match noted.get(path):
        case [int(inode), int(size)]:
            same = now[path][0] == inode and now[path][1] >= size
            return size if same else 0
    return 0
