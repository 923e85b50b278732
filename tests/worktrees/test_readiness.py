"""What a search may begin in, and what is refused before it does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.model.errors import AutoexpError, UsageError, ValidationFailed
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.readiness import check_repository, open_repository
from autoexp_tui.worktrees.tree_repository import Git, Place, TreeRepository
from tests.worktrees.conftest import (
    CANDIDATE,
    call_git,
    describe_users_part,
    write_files,
)


def test_the_repository_is_found_from_below_and_from_a_worktree_of_the_user(
    tree: TreeRepository, top: Path, tmp_path: Path
) -> None:
    found = open_repository(top / "package" / "deep", "r1", tree.root)
    assert (found.top, found.git_dir) == (top, top / ".git")
    call_git(top, "worktree", "add", "-q", "--detach", str(tmp_path / "second"))
    found = open_repository(tmp_path / "second", "r1", tree.root)
    assert (found.top, found.git_dir) == (tmp_path / "second", top / ".git")
    check_repository(found, tmp_path / "state")


@pytest.mark.parametrize(("make", "problem"), [
    (lambda at: call_git(at, "init", "-q", "--bare"), "it is a bare repository"),
    (lambda at: (at / ".git").write_text("gitdir: /dev/null/x\n"), "not in a git"),
    (lambda at: (at / ".git").mkdir(), "not in a git checkout"),
])  # fmt: skip
def test_what_is_no_checkout_is_refused_with_the_next_step(
    tmp_path: Path, make: Callable[[Path], None], problem: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    make(place)
    with pytest.raises(AutoexpError, match=problem) as caught:
        open_repository(place, "r1", tmp_path / "session")
    assert "git init" in caught.value.hint


def test_without_git_the_next_step_is_told(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(top))
    with pytest.raises(AutoexpError, match="Is git installed"):
        open_repository(top, "r1", top.parent)


@pytest.mark.parametrize("run", ["", ".", "a/b", "../x", "a..b", "x.lock", "-x", "a b"])
def test_a_run_has_a_name_that_refs_and_paths_can_have(top: Path, run: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a run"):
        open_repository(top, run, top.parent)


def test_a_revision_without_a_commit_is_refused(
    tree: TreeRepository, top: Path, tmp_path: Path
) -> None:
    call_git(tmp_path, "init", "-q", "fresh")
    fresh = open_repository(tmp_path / "fresh", "r1", tree.root)
    for git, revision in (
        (Git(tree), "gone"),
        (Git(tree), "--all"),
        (Git(fresh), "HEAD"),
    ):
        with pytest.raises(UsageError, match="is no commit of the repository"):
            git.resolve(revision)


def change_much(top: Path) -> None:
    write_files(top, {"solver.py": "x", "new.py": "", "data/big": "", "notes/b": ""})
    write_files(top, {f"many/{n:03}.txt": "" for n in range(100)})
    call_git(top, "rm", "-q", "--cached", "package/deep/module.py")


@pytest.mark.parametrize(("change", "links", "problems"), [
    (change_much, ("data", "notes/b"), [
        "there are uncommitted changes: package/deep/module.py, solver.py",
        "there are files that git neither tracks nor ignores: many/000.txt, "
        "many/001.txt, many/002.txt, many/003.txt, many/004.txt and 97 more"]),
    (lambda top: None, ("gone",), ["tree.link_paths: gone: it is not there"]),
    (lambda top: None, ("tests", "solver.py"), [
        "tree.link_paths: tests: git tracks it, or what is in it",
        "tree.link_paths: solver.py: git tracks it, or what is in it"]),
    (lambda top: None, ("/etc", "a/../../x"), [
        "tree.link_paths: /etc: it is no path below the checkout",
        "tree.link_paths: ../x: it is no path below the checkout"]),
])  # fmt: skip
def test_all_that_is_not_ready_is_named_at_once(
    tree: TreeRepository,
    top: Path,
    change: Callable[[Path], None],
    links: tuple[str, ...],
    problems: list[str],
) -> None:
    change(top)
    tree = open_repository(top, "r1", tree.root, links)
    with pytest.raises(ValidationFailed) as caught:
        check_repository(tree, tree.root)
    told = caught.value.problems
    assert [str(replace(one, hint="")) for one in told] == problems


def test_our_places_in_the_checkout_do_not_count(top: Path) -> None:
    state = top / "outputs" / ".autoexp"
    write_files(state, {"s1/journal": "x"})
    for root in (top / "trees", state / "s1", state / "s1"):
        tree = open_repository(top, "r1", root)
        check_repository(tree, state)
        add_worktree(Git(tree), CANDIDATE, Git(tree).resolve("HEAD"))
    assert call_git(top, "status", "--porcelain", "-uall") == ""
    assert not (state / "s1" / ".gitignore").exists()


@pytest.mark.parametrize("place", ["cand/1/package", "../user/repo/.git/trees"])
def test_worktrees_do_not_lie_in_another_nor_in_the_repository(
    tree: TreeRepository, top: Path, root: str, place: str
) -> None:
    add_worktree(Git(tree), CANDIDATE, root)
    before = describe_users_part(top)
    nested = open_repository(top, "r2", tree.root / place)
    with pytest.raises(ValidationFailed, match=r"it lies in .*(worktree|repository)"):
        check_repository(nested, top.parent / "state")
    assert describe_users_part(top) == before
    with pytest.raises(AutoexpError, match="not in a git checkout"):
        open_repository(tree.get_worktree(CANDIDATE) / "package", "r2", tree.root)


def test_filters_and_submodules_are_named_and_not_run(
    tree: TreeRepository, top: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    call_git(tmp_path, "init", "-q", "inner")
    call_git(tmp_path / "inner", "commit", "-q", "--allow-empty", "-m", "x")
    call_git(top, "submodule", "add", "-q", str(tmp_path / "inner"), "lib")
    attributes = "*.bin filter=lfs -text\nplain.bin -filter\n"
    write_files(top, {".gitattributes": attributes, "a.bin": "one", "plain.bin": ""})
    call_git(top, "add", "-A")
    call_git(top, "commit", "-q", "-m", "large files")
    call_git(top, "config", "filter.lfs.clean", f"touch {ran}; echo pointer")
    (top / "a.bin").write_text("two")  # as its filter would have it, or not: not ours
    notes = check_repository(tree, tmp_path / "state")
    assert [note.partition(". ")[0] for note in notes] == [
        "under a filter (such as LFS), and is a pointer in worktrees: a.bin",
        "a submodule, and is empty in worktrees: lib",
    ]
    assert not ran.exists()
    worktree = add_worktree(Git(tree), Place("wt", "0"), Git(tree).resolve("HEAD"))
    assert [*(worktree / "lib").iterdir()] == []
    subprocess.run(["git", "-C", top, "status"], check=True, capture_output=True)
    assert ran.exists()
