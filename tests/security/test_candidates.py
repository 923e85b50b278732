"""What an agent may try on what measures its work, as the step that implements an idea
sees it: on real git, with no isolation around it."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from autoexp_tui.evaluation.implement import implement
from autoexp_tui.evaluation.requests import Request
from autoexp_tui.evaluation.steps import StepFailed
from autoexp_tui.model.agents import AgentSpec, Limits
from autoexp_tui.worktrees.readiness import open_repository
from autoexp_tui.worktrees.tree_repository import Git, Place, list_refs, update_ref
from tests.worktrees.conftest import call_git, write_files

FILES = {
    "score.py": "print(1)\n",
    "solver.py": "step = 1\n",
    "tests/data/points.txt": "1 2\n",
    "tests/check.sh": "exit 0\n",
}
HOOK = "printf '#!/bin/sh\\ntouch {ran}\\n' > {to} && chmod +x {to}"
FILTER = (
    "git --git-dir={git} config filter.evil.clean 'touch {ran}; cat'"
    " && echo '* filter=evil' > "
)
ATTEMPTS = {
    "the scorer": ("echo 'print(9)' > score.py", "a protected path changed: score.py"),
    "the test data": (
        "echo 0 0 > tests/data/points.txt",
        "a protected path changed: tests/data/points.txt",
    ),
    "a link over protected paths": (
        "mv tests ../moved && ln -s ../moved tests",
        "a protected path changed: tests, tests/check.sh, tests/data/points.txt; "
        "the link leads out of the worktree: tests",
    ),
    "a link in place of the scorer": (
        "mv score.py mine.py && ln -s mine.py score.py",
        "a protected path changed: score.py",
    ),
    "the mode of a protected path": (
        "chmod +x tests/check.sh",
        "a protected path changed: tests/check.sh",
    ),
    "a hook in a repository of its own": (
        f"rm .git && git init -q . && {HOOK.replace('{to}', '.git/hooks/pre-commit')}",
        "the worktree is not as we left it: "
        "it made a repository of its own in place of .git",
    ),
    "a hook of the user's repository": (
        HOOK.replace("{to}", "{git}/hooks/reference-transaction")
        + " && echo 'print(9)' > score.py",
        "a protected path changed: score.py",
    ),
    "a filter": (
        f"{FILTER}.gitattributes",
        "files of git are not a candidate's to make or change: .gitattributes",
    ),
    "a filter of the user's repository": (
        f"{FILTER}{{git}}/info/attributes && echo 0 > tests/data/points.txt",
        "a protected path changed: tests/data/points.txt",
    ),
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("user")
    write_files(made, FILES)
    call_git(made, "init", "-q", "-b", "main")
    call_git(made, "add", "-A")
    call_git(made, "commit", "-q", "-m", "first")
    return made


@pytest.fixture
def top(origin: Path, tmp_path: Path) -> Path:
    return shutil.copytree(origin, tmp_path / "repo")


def build_request(top: Path, directory: Path, script: str) -> Request:
    tree = open_repository(top, "r1", directory)
    commit = Git(tree).resolve("HEAD")
    update_ref(Git(tree), tree.get_ref(Place("wt", "0")), new=commit)
    write_files(directory, {"idea.md": "# Move less\n"})
    limits = Limits(wall_seconds=20.0, stop_seconds=0.1)
    command = ("/bin/sh", "-ec", script)
    return Request(
        directory=str(directory),
        git_dir=str(tree.git_dir),
        top=str(top),
        worktree_root=str(tree.root),
        run="r1",
        root_commit=commit,
        node="n0",
        commit=commit,
        evaluation="e1",
        title="Move less",
        idea=str(directory / "idea.md"),
        prompt=str(directory / "idea.md"),
        tree={
            "implement": {
                "agent": ["own"],
                "protected_paths": ["tests", "score.py"],
            }
        },
        agents={"own": AgentSpec(backend="command", command=command, limits=limits)},
        isolation="none",
        seconds=30.0,
    )


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_would_change_the_measure_is_found_with_its_reason(
    origin: Path, top: Path, tmp_path: Path, attempt: str
) -> None:
    script, reason = ATTEMPTS[attempt]
    ran = tmp_path / "ran"
    words = {"git": shlex.quote(str(top / ".git")), "ran": shlex.quote(str(ran))}
    request = build_request(top, tmp_path / "session", script.format(**words))
    with pytest.raises(StepFailed) as failed:
        implement(request)
    assert failed.value.code == "refused"
    assert failed.value.problem.startswith(reason)
    assert not ran.exists()
    for name in (*FILES, ".git/HEAD", ".git/index", ".git/refs/heads/main"):
        assert (top / name).read_bytes() == (origin / name).read_bytes()


def test_what_leaves_the_measure_alone_is_committed_by_us(
    top: Path, tmp_path: Path
) -> None:
    script = "echo 'step = 2' > solver.py; git commit -aqm mine || true"
    request = build_request(top, tmp_path / "session", script)
    made = implement(request)
    assert (made.files, made.isolation) == (1, "none: nothing is promised")
    assert list_refs(Git(request.repository))["refs/tree/r1/e1"] == made.commit
    assert call_git(top, "log", "-1", "--format=%an %s", made.commit).strip() == (
        "autoexp-tree Move less"
    )
