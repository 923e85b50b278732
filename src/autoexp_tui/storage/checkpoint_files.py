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
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from autoexp_tui.effects.effects import LookForCheckpoint, MoveCheckpoint
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.outputs import (
    Checkpoint,
    CheckpointPlace,
    FoundCheckpoint,
    SeenCheckpoint,
)
from autoexp_tui.probes.globbing import Expansion
from autoexp_tui.storage.atomic import explain, explaining, sync_directory, write_atomic
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
        meant = found
        if look.path:
            wanted = os.path.normpath(os.path.join(root, look.path))
            _require_inside(root, wanted)
            if os.path.islink(wanted):
                raise EnvironmentFailed("it is a symbolic link", wanted)
            meant = _list_movable(root, [wanted])
        if not meant:
            return None
        newest = max(meant)
        others = [one for one in found if one.path != newest.path]
        names = (f"{newest.path}{ASIDE}{number}" for number in count(1))
        return FoundCheckpoint(
            newest=newest.known,
            target=next(name for name in names if not os.path.lexists(name)),
            before=max(others).known if others else None,
            others=len(others),
        )

    def move(self, move: MoveCheckpoint) -> None:
        root = _require_root(move.output_dir)
        source, target = move.checkpoint.path, move.target
        pointer = os.path.normpath(os.path.join(root, move.pointer or target))
        for path in (source, target, pointer):
            _require_inside(root, path)
        there, taken = os.path.lexists(source), os.path.lexists(target)
        if taken and there:
            raise EnvironmentFailed("there is something else already", target)
        if not (taken or there):
            raise EnvironmentFailed("it is gone", source)
        if there:  # else it was done before, and nobody heard of it
            with explaining(source, "move the checkpoint aside", "output"):
                os.rename(source, target)
                sync_directory(Path(target).parent)
        if move.pointer and os.path.lexists(pointer):
            doing = "mend the pointer to the newest checkpoint"
            with explaining(pointer, doing, "output"):
                _mend_pointer(pointer, move)


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
    root = place.output_dir
    try:
        found = _find_matches(root, place.glob) if os.path.isdir(root) else []
    except EnvironmentFailed as error:
        return error.line
    own = [one for one in found if one.mtime_ns / 1e9 >= (place.since or 0.0)]
    if not own:
        return "monitoring.checkpoints.glob finds none"
    newest = max(own)
    age = max(0.0, time.time() - newest.mtime_ns / 1e9)
    return SeenCheckpoint(step=newest.known.step, age=age)


class _Seen(NamedTuple):
    """The newest is the largest: by its step, then by its time."""

    step: int
    """-1: its name has none."""
    mtime_ns: int
    path: str

    @property
    def known(self) -> Checkpoint:
        return Checkpoint(path=self.path, step=None if self.step < 0 else self.step)


def _require_root(output_dir: str) -> str:
    if not os.path.isdir(output_dir):
        raise EnvironmentFailed("the job has no output directory", output_dir)
    return os.path.normpath(output_dir)


def _find_matches(root: str, pattern: str) -> list[_Seen]:
    # The directory's own name may hold what looks like a wildcard.
    whole = pattern if os.path.isabs(pattern) else f"{glob.escape(root)}/{pattern}"
    expansion = Expansion(whole)
    if expansion.problem is not None:
        raise explain(expansion.problem, whole, "look for checkpoints", "output")
    names = (path for path in expansion.paths if ASIDE not in os.path.basename(path))
    return _list_movable(root, names)


def _list_movable(root: str, paths: Iterable[str]) -> list[_Seen]:
    """Those that may be moved; links, and what lies elsewhere, are passed over."""
    found: list[_Seen] = []
    for path in map(os.path.normpath, paths):
        with suppress(FileNotFoundError):
            age = os.lstat(path).st_mtime_ns
            if not os.path.islink(path) and _is_inside(root, path):
                step = parse_step(os.path.basename(path))
                found.append(_Seen(-1 if step is None else step, age, path))
    return found


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


def _mend_pointer(pointer: str, move: MoveCheckpoint) -> None:
    """Let a link or a text that names what was moved name the one before; aside with
    it where there is none."""
    place, is_link = os.path.dirname(pointer), os.path.islink(pointer)
    if is_link:
        text = os.readlink(pointer)
    elif not os.path.isfile(pointer) or os.path.getsize(pointer) > _LONGEST_POINTER:
        return
    else:
        data = read_checked(pointer, "anybody", _LONGEST_POINTER)
        text = data.decode("utf-8", "replace")
    named = text.strip()
    width = len(named) if named.startswith("0") else 0
    moved = _list_names(move.checkpoint, place, width)
    if named not in moved:
        return
    before = _list_names(move.before, place, width) if move.before else ()
    now = dict(zip(moved, before, strict=False)).get(named)
    if now is None:
        os.rename(pointer, f"{pointer}{ASIDE}{move.target.rpartition(ASIDE)[2]}")
    elif is_link:
        temporary = os.path.join(place, f".{os.path.basename(pointer)}.tmp")
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(now, temporary)
        os.replace(temporary, pointer)
    else:
        mode = os.stat(pointer).st_mode & 0o777
        write_atomic(Path(pointer), text.replace(named, now).encode(), mode)
    sync_directory(Path(place))


def _list_names(checkpoint: Checkpoint, place: str, width: int) -> Sequence[str]:
    """How a pointer in `place` may name it; `width`: digits of a step with zeros in
    front."""
    path = checkpoint.path
    step = [] if checkpoint.step is None else [str(checkpoint.step).zfill(width)]
    return (path, os.path.relpath(path, place), os.path.basename(path), *step)
