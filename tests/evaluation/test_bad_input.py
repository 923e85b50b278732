"""Agents, candidates, files and repositories that are not as they should be: each has a
reason, and nothing of the user's is touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path

import pytest

from autoexp_tui.evaluation import implement
from autoexp_tui.isolation.kinds import choose_isolation
from autoexp_tui.isolation.port import FILES
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.wording import sentence
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.tree.state import Judgement
from tests.evaluation.one_evaluation import (
    GAIN,
    OneEvaluation,
    list_codes,
    write_solver,
)
from tests.worktrees.conftest import call_git, describe_users_part, write_files

RUN = "import subprocess as s, os, shutil\ncall = lambda *w: s.run(w, check=False)"
MOVE = "call('git', '-C', TOP, 'update-ref', 'refs/tree/r/n0', 'HEAD^{tree}')"
COMMIT = """
call("git", "-C", TOP, "-c", "user.name=x", "-c", "user.email=x",
     "commit", "-q", "--allow-empty", "-m", "evil")
for name in ("/solver.py", "/.git/hooks/post-commit", "/.git/config"):
    try:
        open(TOP + name, "w").write("evil")
    except OSError:
        pass
try:
    shutil.rmtree(TOP)
except OSError:
    pass
"""


def explain(judged: Judgement) -> str:
    assert judged.reason is not None
    return sentence(judged.reason, 0.0)


@pytest.mark.parametrize(("solver", "codes", "told"), [
    ("text = text.replace('1.2', 'nan')", ["incomplete_or_failed_rows"], "row 2"),
    ("text = ''; open(path, 'w')", ["not_collected"], "is empty"),
    ("text = text.replace('m', 'other')", ["not_collected"], "column `m` is missing"),
    ("text = ''", ["candidate_failed", "no_results"], "No such file"),
    ("text = ''; os.symlink('/etc/hostname', path)", ["candidate_failed", "no_results"],
     "a symbolic link"),
    ("text = ''; open(path, 'wb').truncate(2 << 30)",
     ["candidate_failed", "no_results"],
     "has 2147483648 bytes"),
    ("print(chr(27) + ']0;evil' + chr(7)); raise SystemExit(chr(27) + '[2Jbad')",
     ["candidate_failed", "sweep_failed"], "bad"),
    ("import shutil; shutil.rmtree('.', True); " + GAIN, ["gate_passed"], ""),
    ("while True: pass", ["eval_timeout"], "took longer than 1 s together"),
])  # fmt: skip
def test_a_sweep_that_leaves_no_good_results_says_why(
    tmp_path: Path, solver: str, codes: list[str], told: str
) -> None:
    limit = {"eval_timeout_seconds": 1.0} if "while" in solver else {}
    one = OneEvaluation(tmp_path, write_solver(solver), options=limit)
    opened = one.begin()
    write_files(one.home / "output", {"meta_config_sweep_results.csv": "an old one"})
    judged = one.evaluate(opened)
    assert list_codes(judged)[: len(codes)] == codes
    assert told in explain(judged)
    assert "\x1b" not in explain(judged)


@pytest.mark.parametrize(("agent", "codes", "told"), [
    (["os.unlink('.git')", "call('git', 'init', '-q')"],
     ["candidate_failed", "refused"], "a repository of its own"),
    (["shutil.rmtree(os.getcwd())", "os._exit(0)"],
     ["candidate_failed", "refused"], "the worktree is gone"),
    (["open('big', 'wb').truncate(2 << 30)"],
     ["candidate_failed", "refused"], "big"),
    (["raise SystemExit(chr(27) + '[2Jno')"],
     ["candidate_failed", "agent_agent_error"], "implement: no it ended"),
    ([MOVE], ["candidate_failed", "refs_moved"], "refs/tree/r/n0"),
])  # fmt: skip
def test_an_agent_that_goes_beyond_its_idea_is_refused_and_said_so(
    tmp_path: Path, agent: list[str], codes: list[str], told: str
) -> None:
    one = OneEvaluation(tmp_path)
    opened = one.begin()
    before = describe_users_part(one.top)
    one.agent = write_solver(GAIN, RUN, f"TOP = {str(one.top)!r}", *agent)
    judged = one.evaluate(opened)
    assert list_codes(judged) == codes
    assert told in explain(judged)
    assert "\x1b" not in explain(judged)
    assert describe_users_part(one.top) == before


def test_a_sweep_that_moves_a_ref_of_the_search_is_found_out(tmp_path: Path) -> None:
    one = OneEvaluation(tmp_path)
    opened = one.begin()
    move = MOVE.replace("TOP", repr(str(one.top)))
    one.agent = write_solver(f"{RUN}\n{move}")
    assert list_codes(one.evaluate(opened)) == ["candidate_failed", "refs_moved"]


def test_a_ref_that_is_there_already_stays_and_is_told(tmp_path: Path) -> None:
    one = OneEvaluation(tmp_path, write_solver(GAIN))
    opened = one.begin()
    call_git(one.top, "update-ref", "refs/tree/r/e1", "HEAD")
    judged = one.evaluate(opened)
    assert list_codes(judged) == ["candidate_failed", "environment"]
    assert "somebody else moved it" in explain(judged)
    at = call_git(one.top, "rev-parse", "refs/tree/r/e1").strip()
    assert at == opened.root_commit
    call_git(one.top, "update-ref", "-d", "refs/tree/r/e1")
    assert list_codes(one.evaluate(opened)) == ["gate_passed"]


@pytest.mark.skipif(
    not choose_isolation("prefer").promises >= FILES, reason="nothing fences here"
)
@pytest.mark.parametrize("who", ["agent", "candidate"])
def test_inside_a_fence_nothing_of_the_users_is_touched(
    tmp_path: Path, who: str
) -> None:
    one = OneEvaluation(tmp_path, isolation="prefer")
    opened = one.begin()
    before = describe_users_part(one.top)
    evil = "\n".join([RUN, f"TOP = {str(one.top)!r}", COMMIT, MOVE])
    one.agent = write_solver(GAIN, evil)
    if who == "candidate":
        one.agent = write_solver(f"{evil}\n{GAIN}")
    assert list_codes(one.evaluate(opened)) == ["gate_passed"]
    assert describe_users_part(one.top) == before
    assert not (one.top / ".git" / "hooks" / "post-commit").exists()


def test_a_head_that_is_detached_or_moves_meanwhile_changes_nothing(
    tmp_path: Path,
) -> None:
    one = OneEvaluation(tmp_path, write_solver(GAIN))
    opened = one.begin()
    call_git(one.top, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    call_git(one.top, "checkout", "-q", "--detach", "HEAD")
    judged = one.evaluate(opened)
    parent = call_git(one.top, "rev-parse", f"{judged.commit}^").strip()
    assert (list_codes(judged), parent) == (["gate_passed"], opened.root_commit)


@pytest.mark.parametrize(("baseline", "told"), [
    (None, "No such file"),
    ("config_id,status,other\n0,ok,1\n", "the column `m` is missing"),
    ("", "is empty"),
])  # fmt: skip
def test_a_baseline_that_is_none_is_refused_before_the_start(
    tmp_path: Path, baseline: str | None, told: str
) -> None:
    one = OneEvaluation(tmp_path)
    one.make_repository()
    path = one.place / "given.csv"
    if baseline is not None:
        path.write_text(baseline)
    one.options = {"root_baseline_csv": str(path)}
    with pytest.raises(AutoexpError) as refused:
        one.open()
    assert told in refused.value.line
    assert str(path) in refused.value.line
    assert call_git(one.top, "for-each-ref", "refs/tree") == ""


def test_files_that_are_no_ideas_cost_no_other_and_are_told(tmp_path: Path) -> None:
    one = OneEvaluation(tmp_path, options={"ideas": {"dir": str(tmp_path / "ideas")}})
    opened = one.begin()
    write_files(
        tmp_path / "ideas", {"1.md": "", "4.md": "# A good one\n", "5.txt": "x"}
    )
    (tmp_path / "ideas" / "2.md").write_bytes(b"\xff\x00\x1b[2J")
    with (tmp_path / "ideas" / "3.md").open("wb") as file:
        file.truncate(10 << 20)
    (tmp_path / "ideas" / "6.md").symlink_to("/etc/hostname")
    status, proposed = one.propose(opened)
    assert (status, [idea.title for idea in proposed.ideas]) == (0, ["A good one"])
    for name in (
        "1.md: ",
        "2.md: ",
        "3.md: it has 10485760 bytes",
        "6.md: it is a sym",
    ):
        assert name in proposed.problem


def fill_disk(patch: pytest.MonkeyPatch) -> None:
    def write(path: Path, data: bytes) -> None:
        with explaining(path, "write"):
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    patch.setattr(implement, "write_atomic", write)


@pytest.mark.parametrize(("befall", "told"), [
    (fill_disk, "No space left"),
    (lambda patch: patch.setenv("PATH", "/nowhere"), "git"),
])  # fmt: skip
def test_a_full_disk_and_a_git_that_is_gone_are_reasons(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    befall: Callable[[pytest.MonkeyPatch], object],
    told: str,
) -> None:
    one = OneEvaluation(tmp_path, write_solver(GAIN))
    judged = one.evaluate(one.begin(), lambda: befall(monkeypatch))
    assert list_codes(judged) == ["candidate_failed", "environment"]
    assert told in explain(judged)
