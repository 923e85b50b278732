"""What a call of an agent is asked for, and what came of it: files in the call's
directory, `calls/<job>` below the research's.

call.json      what is asked, of whom
prompt.md      what the agent reads
called.json    what came of it, written last, whole
code.patch     the change of code that it left
work/          where it works, when it may change no code
The rest is as `agents.call` has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from autoexp_tui.isolation.kinds import Wanted
from autoexp_tui.model.agents import AgentSpec
from autoexp_tui.research.options import ResearchOptions, read_options
from autoexp_tui.research.ports import CallEnd
from autoexp_tui.worktrees.tree_repository import Place, TreeRepository

PROMPT: Final = "prompt.md"
CALLED: Final = "called.json"
PATCH: Final = "code.patch"


@dataclass(frozen=True, kw_only=True)
class CallRequest:
    """One call of the agents of a role."""

    directory: str
    """The research's; all else lies below."""
    job: str
    consultation: str
    role: str
    prompt_sha256: str
    chain: tuple[str, ...]
    """Agents that try, one after the other."""
    agents: Mapping[str, AgentSpec]
    isolation: Wanted = "prefer"
    answer_file: str
    schema: Mapping[str, Any]
    research: Mapping[str, Any] = field(default_factory=dict)
    """The options of the research, as the plan has them."""
    session: str = ""
    git_dir: str = ""
    top: str = ""
    """The user's checkout; empty: research has no repository."""
    code_base: str = ""
    """The commit that it may change; empty: it works in an empty directory."""
    epoch: int = 0
    """The date of its commit, in seconds of Unix time."""
    readable: tuple[str, ...] = ()
    """What it may read beside its own: logs and results of runs."""
    guarded: tuple[str, ...] = ()
    """Files that nobody changes while it works."""

    @property
    def home(self) -> Path:
        return Path(self.directory, "calls", self.job)

    @cached_property
    def options(self) -> ResearchOptions:
        return read_options(self.research)

    @cached_property
    def repository(self) -> TreeRepository:
        return TreeRepository(
            git_dir=Path(self.git_dir),
            top=Path(self.top),
            run=self.session,
            root=Path(self.directory),
            link_paths=self.options.link_paths,
            section="research",
        )

    @property
    def place(self) -> Place:
        """Of the worktree in which it works."""
        return Place("call", self.consultation[1:])


def find_code_place(consultation: str) -> Place:
    """Where a change of code is checked out for its runs; of `c3` it is `wt/3`."""
    return Place("wt", consultation[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What was so before a call."""

    isolation: str
    """What its kind promises."""
    files: Mapping[str, str] = field(default_factory=dict)
    """sha256 of what its agent must not change, where nothing keeps it from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called(CallEnd):
    """What came of a call, as its directory has it."""

    answer: str = ""
    """The file of the answer, below the call's directory; empty: there is none."""
    sha256: str = ""
    code_refused: str = ""
    """Why its change of code is not taken."""
    isolation: str = ""
