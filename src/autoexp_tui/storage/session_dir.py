"""Where everything of a session lies: the one owner of every path under a state dir.

Directories are 0700 and files 0600. With `project.share` the group may read what a
viewer needs: the journal, the plans, the lease and the present. Nobody else builds
these paths. What the files hold is their writers' business; only plans are read and
written here, because they are stored under the digest of their bytes.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged, UsageError
from autoexp_tui.model.ids import safe_filename
from autoexp_tui.model.specs import JobSpec, Plan, Share
from autoexp_tui.probes.pools import ask_all
from autoexp_tui.storage.atomic import (
    explained,
    explaining,
    make_directory,
    sync_directory,
    write_atomic,
)
from autoexp_tui.storage.json_codec import (
    decode_plan,
    encode_plan,
    hash_plan,
    mask_plan,
)
from autoexp_tui.storage.sharing import (
    MODES,
    PRIVATE,
    SESSION_MODES,
    Modes,
    session_modes,
)
from autoexp_tui.storage.trust import (
    MOST_BYTES,
    Untrusted,
    read_own,
    read_session_file,
    require_below,
    require_logs,
    require_own_session,
    require_place,
    session_user,
)

T = TypeVar("T")
MANIFESTS = "manifests"
ENTRIES = "entries"
_PART = re.compile(
    r"journal\.([1-9][0-9]{0,8})(?:\.([1-9][0-9]{0,8}))?\.jsonl(?:\.gz)?"
)
_NO_SESSION = re.compile(rf"(?s:\..*)|({MANIFESTS}|{ENTRIES})(\.\d+)?")
"""Names in a state directory that are never a session's."""
_SHA = re.compile(r"[0-9a-f]{8,64}")
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_LETTERS = _BASE32[:26]
_DIGITS = _BASE32[26:]
_TRIES_PER_LENGTH = 20
ANSWER_SECONDS = 2.0
"""How long a place, or a session, is given to be looked at."""
SHORTEST_PREFIX = 2
"""Letters of an id that may stand for all of it, when no other begins so."""

PartId: TypeAlias = tuple[int, int]
"""(lease epoch of the engine that wrote it, segment from 0); sorts as written."""


@dataclass(frozen=True, slots=True)
class SessionDir:
    """The paths of one session."""

    path: Path

    @property
    def id(self) -> str:
        """The session's id."""
        return self.path.name

    @property
    def state_dir(self) -> Path:
        """The directory that holds this session beside others."""
        return self.path.parent

    # ------------------------------------------------------------------- journal
    @property
    def journal(self) -> Path:
        """A link to the part that is written now, for people and `tail -F`."""
        return self.path / "journal.jsonl"

    def journal_part(self, epoch: int, segment: int = 0) -> Path:
        """The part that the engine of lease `epoch` writes, and nobody else ever.

        Further segments are its own, one after the other. Finished ones may have
        become `packed`.
        """
        number = f"{epoch}.{segment}" if segment else f"{epoch}"
        return self.path / f"journal.{number}.jsonl"

    def journal_parts(self) -> list[PartId]:
        """The parts that are there, packed or not, oldest first."""
        found = {part_id(entry.name) for entry in self.path.iterdir()}
        return sorted(part for part in found if part)

    @property
    def snapshot(self) -> Path:
        """A row for the list of sessions; disposable."""
        return self.path / "snapshot.json"

    # --------------------------------------------------------------------- plans
    @property
    def plan(self) -> Path:
        """The session's first plan."""
        return self.path / "plan.json"

    def further_plan(self, sha: str) -> Path:
        """A plan that joined later."""
        return self.path / "plans" / f"{sha}.json"

    def public_plan(self, sha: str) -> Path:
        """A plan as the group may read it: of one that holds a secret."""
        return self.path / "plans" / f"{sha}.public.json"

    def store_plan(self, plan: Plan) -> str:
        """Keep a plan, durable before this returns; its sha.

        Where the group may read the session, one that holds a secret stays private,
        and a masked copy lies beside it.

        Raises:
            EnvironmentFailed: the disk refused.
            ValidationFailed: the plan holds a value that JSON cannot.
        """
        data = encode_plan(plan)
        sha = hash_plan(data)
        if self._find_plan(sha) is not None:
            return sha
        path = self.further_plan(sha) if self.plan.exists() else self.plan
        modes = self.modes
        shown = data if modes is PRIVATE else mask_plan(plan, data)
        make_directory(path.parent, modes.directory)
        if shown is not data:
            public = self.public_plan(sha)
            make_directory(public.parent, modes.directory)
            write_atomic(public, shown, modes.file)
        write_atomic(path, data, (modes if shown is data else PRIVATE).file)
        return sha

    def load_plan(self, sha: str) -> Plan:
        """The plan that was stored as `sha`; of another's session as that one shows it.

        Raises:
            JournalDamaged: it is gone, changed, or does not read.
        """
        if not _SHA.fullmatch(sha):
            raise JournalDamaged(f"{sha!r} is not the sha of a plan", str(self.path))
        data = read_if_there(self.public_plan(sha)) if self.user else None
        data = self._find_plan(sha) if data is None else data
        if data is None:
            raise JournalDamaged(
                f"plan {sha} is gone, or was changed after it was stored",
                str(self.plan),
                "Bring back the file as it was; the journal cannot be read without it.",
            )
        return decode_plan(data, f"{self.path}: plan {sha}")

    def _find_plan(self, sha: str) -> bytes | None:
        for path in (self.further_plan(sha), self.plan):
            data = read_if_there(path)
            if data is not None and hash_plan(data) == sha:
                return data
        return None

    # ------------------------------------------------------------------ the rest
    @property
    def lease(self) -> Path:
        """Holds `<epoch>.json`, one for each engine that ever owned the session."""
        return self.path / "lease"

    @property
    def inbox(self) -> Path:
        """Commands that other processes left."""
        return self.path / "inbox"

    @property
    def inbox_rejected(self) -> Path:
        """What lay in the inbox and was no command, with the reasons."""
        return self.inbox / "rejected"

    @property
    def attempts(self) -> Path:
        """Holds one directory a job."""
        return self.path / "attempts"

    def attempt(self, job: str, number: int) -> Path:
        """The records of one attempt: claim, begin, exit, duplicates."""
        return self.attempts / safe_filename(job) / str(number)

    @property
    def scripts(self) -> Path:
        """The wrapper as this session started with it, and scripts as sent."""
        return self.path / "scripts"

    @property
    def tree(self) -> Path:
        """The code states' side of a session."""
        return self.path / "tree"

    @property
    def research(self) -> Path:
        """The research loop's side of a session."""
        return self.path / "research"

    @property
    def agents(self) -> Path:
        """What was asked of agents, and what they answered."""
        return self.path / "agents"

    @property
    def engine_log(self) -> Path:
        """Tracebacks of the engine and of the processes it started."""
        return self.path / "engine.log"

    @property
    def live(self) -> Path:
        """Volatile detail, written only while somebody watches."""
        return self.path / "live.json"

    @property
    def viewers(self) -> Path:
        """One file for each process that watches; its mtime is its heartbeat."""
        return self.path / "viewers"

    @property
    def modes(self) -> Modes:
        """Of what viewers read: the user's alone, or readable by the group.

        Raises:
            EnvironmentFailed: its directory cannot be looked at.
        """
        with explaining(self.path, "look at the directory"):
            return session_modes(self.path)

    @property
    def user(self) -> str:
        """The name of the other user whose it is; empty: one's own.

        Raises:
            EnvironmentFailed: it is no directory, or cannot be looked at.
        """
        return require(self.path, session_user)

    def require_own(self) -> None:
        """Refuse to run it, or to change it, unless it is the user's alone.

        Raises:
            EnvironmentFailed: says whose it is, or who may write to it.
        """
        require(self.path, require_own_session)

    @property
    def exists(self) -> bool:
        """Whether an engine ever wrote here."""
        try:
            return bool(self.journal_parts())
        except (NotADirectoryError, FileNotFoundError, PermissionError):
            return False  # somebody else's, or no session at all

    @property
    def is_odd(self) -> bool:
        """Whether something that is no directory and no file has a session's name."""
        mode = os.lstat(self.path).st_mode
        return not stat.S_ISDIR(mode) and not stat.S_ISREG(mode)

    def make(self) -> None:
        """Make the directories that every session has.

        Raises:
            EnvironmentFailed: the disk refused.
        """
        for path in (
            self.path,
            self.inbox,
            self.inbox_rejected,
            self.attempts,
            self.scripts,
            self.viewers,
        ):
            make_directory(path)
        make_directory(self.lease, self.modes.directory)


def require(path: Path, judge: Callable[[Path], T]) -> T:
    """What `judge` says of a path.

    Raises:
        EnvironmentFailed: the path is refused, or cannot be looked at.
    """
    try:
        return judge(path)
    except Untrusted as error:
        raise explained(error, path, "") from error
    except OSError as error:
        raise explained(error, path, "look at the directory") from error


def require_ground(
    job: JobSpec, base_output_dir: str, share: Share = "private"
) -> None:
    """Refuse to write where a job would when others may meddle with it.

    Raises:
        EnvironmentFailed: names the directory, and says why.
    """
    output = Path(job.output_dir)
    base = Path(base_output_dir) if base_output_dir else output.parent
    require(output, lambda path: require_below(base, path / ".autoexp", share))
    if job.log_dir:
        require(Path(job.log_dir), lambda path: require_logs(base, path, share))


def part_id(name: str) -> PartId | None:
    """Which part of a journal a file's name is; None: it is none."""
    match = _PART.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def packed(part: Path) -> Path:
    """The name of a finished part that was compressed."""
    return part.with_name(f"{part.name}.gz")


# -------------------------------------------------------------------- state dirs
def manifest_path(state_dir: Path, plan_id: str) -> Path:
    """Where a plan lies that was made but not yet submitted."""
    return own_shelf(state_dir, MANIFESTS) / f"plan_{safe_filename(plan_id)}.json"


def entry_dir(state_dir: Path, plan_id: str, job: str) -> Path:
    """Holds the attempts at a job that was started without a session."""
    shelf = own_shelf(state_dir, ENTRIES)
    return shelf / safe_filename(plan_id) / safe_filename(job)


def own_shelf(state_dir: Path, name: str) -> Path:
    """Our directory of that name: who comes second to a shared place has another."""
    usual = state_dir / name
    try:
        mine = not os.path.lexists(usual) or not session_user(usual)
    except OSError:
        mine = False
    return usual if mine else state_dir / f"{name}.{os.geteuid()}"


def make_state_dir(state_dir: Path, share: Share) -> None:
    """Make the directory that holds sessions, and those above it.

    Raises:
        EnvironmentFailed: the disk refused, or others may meddle with it.
    """
    require(state_dir, require_place)
    make_directory(state_dir.parent, MODES[share].directory)
    # Who may write there may leave sessions of their own, and take away no others.
    sticky = 0o3770 if share == "group_write" else SESSION_MODES[share].directory
    make_directory(state_dir, sticky)


def write_manifest(state_dir: Path, plan: Plan, data: bytes = b"") -> Path:
    """Keep a plan under its id, to be submitted later; returns the file.

    `data`: the plan as it is encoded, where that is known.

    Raises:
        EnvironmentFailed: the disk refused.
        ValidationFailed: the plan holds a value that JSON cannot.
    """
    make_state_dir(state_dir, plan.share)
    path = manifest_path(state_dir, plan.plan_id)
    data = data or encode_plan(plan)
    make_directory(path.parent)
    write_atomic(path, data)
    return path


def read_manifest(path: Path, *, run: bool = False) -> Plan:
    """The plan of a manifest that a person named.

    `run`: its commands are to run as the user, so nobody else may have written it.

    Raises:
        UsageError: there is none, it does not read, or others may have written it.
    """
    data = _manifest_bytes(path, run=run)
    try:
        return decode_plan(data, str(path))
    except JournalDamaged as error:
        what = "of a newer version" if error.newer else "no manifest that can be read"
        raise UsageError(
            f"this is {what}: {error.problem}",
            str(path),
            error.hint if error.newer else "Make it again with autoexp-plan.",
        ) from error


def _manifest_bytes(path: Path, *, run: bool) -> bytes:
    try:
        return (read_own if run else read_session_file)(path, MOST_BYTES)
    except FileNotFoundError as error:
        hint = "autoexp-plan writes one and prints its path"
        raise UsageError("there is no such manifest", str(path), hint) from error
    except Untrusted as error:
        raise UsageError(
            f"this manifest is refused: {error.strerror}",
            str(path),
            "What it runs would run as you. Read it, then copy it to a file that you "
            "alone may write, or plan from the config with autoexp-plan.",
        ) from error
    except OSError as error:
        raise explained(error, path, "read") from error


def create_session(
    state_dir: Path,
    new_id: Callable[[int], str] | None = None,
    *,
    share: Share = "private",
) -> SessionDir:
    """A new session with an id that nobody has; making its directory is the claim.

    Raises:
        EnvironmentFailed: the disk refused.
    """
    state_dir = state_dir.absolute()
    make_state_dir(state_dir, share)
    mode = SESSION_MODES[share].directory
    for session in _candidates(state_dir, new_id or random_id):
        with explaining(session.path, "make the session's directory"):
            try:
                session.path.mkdir(0o700)
            except FileExistsError:
                continue
            if share != "private":
                session.path.chmod(mode)
            sync_directory(state_dir)
        session.make()
        return session
    raise AssertionError("unreachable: ids only get longer")


def _candidates(state_dir: Path, new_id: Callable[[int], str]) -> Iterator[SessionDir]:
    length = 4
    while True:
        for _ in range(_TRIES_PER_LENGTH):
            yield SessionDir(state_dir / new_id(length))
        length += 1


def random_id(length: int) -> str:
    """A short id such as `k7f2`: a letter first and a digit next.

    So it is never read as a number, nor as a word of YAML, nor as `manifests`.
    """
    rest = "".join(secrets.choice(_BASE32) for _ in range(length - 2))
    return secrets.choice(_LETTERS) + secrets.choice(_DIGITS) + rest


def sessions_in(state_dir: Path) -> list[SessionDir]:
    """The sessions of a state dir by id; none when there is no such directory.

    Raises:
        EnvironmentFailed: it cannot be read.
    """
    state_dir = state_dir.absolute()
    with explaining(state_dir, "list the sessions"):
        try:
            entries = sorted(state_dir.iterdir())
        except FileNotFoundError:
            return []
        found = [
            SessionDir(entry)
            for entry in entries
            if not _NO_SESSION.fullmatch(entry.name)
        ]
        return [session for session in found if session.exists or session.is_odd]


def look_into(places: Sequence[Path]) -> list[list[SessionDir] | Exception]:
    """The sessions of each state dir; why there are none, as the error of the look.

    A TimeoutError: it did not answer in `ANSWER_SECONDS`; nobody waits for it longer.
    """
    return ask_all([partial(sessions_in, place) for place in places], ANSWER_SECONDS)


def find_session(state_dir: Path, session_id: str) -> SessionDir:
    """The session of that id, or the one whose id begins so.

    Raises:
        UsageError: there is none, and names those that are spelled like it; or several
            begin so.
        EnvironmentFailed: the state dir, or the session, cannot be read.
    """
    (sessions,) = look_into([state_dir])
    if isinstance(sessions, TimeoutError):
        raise no_answer(state_dir) from sessions
    if isinstance(sessions, Exception):
        raise sessions
    found = called(sessions, session_id)
    if found:
        return found[0]
    require_readable(state_dir.absolute() / session_id)
    meant = meant_by(session_id, sessions)
    raise UsageError(
        f"there is no session {session_id!r} in {state_dir}",
        hint=f"{meant}`autoexp-sessions list --state-dir {state_dir}` shows them all.",
    )


def no_answer(place: Path) -> EnvironmentFailed:
    """The error that a place hangs."""
    return EnvironmentFailed(
        f"it did not answer within {ANSWER_SECONDS:g} s",
        str(place),
        "Its file server may be down: look at it with `df`.",
    )


def called(sessions: Sequence[SessionDir], session_id: str) -> list[SessionDir]:
    """The sessions of that id; without any, the ones whose id begins so.

    Raises:
        UsageError: several sessions begin so.
    """
    exactly = [session for session in sessions if session.id == session_id]
    if exactly or len(session_id) < SHORTEST_PREFIX:
        return exactly
    found = [session for session in sessions if session.id.startswith(session_id)]
    ids = dict.fromkeys(session.id for session in found)
    if len(ids) > 1:
        raise UsageError(
            f"several sessions begin with {session_id!r}: {', '.join(ids)}",
            hint="Write one of them out.",
        )
    return found


def meant_by(session_id: str, sessions: Sequence[SessionDir]) -> str:
    """`Did you mean k7f2? `; empty when nothing is spelled like it."""
    known = {session.id for session in sessions}
    near = get_close_matches(session_id, sorted(known), n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(near)}? " if near else ""


def require_readable(path: Path) -> None:
    """Whether what has a session's name may be looked into at all.

    Raises:
        EnvironmentFailed: there is such a directory, and it is closed to us.
    """
    try:
        os.listdir(path)
    except PermissionError as error:
        raise explained(error, path, "read the session") from error
    except (OSError, ValueError):
        return  # no session, then


def read_if_there(path: Path) -> bytes | None:
    """A file's bytes, None when there is no file.

    Raises:
        EnvironmentFailed: it cannot be read.
    """
    with explaining(path, "read"):
        try:
            return read_session_file(path)
        except FileNotFoundError:
            return None
