"""A small repository of a user, with a search of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from autoexp_tui.tree.options import Implementation
from autoexp_tui.worktrees.candidates import (
    CandidateCommit,
    CommitRecord,
    commit_candidate,
)
from autoexp_tui.worktrees.readiness import open_repository
from autoexp_tui.worktrees.tree_repository import Git, Place, TreeRepository

FILES = {
    "solver.py": "step = 1\nrate = 2\nsize = 3\n",
    "tests/test_solver.py": "assert True\n",
    "tests/data/points.txt": "1 2\n",
    "package/deep/module.py": "x = 1\n",
    ".gitignore": "*.log\n__pycache__/\n/data\n",
}
RULES = Implementation(protected_paths=("tests", "*.lock"), max_file_bytes=4096)
CANDIDATE = Place("cand", "1")


def call_git(directory: Path, *words: str, ok: bool = True) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    local = ("-c", "protocol.file.allow=always")
    done = subprocess.run(
        ("git", "-C", directory, *identity, *local, *words),
        check=ok,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )
    return done.stdout if ok else f"{done.returncode} {done.stderr}"


def write_files(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def describe_users_part(top: Path) -> tuple[str, ...]:
    """All that is the user's: HEAD, refs, index, checkout, worktrees."""
    others = call_git(top, "for-each-ref")
    return (
        "\n".join(line for line in others.splitlines() if "refs/tree/" not in line),
        call_git(top, "symbolic-ref", "HEAD"),
        call_git(top, "status", "--porcelain", "-uall", "--ignored"),
        call_git(top, "ls-files", "-s", "--debug"),
        call_git(top, "worktree", "list", "--porcelain"),
        (top / ".git" / "config").read_text(),
    )


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "user" / "repo"
    write_files(made, FILES)
    call_git(made, "init", "-q", "-b", "main")
    call_git(made, "add", "-A")
    call_git(made, "commit", "-q", "-m", "first")
    return made


@pytest.fixture
def tree(top: Path, tmp_path: Path) -> TreeRepository:
    return open_repository(top, "r1", tmp_path / "session")


@pytest.fixture
def root(tree: TreeRepository) -> str:
    return Git(tree).resolve("HEAD")


def commit_files(
    tree: TreeRepository,
    root: str,
    place: Place = CANDIDATE,
    message: str = "an idea\n",
) -> CandidateCommit:
    record = CommitRecord(parent=root, message=message, epoch=1_700_000_000)
    return commit_candidate(Git(tree), place, record, RULES)
