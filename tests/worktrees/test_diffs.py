"""Diffs: numbers, bounds, and one hash for one change."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.worktrees.diffs import (
    format_stat,
    list_changes,
    list_top_files,
    read_diff,
)
from autoexp_tui.worktrees.tree_repository import Git, TreeRepository
from tests.worktrees.conftest import call_git, write_files

BODY = "".join(f"line {n}\n" for n in range(40))


def commit(top: Path, start: str, files: dict[str, str], mode: int = 0o644) -> str:
    call_git(top, "checkout", "-q", "--detach", start)
    write_files(top, files)
    for name in files:
        (top / name).chmod(mode)
    call_git(top, "add", "-A")
    call_git(top, "commit", "-q", "--allow-empty", "-m", "x")
    return call_git(top, "rev-parse", "HEAD").strip()


def test_changes_have_numbers_modes_and_an_order(
    tree: TreeRepository, top: Path, root: str
) -> None:
    (top / "package/deep/module.py").chmod(0o755)
    (top / "tests/data/points.txt").unlink()
    new = commit(
        top, root, {"b.bin": "\0\1", "solver.py": "step = 1\nx\n", ":a\tb": ""}
    )
    changes = list_changes(Git(tree), root, new)
    assert format_stat(list_top_files(changes)) == (
        "solver.py  +1 -2",
        "tests/data/points.txt  +0 -1",
        ":a b  +0 -0",
        "b.bin  binary",
        "package/deep/module.py  +0 -0  mode 100644 -> 100755",
        "5 files  +1 -3",
    )
    assert format_stat(changes, 1) == (
        "solver.py  +1 -2", "and 4 more files", "5 files  +1 -3",
    )  # fmt: skip


def test_a_patch_is_cut_at_its_bound(
    tree: TreeRepository, top: Path, root: str
) -> None:
    new = commit(top, root, {"long.txt": BODY * 100})
    diff = read_diff(Git(tree), root, new)
    whole = diff.cut_patch()
    assert (whole.count("\n+line "), whole[-1]) == (4000, "\n")
    assert diff.cut_patch(500) == f"{whole[:500]}\n# it goes on\n"


@pytest.mark.parametrize(("changed", "is_same"), [
    ("rate = 3\n" + BODY, True),  # elsewhere, among other lines
    (BODY[:70] + "rate = 3  \n" + BODY[70:], True),
    (BODY + "rate = 4\n", False),
    (BODY + "rate = 3\nrate = 3\n", False),
    ("rate = 3\n" + BODY[7:], False),  # a line went, too
])  # fmt: skip
def test_one_change_has_one_hash_wherever_it_stands(
    tree: TreeRepository, top: Path, root: str, changed: str, is_same: bool
) -> None:
    start = commit(top, root, {"a.py": BODY})
    other = commit(top, root, {"a.py": f"head\n{BODY}", "b.py": ""})
    reference = commit(top, other, {"a.py": f"head\n{BODY}rate = 3\n"})
    twin = commit(top, start, {"a.py": changed})
    git = Git(tree)
    known = read_diff(git, other, reference).hash()
    assert (read_diff(git, start, twin).hash() == known) is is_same


def test_the_hash_knows_files_modes_and_binary_content(
    tree: TreeRepository, top: Path, root: str
) -> None:
    commits = [commit(top, root, files) for files in (
        {"a": "x\n"}, {"b": "x\n"}, {"a": "\0x\n"}, {"a": "\0y\n"}, {}, {"a": "x"},
    )]  # fmt: skip
    commits.append(commit(top, root, {"a": "x\n"}, 0o755))
    git = Git(tree)
    assert len({read_diff(git, root, one).hash() for one in commits}) == len(commits)
