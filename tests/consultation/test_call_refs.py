"""What becomes of the refs of a session's calls when the session is cleaned."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.consultation.call_refs import EMAIL, name_change
from autoexp_tui.model.specs import Plan
from autoexp_tui.research import events
from autoexp_tui.research.state import Decided
from tests.cli.session_places import Place
from tests.consultation.one_call import OneCall, write_agent
from tests.storage.whole_session import WholeSession
from tests.worktrees.conftest import call_git

REFS = "refs/research-calls/s1"


def add_ref(top: Path, name: str, session: str = "s1") -> str:
    """A ref of a call, at a commit as one of that session makes it."""
    words = ("-c", f"user.email={EMAIL}", "commit-tree", "HEAD^{tree}", "-p", "HEAD")
    made = call_git(top, *words, "-m", name_change(session, name)).strip()
    call_git(top, "update-ref", f"{REFS}/{name}", made)
    return made


def leave_session(one: OneCall, base: str, approved: tuple[str, ...]) -> None:
    """A session of research, as its engine left it."""
    research = {"goal": "x", "agent": ["a"], "repository": "."}
    plan = Plan(
        plan_id="p",
        name="r",
        state_dir=str(one.place / "state"),
        jobs=(),
        cwd=str(one.top),
        research=research,
    )
    made = WholeSession(one.place / "state/s1", plan=plan)
    own = made.session.path / "research"
    own.mkdir()
    opened = events.ResearchOpened(
        directory=str(own),
        python="py",
        gpus=0,
        metric="loss",
        mode="min",
        base_commit=base,
    )
    made.write(events.ResearchBegun(), opened)
    for name in approved:
        call = events.ConsultationOpened(consultation=name, role="research")
        done = events.DecisionApplied(
            consultation=name, code_approved="ann", decided=Decided(by="ann")
        )
        made.write(call, done)
    made.leave()


def list_names(top: Path) -> list[str]:
    words = ("for-each-ref", "--format=%(refname:lstrip=3)", "refs/research-calls")
    return call_git(top, *words).split()


def test_refs_of_a_cleaned_session_go_but_for_code_that_nothing_else_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, place = OneCall(tmp_path), Place(tmp_path, capsys)
    request = one.build_code_request(write_agent("open('train.py', 'w').write('2')"))
    assert one.call(request).code is not None  # c1: nobody approved it
    call_git(one.top, "branch", "research/s1/c2", add_ref(one.top, "c2"))
    add_ref(one.top, "c3")  # approved; its branch is gone
    add_ref(one.top, "c4", "s2")  # of another session
    call_git(one.top, "update-ref", f"{REFS}/c5", "HEAD")  # of somebody else
    leave_session(one, request.code_base, ("c2", "c3"))
    known = list_names(one.top)
    assert f", 2 refs in {one.top}\n" in place.told("clean", "s1", code=3)
    assert list_names(one.top) == known
    (row,) = place.json("clean", "s1", "--yes")["sessions"]
    assert row["refs"] == [f"{REFS}/c1", f"{REFS}/c2"]
    assert list_names(one.top) == ["c3", "c4", "c5"]


def test_a_session_is_cleaned_although_its_repository_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, place = OneCall(tmp_path), Place(tmp_path, capsys)
    leave_session(one, one.make_repository(), ())
    one.top.rename(tmp_path / "elsewhere")
    assert "refs of its research stay: " in place.told("clean", "s1", "--yes")
    assert not (tmp_path / "state/s1").exists()
