"""Worktrees: plain checkouts of explicit commits, without a repository in them.

Each function may be called again after a kill at any step. The index, which git writes
last, says that a worktree is whole; one without is made anew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.atomic import explaining, make_directory
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.storage.repository import GitFailed
from autoexp_tui.storage.trust import read_foreign
from autoexp_tui.worktrees.diffs import list_changes
from autoexp_tui.worktrees.tree_repository import (
    DETACHED,
    Git,
    Place,
    TreeRepository,
    match_path,
)


def add_worktree(git: Git, place: Place, commit: str) -> Path:
    """Check `commit` out at `place`; a worktree that is whole stays as it is. Raises
    EnvironmentFailed."""
    tree = git.tree
    worktree, index = tree.get_worktree(place), tree.get_index(place)
    if index.exists() and worktree.is_dir():
        return worktree
    remove_worktree(tree, place)
    make_directory(index.parent)
    make_directory(worktree)
    with explaining(worktree, "prepare the worktree"):
        (worktree / ".git").write_bytes(DETACHED)
        for path in tree.link_paths:
            _link(tree.top / path, worktree / path)
    try:
        git.run("read-tree", "--reset", "-u", commit, place=place)
    except GitFailed as error:  # which does not say that the disk is full
        if os.statvfs(worktree).f_bavail:
            raise
        hint = f"Make room, or set {tree.root_option}."
        raise EnvironmentFailed("no space is left", str(worktree), hint) from error
    return worktree


def restore_worktree(
    git: Git,
    place: Place,
    commit: str,
    *,
    root_commit: str = "",
    protected_paths: Sequence[str] = (),
) -> Path:
    """Make a worktree hold `commit`, and nothing else: what foreign code left is gone.
    Protected paths are those of `root_commit`. Raises EnvironmentFailed."""
    tree, files = git.tree, commit
    worktree = tree.get_worktree(place)
    if protected_paths and root_commit not in ("", commit):
        scratch = f"{tree.get_index(place)}.protected"
        files = _build_protected(git, scratch, commit, root_commit, protected_paths)
    if describe_intrusion(tree, place):
        remove_worktree(tree, place)
    if not tree.get_index(place).exists():
        return add_worktree(git, place, files)
    try:
        git.run("read-tree", "--reset", "-u", files, place=place)
        tracked = git.run("ls-files", "-z", place=place).split(b"\0")[:-1]
        _remove_others(worktree, {*map(os.fsdecode, tracked), ".git", *tree.link_paths})
    except (GitFailed, OSError):  # modes, or files that git cannot replace
        remove_worktree(tree, place)
        add_worktree(git, place, files)
    return worktree


def _remove_others(worktree: Path, expected: set[str]) -> None:
    """Remove all but what is expected and the directories that lead there."""
    kept = set(expected)
    for path in expected:
        while (path := os.path.dirname(path)) and path not in kept:
            kept.add(path)
    for here, directories, files in os.walk(worktree, onerror=_raise):
        below = os.path.relpath(here, worktree)
        below = "" if below == os.curdir else f"{below}/"
        others = {below + name for name in (*directories, *files)} - kept
        directories[:] = [name for name in directories if below + name not in others]
        for path in others:
            remove_below(worktree, path)


def _raise(error: OSError) -> None:
    raise error


def _link(target: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def _build_protected(
    git: Git, scratch: str, commit: str, root_commit: str, patterns: Sequence[str]
) -> str:
    """The tree of `commit` with the protected paths of `root_commit`; the commit itself
    where they are equal, as they are unless a person changed them."""
    changes = list_changes(git, commit, root_commit)
    wrong = [one for one in changes if match_path(one.path, patterns)]
    if not wrong:
        return commit
    entries = (
        b"%s %s\t%s\0" % (one.new_mode.encode(), one.new_id.encode(), one.raw_path)
        for one in sorted(wrong, key=lambda one: one.new_mode != "000000")
    )
    make_directory(Path(scratch).parent)
    index = {"GIT_INDEX_FILE": scratch}
    try:
        git.run("read-tree", commit, environment=index)
        words = ("update-index", "-z", "--replace", "--index-info")
        git.run(*words, data=b"".join(entries), environment=index)
        return git.run("write-tree", environment=index).decode().strip()
    finally:
        Path(scratch).unlink(missing_ok=True)


def remove_worktree(tree: TreeRepository, place: Place) -> None:
    """Remove a worktree and its index, there or half there; raises
    EnvironmentFailed."""
    index, worktree = tree.get_index(place), tree.get_worktree(place)
    with explaining(worktree, "remove the worktree"):
        # First, so that what is half removed does not count as whole.
        for name in (index.name, f"{index.name}.lock"):
            _remove(tree.root, f"{index.parent.name}/{name}")
        _remove(tree.root, str(place))


def _remove(root: Path, inside: str) -> None:
    with suppress(FileNotFoundError):  # nothing was made there yet
        remove_below(root, inside)


def is_worktree(directory: Path) -> bool:
    """Whether its `.git` is as we make it."""
    try:
        return read_foreign(directory / ".git", len(DETACHED)) == DETACHED
    except OSError:
        return False


def describe_intrusion(tree: TreeRepository, place: Place) -> str:
    """What foreign code did to the parts of a worktree that are ours: its `.git` and
    the links; empty: nothing."""
    worktree = tree.get_worktree(place)
    if not worktree.is_dir() or worktree.is_symlink():
        return "the worktree is gone"
    if not is_worktree(worktree):
        return "it made a repository of its own in place of .git"
    for path in tree.link_paths:
        link = worktree / path
        if not link.is_symlink() or link.readlink() != tree.top / path:
            return f"it replaced {path}, which is linked into the worktree"
    return ""


def build_environment(tree: TreeRepository) -> dict[str, str]:
    """What foreign code gets, so that git finds no repository of ours from there."""
    return {"GIT_CEILING_DIRECTORIES": str(tree.root)}
