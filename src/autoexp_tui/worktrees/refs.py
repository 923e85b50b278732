"""The refs of a search, below `refs/tree/<run>/`: `n<id>` a node, `e<id>` an
evaluation; of research, below `refs/research-calls/<session>/`: `c<id>` a call. They
are moved from a known commit or not at all. git finds `tree/<run>/n3` under its short
name; being no branches, they are neither checked out nor pushed by accident, and stand
in nobody's way."""

from __future__ import annotations

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.repository import GitFailed
from autoexp_tui.text.spelling import join_some
from autoexp_tui.worktrees.tree_repository import Git

_SHOWN = 5


class RefMoved(EnvironmentFailed):
    """A ref holds another commit than the one that we left there."""


def list_refs(git: Git, name: str = "") -> dict[str, str]:
    """Each ref of the run, or the one of this name alone, with its commit."""
    words = ("for-each-ref", "--format=%(refname) %(objectname)")
    said = git.run(*words, name or git.tree.refs)
    return dict(line.split(" ") for line in said.decode().splitlines())


def require_unused_run(git: Git) -> None:
    """Refuse the name of a run that has refs; raises EnvironmentFailed."""
    tree = git.tree
    if found := [*list_refs(git)]:
        problem = f"there are refs of a run {tree.run} already: "
        hint = (
            "Choose another name with --run, or remove them: git for-each-ref "
            f"--format='delete %(refname)' {tree.refs} | "
            "git update-ref --stdin"
        )
        names = join_some(found, _SHOWN)
        raise EnvironmentFailed(problem + names, str(tree.top), hint)


def update_ref(git: Git, ref: str, *, new: str = "", old: str = "") -> None:
    """Move `ref` from `old` to `new`: no `old`, and it must be new; no `new`, and it is
    deleted. What is so already is left. Raises RefMoved when it holds another commit,
    else GitFailed."""
    verb = "delete" if not new else "update" if old else "create"
    line = " ".join(filter(None, (verb, ref, new, old)))
    try:
        git.run("update-ref", "--no-deref", "--stdin", data=f"{line}\n".encode())
    except GitFailed:
        found = list_refs(git, ref).get(ref, "")
        if found == new:
            return
        if found == old:
            raise  # locked, unwritable, or a ref of that name stands in the way
        now = f"is at {found[:12]}" if found else "is gone"
        before = f"was left at {old[:12]}" if old else "was not there before"
        problem = f"it {now} and {before}: somebody else moved it"
        hint = "Look at what it holds (git log); the search does not touch it."
        raise RefMoved(problem, ref, hint) from None
