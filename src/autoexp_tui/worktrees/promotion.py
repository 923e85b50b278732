"""What becomes of a candidate: it is promoted to a node, or pruned; and the branch of
the best chain at the end. Each step may be done again after a kill before or behind it.

A node's ref is there before the candidate's goes: no commit is ever without one. What
cannot be removed is handed back, to be tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed, UsageError
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.storage.repository import GitFailed
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.tree.state import Leftover
from autoexp_tui.worktrees.candidates import CommitRecord, write_commit
from autoexp_tui.worktrees.checkouts import add_worktree, remove_worktree
from autoexp_tui.worktrees.tree_repository import (
    Git,
    Kind,
    Place,
    RefMoved,
    TreeRepository,
    update_ref,
)


def promote(
    git: Git, *, evaluation: str, node: str, commit: str
) -> tuple[Leftover, ...]:
    """Make an evaluation's commit a node: its ref, its worktree; then the candidate's
    worktree and ref go. What of these could not; raises EnvironmentFailed when the node
    cannot be made."""
    place = Place("wt", node)
    update_ref(git, git.tree.get_ref(place), new=commit)
    add_worktree(git, place, commit)
    return prune(git, Place("cand", evaluation), commit)


def prune(git: Git, place: Place, commit: str) -> tuple[Leftover, ...]:
    """Remove a worktree and its ref, which is at `commit` (empty: none was made); what
    could not be removed."""
    return retry_cleanup(git, list_cleanup(git.tree, place, commit))


def list_cleanup(tree: TreeRepository, place: Place, commit: str) -> list[Leftover]:
    """A worktree and its ref, as what is to be removed. Paths are below the root of
    worktrees; of a branch it is the ref."""
    found = [Leftover(path=str(place), kind="worktree", reason="")]
    if commit:
        ref = tree.get_ref(place)
        found.append(Leftover(path=ref, kind="branch", reason="", commit=commit))
    return found


def retry_cleanup(git: Git, leftovers: Sequence[Leftover]) -> tuple[Leftover, ...]:
    """Try to remove each; what is left, with why. A path that is not one of ours is
    never removed."""
    left = list[Leftover]()
    for item in leftovers:
        try:
            _clean_up(git, item)
        except (AutoexpError, OSError, ValueError) as error:
            reason = getattr(error, "problem", None) or getattr(error, "strerror", None)
            left.append(replace(item, reason=clean_line(reason or error)))
    return tuple(left)


def _clean_up(git: Git, item: Leftover) -> None:
    tree = git.tree
    if item.kind == "dir":
        remove_below(tree.root, item.path)
    elif item.kind == "worktree":
        remove_worktree(tree, _parse_place(item.path))
    elif item.path.startswith(tree.refs):
        update_ref(git, item.path, old=item.commit)
    else:
        raise EnvironmentFailed("it is no ref of this run")


def _parse_place(path: str) -> Place:
    kind, _, name = path.partition("/")
    if kind not in get_args(Kind):
        raise EnvironmentFailed("it is no worktree of ours")
    return Place(cast(Kind, kind), name)


def finalize(
    git: Git,
    branch: str,
    root_commit: str,
    chain: Sequence[tuple[str, str]],
    *,
    epoch: int,
) -> str:
    """Make a branch with one commit an idea over the root; each holds the very files of
    its node. The tip; no checkout is touched. `chain`: of each idea, from the root on,
    the node's commit and a message with its numbers. Raises UsageError for a name that
    cannot be one or is taken, else EnvironmentFailed."""
    _require_branch_name(git, branch)
    tip = root_commit
    for commit, message in chain:
        files = git.run("rev-parse", "--verify", f"{commit}^{{tree}}")
        record = CommitRecord(parent=tip, message=message, epoch=epoch)
        tip = write_commit(git, files.decode().strip(), record)
    create_branch(git, branch, tip)
    return tip


def _require_branch_name(git: Git, branch: str) -> None:
    try:
        git.run("check-ref-format", "--branch", branch)
    except GitFailed as error:
        problem = f"{clean_line(branch, 100)!r} cannot be the name of a branch"
        raise UsageError(problem, hint="See git check-ref-format.") from error


def create_branch(git: Git, branch: str, tip: str) -> None:
    """Make a branch, or find it made; raises UsageError when it is another."""
    try:
        update_ref(git, f"refs/heads/{branch}", new=tip)
    except RefMoved as error:
        problem = f"there is a branch {clean_line(branch, 100)} already"
        hint = "Choose another name; it was not touched."
        raise UsageError(problem, hint=hint) from error
