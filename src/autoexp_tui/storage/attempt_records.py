"""Reads what the wrapper left in an attempt's directory.

Records appear whole, by rename, so one that cannot be read is damaged, not unfinished;
it is named in `damaged` and counts as not there; so is an exit record that lacks the
nonce of its begin record, in `forged`. An exit record that could not be written is read
where the wrapper left it instead. What the records *mean* together with what the queue
says is the executors' and the engine's to decide.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from autoexp_tui.engine.executor_port import BeginRecord, ExitRecord
from autoexp_tui.executors.wrapper import EXIT_LINE
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.trust import Untrusted, looked_at, read_session_file

R = TypeVar("R")

_MOST_BYTES = 64 * 1024
"""More than any record of ours has."""
_SETTLE_SECONDS = 2.0
"""How long a directory's age must stand before a look at it is believed for good:
two changes within one tick of the file system's clock leave the same age."""
_RUN = re.compile(r"(begin|exit)\.(\d{1,9})\.json")
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
    """Its supervisor."""
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
    """Why the wrapper ended the command (`time limit`, `cancel file`, a signal);
    empty when it ended by itself."""
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
    """Exit records that the wrapper did not write."""
    orphaned: tuple[str, ...] = ()
    """Exit records whose begin record is gone."""

    @property
    def supervisor(self) -> Identity | None:
        """The process that answers for the attempt now."""
        if self.run is not None:
            return self.run.process
        return self.claim.process if self.claim else None

    @property
    def left_a_copy(self) -> bool:
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
        """The newest run's end."""
        return self.run.exited if self.run else None


def read_attempt(attempt_dir: str, *, copies: bool = False) -> AttemptRecords:
    """Every record of an attempt, by one listing.

    Args:
        attempt_dir: where they are.
        copies: whether to look for copies of an exit record that is not there.

    Raises:
        OSError: the directory is there, or may be, and could not be looked at.
    """
    try:
        names = os.listdir(attempt_dir)
    except (FileNotFoundError, NotADirectoryError):
        return AttemptRecords()
    return _Reading(attempt_dir, names, copies=copies).records()


class _Reading:
    """One reading of one directory."""

    def __init__(self, directory: str, names: Iterable[str], *, copies: bool) -> None:
        self.directory = directory
        self.names = frozenset(names)
        self.copies = copies
        self.damaged: list[str] = []
        self.forged: list[str] = []

    def records(self) -> AttemptRecords:
        begun = set(self._runs("begin"))
        return AttemptRecords(
            claim=self._one("claim", _claim),
            run=self._newest_run(),
            void=self._one("void.json", _void),
            cancel_ordered="cancel" in self.names,
            task_files=tuple(sorted(n for n in self.names if n.startswith("task."))),
            duplicates=tuple(sorted(self._matches(_DUPLICATE))),
            damaged=tuple(self.damaged),
            forged=tuple(self.forged),
            orphaned=tuple(
                f"exit.{run}.json" for run in self._runs("exit") if run not in begun
            ),
        )

    def _matches(self, pattern: re.Pattern[str]) -> Iterable[str]:
        found = (pattern.fullmatch(name) for name in self.names)
        return (match[1] for match in found if match)

    def _runs(self, kind: str) -> list[int]:
        found = (_RUN.fullmatch(name) for name in self.names)
        return sorted(int(m[2]) for m in found if m and m[1] == kind)

    def _newest_run(self) -> Run | None:
        for number in reversed(self._runs("begin")):
            begun = self._one(f"begin.{number}.json", _begun)
            if begun is not None:
                return self._with_end(begun, number)
        return None

    def _with_end(self, begun: Run, number: int) -> Run:
        name = f"exit.{number}.json"
        try:
            found = self._one(name, lambda fields: _ended(begun, fields))
        except _ForgedRecordError:
            self.forged.append(name)
            found = None
        if found is None and self.copies:
            found = _copied_end(begun)
        return found or begun

    def _one(self, name: str, parse: Callable[[Mapping[str, object]], R]) -> R | None:
        if name not in self.names:
            return None
        try:
            return parse(_read_json(os.path.join(self.directory, name)))
        except FileNotFoundError:  # removed since the listing
            return None
        except (ValueError, KeyError, TypeError, RecursionError, Untrusted):
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
        """The records now; `fresh` looks whatever the directory's age says.

        A fresh look also takes copies of an exit record that is not there: they come
        while the directory cannot be written.

        Raises:
            OSError: the directory is there, or may be, and could not be looked at.
        """
        age = _age(attempt_dir)
        known = self._known.get(attempt_dir)
        if known and known.age == age and known.settled and not fresh:
            return known.records
        now = self._monotonic()
        first_seen = known.first_seen if known and known.age == age else now
        records = read_attempt(attempt_dir, copies=fresh)
        self.readings += 1
        settled = now - first_seen >= _SETTLE_SECONDS
        self._known[attempt_dir] = _Known(age, first_seen, settled, records)
        return records

    def forget(self, attempt_dir: str) -> None:
        """Drop what is known of an attempt that has ended."""
        self._known.pop(attempt_dir, None)


@dataclass(frozen=True, slots=True)
class _Known:
    age: tuple[int, int]
    first_seen: float
    settled: bool
    records: AttemptRecords


def _age(directory: str) -> tuple[int, int]:
    try:
        found = os.stat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return (0, 0)
    return (found.st_mtime_ns, found.st_ino)


# ------------------------------------------------------------------------ parsing
def _read_json(path: str) -> Mapping[str, object]:
    fields = json.loads(read_session_file(path, _MOST_BYTES))
    if not isinstance(fields, dict):
        raise TypeError("not an object")
    return fields


def _claim(fields: Mapping[str, object]) -> Claim:
    return Claim(
        token=_text(fields, "token"),
        executor_id=_text(fields, "executor_id"),
        nonce=_text(fields, "nonce"),
        claimed_at=_real(fields, "claimed_at"),
        process=_process(fields),
    )


def _void(fields: Mapping[str, object]) -> Void:
    return Void(
        why=_text(fields, "why"),
        message=_text(fields, "message"),
        at=_real(fields, "at"),
    )


def _process(fields: Mapping[str, object]) -> Identity:
    tree = fields["process"]
    if not isinstance(tree, dict):
        raise TypeError("process")
    return Identity.from_json(tree)


def _begun(fields: Mapping[str, object]) -> Run:
    process = _process(fields)
    began = BeginRecord(
        run=_whole(fields, "run"),
        began_at=_real(fields, "began_at"),
        executor_id=_text(fields, "executor_id"),
        host=str(fields.get("node") or process.host),
        partition=str(fields.get("partition") or ""),
        pid=process.pid,
        log_path=_text(fields, "log_path"),
        log_start=_whole(fields, "log_start") if "log_start" in fields else 0,
    )
    command = _whole(fields, "command_pid") if "command_pid" in fields else 0
    return Run(
        began=began,
        process=process,
        command_pid=command,
        command_started=str(fields.get("command_started") or ""),
        nonce=str(fields.get("nonce") or ""),
        exit_copy=str(fields.get("exit_copy") or ""),
    )


class _ForgedRecordError(Exception):
    """An exit record does not bear the nonce of its run."""


def _copied_end(begun: Run) -> Run | None:
    """The end by what the wrapper left elsewhere: beside the output, or in the log."""
    sources = (_fields_of_copy, _fields_of_log)
    for fields in (read(begun) for read in sources if begun.nonce):
        with suppress(_ForgedRecordError, ValueError, KeyError, TypeError):
            if fields is not None:
                return _ended(begun, fields)
    return None


def _fields_of_copy(begun: Run) -> Mapping[str, object] | None:
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return _read_json(begun.exit_copy) if begun.exit_copy else None
    return None


def _fields_of_log(begun: Run) -> Mapping[str, object] | None:
    """The newest exit record among the last lines of the run's log."""
    with suppress(OSError, ValueError, RecursionError):
        for line in reversed(_last_bytes(begun.began.log_path).splitlines()):
            if line.startswith(EXIT_LINE.encode()):
                text = bytes.fromhex(line[len(EXIT_LINE) :].decode("ascii", "replace"))
                fields = json.loads(text)
                return fields if isinstance(fields, dict) else None
    return None


def _last_bytes(path: str) -> bytes:
    with looked_at(path) as (handle, found):
        if handle is None or found is None:
            return b""
        return os.pread(handle, _MOST_BYTES, max(0, found.st_size - _MOST_BYTES))


def _ended(begun: Run, fields: Mapping[str, object]) -> Run:
    if begun.nonce and fields.get("nonce") != begun.nonce:
        raise _ForgedRecordError
    exited = ExitRecord(
        run=begun.began.run,
        ended_at=_real(fields, "ended_at"),
        exit_code=_maybe_whole(fields, "exit_code"),
        signal=_maybe_whole(fields, "signal"),
        note=str(fields.get("note") or ""),
        asked=_maybe_yes(fields, "asked"),
        oom_kills=_maybe_whole(fields, "oom_kills"),
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


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _whole(fields: Mapping[str, object], name: str) -> int:
    value = fields[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(name)
    return value


def _maybe_whole(fields: Mapping[str, object], name: str) -> int | None:
    return None if fields.get(name) is None else _whole(fields, name)


def _maybe_yes(fields: Mapping[str, object], name: str) -> bool | None:
    """True or False; None where an earlier wrapper, or a guard, did not say."""
    value = fields.get(name)
    return value if isinstance(value, bool) else None


def _real(fields: Mapping[str, object], name: str) -> float:
    value = fields[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(name)
    if not abs(value) < 1e15:  # also keeps out nan
        raise ValueError(name)
    return float(value)
