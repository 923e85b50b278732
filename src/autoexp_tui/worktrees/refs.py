"""The refs of a search, below `refs/tree/<run>/`: `n<id>` a node, `e<id>` an
evaluation; of research, below `refs/research-calls/<session>/`: `c<id>` a call. They
are moved from a known commit or not at all. git finds `tree/<run>/n3` under its short
name; being no branches, they are neither checked out nor pushed by accident, and stand
in nobody's way."""

from __future__ import annotations

from dataclasses import dataclass

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.repository import GitFailed
from autoexp_tui.text.spelling import join_some
from autoexp_tui.worktrees.tree_repository import Git, TreeRepository

_SHOWN = 5


@dataclass(eq=False)
class RefMoved(EnvironmentFailed):
    """A ref holds another commit than the one that we left there."""

    ref: str = ""
    expected: str = ""
    """Empty: there was to be none."""
    found: str = ""
    """Empty: it is gone."""


def list_refs(tree: TreeRepository, git: Git | None = None) -> dict[str, str]:
    """Each ref of the run with its commit."""
    words = ("for-each-ref", "--format=%(objectname) %(refname)")
    said = (git or Git(tree)).run(*words, tree.refs)
    lines = said.decode().splitlines()
    return {line.partition(" ")[2]: line.partition(" ")[0] for line in lines}


def require_unused_run(tree: TreeRepository) -> None:
    """Refuse the name of a run that has refs; raises EnvironmentFailed."""
    if found := [*list_refs(tree)]:
        problem = f"there are refs of a run {tree.run} already: "
        hint = (
            "Choose another name with --run, or remove them: git for-each-ref "
            f"--format='delete %(refname)' {tree.refs} | "
            "git update-ref --stdin"
        )
        names = join_some(found, _SHOWN)
        raise EnvironmentFailed(problem + names, str(tree.top), hint)


def update_ref(
    tree: TreeRepository,
    ref: str,
    *,
    new: str = "",
    old: str = "",
    git: Git | None = None,
) -> None:
    """Move `ref` from `old` to `new`: no `old`, and it must be new; no `new`, and it is
    deleted. What is so already is left. Raises RefMoved when it holds another commit,
    else GitFailed."""
    git = git or Git(tree)
    line = " ".join(filter(None, (_choose_verb(new, old), ref, new, old)))
    try:
        git.run("update-ref", "--no-deref", "--stdin", data=f"{line}\n".encode())
    except GitFailed:
        found = list_refs(tree).get(ref, "")
        if found == new:
            return
        if found == old:
            raise  # locked, unwritable, or a ref of that name stands in the way
        raise _build_moved(ref, old, found) from None


def _choose_verb(new: str, old: str) -> str:
    if not new:
        return "delete"
    return "update" if old else "create"


def _build_moved(ref: str, expected: str, found: str) -> RefMoved:
    now = f"is at {found[:12]}" if found else "is gone"
    before = f"was left at {expected[:12]}" if expected else "was not there before"
    problem = f"it {now} and {before}: somebody else moved it"
    hint = "Look at what it holds (git log); the search does not touch it."
    return RefMoved(problem, ref, hint, ref=ref, expected=expected, found=found)
