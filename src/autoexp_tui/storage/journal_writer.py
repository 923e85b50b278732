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
    PRIVATE,
    explain,
    explaining,
    open_with_mode,
    sync_data,
    sync_directory,
    write_all,
)
from autoexp_tui.storage.journal import TAIL, Loaded, fold_chain
from autoexp_tui.storage.journal_parts import (
    Part,
    Seal,
    find_chain,
    find_seal,
    get_seal,
)
from autoexp_tui.storage.record_codec import encode_record, has_secret
from autoexp_tui.storage.session_dir import SessionDir, get_packed
from autoexp_tui.storage.trust import open_session_file

_PACK_BLOCK = 1 << 20
"""Bytes at a time: zlib lets other threads run while it works on a block."""
_PACK_LEVEL = 6


class Held(Protocol):
    """What an append asks of the lease it writes under."""

    epoch: int

    def is_held(self) -> bool:
        """Whether no successor has taken the session; may raise OSError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """When a part is long enough for the next one to follow."""

    bytes: int = 64 << 20
    records: int = 250_000


class FileJournal:
    """The parts that one engine writes. Implements `ports.Journal`.

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
        self._notices: list[str] = []
        if chain is None:
            chain = find_chain(session, self._notices)
        self._chain = list(chain)
        self.seal = Seal()
        if self._chain:
            self._seal_newest()
        self._segment = 0
        self._file = -1
        self._good = 0
        """Bytes of the present part that count."""
        self._written = 0
        """Records in the present part."""
        self._surplus = False
        self._seq: int | None = None
        self._closed = False
        self._lost = False
        self._mask = NO_RULES
        self._is_secret = False
        """Whether what the group may not read was written to a part."""

    def _seal_newest(self) -> None:
        newest = self._chain[-1]
        self.seal = find_seal(newest)
        self._chain[-1] = replace(newest, length=self.seal.bytes)
        # Where a repair goes on before a damaged part, the newest good one is packed.
        size = newest.path.stat().st_size if newest.path.exists() else 0
        if (torn := size - self.seal.bytes) > 0:
            text = f"{newest.path}: dropped {torn} bytes of an unfinished commit"
            self._notices.append(text)

    @property
    def _path(self) -> Path:
        return self.session.get_part(self._lease.epoch, self._segment)

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
            raise explain(error, self._path, "write the journal") from error
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
        return self.session.save_plan(plan)

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
        if self._is_secret or self.session.read_modes() is PRIVATE:
            return
        self._is_secret = any(
            has_secret(record.event, line, self._mask)
            for record, line in zip(records, lines, strict=True)
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
        mode = (PRIVATE if self._is_secret else self.session.read_modes()).file
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
        if not self._lease.is_held():
            self._lost = True
            self.close()
            raise self._describe_deposal()

    def _require_file(self) -> None:
        """What is written to a file that was moved or removed counts for nobody."""
        if not os.path.samestat(os.stat(self._path), os.fstat(self._file)):
            raise FileNotFoundError(errno.ENOENT, "another file lies in its place")

    def _check_records(self, records: Sequence[Recorded]) -> None:
        if self._lost:
            raise self._describe_deposal()
        if self._closed:
            raise ValueError("the journal is closed")
        seq = self.load().position.seq if self._seq is None else self._seq
        first = records[0].event
        if isinstance(first, JournalRotated) and self._good:
            self._begin_next_part(first)
        elif self._good == 0 and get_seal(first) != self.seal:
            raise ValueError(f"the first record seals {first}, not {self.seal}")
        for expected, record in enumerate(records, seq + 1):
            if record.seq != expected or record.epoch != self._lease.epoch:
                raise ValueError(
                    f"record {record.seq} of epoch {record.epoch} after {expected - 1}"
                )

    def _begin_next_part(self, rotated: JournalRotated) -> None:
        """Let the next part be the one that is written; what was, is sealed."""
        seal = Seal(part=self._path.name, bytes=self._good)
        if get_seal(rotated) != seal:
            raise ValueError(f"the part seals {rotated}, not {seal}")
        self._close_file()
        self.seal = seal
        self._segment += 1
        self._good = self._written = 0

    def _pack_former(self) -> None:
        former = self.session.get_part(self._lease.epoch, self._segment - 1)
        length = self.seal.bytes
        self._pool.submit(
            former.name, lambda: pack_part(former, length), self._log_pack_fault
        )

    def _log_pack_fault(self, _nothing: object, error: BaseException | None) -> None:
        if error is not None:  # the part stays as it is, which is as good
            self._log_fault(f"packing the journal: {error}")

    def _describe_deposal(self) -> SessionOwned:
        return SessionOwned(
            f"another engine has taken session {self.session.id}",
            hint=f"`autoexp-tui --session {self.session.id} --state-dir "
            f"{self.session.state_dir}` watches it.",
        )


# ------------------------------------------------------------------------- packing
def pack_part(part: Path, length: int) -> None:
    """Replace a finished part of `length` bytes by its compressed form.

    That is written beside it, synced and read back; only then does it get its name, and
    only then does the part go. A kill in between leaves both, and the part counts. Only
    the engine that wrote a part may pack it.

    Raises:
        EnvironmentFailed: the disk refused; the part is as it was.
        JournalDamaged: it is not `length` bytes long, or did not come back from the
            disk as it was written; the part is as it was.
    """
    temporary = part.with_name(f".{part.name}.{secrets.token_hex(6)}.tmp")
    with explaining(part, "compress the journal"):
        try:
            _compress_file(part, temporary)
            _require_length(part, temporary, length)
            os.replace(temporary, get_packed(part))
        except BaseException:
            with suppress(OSError):  # a left-over dot-file harms nobody
                temporary.unlink(missing_ok=True)
            raise
        sync_directory(part.parent)
        part.unlink()


def _compress_file(part: Path, temporary: Path) -> None:
    mode = stat.S_IMODE(part.stat().st_mode) & 0o640
    descriptor = open_with_mode(temporary, os.O_WRONLY | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as raw, open_session_file(part) as source:
        # The name is left out and the time is fixed: equal parts, equal bytes.
        with gzip.GzipFile("", "wb", _PACK_LEVEL, raw, mtime=0) as target:
            shutil.copyfileobj(source, target, _PACK_BLOCK)
        raw.flush()
        os.fsync(raw.fileno())


def _require_length(part: Path, temporary: Path, length: int) -> None:
    """Refuse what does not unpack to `length` bytes: gzip checks their CRC-32."""
    read = 0
    try:
        with gzip.open(temporary) as unpacked:
            while block := unpacked.read(_PACK_BLOCK):
                read += len(block)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        read = -1
    if read != length:
        raise JournalDamaged(
            f"it does not unpack to the {length} bytes that belong",
            str(part),
            "It stays as it is. `autoexp-sessions check` reads all of the journal.",
        )
