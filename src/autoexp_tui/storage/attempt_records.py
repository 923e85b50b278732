"""Reads what the wrapper left in an attempt's directory. Records appear whole, by
rename, so one that cannot be read is damaged, not unfinished: it counts as not there.
What they *mean* is the executors' and the engine's to decide."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from autoexp_tui.engine.executor_port import BeginRecord, ExitRecord
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.trust import Untrusted, read_checked

R = TypeVar("R")
Fields: TypeAlias = Mapping[str, Any]

_MOST_BYTES = 64 * 1024
_SETTLE_SECONDS = 2.0
"""An age of a directory that stood so long is believed: two changes within one tick of
a file system's clock leave the same."""
_RUN = re.compile(r"(begin|exit)\.(\d{1,9})\.json")
_UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)
_DUPLICATE = re.compile(r"duplicate\.(.+)\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who may run the attempt."""

    token: str
    executor_id: str
    nonce: str
    """Of the start; two starts of one submission differ in it."""
    claimed_at: float
    process: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """The attempt never began and never will."""

    why: str
    """`cancelled` or `failed`."""
    message: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The newest begun run."""

    began: BeginRecord
    process: Identity
    command_pid: int = 0
    """Also its process group and session."""
    command_started: str = ""
    """As in `Identity`; empty: of an older wrapper, which did not say."""
    nonce: str = ""
    """Its exit record bears it too; empty: of an older wrapper, whose do not."""
    exit_copy: str = ""
    """Where the wrapper leaves the exit record when it cannot write it."""
    restored: tuple[str, ...] = ()
    """Records that somebody removed, changed or forged, and the wrapper put right."""
    exited: ExitRecord | None = None
    ending: str = ""
    """Why the wrapper ended the command (`time limit`, a signal); empty: it did not."""
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecords:
    """All that lies in an attempt's directory."""

    claim: Claim | None = None
    run: Run | None = None
    void: Void | None = None
    cancel_ordered: bool = False
    task_files: tuple[str, ...] = ()
    """Starts that were made or meant; the claim tells which one counts."""
    duplicates: tuple[str, ...] = ()
    """Starts that came second: by nonce, or by executor id where the claim has it."""
    damaged: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    """Exit records whose begin record is gone."""

    @property
    def supervisor(self) -> Identity | None:
        """The process that answers for the attempt now."""
        if self.run is not None:
            return self.run.process
        return self.claim.process if self.claim else None

    @property
    def has_copy(self) -> bool:
        """Whether the newest run has ended and could not say so here."""
        run = self.run
        return run is not None and run.exited is None and os.path.exists(run.exit_copy)

    @property
    def tampering(self) -> str:
        """What somebody did to the records, as a clause; empty: nothing is known."""
        if self.run is not None and self.run.restored:
            names = ", ".join(self.run.restored)
            return f"{names} was removed, changed or forged while it ran"
        if self.forged:
            return f"{', '.join(self.forged)} was not written by its supervisor"
        if self.orphaned:
            return f"{', '.join(self.orphaned)} is there, and its begin record is not"
        if self.damaged:
            return f"{', '.join(self.damaged)} cannot be read"
        return ""

    @property
    def exited(self) -> ExitRecord | None:
        return self.run.exited if self.run else None


def read_attempt(attempt_dir: str, *, copies: bool = False) -> AttemptRecords:
    """Every record of an attempt, by one listing; `copies`: and, in place of an exit
    record that is not there, what the wrapper left elsewhere; raises OSError."""
    try:
        names = os.listdir(attempt_dir)
    except (FileNotFoundError, NotADirectoryError):
        return AttemptRecords()
    return _Reading(attempt_dir, frozenset(names), copies).read_all()


@dataclass(slots=True)
class _Reading:
    directory: str
    names: frozenset[str]
    copies: bool
    damaged: list[str] = field(default_factory=list)
    forged: list[str] = field(default_factory=list)

    def read_all(self) -> AttemptRecords:
        begun, ended = self._list_runs("begin"), self._list_runs("exit")
        duplicates = filter(None, map(_DUPLICATE.fullmatch, self.names))
        return AttemptRecords(
            claim=self._read_one("claim", _parse_claim),
            run=self._read_newest(begun),
            void=self._read_one("void.json", _parse_void),
            cancel_ordered="cancel" in self.names,
            task_files=tuple(sorted(n for n in self.names if n.startswith("task."))),
            duplicates=tuple(sorted(match[1] for match in duplicates)),
            damaged=tuple(self.damaged),
            forged=tuple(self.forged),
            orphaned=tuple(f"exit.{n}.json" for n in ended if n not in begun),
        )

    def _list_runs(self, kind: str) -> list[int]:
        found = map(_RUN.fullmatch, self.names)
        return sorted(int(match[2]) for match in found if match and match[1] == kind)

    def _read_newest(self, runs: Sequence[int]) -> Run | None:
        for number in reversed(runs):
            begun = self._read_one(f"begin.{number}.json", _parse_begin)
            if begun is None:
                continue
            found, name = None, f"exit.{number}.json"
            try:
                found = self._read_one(name, partial(_parse_end, begun))
            except _ForgedRecordError:
                self.forged.append(name)
            if found is None and self.copies and begun.nonce and begun.exit_copy:
                with suppress(_ForgedRecordError, OSError, *_UNREADABLE):
                    found = _parse_end(begun, _read_json(begun.exit_copy))
            return found or begun
        return None

    def _read_one(self, name: str, parse: Callable[[Fields], R]) -> R | None:
        if name not in self.names:
            return None
        try:
            return parse(_read_json(os.path.join(self.directory, name)))
        except FileNotFoundError:  # removed since the listing
            return None
        except (*_UNREADABLE, Untrusted):
            self.damaged.append(name)
            return None


class RecordCache:
    """Attempts' records, read again only when their directory has changed."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}
        self.readings = 0
        """Directories that were read; the rest cost one stat each."""

    def read(self, attempt_dir: str, *, fresh: bool = False) -> AttemptRecords:
        """The records now; `fresh` looks whatever the directory's age says, at copies
        too; raises OSError."""
        age = (0, 0)
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(attempt_dir)
            age = (found.st_mtime_ns, found.st_ino)
        known = self._known.get(attempt_dir)
        same = known if known and known.age == age else None
        if same and same.settled and not fresh:
            return same.records
        now = self._monotonic()
        first_seen = same.first_seen if same else now
        records = read_attempt(attempt_dir, copies=fresh)
        self.readings += 1
        settled = now - first_seen >= _SETTLE_SECONDS
        self._known[attempt_dir] = _Known(age, first_seen, settled, records)
        return records

    def forget(self, attempt_dir: str) -> None:
        """Drop what is known of an attempt that has ended."""
        self._known.pop(attempt_dir, None)


class _Known(NamedTuple):
    age: tuple[int, int]
    first_seen: float
    settled: bool
    records: AttemptRecords


def _read_json(path: str) -> Fields:
    fields = json.loads(read_checked(path, "session", _MOST_BYTES))
    if not isinstance(fields, dict):
        raise TypeError("not an object")
    return fields


def _parse_claim(fields: Fields) -> Claim:
    kept = _take(fields, token=str, executor_id=str, nonce=str, claimed_at=float)
    return Claim(**kept, process=Identity.from_json(fields["process"]))


def _parse_void(fields: Fields) -> Void:
    return Void(**_take(fields, why=str, message=str, at=float))


def _parse_begin(fields: Fields) -> Run:
    process = Identity.from_json(fields["process"])
    began = BeginRecord(
        **_take(fields, run=int, began_at=float, executor_id=str, log_path=str),
        host=str(fields.get("node") or process.host),
        partition=str(fields.get("partition") or ""),
        pid=process.pid,
        log_start=_find_int(fields, "log_start") or 0,
    )
    return Run(
        began=began,
        process=process,
        command_pid=_find_int(fields, "command_pid") or 0,
        command_started=str(fields.get("command_started") or ""),
        nonce=str(fields.get("nonce") or ""),
        exit_copy=str(fields.get("exit_copy") or ""),
    )


class _ForgedRecordError(Exception):
    """An exit record does not bear the nonce of its run."""


def _parse_end(begun: Run, fields: Fields) -> Run:
    if begun.nonce and fields.get("nonce") != begun.nonce:
        raise _ForgedRecordError
    asked = fields.get("asked")
    exited = ExitRecord(
        **_take(fields, ended_at=float),
        run=begun.began.run,
        exit_code=_find_int(fields, "exit_code"),
        signal=_find_int(fields, "signal"),
        note=str(fields.get("note") or ""),
        # An earlier wrapper, or a guard, did not say.
        asked=asked if isinstance(asked, bool) else None,
        oom_kills=_find_int(fields, "oom_kills"),
    )
    if (exited.exit_code is None) == (exited.signal is None):
        raise ValueError("either an exit code or a signal")
    restored = fields.get("restored")
    return replace(
        begun,
        exited=exited,
        ending=str(fields.get("ending", "")),
        timed_out=fields.get("timed_out") is True,
        restored=tuple(map(str, restored)) if isinstance(restored, list) else (),
    )


def _take(fields: Fields, **kinds: type[str | int | float]) -> dict[str, Any]:
    """Fields that must be there, each of its type; an integer may stand for a float;
    raises KeyError, TypeError or ValueError."""
    for name, kind in kinds.items():
        value: Any = fields[name]
        fits = isinstance(value, int | float if kind is float else kind)
        if not fits or isinstance(value, bool):
            raise TypeError(name)
        if kind is float and not abs(value) < 1e15:  # also keeps out nan
            raise ValueError(name)
    return {name: kind(fields[name]) for name, kind in kinds.items()}


def _find_int(fields: Fields, name: str) -> int | None:
    found: int | None = fields.get(name)
    return None if found is None else _take(fields, **{name: int})[name]
