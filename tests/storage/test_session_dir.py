"""Where a session's files lie, how one is made and how one is found."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged, UsageError
from autoexp_tui.model.specs import JobSpec, Plan, Share
from autoexp_tui.storage import session_dir
from autoexp_tui.storage.json_codec import decode_plan
from autoexp_tui.storage.manifests import get_manifest, read_manifest, write_manifest
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import (
    create_session,
    find_session,
    find_sessions,
    random_id,
)

JOB = JobSpec(name="a", index=0, command=("x",), output_dir="/o", log_dir="/l")
PLAN = Plan(plan_id="p1", name="n", state_dir="/s", jobs=(JOB,))
OTHER = replace(PLAN, plan_id="p2")


def written(state_dir: Path, session_id: str) -> SessionDir:
    """A session that an engine has written."""
    session = create_session(state_dir, lambda _length: session_id)
    session.get_part(1).touch()
    return session


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", "", "x" * 300, "a\nb"])
def test_no_job_name_leads_out_of_the_attempts(tmp_path: Path, name: str) -> None:
    session = SessionDir(tmp_path)
    path = session.get_attempt(name, 1)
    assert path.parent.parent == session.attempts
    assert path.name == "1"


def test_a_new_session_is_private(tmp_path: Path) -> None:
    session = create_session(tmp_path / "state")
    modes = {
        stat.S_IMODE(path.stat().st_mode)
        for path in (session.path, *session.path.rglob("*"))
    }
    assert modes == {0o700}


def test_an_id_that_is_taken_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a2aa").mkdir()
    offered = iter(["a2aa", "a2aa", "b2bb"])
    session = create_session(tmp_path, lambda _length: next(offered))
    assert session.id == "b2bb"


def test_ids_grow_when_the_short_ones_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a2aa").mkdir()
    session = create_session(tmp_path, lambda length: "a2" + "a" * (length - 2))
    assert session.id == "a2aaa"


def test_an_id_is_never_read_as_anything_but_text() -> None:
    for _ in range(500):
        made = random_id(4)
        assert yaml.safe_load(made) == made
        assert len(made) == 4


def test_a_state_dir_that_cannot_be_made_is_an_error_of_the_environment(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailed) as caught:
        create_session(tmp_path / "file" / "state")
    assert caught.value.exit_code == 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_state_dir_that_is_read_only_is_an_error_of_the_environment(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentFailed, match="--state-dir"):
        create_session(tmp_path)


def test_sessions_are_the_directories_that_an_engine_wrote(tmp_path: Path) -> None:
    written(tmp_path, "b2bb")
    written(tmp_path, "a2aa")
    create_session(tmp_path, lambda _length: "c2cc")
    write_manifest(tmp_path, PLAN)
    (tmp_path / "notes.txt").touch()
    assert [session.id for session in find_sessions(tmp_path)] == ["a2aa", "b2bb"]


def test_a_session_is_found_by_its_id(tmp_path: Path) -> None:
    session = written(tmp_path, "k7f2")
    assert find_session([tmp_path], "k7f2").path == session.path


def test_a_session_knows_its_place_wherever_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = written(Path("state"), "k7f2")
    assert made.path == find_session([Path("state")], "k7f2").path
    assert made.path == tmp_path / "state" / "k7f2"


@pytest.mark.parametrize("odd", ["", ".", "..", "../other", "manifests", "/etc"])
def test_an_odd_id_leads_nowhere(tmp_path: Path, odd: str) -> None:
    state = tmp_path / "state"
    written(state, "k7f2")
    written(tmp_path, "other")
    with pytest.raises(UsageError):
        find_session([state], odd)


def test_a_further_plan_leaves_the_first_alone(tmp_path: Path) -> None:
    session = create_session(tmp_path)
    first, second = session.save_plan(PLAN), session.save_plan(OTHER)
    assert session.load_plan(first) == PLAN
    assert session.load_plan(second) == OTHER
    assert (session.plans / f"{second}.json").exists()


def test_storing_a_plan_again_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(tmp_path)
    sha = session.save_plan(PLAN)
    monkeypatch.setattr(session_dir, "write_atomic", None)
    assert session.save_plan(PLAN) == sha


def test_a_plan_that_was_changed_is_refused(tmp_path: Path) -> None:
    session = create_session(tmp_path)
    sha = session.save_plan(PLAN)
    session.plan.write_bytes(session.plan.read_bytes().replace(b'"n"', b'"m"'))
    with pytest.raises(JournalDamaged, match=r"plan\.json.*changed"):
        session.load_plan(sha)


@pytest.mark.parametrize("sha", ["../../secret", "", "0" * 16])
def test_a_plan_that_is_not_there_is_refused(tmp_path: Path, sha: str) -> None:
    with pytest.raises(JournalDamaged):
        create_session(tmp_path).load_plan(sha)


def test_a_manifest_cannot_be_written_elsewhere(tmp_path: Path) -> None:
    assert get_manifest(tmp_path, "../../x").parent == tmp_path / "manifests"


@pytest.mark.parametrize("content", [None, b"", b"{}", b"not json"])
def test_what_is_no_manifest_is_an_error_of_the_command_line(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "m.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"m\.json") as caught:
        read_manifest(path)
    assert caught.value.exit_code == 2


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("share", ["group", "group_write"])
def test_a_session_for_the_group_is_readable_apart_from_what_gives_rights(
    tmp_path: Path, share: Share
) -> None:
    session = create_session(tmp_path / "state", share=share)
    readable = {session.path, session.lease}
    made = {session.path, *session.path.rglob("*")}
    assert mode(session.state_dir) == (0o3770 if share == "group_write" else 0o2750)
    assert {mode(path) for path in readable} == {0o2750}
    assert {mode(path) & 0o777 for path in made - readable} == {0o700}


def test_a_plan_without_a_secret_is_readable_by_the_group(tmp_path: Path) -> None:
    session = create_session(tmp_path, share="group")
    sha = session.save_plan(PLAN)
    assert mode(session.plan) == 0o640
    assert not (session.plans / f"{sha}.public.json").exists()


def test_a_plan_with_a_secret_stays_private_beside_a_masked_copy(
    tmp_path: Path,
) -> None:
    session = create_session(tmp_path, share="group")
    secret = replace(PLAN, jobs=(replace(JOB, env={"HF_TOKEN": "abcdef"}),))
    sha = session.save_plan(secret)
    assert mode(session.plan) == 0o600
    public = session.plans / f"{sha}.public.json"
    assert mode(public) == 0o640
    assert decode_plan(public.read_bytes()).jobs[0].env == {"HF_TOKEN": "***"}
    assert session.load_plan(sha) == secret


def test_a_plan_of_a_private_session_has_no_copy(tmp_path: Path) -> None:
    session = create_session(tmp_path)
    secret = replace(PLAN, jobs=(replace(JOB, env={"HF_TOKEN": "abcdef"}),))
    assert not (session.plans / f"{session.save_plan(secret)}.public.json").exists()
