"""Where a session's files lie, how one is made and how one is found."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged, UsageError
from autoexp_tui.model.specs import Share
from autoexp_tui.storage import session_dir
from autoexp_tui.storage.json_codec import decode_plan
from autoexp_tui.storage.manifests import get_manifest, read_manifest, write_manifest
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import (
    create_session,
    find_session,
    find_sessions,
    list_sessions,
    random_id,
)
from autoexp_tui.storage.user_files import find_user_file, list_places, note_place
from tests.model.builders import job, plan

from .disk_session import mode

PLAN = plan(job("a"))
OTHER = replace(PLAN, plan_id="p2")
SECRET = plan(job("a", env={"HF_TOKEN": "abcdef"}))


def written(state_dir: Path, session_id: str) -> SessionDir:
    """A session that an engine has written."""
    session = create_session(state_dir, lambda _length: session_id)
    session.get_part(1).touch()
    return session


# --------------------------------------------------------------------- one is made
@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", "", "x" * 300, "a\nb"])
def test_no_job_name_leads_out_of_the_attempts(tmp_path: Path, name: str) -> None:
    session = SessionDir(tmp_path)
    path = session.get_attempt(name, 1)
    assert (path.parent.parent, path.name) == (session.attempts, "1")


@pytest.mark.parametrize(
    ("share", "place", "readable"),
    [
        ("private", 0o700, 0o700),
        ("group", 0o2750, 0o2750),
        ("group_write", 0o3770, 0o2750),
    ],
)
def test_a_new_session_is_private_or_readable_apart_from_what_gives_rights(
    tmp_path: Path, share: Share, place: int, readable: int
) -> None:
    session = create_session(tmp_path / "state", share=share)
    shown = {session.path, session.lease}
    made = {session.path, *session.path.rglob("*")}
    assert mode(session.state_dir) == place
    assert {mode(path) for path in shown} == {readable}
    assert {mode(path) & 0o777 for path in made - shown} == {0o700}


def test_an_id_is_text_and_one_that_is_taken_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a2aa").mkdir()
    offered = iter(["a2aa", "a2aa", "b2bb"])
    assert create_session(tmp_path, lambda _length: next(offered)).id == "b2bb"
    longer = create_session(tmp_path, lambda length: "a2" + "a" * (length - 2))
    assert longer.id == "a2aaa"
    for made in (random_id(4) for _ in range(500)):
        assert (yaml.safe_load(made), len(made)) == (made, 4)
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailed, match="--state-dir") as caught:
        create_session(tmp_path / "file" / "state")
    assert caught.value.exit_code == 5


# ---------------------------------------------------------------------- one is found
def test_sessions_are_the_directories_that_an_engine_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state, given = tmp_path / "state", Path("state")
    made = written(given, "b2bb")
    written(given, "a2aa")
    written(tmp_path, "other")
    create_session(given, lambda _length: "c2cc")
    write_manifest(given, PLAN)
    (given / "notes.txt").touch()
    assert [session.id for session in find_sessions(given)] == ["a2aa", "b2bb"]
    assert made.path == find_session([given], "b2bb").path == state / "b2bb"
    for odd in ("", ".", "..", "../other", "manifests", "/etc"):  # leads nowhere
        with pytest.raises(UsageError):
            find_session([given], odd)


def test_an_id_is_looked_for_in_all_places(tmp_path: Path) -> None:
    here, there, odd = tmp_path / "here", tmp_path / "there", tmp_path / "file"
    here.mkdir()
    odd.touch()
    made = written(there, "k7f2")
    with pytest.raises(UsageError) as raised:
        find_session((here, there), "k7f3")
    assert f"in {here}, nor in another known place" in str(raised.value)
    assert "Did you mean k7f2?" in raised.value.hint
    # What cannot be read is passed over, but for the place where one stands.
    assert find_session((there, odd), "k7f2").path == made.path
    assert [row.id for row in list_sessions(there, odd)] == ["k7f2"]
    with pytest.raises(EnvironmentFailed):
        find_session((odd, there), "k7f2")
    with pytest.raises(EnvironmentFailed):
        list_sessions(odd)
    written(here, "k7f2")
    with pytest.raises(UsageError) as raised:
        find_session((here, there), "k7f2")
    assert f"in {here} and in {there}" in str(raised.value)
    assert f"--state-dir {here}" in raised.value.hint


# --------------------------------------------------------------------- known places
@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state home of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return tmp_path


def others() -> tuple[Path, ...]:
    return list_places(Path("/"))[1:]


def test_places_are_remembered_in_order_and_once_for_the_user_alone(home: Path) -> None:
    one, two = home / "one", home / "two words"
    odd = Path(os.fsdecode(os.fsencode(home) + b"/\xff"))
    (home / "link").symlink_to(one)
    for place in (one, two, odd, home / "line\nbreak"):
        place.mkdir()
    for place in (home / "link", two, one, home / "line\nbreak", odd):
        note_place(place)
    listed = find_user_file("state-dirs")
    assert listed is not None
    assert os.fsdecode(listed.read_bytes()) == f"{one}\n{two}\n{odd}\n"
    assert (mode(listed), mode(listed.parent)) == (0o600, 0o700)
    with listed.open("a") as file:
        file.write(f"relative\n\n\0\n{one}")
    assert others() == (one, two, odd)
    assert list_places(home / "link") == (home / "link", two, odd)
    two.rmdir()
    assert others() == (one, odd)


def test_a_list_that_cannot_be_written_hurts_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "xdg").write_text("a file in the way")
    note_place(home)
    assert others() == ()
    monkeypatch.setenv("XDG_STATE_HOME", "relative/counts/as/unset")
    monkeypatch.setenv("HOME", str(home))
    assert find_user_file("x") == home / ".local/state/autoexp-tui/x"


# ------------------------------------------------------------------ plans, manifests
def test_a_further_plan_leaves_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(tmp_path)
    first, second = session.save_plan(PLAN), session.save_plan(OTHER)
    assert (session.load_plan(first), session.load_plan(second)) == (PLAN, OTHER)
    assert (session.plans / f"{second}.json").exists()
    monkeypatch.setattr(session_dir, "write_atomic", None)
    assert session.save_plan(PLAN) == first  # writes nothing
    session.plan.write_bytes(session.plan.read_bytes().replace(b'"test"', b'"m"'))
    with pytest.raises(JournalDamaged, match=r"plan\.json.*changed"):
        session.load_plan(first)
    for sha in ("../../secret", "", "0" * 16):  # one that is not there
        with pytest.raises(JournalDamaged):
            session.load_plan(sha)


def test_a_plan_with_a_secret_stays_private_beside_a_masked_copy(
    tmp_path: Path,
) -> None:
    session = create_session(tmp_path, share="group")
    sha = session.save_plan(SECRET)
    assert mode(session.plan) == 0o600
    public = session.plans / f"{sha}.public.json"
    assert mode(public) == 0o640
    assert decode_plan(public.read_bytes()).jobs[0].env == {"HF_TOKEN": "***"}
    assert session.load_plan(sha) == SECRET
    whole, private = create_session(tmp_path, share="group"), create_session(tmp_path)
    for place, made, as_plan in ((whole, PLAN, 0o640), (private, SECRET, 0o600)):
        sha = place.save_plan(made)
        assert mode(place.plan) == as_plan
        assert not (place.plans / f"{sha}.public.json").exists()  # nothing to mask


def test_what_is_no_manifest_is_an_error_of_the_command_line(tmp_path: Path) -> None:
    assert get_manifest(tmp_path, "../../x").parent == tmp_path / "manifests"
    path = tmp_path / "m.json"
    for content in (None, b"", b"{}", b"not json"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UsageError, match=r"m\.json") as caught:
            read_manifest(path)
        assert caught.value.exit_code == 2
