"""A call of an agent on disk: a directory with what was asked and what came of it.

request.json     what is asked, of whom, under which limits
transcript.log   what its program printed, bounded, as it came
files/           the answer files, moved here when no process of the call is left
answer.json      the outcome, written last, whole
home/ tmp/       its HOME and TMPDIR while it runs: all that it may write here
stale/           what lay where its answer was expected
earlier.<n>/     what an earlier run of the call left
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar

from autoexp_tui.model.agents import AgentSpec, Outcome, Usage
from autoexp_tui.model.errors import UsageError
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.json_codec import decode, encode
from autoexp_tui.storage.trust import read_checked

REQUEST: Final = "request.json"
TRANSCRIPT: Final = "transcript.log"
ANSWER: Final = "answer.json"
FILES: Final = "files"
STALE: Final = "stale"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of an agent."""

    role: str
    """What it is called for: `ideas`, `implement`, `review_1`."""
    agent: AgentSpec
    prompt: str
    """The file that it reads on its standard input."""
    prompt_sha256: str
    cwd: str
    answer_file: str = ""
    """What it is to write, below `cwd`: a path, or a pattern of several. Empty: its
    last event tells how it went, and with `schema` its last message is the answer."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of each answer file."""
    is_isolated: bool = False
    """Our isolation goes round it, so that the program's own sandbox is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFile:
    """A file that an agent wrote as its answer."""

    name: str
    """Its path below `cwd`, and now below `files/`."""
    sha256: str
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a call."""

    outcome: Outcome
    why: str = ""
    """A sentence, for people; empty when it is ok."""
    usage: Usage | None = None
    """None: nobody told."""
    cost: float | None = None
    """As the program told, else by the agent's prices; None: neither is known."""
    steps: int = 0
    """Uses of tools."""
    text: str = ""
    """Its last message."""
    files: tuple[AnswerFile, ...] = ()
    seconds: float = 0.0
    exit_code: int | None = None
    """-N: ended by signal N; None: not started."""
    resume_at: float | None = None
    """When a rate limit ends, in seconds of Unix time, where that was told."""


def set_aside(directory: Path) -> None:
    """Move what an earlier run of a call left out of the way; raises
    EnvironmentFailed."""
    results = (directory / name for name in (ANSWER, TRANSCRIPT, FILES, STALE))
    if left := [path for path in results if os.path.lexists(path)]:
        number = len([*directory.glob("earlier.*")]) + 1
        earlier = directory / f"earlier.{number}"
        make_directory(earlier)
        with explaining(earlier, "move what an earlier run left"):
            for path in left:
                path.rename(earlier / path.name)


def require_request(request: Request) -> None:
    """Refuse what cannot be called as it is asked; raises UsageError."""
    answer_file = request.answer_file
    where = f"the call for {request.role}"
    if not os.path.isabs(request.cwd):
        raise UsageError(f"`cwd` is {request.cwd!r}, not an absolute path", where)
    if PurePath(answer_file).is_absolute() or ".." in PurePath(answer_file).parts:
        problem = f"the answer file {answer_file!r} leads out of its directory"
        raise UsageError(problem, where)
    is_shown = answer_file or request.schema or request.role == "implement"
    if request.agent.backend == "command" and not is_shown:
        problem = "a command needs an answer file: that it exits with 0 proves nothing"
        raise UsageError(problem, where)


def hash_bytes(data: bytes) -> str:
    return sha256(data).hexdigest()


def write_request(directory: Path, request: Request) -> None:
    """Make the directory of a call; raises EnvironmentFailed, UsageError."""
    require_request(request)
    make_directory(directory)
    write_atomic(directory / REQUEST, encode(request))


def load_request(directory: Path) -> Request:
    """Raises EnvironmentFailed; JournalDamaged, which is one, where it does not
    read."""
    return _load(Request, directory / REQUEST)


def load_answer(directory: Path) -> Answer | None:
    """None: there is none yet; raises as `load_request`."""
    path = directory / ANSWER
    return _load(Answer, path) if os.path.lexists(path) else None


def _load(model: type[T], path: Path) -> T:
    with explaining(path, "read a call"):
        data = read_checked(path, "own")
    return decode(model, data, str(path))
