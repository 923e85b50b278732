"""Refs of a run move from a known commit, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.repository import GitFailed
from autoexp_tui.worktrees.tree_repository import (
    Git,
    Place,
    RefMoved,
    TreeRepository,
    list_refs,
    require_unused_run,
    update_ref,
)
from tests.worktrees.conftest import call_git

REF = "refs/tree/r1/n3"


@pytest.fixture
def second(top: Path, root: str) -> str:
    call_git(top, "commit", "-q", "--allow-empty", "-m", "second")
    return call_git(top, "rev-parse", "HEAD").strip()


def test_each_move_may_be_made_again(
    tree: TreeRepository, root: str, second: str, top: Path
) -> None:
    require_unused_run(Git(tree))
    moves: list[tuple[str, str]] = [(root, ""), (second, root), ("", second)]
    for new, old in moves:
        update_ref(Git(tree), tree.get_ref(Place("wt", "3")), new=new, old=old)
        update_ref(Git(tree), REF, new=new, old=old)
        assert list_refs(Git(tree)) == ({REF: new} if new else {})
        if new:
            assert call_git(top, "rev-parse", "tree/r1/n3").strip() == new
    assert call_git(top, "branch", "--list", "*tree*") == ""


@pytest.mark.parametrize("moves", ["create", "update", "delete"])
def test_a_ref_that_somebody_moved_is_told_and_left(
    tree: TreeRepository, root: str, second: str, top: Path, moves: str
) -> None:
    call_git(top, "commit", "-q", "--allow-empty", "-m", "foreign")
    foreign = call_git(top, "rev-parse", "HEAD").strip()
    call_git(top, "update-ref", REF, foreign)
    new = "" if moves == "delete" else second
    with pytest.raises(RefMoved, match=f"is at {foreign[:12]} and was"):
        update_ref(Git(tree), REF, new=new, old="" if moves == "create" else root)
    assert list_refs(Git(tree)) == {REF: foreign}
    with pytest.raises(EnvironmentFailed, match="refs of a run r1 already"):
        require_unused_run(Git(tree))


def test_a_ref_that_cannot_be_written_is_told_with_what_git_says(
    tree: TreeRepository, root: str, top: Path
) -> None:
    lock = top / ".git" / f"{REF}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with pytest.raises(GitFailed, match=r"n3\.lock"):
        update_ref(Git(tree), REF, new=root)
