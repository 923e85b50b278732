"""Checkpoints of jobs on disk: found by a pattern, moved aside by a rename beside them.
One lies below the job's output directory, reached without links and itself none.
Nothing is ever deleted, nothing outside touched."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from autoexp_tui.effects.effects import LookForCheckpoint, MoveCheckpoint
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.outputs import (
    Checkpoint,
    CheckpointPlace,
    FoundCheckpoint,
    SeenCheckpoint,
)
from autoexp_tui.probes.globbing import expand
from autoexp_tui.storage.atomic import explain, explaining, sync_directory
from autoexp_tui.storage.atomic import write_atomic as write_file
from autoexp_tui.storage.trust import read_checked

ASIDE: Final = ".quarantined-"
"""Stands in the names of those that were moved, before a number."""
_STEP: Final = re.compile(r"(?:step|iter(?:ation)?)s?[-_=]?0*(\d{1,15})", re.IGNORECASE)
_NUMBER: Final = re.compile(r"0*(\d{1,15})")
_LONGEST_POINTER: Final = 4096
"""Bytes; what is longer is no pointer of ours."""


class CheckpointFiles:
    """Implements `engine.ports.Checkpoints`."""

    def find(self, look: LookForCheckpoint) -> FoundCheckpoint | None:
        """The checkpoint that is meant; see the port; raises EnvironmentFailed."""
        root = _require_root(look.output_dir)
        found = _find_matches(root, look.glob) if look.glob else []
        meant = None
        if look.path:
            wanted = os.path.normpath(os.path.join(root, look.path))
            _require_inside(root, wanted)
            if os.path.islink(wanted):
                raise EnvironmentFailed("it is a symbolic link", wanted)
            meant = next(iter(_filter_movable(root, [wanted])), None)
        newest = meant or max(found, key=_get_age, default=None)
        if newest is None or (look.path and meant is None):
            return None
        others = [one for one in found if one.path != newest.path]
        before = max(others, key=_get_age, default=None)
        names = (f"{newest.path}{ASIDE}{number}" for number in count(1))
        return FoundCheckpoint(
            newest=newest.known,
            target=next(name for name in names if not os.path.lexists(name)),
            before=before.known if before else None,
            others=len(others),
        )

    def move(self, move: MoveCheckpoint) -> None:
        """Rename it, then mend the pointer; done once; raises EnvironmentFailed."""
        root = _require_root(move.output_dir)
        source, target = move.checkpoint.path, move.target
        _require_inside(root, source)
        _require_inside(root, target)
        there, taken = os.path.lexists(source), os.path.lexists(target)
        if taken and there:
            raise EnvironmentFailed("there is something else already", target)
        if not (taken or there):
            raise EnvironmentFailed("it is gone", source)
        if there:  # else it was done before, and nobody heard of it
            with explaining(source, "move the checkpoint aside", "output"):
                os.rename(source, target)
                sync_directory(Path(target).parent)
        if not move.pointer:
            return
        pointer = os.path.normpath(os.path.join(root, move.pointer))
        _require_inside(root, pointer)
        with explaining(pointer, "mend the pointer to the newest checkpoint", "output"):
            if os.path.islink(pointer):
                _update_link(pointer, move)
            elif os.path.isfile(pointer):
                _update_text(pointer, move)


def look_for_checkpoints(
    places: Sequence[CheckpointPlace], seconds: float = 5.0
) -> Mapping[str, SeenCheckpoint | str]:
    """Job -> its newest checkpoint, or why none is known; after `seconds` none is
    sought."""
    until = time.monotonic() + seconds
    late = f"not looked for: it takes more than {seconds:g} s"
    return {
        place.job: _find_newest(place) if time.monotonic() < until else late
        for place in places
    }


def _find_newest(place: CheckpointPlace) -> SeenCheckpoint | str:
    none = "monitoring.checkpoints.glob finds none"
    if not os.path.isdir(place.output_dir):
        return none
    try:
        found = _find_matches(_require_root(place.output_dir), place.glob)
    except EnvironmentFailed as error:
        return error.line
    since = 0.0 if place.since is None else place.since
    own = [one for one in found if one.mtime_ns / 1e9 >= since]
    newest = max(own, key=_get_age, default=None)
    if newest is None:
        return none
    age = max(0.0, time.time() - newest.mtime_ns / 1e9)
    return SeenCheckpoint(step=newest.step, age=age)


@dataclass(frozen=True, slots=True)
class _Seen:
    path: str
    step: int | None
    mtime_ns: int

    @property
    def known(self) -> Checkpoint:
        return Checkpoint(path=self.path, step=self.step)


def _get_age(seen: _Seen) -> tuple[int, int]:
    """The newest is the largest: by its step, then by its time."""
    return (-1 if seen.step is None else seen.step, seen.mtime_ns)


def _require_root(output_dir: str) -> str:
    if not os.path.isdir(output_dir):
        raise EnvironmentFailed("the job has no output directory", output_dir)
    return os.path.normpath(output_dir)


def _find_matches(root: str, pattern: str) -> list[_Seen]:
    # The directory's own name may hold what looks like a wildcard.
    whole = pattern if os.path.isabs(pattern) else f"{glob.escape(root)}/{pattern}"
    expansion = expand(whole)
    if expansion.problem is not None:
        raise explain(expansion.problem, whole, "look for checkpoints", "output")
    names = (path for path in expansion.paths if ASIDE not in os.path.basename(path))
    return list(_filter_movable(root, names))


def _filter_movable(root: str, paths: Iterable[str]) -> Iterable[_Seen]:
    """Those that may be moved; links, and what lies elsewhere, are passed over."""
    for path in map(os.path.normpath, paths):
        with suppress(FileNotFoundError):
            state = os.lstat(path)
            if not os.path.islink(path) and _is_inside(root, path):
                yield _Seen(path, parse_step(os.path.basename(path)), state.st_mtime_ns)


def parse_step(name: str) -> int | None:
    """The step in a checkpoint's name: after `step` or `iter`, else the last number."""
    found = _STEP.findall(name) or _NUMBER.findall(name)
    return int(found[-1]) if found else None


def _is_inside(root: str, path: str) -> bool:
    """Whether a path lies below `root`, links on the way to it resolved."""
    parent, home = os.path.realpath(os.path.dirname(path)), os.path.realpath(root)
    return os.path.commonpath([parent, home]) == home


def _require_inside(root: str, path: str) -> None:
    if not _is_inside(root, path):
        problem = f"it does not lie in the job's output directory {root}"
        raise EnvironmentFailed(problem, path)


def _update_link(pointer: str, move: MoveCheckpoint) -> None:
    named = os.path.join(os.path.dirname(pointer), os.readlink(pointer))
    if os.path.normpath(named) != move.checkpoint.path:
        return
    if move.before is None:
        _set_aside(pointer, move)
        return
    place = os.path.dirname(pointer)
    temporary = os.path.join(place, f".{os.path.basename(pointer)}.tmp")
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    os.symlink(os.path.relpath(move.before.path, place), temporary)
    os.replace(temporary, pointer)
    sync_directory(Path(place))


def _update_text(pointer: str, move: MoveCheckpoint) -> None:
    path = Path(pointer)
    if path.stat().st_size > _LONGEST_POINTER:
        return
    data = read_checked(path, "anybody", _LONGEST_POINTER)
    text = data.decode("utf-8", "replace")
    named = text.strip()
    width = len(named) if named.startswith("0") else 0
    moved = _list_names(move.checkpoint, width)
    if named not in moved:
        return
    now = _list_names(move.before, width) if move.before else ()
    place = moved.index(named)
    if place >= len(now):
        _set_aside(pointer, move)
        return
    mode = path.stat().st_mode & 0o777
    mended = text.replace(named, now[place])
    write_file(path, mended.encode(), mode, place="output")


def _list_names(checkpoint: Checkpoint, width: int) -> Sequence[str]:
    """How a pointer may name it; `width`: digits of a step with zeros in front."""
    name = os.path.basename(checkpoint.path)
    step = [] if checkpoint.step is None else [str(checkpoint.step).zfill(width)]
    return (checkpoint.path, name, *step)


def _set_aside(pointer: str, move: MoveCheckpoint) -> None:
    """No checkpoint is left that it could name."""
    number = move.target.rpartition(ASIDE)[2]
    os.rename(pointer, f"{pointer}{ASIDE}{number}")
    sync_directory(Path(pointer).parent)
