"""A git in memory that outlives engines: refs, commits, and how each ref was moved.

What calls git is the real thing; an engine may die before and after each call.
Worktrees are real directories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autoexp_tui.model.ids import digest
from autoexp_tui.storage.repository import GitFailed
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.tree_repository import (
    Git,
    Place,
    TreeRepository,
    list_refs,
    update_ref,
)
from tests.support.sim_tally import Danger

CALL_RATE = 0.01
"""Of deaths, before a call of git and after one."""
OURS = "refs/tree/r/"
"""Refs of the search; all others are the user's."""

FOREIGN = "of-somebody-else"
"""What a ref holds that is not the search's."""


class MemoryGit(Git):
    """The repository of one campaign."""

    def __init__(self, root: Path, danger: Danger) -> None:
        self.tree = TreeRepository(
            git_dir=root / "repository", top=root / "checkout", run="r", root=root / "w"
        )
        self.refs = {"refs/heads/main": "root"}
        self.commits: dict[str, set[str]] = {}
        """Evaluation -> all that was ever committed for it."""
        self.problems: list[str] = []
        """What must not be, in words."""
        self.compares = True
        """False: a ref is moved whatever it holds, which is a deliberate bug."""
        self._danger = danger
        self._is_agent = False
        (root / "checkout").mkdir()
        (root / "checkout" / "own.txt").write_text("the user's")

    @contextmanager
    def as_agent(self) -> Iterator[None]:
        """What calls git now runs in a job: no engine dies with it."""
        self._is_agent = True
        try:
            yield
        finally:
            self._is_agent = False

    def run(
        self,
        *words: str,
        place: Place | None = None,
        data: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """As `Git.run`, as far as refs and worktrees need it."""
        if not self._is_agent:
            self._danger.point("before a call of git", CALL_RATE)
        said = self._do(words, place, data.decode())
        if not self._is_agent:
            self._danger.point("after a call of git", CALL_RATE)
        return said.encode()

    def _do(self, words: tuple[str, ...], place: Place | None, data: str) -> str:
        match words:
            case ("for-each-ref", _, prefix):
                named = [(n, at) for n, at in self.refs.items() if n.startswith(prefix)]
                return "".join(f"{name} {at}\n" for name, at in named)
            case ("update-ref", *_):
                self._move(*data.split())
            case ("read-tree", *_, commit) if place is not None:
                self.tree.get_index(place).write_text(commit)
            case _:
                raise NotImplementedError(words)
        return ""

    def _move(self, verb: str, ref: str, first: str, second: str = "") -> None:
        new, old = (first, second) if verb != "delete" else ("", first)
        found = self.refs.get(ref, "")
        if found != old and self.compares:
            raise GitFailed(f"{ref} is at {found!r} but expected {old!r}")
        if found not in (old, new):
            self.problems.append(f"{ref} was moved from {found}, unseen, to {new}")
        if not ref.startswith(OURS):
            self.problems.append(f"{ref} is the user's, and was moved to {new}")
        self.refs.pop(ref, None)
        if new:
            self.refs[ref] = new

    def commit(self, evaluation: str, parent: str, change: str) -> str:
        """What an implementation does in the end: the same change of the same node
        makes the same commit."""
        place = Place("cand", evaluation[1:])
        add_worktree(self, place, parent)
        made = f"{evaluation}-{digest(parent, change, length=8)}"
        self.commits.setdefault(evaluation, set()).add(made)
        ref = self.tree.get_ref(place)
        old = list_refs(self).get(ref, "")
        update_ref(self, ref, new=made, old=old)
        return made

    def list_worktrees(self) -> set[str]:
        """Those that are there, as `cand/3`."""
        found = self.tree.root.glob("[cw]*/*")
        return {f"{path.parent.name}/{path.name}" for path in found}

    def find_intrusion(self) -> str:
        """What was done outside of the worktrees and the search's refs; empty:
        nothing."""
        kept = {path.name: path.read_text() for path in self.tree.top.iterdir()}
        if kept != {"own.txt": "the user's"}:
            return f"the user's checkout holds {kept}"
        strange = {path.name for path in self.tree.root.parent.iterdir()}
        if strange - {"checkout", "w"}:
            return f"there is {strange} beside the worktrees"
        return self.problems[0] if self.problems else ""
