"""Where everything of a session lies: the one owner of every path below it. Directories
are 0700 and files 0600; with `project.share` the group may read what a viewer needs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.ids import format_filename
from autoexp_tui.model.masking import Share
from autoexp_tui.storage.atomic import (
    PRIVATE,
    SESSION_MODES,
    Modes,
    explain,
    explaining,
    make_directory,
    write_atomic,
)
from autoexp_tui.storage.json_codec import (
    decode_plan,
    encode_plan,
    hash_plan,
    mask_plan,
)
from autoexp_tui.storage.trust import (
    MOST_BYTES,
    Untrusted,
    find_session_user,
    read_checked,
    require_below,
    require_logs,
    require_own_session,
)

if TYPE_CHECKING:  # a first paint needs no plan
    from autoexp_tui.model.specs import JobSpec, Plan

T = TypeVar("T")
_PART = re.compile(r"journal\.([1-9][0-9]*)(?:\.([1-9][0-9]*))?\.jsonl(?:\.gz)?")
_SHA = re.compile(r"[0-9a-f]{8,64}")

PartId: TypeAlias = tuple[int, int]
"""(lease epoch of the engine that wrote it, segment from 0); sorts as written."""


class SessionDir:
    """The paths of one session."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.state_dir = path.parent
        self.journal = path / "journal.jsonl"
        """A link to the part that is written now, for people and `tail -F`."""
        self.snapshot = path / "snapshot.json"
        """A row for the list of sessions; disposable."""
        self.plan = path / "plan.json"
        """The session's first plan; later ones are in `plans`."""
        self.plans = path / "plans"
        self.lease = path / "lease"
        """Holds `<epoch>.json`, one for each engine that ever owned the session."""
        self.inbox = path / "inbox"
        self.inbox_rejected = self.inbox / "rejected"
        """What lay in the inbox and was no command, with the reasons."""
        self.attempts = path / "attempts"
        self.scripts = path / "scripts"
        """The wrapper as this session started with it, and scripts as sent."""
        self.engine_log = path / "engine.log"
        """Tracebacks of the engine and of the processes it started."""
        self.live = path / "live.json"
        """Volatile detail, written only while somebody watches."""
        self.viewers = path / "viewers"
        """One file for each process that watches; its mtime is its heartbeat."""
        self.visit = path / f"left.{os.getuid()}"
        """Its mtime says when this user left the session's cockpit last."""

    def get_attempt(self, job: str, number: int) -> Path:
        """Holds the records of one attempt: claim, begin, exit, duplicates."""
        return self.attempts / format_filename(job) / str(number)

    def get_part(self, epoch: int, segment: int = 0) -> Path:
        """The part of lease `epoch`; earlier versions wrote further segments."""
        number = f"{epoch}.{segment}" if segment else f"{epoch}"
        return self.path / f"journal.{number}.jsonl"

    def list_parts(self) -> list[PartId]:
        found = {parse_part(entry.name) for entry in self.path.iterdir()}
        return sorted(part for part in found if part)

    def has_journal(self) -> bool:
        try:
            return bool(self.list_parts())
        except (NotADirectoryError, FileNotFoundError, PermissionError):
            return False  # somebody else's, or no session at all

    def save_plan(self, plan: Plan) -> str:
        """Keep a plan, durable; its sha. Where the group may read the session, one that
        holds a secret stays private, beside a masked copy. Raises EnvironmentFailed."""
        data = encode_plan(plan)
        sha = hash_plan(data)
        if self._find_plan(sha) is not None:
            return sha
        path = self.plans / f"{sha}.json" if self.plan.exists() else self.plan
        modes = self.read_modes()
        shown = data if modes is PRIVATE else mask_plan(plan, data)
        make_directory(path.parent, modes.directory)
        if shown is not data:
            make_directory(self.plans, modes.directory)
            write_atomic(self._get_public_plan(sha), shown, modes.file)
        write_atomic(path, data, (modes if shown is data else PRIVATE).file)
        return sha

    def load_plan(self, sha: str) -> Plan:
        """The plan of that sha; of another's session as that shows it; raises
        JournalDamaged."""
        if not _SHA.fullmatch(sha):
            raise JournalDamaged(f"{sha!r} is not the sha of a plan", str(self.path))
        data = None
        if self.find_user():
            data = read_if_there(self._get_public_plan(sha))
        data = self._find_plan(sha) if data is None else data
        if data is None:
            raise JournalDamaged(
                f"plan {sha} is gone, or was changed after it was stored",
                str(self.plan),
                "Bring back the file as it was; the journal cannot be read without it.",
            )
        return decode_plan(data, f"{self.path}: plan {sha}")

    def _get_public_plan(self, sha: str) -> Path:
        return self.plans / f"{sha}.public.json"

    def _find_plan(self, sha: str) -> bytes | None:
        for path in (self.plans / f"{sha}.json", self.plan):
            data = read_if_there(path)
            if data is not None and hash_plan(data) == sha:
                return data
        return None

    def read_modes(self) -> Modes:
        """Of what viewers read, as the directory's tell; raises EnvironmentFailed."""
        with explaining(self.path, "look at the directory"):
            for_others = stat.S_IMODE(self.path.stat().st_mode) & 0o077
        return SESSION_MODES["group"] if for_others == 0o050 else PRIVATE

    def find_user(self) -> str:
        """The name of the other user whose it is; empty: ours; raises
        EnvironmentFailed."""
        return require(self.path, find_session_user)

    def require_own(self) -> None:
        """Refuse what is not the user's alone; raises EnvironmentFailed."""
        require(self.path, require_own_session)

    def read_last_visit(self) -> float | None:
        """UTC at which this user left the session's cockpit last; None: never."""
        try:
            return self.visit.stat().st_mtime
        except OSError:
            return None

    def record_visit(self) -> None:
        """This user sees the session now; where that cannot be kept, no more is lost
        than the digest of the next visit."""
        with suppress(OSError):
            if not find_session_user(self.path):
                self.visit.touch(0o600)

    def is_odd(self) -> bool:
        """Whether something that is no directory and no file has a session's name."""
        mode = os.lstat(self.path).st_mode
        return not stat.S_ISDIR(mode) and not stat.S_ISREG(mode)

    def make(self) -> None:
        make_directory(self.path)
        for path in (self.inbox_rejected, self.attempts, self.scripts, self.viewers):
            make_directory(path)
        make_directory(self.lease, self.read_modes().directory)


def parse_part(name: str) -> PartId | None:
    """Which part of a journal a file's name is; None: it is none."""
    match = _PART.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def get_packed(part: Path) -> Path:
    return part.with_name(f"{part.name}.gz")


def require(path: Path, judge: Callable[[Path], T]) -> T:
    """What `judge` says of a path; raises EnvironmentFailed."""
    try:
        return judge(path)
    except OSError as error:
        doing = "" if isinstance(error, Untrusted) else "look at the directory"
        raise explain(error, path, doing) from error


def require_ground(
    job: JobSpec, base_output_dir: str, share: Share = "private"
) -> None:
    """Refuse where a job would write if others may meddle there; raises
    EnvironmentFailed."""
    output = Path(job.output_dir)
    base = Path(base_output_dir) if base_output_dir else output.parent
    require(output, lambda path: require_below(base, path / ".autoexp", share))
    if job.log_dir:
        require(Path(job.log_dir), lambda path: require_logs(base, path, share))


def read_if_there(path: Path) -> bytes | None:
    """A file's bytes, None when there is no file; raises EnvironmentFailed."""
    with explaining(path, "read"):
        try:
            return read_checked(path, "session", MOST_BYTES)
        except FileNotFoundError:
            return None
