"""Commits that calls of a session's research agent left in the user's repository, and
what becomes of their refs when the session is removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.research.options import read_options
from autoexp_tui.research.state import PART, find_research
from autoexp_tui.storage.journal import load_state
from autoexp_tui.text.spelling import plural
from autoexp_tui.worktrees.readiness import open_repository
from autoexp_tui.worktrees.tree_repository import Git, TreeRepository, update_ref

if TYPE_CHECKING:
    from autoexp_tui.research.state import Research
    from autoexp_tui.storage.session_dir import SessionDir

AUTHOR: Final = "autoexp-research"
EMAIL: Final = "autoexp-research@localhost"
_FIELDS: Final = "%(objectname) %(parent) %(authoremail) %(refname:lstrip=3) %(subject)"
_LASTING: Final = ("refs/heads", "refs/remotes", "refs/tags")


def name_change(session: str, consultation: str) -> str:
    """The subject of the commit of a call."""
    return f"Research {session}: {consultation}"


@dataclass(frozen=True, slots=True)
class SpareRefs:
    """Refs of a session's calls that nobody needs once it is gone."""

    repository: TreeRepository | None = None
    commits: Mapping[str, str] = field(default_factory=dict)
    """Ref -> its commit."""
    problem: str = ""
    """Why it cannot be told which there are; they stay."""

    def describe(self) -> str:
        """For people, behind what else goes; empty: there are none."""
        if self.problem:
            return f"; refs of its research stay: {self.problem}"
        if self.repository is None or not self.commits:
            return ""
        return f", {plural(len(self.commits), 'ref')} in {self.repository.top}"

    def delete(self) -> None:
        """Raises EnvironmentFailed."""
        for ref, commit in self.commits.items():
            assert self.repository is not None, "some were found in it"
            update_ref(Git(self.repository), ref, old=commit)


def find_spare_refs(session: SessionDir) -> SpareRefs:
    """Those of commits that calls of the session made, as they made them. The code of
    one that was approved is in somebody's hands: it counts when something else than we
    has it, such as its branch or what that was merged into."""
    if not (session.path / PART).is_dir():
        return SpareRefs()
    try:
        state = load_state(session, tail=1).state
        research, plan = find_research(state), state.plan
        if research is None or plan is None or not research.base_commit:
            return SpareRefs()
        where = Path(plan.cwd, read_options(plan.research).repository)
        own = Path(research.directory)
        repository = open_repository(where, session.id, own, (), "research")
        return SpareRefs(repository, _list_spare(repository, research))
    except AutoexpError as error:
        return SpareRefs(problem=error.line)


def _list_spare(repository: TreeRepository, research: Research) -> dict[str, str]:
    git, found = Git(repository), dict[str, str]()
    for line in _ask(git, f"--format={_FIELDS}", repository.refs):
        commit, *made = line.split(" ", 4)
        name = made[2]
        own = [research.base_commit, f"<{EMAIL}>"]
        if made != [*own, name, name_change(repository.run, name)]:
            continue
        is_applied = name in research.code_approved
        if not is_applied or _ask(git, f"--contains={commit}", "--count=1", *_LASTING):
            found[f"{repository.refs}{name}"] = commit
    return found


def _ask(git: Git, *words: str) -> list[str]:
    said = git.run("for-each-ref", *words)
    return said.decode("utf-8", "replace").splitlines()
