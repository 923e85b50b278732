"""One commit of a candidate: always the same, or refused with every reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.worktrees import candidates
from autoexp_tui.worktrees.candidates import (
    CandidateRefused,
    CommitRecord,
    commit_candidate,
)
from autoexp_tui.worktrees.checkouts import add_worktree, restore_worktree
from autoexp_tui.worktrees.promotion import prune
from autoexp_tui.worktrees.tree_repository import Git, Place, TreeRepository, update_ref
from tests.worktrees.conftest import (
    CANDIDATE,
    RULES,
    call_git,
    commit_files,
    describe_users_part,
    write_files,
)


@pytest.fixture
def worktree(tree: TreeRepository, root: str) -> Path:
    return add_worktree(Git(tree), CANDIDATE, root)


def refuse(tree: TreeRepository, root: str) -> list[tuple[str, tuple[str, ...]]]:
    with pytest.raises(CandidateRefused) as caught:
        commit_files(tree, root)
    return [(one.code, one.paths) for one in caught.value.refusals]


def test_the_same_files_make_the_same_commit_with_author_date_and_message(
    tree: TreeRepository, worktree: Path, top: Path, root: str
) -> None:
    before = describe_users_part(top)
    other = Place("cand", "2")
    write_files(worktree, {"solver.py": "step = 2\n", "new.py": "a\nb\n", "a.log": ""})
    write_files(add_worktree(Git(tree), other, root), {"new.py": "a\nb\n"})
    write_files(tree.get_worktree(other), {"solver.py": "step = 2\n"})
    first, again = commit_files(tree, root), commit_files(tree, root)
    assert first == again
    assert commit_files(tree, root, other).commit == first.commit
    numbers = [(one.path, one.added, one.removed) for one in first.diff.changes]
    assert numbers == [("new.py", 2, 0), ("solver.py", 1, 3)]
    shown = call_git(top, "log", "-1", "--format=%P|%an|%ce|%at|%cI|%B", first.commit)
    assert shown.split("|") == [
        root, "autoexp-tree", "autoexp-tree@localhost", "1700000000",
        "2023-11-14T22:13:20+00:00", "an idea\n\n",
    ]  # fmt: skip
    assert describe_users_part(top) == before


def link(target: str, name: str) -> Callable[[Path], None]:
    def change(at: Path) -> None:
        (at / name).symlink_to(target)

    return change


def write(name: str, text: str = "x") -> Callable[[Path], None]:
    return lambda at: write_files(at, {name: text})


def make_pipe(at: Path) -> None:
    (at / "solver.py").unlink()
    os.mkfifo(at / "solver.py")


def make_inner(at: Path) -> None:
    call_git(at, "init", "-q", "inner")
    write_files(at / "inner", {"x": ""})
    call_git(at / "inner", "add", "-A")
    call_git(at / "inner", "commit", "-q", "-m", "x")


@pytest.mark.parametrize(("change", "expected"), [
    (lambda at: None, [("empty", ())]),
    (write("only.log"), [("empty", ())]),
    (write("tests/new.py"), [("protected", ("tests/new.py",))]),
    (write("a/uv.lock"), [("protected", ("a/uv.lock",))]),
    (lambda at: shutil.rmtree(at / "tests/data"),
     [("protected", ("tests/data/points.txt",))]),
    (write("package/.GitModules"), [("git_files", ("package/.GitModules",))]),
    (lambda at: (at / ".gitignore").unlink(), [("git_files", (".gitignore",))]),
    (lambda at: at.rename(at.parent / "away"), [("tampered", ())]),
    (make_inner, [("submodule", ("inner/",))]),
    (write("big.bin", "\0" * 4097), [("too_large", ("big.bin",))]),
    (write("solver.py", "#" * 5000), [("too_large", ("solver.py",))]),
    (write("deep/table.csv"), [("artifact", ("deep/table.csv",))]),
    (write("a.ckpt/x.txt"), [("artifact", ("a.ckpt/x.txt",))]),
    (make_pipe, [("special_file", ("solver.py",))]),
    (link("/etc/passwd", "etc"), [("link_outside", ("etc",))]),
    (link("../../x", "package/up"), [("link_outside", ("package/up",))]),
    (link("package/deep/../..", "way"), [("link_outside", ("way",))]),
])  # fmt: skip
def test_a_candidate_is_refused_with_its_reason(
    tree: TreeRepository,
    worktree: Path,
    root: str,
    change: Callable[[Path], None],
    expected: list[tuple[str, tuple[str, ...]]],
) -> None:
    change(worktree)
    assert refuse(tree, root) == expected


def test_all_reasons_come_at_once_in_words(
    tree: TreeRepository, worktree: Path, root: str
) -> None:
    write_files(worktree, {"tests/x.py": "", "a.csv": "", "b\x1b[2J.csv": ""})
    with pytest.raises(CandidateRefused) as caught:
        commit_files(tree, root)
    assert str(caught.value).splitlines() == [
        "the candidate cannot be committed",
        "  - a protected path changed: tests/x.py",
        "  - it is a result or a log, not code: a.csv, b.csv",
    ]


def test_a_flood_of_files_is_refused(
    tree: TreeRepository, worktree: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MOST_FILES", 2)
    write_files(worktree, {"a": "", "b": "", "c": ""})
    assert refuse(tree, root) == [("too_many", ())]
    (worktree / "c").unlink()
    assert commit_files(tree, root).commit


def test_only_what_is_editable_may_change(
    tree: TreeRepository, worktree: Path, root: str
) -> None:
    rules = replace(RULES, editable=("solver.py", "package"))
    record = CommitRecord(parent=root, message="x", epoch=1)
    write_files(worktree, {"solver.py": "x", "package/deep/module.py": "y"})
    assert len(commit_candidate(Git(tree), CANDIDATE, record, rules).diff.changes) == 2
    write_files(worktree, {"other.py": ""})
    with pytest.raises(CandidateRefused, match=r"` names may change: other\.py"):
        commit_candidate(Git(tree), CANDIDATE, record, rules)


def test_a_refused_candidate_may_be_mended_and_committed(
    tree: TreeRepository, worktree: Path, root: str
) -> None:
    write_files(worktree, {"tests/x.py": "", "solver.py": "better\n"})
    assert refuse(tree, root)
    (worktree / "tests/x.py").unlink()
    tree.get_index(CANDIDATE).with_suffix(".lock").touch()  # a git that was killed
    assert [one.path for one in commit_files(tree, root).diff.changes] == ["solver.py"]


def change_kinds(at: Path) -> None:
    """A directory becomes a link, a file a directory, a file executable."""
    shutil.rmtree(at / "package")
    (at / "package").symlink_to("library")
    write_files(at, {"library/deep/module.py": "y = 1\n", "run.sh": "#!/bin/sh\n"})
    (at / "solver.py").unlink()
    write_files(at, {"solver.py/__init__.py": "step = 1\n"})
    (at / "run.sh").chmod(0o755)


def name_oddly(at: Path) -> None:
    for name in (b"new\nline", b"caf\xe9 \xff", b"-rf", b":(glob)*", b'"quoted" \t'):
        with open(os.path.join(os.fsencode(at), name), "wb") as file:
            file.write(b"x")


@pytest.mark.parametrize("change", [change_kinds, name_oddly])
def test_the_commit_holds_what_the_worktree_holds(
    tree: TreeRepository,
    worktree: Path,
    root: str,
    change: Callable[[Path], None],
) -> None:
    change(worktree)
    made = commit_files(tree, root)
    twin = add_worktree(Git(tree), Place("wt", "1"), made.commit)
    compared = subprocess.run(
        ["diff", "-r", "--no-dereference", worktree, twin],
        capture_output=True,
        check=False,
    )
    assert (compared.returncode, compared.stdout) == (0, b"")
    paths = [os.fsencode(one.path) for one in made.diff.changes]
    assert len(paths) >= 5
    assert sorted(paths) == paths


def test_links_to_inputs_are_no_part_of_it_and_must_stay(
    tree: TreeRepository, top: Path, root: str
) -> None:
    write_files(top, {"data/big.bin": "x", "notes/raw/a": "x"})
    tree = replace(tree, link_paths=("data", "notes/raw"))
    worktree = add_worktree(Git(tree), CANDIDATE, root)
    assert (worktree / "notes/raw/a").read_text() == "x"
    write_files(worktree, {"solver.py": "x"})
    made = commit_files(tree, root)
    assert [one.path for one in made.diff.changes] == ["solver.py"]
    (worktree / "data").unlink()
    write_files(worktree, {"data/big.bin": "forged"})
    assert refuse(tree, root) == [("tampered", ())]


def test_nothing_that_the_repository_or_the_candidate_names_is_run(
    tree: TreeRepository, top: Path, root: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ran, hooks = tmp_path / "ran", tmp_path / "hooks"
    script = tmp_path / "evil.sh"
    write_files(tmp_path, {"evil.sh": f"#!/bin/sh\ntouch {ran}\ncat\n"})
    script.chmod(0o755)
    hooks.mkdir()
    for name in (
        "reference-transaction", "post-checkout", "post-index-change", "pre-commit",
        "post-commit", "commit-msg", "fsmonitor-watchman",
    ):  # fmt: skip
        for place in (hooks, top / ".git" / "hooks"):
            place.mkdir(exist_ok=True)
            shutil.copy(script, place / name)
    (top / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    evil = ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process")
    for key in (*evil, "diff.evil.textconv", "diff.evil.command", "core.fsmonitor"):
        call_git(top, "config", key, str(script))
    call_git(top, "config", "core.hooksPath", str(hooks))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(script))
    worktree = add_worktree(Git(tree), CANDIDATE, root)
    write_files(worktree, {"solver.py": "step = 2\n"})
    made = commit_files(tree, root)
    update_ref(Git(tree), tree.get_ref(CANDIDATE), new=made.commit)
    restore_worktree(Git(tree), CANDIDATE, made.commit, root_commit=root)
    assert "+step = 2" in made.diff.cut_patch()
    assert prune(Git(tree), CANDIDATE, made.commit) == ()
    assert not ran.exists()
    monkeypatch.undo()
    call_git(top, "checkout", "-q", "-b", "other", ok=False)
    assert ran.exists()  # git as it is called without our care falls into them
