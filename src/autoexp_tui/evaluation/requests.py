"""What a step is asked for, and what it says of itself when it is done. Both are files
below the search's directory, which no candidate can write."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from autoexp_tui.isolation.kinds import Wanted
from autoexp_tui.model.agents import AgentSpec
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.plain_values import build_record
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.json_codec import encode
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.tree.options import TreeOptions, read_options
from autoexp_tui.worktrees.tree_repository import Place, TreeRepository

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A step of one evaluation, or the call for a node's ideas."""

    directory: str
    """The search's; all else lies below."""
    git_dir: str
    top: str
    worktree_root: str
    run: str
    root_commit: str
    node: str
    commit: str
    """Of the node."""
    ideas_place: str = ""
    """Of the ideas that are wanted, below `node_ideas/`."""
    evaluation: str = ""
    """Empty: ideas are wanted."""
    title: str = ""
    idea: str = ""
    """The file of the idea."""
    prompt: str = ""
    prompt_sha256: str = ""
    tree: Mapping[str, Any] = field(default_factory=dict)
    """The options of the search, as the plan has them."""
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    isolation: Wanted = "prefer"
    context_dirs: tuple[str, ...] = ()
    known_diffs: Mapping[str, str] = field(default_factory=dict)
    """sha256 of a change -> the evaluation of an earlier depth that made it."""
    seconds: float | None = None
    """The longest that the step may take."""

    @cached_property
    def options(self) -> TreeOptions:
        return read_options(self.tree)

    @cached_property
    def repository(self) -> TreeRepository:
        return TreeRepository(
            git_dir=Path(self.git_dir),
            top=Path(self.top),
            run=self.run,
            root=Path(self.worktree_root),
            link_paths=self.options.link_paths,
        )

    def list_readable(self) -> tuple[Path, ...]:
        """What programs of a step may read beside their own: linked inputs, and the
        directories of earlier ideas."""
        return (*self.repository.list_links(), *map(Path, self.context_dirs))

    @property
    def place(self) -> Place:
        """Of the candidate's worktree."""
        return Place("cand", self.evaluation[1:])

    @property
    def home(self) -> Path:
        """Where the evaluation's files lie."""
        return Path(self.directory, "eval", self.evaluation)

    @property
    def experiment(self) -> Path:
        return self.home / "experiment"

    @property
    def output(self) -> Path:
        """The one directory beside its worktree that a candidate may write."""
        return self.home / "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What a step says of itself."""

    code: str = ""
    """Why it has no result; empty: it has."""
    problem: str = ""
    resume_at: float | None = None
    """When the agents may be called again, in seconds of Unix time, where told."""
    isolation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implemented(StepRecord):
    """What came of an implementation, or of a call for ideas."""

    commit: str = ""
    diff_sha256: str = ""
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(StepRecord):
    """What came of a sweep."""

    sha256: str = ""
    """Of the CSV, when no process of the sweep was left."""
    measured_itself: bool = True
    refs: Mapping[str, str] = field(default_factory=dict)
    """Those of the search, before jobs of a plan measured it."""


IMPLEMENTED: Final = "implemented.json"
SWEPT: Final = "swept.json"
PATCH: Final = "candidate.patch"
"""Of an evaluation: what its commit changes."""
EVAL_TIMEOUT: Final = "eval_timeout"


def write_record(path: Path, record: Any) -> None:
    """Raises EnvironmentFailed."""
    make_directory(path.parent)
    write_atomic(path, encode(record))


def load_record(model: type[T], path: Path) -> T:
    """Raises EnvironmentFailed where it is not there or does not read."""
    with explaining(path, "read what a step left"):
        data = read_checked(path, "own")
    try:
        return build_record(model, json.loads(data))
    except (ValueError, TypeError, KeyError) as error:
        problem = f"it is not as we wrote it: {error}"
        raise EnvironmentFailed(problem, str(path)) from None


def find_record(model: type[T], path: Path) -> T | None:
    """None: there is none; raises EnvironmentFailed where it does not read."""
    return load_record(model, path) if os.path.lexists(path) else None
