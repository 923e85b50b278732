"""The part of a journal that one engine writes: one write and one sync a commit."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.masking import NO_RULES
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.atomic import (
    PRIVATE,
    explain,
    open_with_mode,
    sync_data,
    sync_directory,
    write_all,
)
from autoexp_tui.storage.journal import (
    TAIL,
    Loaded,
    Part,
    Seal,
    describe_torn,
    encode_record,
    find_chain,
    find_seal,
    fold_chain,
    get_seal,
    has_secret,
)
from autoexp_tui.storage.lease import FileLease
from autoexp_tui.storage.session_dir import SessionDir


class FileJournal:
    """The part that one engine writes. Implements `ports.Journal`. Its first record,
    with which the file is made, is an EngineStarted with `seal` or a new session's."""

    def __init__(
        self,
        session: SessionDir,
        lease: FileLease,
        *,
        chain: Sequence[Part] | None = None,
        log_fault: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`chain`: what counts of the journal, when that is not for the journal to
        tell; raises JournalDamaged."""
        self.session = session
        self._lease = lease
        self._log_fault = log_fault
        self.torn = ""
        """What of its predecessor counts no more, as a notice."""
        if chain is None:
            chain = find_chain(session)
        self._chain = list(chain)
        self.seal = Seal()
        if self._chain:
            newest = self._chain[-1]
            self.seal = find_seal(newest)
            self._chain[-1] = replace(newest, length=self.seal.bytes)
            self.torn = describe_torn(newest, self.seal)
        self._path = session.get_part(lease.epoch)
        self._file = -1
        self._good = 0
        self._surplus = False
        self._seq: int | None = None
        self._closed = False
        self._lost = False
        self._mask = NO_RULES
        self._is_secret = False
        """Whether what the group may not read was written to a part."""

    def load(self) -> Loaded:
        """Fold what the predecessors left, up to the seal; raises JournalDamaged."""
        loaded = fold_chain(self.session, self._chain, TAIL)
        if loaded.state.plan is not None:
            self._mask = loaded.state.plan.mask
        if self._seq is None:
            self._seq = loaded.position.seq
        return loaded

    def append(self, records: Sequence[Recorded]) -> None:
        """Write the records and sync once; when it returns, they count. Raises
        SessionOwned (closed for good), or EnvironmentFailed (nothing counts, it may be
        tried again)."""
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

    def add_plan(self, plan: Plan) -> str:
        """Store a plan beside the journal, durable; its sha; raises
        EnvironmentFailed."""
        self._mask = plan.mask
        return self.session.save_plan(plan)

    def close(self) -> None:
        self._closed = True
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _hide_secret(self, records: Sequence[Recorded], lines: Sequence[bytes]) -> None:
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
        # What is written to a file that was moved or removed counts for nobody.
        if not os.path.samestat(os.stat(self._path), os.fstat(self._file)):
            raise FileNotFoundError(errno.ENOENT, "another file lies in its place")
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

    def _check_records(self, records: Sequence[Recorded]) -> None:
        if self._lost:
            raise self._describe_deposal()
        if self._closed:
            raise ValueError("the journal is closed")
        seq = self.load().position.seq if self._seq is None else self._seq
        first = records[0].event
        if self._good == 0 and get_seal(first) != self.seal:
            raise ValueError(f"the first record seals {first}, not {self.seal}")
        for expected, record in enumerate(records, seq + 1):
            if record.seq != expected or record.epoch != self._lease.epoch:
                raise ValueError(
                    f"record {record.seq} of epoch {record.epoch} after {expected - 1}"
                )

    def _describe_deposal(self) -> SessionOwned:
        return SessionOwned(
            f"another engine has taken session {self.session.id}",
            hint=f"`autoexp-tui --session {self.session.id} --state-dir "
            f"{self.session.state_dir}` watches it.",
        )
