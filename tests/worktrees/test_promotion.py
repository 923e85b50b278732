"""Promotion, pruning and the final branch, killed between any two steps."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.model.errors import UsageError
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.tree.state import Leftover
from autoexp_tui.worktrees import checkouts
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.promotion import finalize, promote, prune, retry_cleanup
from autoexp_tui.worktrees.tree_repository import (
    Git,
    Place,
    TreeRepository,
    list_refs,
    update_ref,
)
from tests.worktrees.conftest import (
    CANDIDATE,
    call_git,
    commit_files,
    describe_users_part,
    write_files,
)


class Killed(BaseException):
    pass


@pytest.fixture
def commit(tree: TreeRepository, root: str) -> str:
    """Of an evaluation that ended."""
    write_files(add_worktree(Git(tree), CANDIDATE, root), {"solver.py": "step = 2\n"})
    made = commit_files(tree, root).commit
    update_ref(Git(tree), tree.get_ref(CANDIDATE), new=made)
    return made


def run_with_kills(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[], object],
    look: Callable[[], object] = lambda: None,
) -> int:
    """Kill before and behind the first, the second ... step, look, and do it again each
    time; how often."""
    steps = (
        (Git, "read"), (checkouts, "remove_below"), (checkouts, "make_directory"),
        (checkouts, "_link"),
    )  # fmt: skip
    kills = 0
    while True:
        left = kills

        def die_sometimes(step: Callable[..., object]) -> Callable[..., object]:
            def stepped(*args: object, **named: object) -> object:
                nonlocal left
                for is_before in (True, False):
                    result = None if is_before else step(*args, **named)
                    if left == 0:
                        raise Killed
                    left -= 1
                return result

            return stepped

        with monkeypatch.context() as patch:
            for owner, name in steps:
                patch.setattr(owner, name, die_sometimes(getattr(owner, name)))
            try:
                call()
            except Killed:
                kills += 1
            else:
                return kills
        look()


def test_a_promotion_killed_anywhere_and_done_again_is_the_same(
    tree: TreeRepository,
    commit: str,
    top: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_files(top, {"data/input": "x"})
    tree = replace(tree, link_paths=("data",))
    before = describe_users_part(top)
    results: list[tuple[Leftover, ...]] = []

    def require_reachable() -> None:
        assert commit in list_refs(Git(tree)).values()

    kills = run_with_kills(
        monkeypatch,
        lambda: results.append(
            promote(Git(tree), evaluation="1", node="7", commit=commit)
        ),
        require_reachable,
    )
    assert kills > 15
    assert results == [()]
    assert list_refs(Git(tree)) == {"refs/tree/r1/n7": commit}
    assert sorted(p.name for p in tree.root.glob("*/*")) == ["7", "wt-7"]
    assert (tree.root / "wt/7/solver.py").read_text() == "step = 2\n"
    assert (tree.root / "wt/7/data/input").read_text() == "x"
    assert describe_users_part(top) == before


def test_what_cannot_be_removed_is_named_and_removed_later(
    tree: TreeRepository, commit: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(root: Path, inside: str) -> bool:
        if inside == "cand/1":
            raise OSError(errno.EBUSY, "Device or resource busy")
        return remove_below(root, inside)

    with monkeypatch.context() as patch:
        patch.setattr(checkouts, "remove_below", fail)
        deferred = prune(Git(tree), CANDIDATE, commit)
        assert retry_cleanup(Git(tree), deferred) == deferred
    assert [(one.path, one.kind, one.reason) for one in deferred] == [
        ("cand/1", "worktree", "cannot remove the worktree: Device or resource busy")
    ]
    assert not tree.get_index(CANDIDATE).exists()  # half removed is not whole
    assert retry_cleanup(Git(tree), deferred) == ()
    assert not tree.get_worktree(CANDIDATE).exists()
    assert list_refs(Git(tree)) == {}


def test_a_ref_that_somebody_moved_stays(
    tree: TreeRepository, commit: str, root: str, top: Path
) -> None:
    call_git(top, "update-ref", "refs/tree/r1/e1", root)
    (deferred,) = prune(Git(tree), CANDIDATE, commit)
    assert (deferred.path, deferred.kind) == ("refs/tree/r1/e1", "branch")
    assert "somebody else moved it" in deferred.reason
    assert list_refs(Git(tree)) == {"refs/tree/r1/e1": root}


@pytest.mark.parametrize(("path", "kind"), [
    ("refs/heads/main", "branch"), ("refs/tree/other/e1", "branch"),
    ("../user/repo", "worktree"), ("cand/..", "worktree"), ("journal/x", "worktree"),
])  # fmt: skip
def test_only_what_is_ours_is_cleaned_up(
    tree: TreeRepository, top: Path, root: str, path: str, kind: str
) -> None:
    before = describe_users_part(top)
    call_git(top, "update-ref", "refs/tree/other/e1", root)
    item = Leftover(path=path, kind=kind, reason="", commit=root)  # type: ignore[arg-type]
    assert len(retry_cleanup(Git(tree), [item])) == 1
    assert describe_users_part(top) == before
    assert call_git(top, "rev-parse", "refs/tree/other/e1").strip() == root


def test_the_final_branch_has_a_commit_an_idea_and_the_files_of_the_best(
    tree: TreeRepository, commit: str, root: str, top: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    place = Place("cand", "2")
    write_files(
        add_worktree(Git(tree), place, commit), {"package/deep/module.py": "x = 2\n"}
    )
    best = commit_files(tree, commit, place).commit
    before = describe_users_part(top)
    chain = [(commit, "cool\n\nscore 0.8\n"), (best, "clamp\n")]
    tips: list[str] = []
    run_with_kills(
        monkeypatch,
        lambda: tips.append(finalize(Git(tree), "tree-best", root, chain, epoch=5)),
    )
    assert call_git(top, "log", "--format=%s|%at", f"{root}..tree-best").split() == [
        "clamp|5", "cool|5",
    ]  # fmt: skip
    assert call_git(top, "show", "-s", "--format=%B", "tree-best~1").strip() == (
        "cool\n\nscore 0.8"
    )
    assert call_git(top, "diff", best, "tree-best") == ""
    assert tips == [call_git(top, "rev-parse", "tree-best").strip()]
    call_git(top, "branch", "-D", "tree-best")
    assert describe_users_part(top) == before


@pytest.mark.parametrize(("name", "problem"), [
    ("main", "there is a branch main already"),
    ("no name", "cannot be the name"), ("-f", "cannot be the name"),
    ("../../x", "cannot be the name"), ("refs//x", "cannot be the name"),
])  # fmt: skip
def test_a_name_that_is_taken_or_none_is_refused(
    tree: TreeRepository, commit: str, root: str, top: Path, name: str, problem: str
) -> None:
    before = describe_users_part(top)
    with pytest.raises(UsageError, match=problem):
        finalize(Git(tree), name, root, [(commit, "x")], epoch=5)
    assert describe_users_part(top) == before
