"""Reads what the wrapper left in an attempt's directory. Records appear whole, by
rename, so one that cannot be read is damaged, not unfinished: it counts as not there.
What they *mean* is the executors' and the engine's to decide."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from autoexp_tui.engine.executor_port import BeginRecord, ExitRecord
from autoexp_tui.storage.json_codec import read_json, read_small
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.trust import Untrusted, read_checked

R = TypeVar("R")
Fields: TypeAlias = dict[str, Any]

_SETTLE_SECONDS = 2.0
"""An age of a directory that stood so long is believed: two changes within one tick of
a file system's clock leave the same."""
_RUN = re.compile(r"(begin|exit)\.(\d{1,9})\.json")


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
    restored: Sequence[str] = ()
    """Records that somebody removed, changed or forged, and the wrapper put right."""
    exited: ExitRecord | None = None
    ending: str = ""
    """Why the wrapper ended the command (`time limit`, a signal); empty: it did not."""
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecords:
    claim: Claim | None = None
    run: Run | None = None
    void: Void | None = None
    cancel_ordered: bool = False
    task_files: tuple[str, ...] = ()
    """Starts that were made or meant; the claim tells which one counts."""
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
        restored = self.run.restored if self.run else ()
        if names := ", ".join(restored or self.forged or self.orphaned):
            return f"{names} was removed, changed or forged while it ran"
        return f"{', '.join(self.damaged)} cannot be read" if self.damaged else ""

    @property
    def exited(self) -> ExitRecord | None:
        return self.run.exited if self.run else None

    @property
    def is_over(self) -> bool:
        return self.exited is not None or self.void is not None


def read_attempt(attempt_dir: str, *, copies: bool = False) -> AttemptRecords:
    """Every record of an attempt, by one listing; `copies`: and, in place of an exit
    record that is not there, what the wrapper left elsewhere; raises OSError."""
    try:
        names = frozenset(os.listdir(attempt_dir))
    except (FileNotFoundError, NotADirectoryError):
        return AttemptRecords()
    damaged: list[str] = []
    forged: list[str] = []

    def read(name: str, parse: Callable[[Fields], R]) -> R | None:
        with suppress(FileNotFoundError):  # removed since the listing
            try:
                path = os.path.join(attempt_dir, name)
                return parse(_read_fields(path)) if name in names else None
            except _ForgedRecordError:
                forged.append(name)
            except (ValueError, TypeError, Untrusted):
                damaged.append(name)
        return None

    found = [match for name in names if (match := _RUN.fullmatch(name))]
    begun, ended = (
        sorted(int(match[2]) for match in found if match[1] == kind)
        for kind in ("begin", "exit")
    )
    run = None
    for number in reversed(begun):
        if run := read(f"begin.{number}.json", _parse_begin):
            parse_end = partial(_parse_end, run)
            end = read(f"exit.{number}.json", parse_end)
            if end is None and copies and run.nonce and run.exit_copy:
                with suppress(_ForgedRecordError, OSError, ValueError, TypeError):
                    end = parse_end(_read_fields(run.exit_copy))
            run = end or run
            break
    return AttemptRecords(
        claim=read("claim", partial(read_small, Claim)),
        run=run,
        void=read("void.json", partial(read_small, Void)),
        cancel_ordered="cancel" in names,
        task_files=tuple(sorted(name for name in names if name.startswith("task."))),
        damaged=tuple(damaged),
        forged=tuple(forged),
        orphaned=tuple(f"exit.{n}.json" for n in ended if n not in begun),
    )


class RecordCache:
    """Attempts' records, read again only when their directory has changed: the rest
    cost one stat each."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}

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
        settled = now - first_seen >= _SETTLE_SECONDS
        self._known[attempt_dir] = _Known(age, first_seen, settled, records)
        return records

    def forget(self, attempt_dir: str) -> None:
        self._known.pop(attempt_dir, None)


class _Known(NamedTuple):
    age: tuple[int, int]
    first_seen: float
    settled: bool
    records: AttemptRecords


def _read_fields(path: str) -> Fields:
    """The fields of a record; raises ValueError, TypeError or OSError."""
    fields = read_json(read_checked(path, "session"))
    if not isinstance(fields, dict):
        raise TypeError("not an object")
    return fields


def _parse_begin(fields: Fields) -> Run:
    process = read_small(Identity, fields.get("process"))
    began = {"host": fields.get("node") or process.host, "pid": process.pid}
    return read_small(Run, fields | {"began": fields | began, "exited": None})


class _ForgedRecordError(Exception):
    """An exit record does not bear the nonce of its run."""


def _parse_end(begun: Run, fields: Fields) -> Run:
    if begun.nonce and fields.get("nonce") != begun.nonce:
        raise _ForgedRecordError
    exited = fields | {"run": begun.began.run}
    if (fields.get("exit_code") is None) == (fields.get("signal") is None):
        raise ValueError("either an exit code or a signal")
    return read_small(Run, asdict(begun) | fields | {"exited": exited})
