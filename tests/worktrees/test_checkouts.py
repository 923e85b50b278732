"""Worktrees: whole or made anew, cut off from git, and exactly a commit again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.worktrees.checkouts import (
    add_worktree,
    build_environment,
    restore_worktree,
)
from autoexp_tui.worktrees.tree_repository import DETACHED, Git, Place, TreeRepository
from tests.worktrees.conftest import (
    CANDIDATE,
    FILES,
    call_git,
    commit_files,
    describe_users_part,
    write_files,
)


def read_all(directory: Path) -> dict[str, object]:
    """Each path below with its content, the target of a link, or None."""
    return {
        str(path.relative_to(directory)): os.readlink(path)
        if path.is_symlink()
        else (path.read_bytes(), os.access(path, os.X_OK))
        if path.is_file()
        else None
        for path in directory.rglob("*")
    }


def test_a_worktree_holds_the_commit_and_a_git_that_leads_nowhere(
    tree: TreeRepository, top: Path, root: str
) -> None:
    (top / "solver.py").write_text("later\n")
    call_git(top, "commit", "-q", "-a", "-m", "second")
    worktree = add_worktree(Git(tree), CANDIDATE, root)
    assert worktree == tree.root / "cand" / "1"
    found = {str(p.relative_to(worktree)) for p in worktree.rglob("*") if p.is_file()}
    assert found == {*FILES, ".git"}
    assert (worktree / "solver.py").read_text() == FILES["solver.py"]


@pytest.mark.parametrize("has_git", [True, False])
def test_git_called_in_a_worktree_reaches_no_repository(
    tree: TreeRepository, top: Path, root: str, has_git: bool
) -> None:
    inside = replace(tree, root=top / "state")  # within the user's checkout
    worktree = add_worktree(Git(inside), CANDIDATE, root)
    before = describe_users_part(top)
    if not has_git:
        (worktree / ".git").unlink()
    environment = {**os.environ, **build_environment(inside)}
    for words in (["add", "-A"], ["commit", "-am", "x"], ["checkout", "-b", "evil"]):
        command = ["git", "-C", str(worktree / "package"), *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 128
        assert b"not a git repository" in done.stderr
    if not has_git:
        (worktree / ".git").write_bytes(DETACHED)
    assert describe_users_part(top) == before


def leave_half(tree: TreeRepository, index: Path, worktree: Path) -> None:
    (worktree / "package").mkdir(parents=True)
    (worktree / "package" / "junk.py").write_text("junk")
    index.with_name(f"{index.name}.lock").write_text("")


def leave_index(tree: TreeRepository, index: Path, worktree: Path) -> None:
    index.write_text("")


def leave_link(tree: TreeRepository, index: Path, worktree: Path) -> None:
    worktree.parent.mkdir(exist_ok=True)
    worktree.symlink_to(tree.top)


@pytest.mark.parametrize("leave", [leave_half, leave_index, leave_link])
def test_what_a_kill_or_a_stranger_left_is_made_anew(
    tree: TreeRepository, root: str, leave: Callable[..., None]
) -> None:
    index, worktree = tree.get_index(CANDIDATE), tree.get_worktree(CANDIDATE)
    index.parent.mkdir(parents=True)
    leave(tree, index, worktree)
    add_worktree(Git(tree), CANDIDATE, root)
    assert "package/junk.py" not in read_all(worktree)
    assert not worktree.is_symlink()
    assert (worktree / "solver.py").exists()


def test_one_that_is_whole_is_left_as_it_is(tree: TreeRepository, root: str) -> None:
    worktree = add_worktree(Git(tree), CANDIDATE, root)
    (worktree / "solver.py").write_text("work in progress\n")
    add_worktree(Git(tree), CANDIDATE, root)
    assert (worktree / "solver.py").read_text() == "work in progress\n"


def meddle(worktree: Path) -> None:
    solver = worktree / "solver.py"
    times = solver.stat()
    solver.write_text(FILES["solver.py"].replace("1", "9"))  # of the same length
    os.utime(solver, ns=(times.st_atime_ns, times.st_mtime_ns))
    (worktree / "tests" / "test_solver.py").chmod(0o755)
    (worktree / "tests" / "data" / "points.txt").unlink()
    (worktree / "tests" / "data" / "points.txt").mkdir()
    (worktree / "package" / "deep" / "module.py").unlink()
    (worktree / "package" / "deep").rmdir()
    write_files(worktree.parent, {"outside/module.py": "foreign"})
    (worktree / "package" / "deep").symlink_to(worktree.parent / "outside")
    write_files(worktree, {
        "a.log": "ignored", "__pycache__/x.pyc": "", "new/deep/er.py": "",
        ".hidden/.gitignore": "*", "tests/.git/config": "[core]\nfsmonitor = evil\n",
    })  # fmt: skip
    call_git(worktree, "init", "-q", "own")
    (worktree / "empty").mkdir()
    (worktree / "pipe").symlink_to("/")
    os.mkfifo(worktree / "package" / "fifo")


def replace_git(worktree: Path) -> None:
    (worktree / ".git").unlink()
    call_git(worktree, "init", "-q")


def vanish(worktree: Path) -> None:
    worktree.rename(worktree.with_name("elsewhere"))


@pytest.mark.parametrize("change", [meddle, replace_git, vanish])
def test_a_worktree_is_exactly_the_commit_again(
    tree: TreeRepository, top: Path, root: str, change: Callable[[Path], None]
) -> None:
    (top / "data").mkdir()
    tree = replace(tree, link_paths=("data",))
    worktree = add_worktree(Git(tree), CANDIDATE, root)
    fresh = read_all(worktree)
    assert fresh["data"] == str(top / "data")
    change(worktree)
    restore_worktree(Git(tree), CANDIDATE, root)
    assert read_all(worktree) == fresh
    for outside in worktree.parent.glob("outside/*"):
        assert outside.read_text() == "foreign"


def test_protected_paths_come_from_the_root(
    tree: TreeRepository, top: Path, root: str
) -> None:
    write_files(
        top, {"tests/test_solver.py": "easy\n", "tests/extra.py": "", "b.py": ""}
    )
    (top / "tests" / "data" / "points.txt").unlink()
    call_git(top, "add", "-A")
    call_git(top, "commit", "-q", "-m", "a person changed the tests")
    commit = call_git(top, "rev-parse", "HEAD").strip()
    worktree = restore_worktree(
        Git(tree), CANDIDATE, commit, root_commit=root, protected_paths=("tests",)
    )
    names = {*FILES, "b.py"}
    assert {name for name in read_all(worktree) if "." in name} - {".git"} == names
    assert (worktree / "tests/test_solver.py").read_text() == "assert True\n"


def test_a_candidate_that_is_committed_and_restored_holds_its_files(
    tree: TreeRepository, root: str
) -> None:
    worktree = add_worktree(Git(tree), CANDIDATE, root)
    write_files(worktree, {"solver.py": "step = 5\n", "trace.log": "x"})
    commit = commit_files(tree, root).commit
    restore_worktree(
        Git(tree), CANDIDATE, commit, root_commit=root, protected_paths=("tests",)
    )
    assert (worktree / "solver.py").read_text() == "step = 5\n"
    assert not (worktree / "trace.log").exists()
    scorer = restore_worktree(Git(tree), Place("scorer", "root"), root)
    assert (scorer / "solver.py").read_text() == FILES["solver.py"]
