"""A repository whose configuration would run programs, looked at: none of them runs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from autoexp_tui.storage import provenance
from autoexp_tui.storage.provenance import Git, Unsafe, read_git_state

_LOCAL = ("-c", "protocol.file.allow=always")
_IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@t")


def git(directory: Path, *words: str) -> None:
    subprocess.run(
        ("git", "-C", directory, *_IDENTITY, *_LOCAL, *words),
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With a commit, a change, and a file that is not tracked."""
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "-q")
    for name in ("a.txt", "b.bin"):
        (made / name).write_text("one\n")
    (made / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "first")
    (made / "a.txt").write_text("two\n")
    (made / "b.bin").write_text("two\n")
    (made / "new.txt").touch()
    return made


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """Comes into being when a program of the repository runs."""
    return tmp_path / "ran"


def hostile(ran: Path) -> dict[str, str]:
    evil = f"sh -c 'touch {ran}; cat'"
    return {
        "filter.evil.clean": evil,
        "filter.evil.smudge": evil,
        "filter.evil.process": evil,
        "filter.evil.required": "true",
        "diff.evil.textconv": evil,
        "diff.evil.command": evil,
        "diff.evil.cachetextconv": "true",
        "diff.external": evil,
        "merge.evil.driver": evil,
        "core.fsmonitor": str(ran.parent / "evil.sh"),
        "core.fsmonitorHookVersion": "2",
        "core.sshCommand": evil,
        "core.askPass": str(ran.parent / "evil.sh"),
        "core.pager": evil,
        "core.editor": evil,
        "core.hooksPath": str(ran.parent / "hooks"),
        "gpg.program": str(ran.parent / "evil.sh"),
        "log.showSignature": "true",
        "credential.helper": f"!{evil}",
        "alias.diff": f"!{evil}",
        "alias.rev-parse": f"!{evil}",
        "pager.diff": "true",
    }


def plant(repository: Path, ran: Path) -> dict[str, str]:
    """Every setting and every hook that we know to start a program."""
    script = f"#!/bin/sh\ntouch {ran}\n"
    (ran.parent / "hooks").mkdir()
    names = ("fsmonitor-watchman", "post-index-change", "post-checkout", "pre-commit")
    for path in (
        ran.parent / "evil.sh",
        *(ran.parent / "hooks" / name for name in names),
        *(repository / ".git" / "hooks" / name for name in names),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    return hostile(ran)


def test_no_program_of_a_repository_runs(repository: Path, ran: Path) -> None:
    for key, value in plant(repository, ran).items():
        git(repository, "config", key, value)
    git_runs_them(repository, ran)
    state = read_git_state(repository)
    assert not ran.exists()
    assert "+two" in state.diff
    assert state.untracked == ("new.txt",)


def git_runs_them(repository: Path, ran: Path) -> None:
    """The traps are set: git as it is called without our care falls into them."""
    subprocess.run(
        ("git", "-C", repository, "diff", "HEAD"), check=False, capture_output=True
    )
    assert ran.exists()
    ran.unlink()


def test_nor_one_of_a_file_that_it_includes(repository: Path, ran: Path) -> None:
    more = ran.parent / "more.cfg"
    for key, value in plant(repository, ran).items():
        subprocess.run(("git", "config", "-f", more, key, value), check=True)
    git(repository, "config", "include.path", str(more))
    git_runs_them(repository, ran)
    assert "+two" in read_git_state(repository).diff
    assert not ran.exists()


def test_nor_one_of_a_submodule(repository: Path, ran: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x.txt").write_text("one\n")
    (inner / ".gitattributes").write_text("* filter=other\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "first")
    git(repository, "submodule", "add", "-q", str(inner), "sub")
    git(repository, "commit", "-q", "-m", "sub")
    (repository / "sub" / "x.txt").write_text("two\n")
    git(repository / "sub", "config", "filter.other.clean", f"touch {ran}; cat")
    git_runs_them(repository, ran)
    (repository / "sub" / "x.txt").write_text("three\n")
    assert read_git_state(repository).commit
    assert not ran.exists()


def test_a_program_that_cannot_be_switched_off_is_told(
    repository: Path, ran: Path
) -> None:
    git(repository, "config", "filter.a=b.clean", f"touch {ran}")
    with pytest.raises(Unsafe):
        Git(repository)
    assert "names a program" in read_git_state(repository).note
    assert not ran.exists()


def test_a_configuration_that_never_ends_is_given_up(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_SECONDS", 0.2)
    os.mkfifo(repository / "pipe")
    git(repository, "config", "include.path", str(repository / "pipe"))
    assert read_git_state(repository).note.startswith("git did not answer")


def test_variables_that_name_a_program_are_not_passed_on(
    repository: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {ran}")
    assert "+two" in read_git_state(repository).diff
    assert not ran.exists()


def test_nothing_else_calls_git() -> None:
    package = Path(provenance.__file__).parents[1]
    calls = re.compile(r"""[=(\s][\[(]\s*["']git["'],""")
    callers = [
        path.name for path in package.rglob("*.py") if calls.search(path.read_text())
    ]
    assert callers == ["provenance.py"]
