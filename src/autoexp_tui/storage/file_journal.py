"""The journal that one engine writes: appending, and going on in a further part.

One line an event, one write and one sync a commit. A part that has grown long is
followed by a further one, whose first record seals it as a successor's would; from then
on it is compressed behind the engine's back.
"""

from __future__ import annotations

import errno
import gzip
import os
import secrets
import shutil
import stat
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from autoexp_tui.engine.ports import Pool
from autoexp_tui.events.events import JournalRotated
from autoexp_tui.model.errors import JournalDamaged, SessionOwned
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.masking import NO_RULES
from autoexp_tui.model.specs import Plan
from autoexp_tui.probes.pools import ThreadPool
from autoexp_tui.storage.atomic import (
    explained,
    explaining,
    open_with_mode,
    sync_data,
    sync_directory,
    write_all,
)
from autoexp_tui.storage.journal import TAIL, Loaded, fold_chain
from autoexp_tui.storage.journal_parts import (
    Notices,
    Part,
    Seal,
    find_chain,
    find_seal,
    seal_of,
)
from autoexp_tui.storage.record_codec import encode_record, has_secret
from autoexp_tui.storage.session_dir import SessionDir, packed
from autoexp_tui.storage.sharing import PRIVATE
from autoexp_tui.storage.trust import open_session_file

_PACK_BLOCK = 1 << 20
"""Bytes at a time: zlib lets other threads run while it works on a block."""
_PACK_LEVEL = 6


class Held(Protocol):
    """What an append asks of the lease it writes under."""

    epoch: int

    def held(self) -> bool:
        """Whether no successor has taken the session; may raise OSError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """When a part is long enough for the next one to follow."""

    bytes: int = 64 << 20
    records: int = 250_000


class FileJournal:
    """The parts that one engine writes. Implements `session_ports.Journal`.

    The first record must be the one that seals the predecessor: an EngineStarted with
    `seal`, or the SessionStarted of a new session. The file is made with it.
    """

    def __init__(
        self,
        session: SessionDir,
        lease: Held,
        *,
        rotation: Rotation = Rotation(),
        chain: Sequence[Part] | None = None,
        pool: Pool | None = None,
        log_fault: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Open the journal under a lease that is held already.

        `pool` is for what nobody waits for; its faults go to `log_fault`. `chain`: what
        counts of the journal, when that is not for the journal itself to tell.

        Raises:
            JournalDamaged: the chain of parts is broken.
            EnvironmentFailed: a part cannot be read.
        """
        self.session = session
        self._lease = lease
        self._longest = rotation
        self._pool = pool or ThreadPool("journal", 1)
        self._log_fault = log_fault
        self._notices = Notices()
        if chain is None:
            chain = find_chain(session, self._notices)
        self._chain = list(chain)
        self.seal = Seal()
        if self._chain:
            self.seal = find_seal(self._chain[-1])
            self._chain[-1] = replace(self._chain[-1], length=self.seal.bytes)
        self._note_torn()
        self._segment = 0
        self._file = -1
        self._good = 0
        self._written = 0
        """Records in the present part."""
        self._surplus = False
        self._seq: int | None = None
        self._closed = False
        self._lost = False
        self._mask = NO_RULES
        self._is_secret = False
        """Whether what the group may not read was written to a part."""

    @property
    def _path(self) -> Path:
        return self.session.journal_part(self._lease.epoch, self._segment)

    def load(self, *, tail: int = TAIL) -> Loaded:
        """Fold what the predecessors left, up to the seal and not a byte further.

        Raises:
            JournalDamaged: a record or a plan cannot be read.
            EnvironmentFailed: a file cannot be read.
        """
        loaded = fold_chain(self.session, self._chain, self._notices, tail)
        if loaded.state.plan is not None:
            self._mask = loaded.state.plan.mask
        if self._seq is None:
            self._seq = loaded.position.seq
        return loaded

    def append(self, records: Sequence[Recorded]) -> None:
        """Write the records and sync once; when it returns, they count.

        Raises:
            SessionOwned: a successor has taken the session; this journal is closed
                for good and nothing of this call counts.
            EnvironmentFailed: the disk refused; nothing of this call counts, and the
                same records may be tried again.
            ValueError: the records do not continue the journal: a bug.
        """
        if not records:
            return
        self._check_records(records)
        lines = [encode_record(record) for record in records]
        try:
            self._hide_secret(records, lines)
            self._write(b"".join(lines))
        except OSError as error:
            self._surplus = True
            with suppress(OSError):  # or else before the next append
                self._cut_back()
            raise explained(error, self._path, "write the journal") from error
        self._seq = records[-1].seq
        self._written += len(records)

    def rotation(self) -> JournalRotated | None:
        """What opens the next part, once this one is long enough."""
        longest = self._longest
        if self._good < longest.bytes and self._written < longest.records:
            return None
        return JournalRotated(sealed_part=self._path.name, sealed_bytes=self._good)

    def add_plan(self, plan: Plan) -> str:
        """Store a plan beside the journal, durable; returns its sha.

        Raises:
            EnvironmentFailed: the disk refused.
            ValidationFailed: the plan holds a value that JSON cannot.
        """
        self._mask = plan.mask
        return self.session.store_plan(plan)

    def close(self) -> None:
        """Release the file; appending ends. Closing twice is one closing."""
        self._closed = True
        self._pool.close()
        self._close_file()

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _hide_secret(self, records: Sequence[Recorded], lines: Sequence[bytes]) -> None:
        """Close the part to the group before it holds a secret."""
        if self._is_secret or self.session.modes is PRIVATE:
            return
        told = zip(records, lines, strict=True)
        self._is_secret = any(
            has_secret(record.event, line, self._mask) for record, line in told
        )
        if not self._is_secret:
            return
        if self._file >= 0:
            os.fchmod(self._file, PRIVATE.file)
        self._log_fault(
            f"{self._path}: closed to the group, for it tells of a command or a job "
            "with a secret that is planned anew"
        )

    def _write(self, data: bytes) -> None:
        if self._surplus:
            self._cut_back()
        if self._file < 0:
            self._create_part()
        write_all(self._file, data, self._good)
        sync_data(self._file)
        # After the sync, not before: an engine that was stopped in between must not
        # believe bytes that its successor's seal has left out.
        self._require_lease()
        self._require_file()
        if not self._good and self._segment:
            self._pack_former()
        self._good += len(data)

    def _create_part(self) -> None:
        mode = (PRIVATE if self._is_secret else self.session.modes).file
        file = open_with_mode(self._path, os.O_WRONLY, mode)
        try:
            if os.fstat(file).st_size:
                raise FileExistsError(errno.EEXIST, "it is written already")
            sync_directory(self.session.path)
        except OSError:
            os.close(file)
            raise
        self._file = file
        self._show_current()

    def _show_current(self) -> None:
        """Let `journal.jsonl` lead to the part that is written now."""
        link = self.session.journal
        temporary = link.with_name(f".{link.name}.{self._lease.epoch}")
        with suppress(OSError):  # for people alone: no reader follows it
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(self._path.name)
            temporary.replace(link)

    def _cut_back(self) -> None:
        """Remove what a failed append left, unless a successor may have sealed it."""
        if self._file >= 0:
            self._require_lease()
            os.ftruncate(self._file, self._good)
        self._surplus = False

    def _require_lease(self) -> None:
        if not self._lease.held():
            self._lost = True
            self.close()
            raise self._describe_deposal()

    def _require_file(self) -> None:
        """What is written to a file that was moved or removed counts for nobody."""
        lies, written = os.stat(self._path), os.fstat(self._file)
        if (lies.st_dev, lies.st_ino) != (written.st_dev, written.st_ino):
            raise FileNotFoundError(errno.ENOENT, "another file lies in its place")

    def _check_records(self, records: Sequence[Recorded]) -> None:
        if self._lost:
            raise self._describe_deposal()
        if self._closed:
            raise ValueError("the journal is closed")
        seq = self.load().position.seq if self._seq is None else self._seq
        if isinstance(records[0].event, JournalRotated) and self._good:
            self._begin_next_part(records[0].event)
        if self._good == 0:
            self._check_seal(records[0])
        for expected, record in enumerate(records, seq + 1):
            if record.seq != expected or record.epoch != self._lease.epoch:
                raise ValueError(
                    f"record {record.seq} of epoch {record.epoch} after {expected - 1}"
                )

    def _begin_next_part(self, rotated: JournalRotated) -> None:
        """Let the next part be the one that is written; what was, is sealed."""
        seal = Seal(part=self._path.name, bytes=self._good)
        if seal_of(rotated) != seal:
            raise ValueError(f"the part seals {rotated}, not {seal}")
        self._close_file()
        self.seal = seal
        self._segment += 1
        self._good = self._written = 0

    def _check_seal(self, first: Recorded) -> None:
        if seal_of(first.event) != self.seal:
            raise ValueError(f"the first record seals {first.event}, not {self.seal}")

    def _pack_former(self) -> None:
        former = self.session.journal_part(self._lease.epoch, self._segment - 1)
        length = self.seal.bytes
        self._pool.submit(
            former.name, lambda: pack(former, length), self._log_pack_fault
        )

    def _log_pack_fault(self, _nothing: object, error: BaseException | None) -> None:
        if error is not None:  # the part stays as it is, which is as good
            self._log_fault(f"packing the journal: {error}")

    def _note_torn(self) -> None:
        if not self._chain:
            return
        path = self._chain[-1].path
        torn = path.stat().st_size - self.seal.bytes
        if torn > 0:
            self._notices.add(path, f"dropped {torn} bytes of an unfinished commit")

    def _describe_deposal(self) -> SessionOwned:
        return SessionOwned(
            f"another engine has taken session {self.session.id}",
            hint=f"`autoexp-tui --session {self.session.id} --state-dir "
            f"{self.session.state_dir}` watches it.",
        )


# ------------------------------------------------------------------------- packing
def pack(part: Path, length: int) -> None:
    """Replace a finished part of `length` bytes by its compressed form.

    That is written beside it, synced, read back and compared; only then does it get
    its name, and only then does the part go. A kill in between leaves both, and the
    part counts. Only the engine that wrote a part may pack it.

    Raises:
        EnvironmentFailed: the disk refused; the part is as it was.
        JournalDamaged: it is not `length` bytes long, or did not come back from the
            disk as it was written; the part is as it was.
    """
    temporary = part.with_name(f".{part.name}.{secrets.token_hex(6)}.tmp")
    with explaining(part, "compress the journal"):
        try:
            _compress(part, temporary)
            _require_same(part, temporary, length)
            os.replace(temporary, packed(part))
        except BaseException:
            with suppress(OSError):  # a left-over dot-file harms nobody
                temporary.unlink(missing_ok=True)
            raise
        sync_directory(part.parent)
        part.unlink()


def _compress(part: Path, temporary: Path) -> None:
    mode = stat.S_IMODE(part.stat().st_mode) & 0o640
    descriptor = open_with_mode(temporary, os.O_WRONLY | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as raw, open_session_file(part) as source:
        # The name is left out and the time is fixed: equal parts, equal bytes.
        with gzip.GzipFile("", "wb", _PACK_LEVEL, raw, mtime=0) as target:
            shutil.copyfileobj(source, target, _PACK_BLOCK)
        raw.flush()
        os.fsync(raw.fileno())


def _require_same(part: Path, temporary: Path, length: int) -> None:
    """Refuse a part that is not `length` bytes, or not what unpacks again."""
    read = 0
    same = True
    try:
        with open_session_file(part) as source, gzip.open(temporary) as unpacked:
            while same and (block := source.read(_PACK_BLOCK)):
                read += len(block)
                same = unpacked.read(len(block)) == block
            same = same and not unpacked.read(1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        same = False
    if not same or read != length:
        raise JournalDamaged(
            f"{read} bytes were read to be compressed, {length} belong",
            str(part),
            "It stays as it is. `autoexp-sessions check` reads all of the journal.",
        )
