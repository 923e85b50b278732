"""Where a session's files lie, how one is made and found, and the list of sessions:
right first, and cheap where nothing changed."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from autoexp_tui.effects.effects import PlanJobs, SubmitTasks
from autoexp_tui.events.events import (
    AttemptEnded,
    EffectOrdered,
    EffectSettled,
    JobEnded,
    JobsReleased,
    MetricsNoted,
    RunBegan,
    SubmissionAccepted,
    WarningRaised,
)
from autoexp_tui.model.errors import EnvironmentFailed, JournalDamaged, UsageError
from autoexp_tui.model.masking import Share
from autoexp_tui.model.snapshot import BestResult
from autoexp_tui.model.states import JobState, Outcome, why
from autoexp_tui.storage import session_dir, sessions
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.json_codec import decode_plan
from autoexp_tui.storage.manifests import write_manifest
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import (
    SessionRow,
    create_session,
    describe,
    find_session,
    find_sessions,
    list_sessions,
    random_id,
)
from autoexp_tui.storage.user_files import find_user_file, list_places, note_place
from tests.model.builders import job
from tests.support.journal_contract import PLAN

from .disk_session import mode
from .whole_session import WholeSession

SECRET = replace(PLAN, jobs=(job("a", env={"HF_TOKEN": "abcdef"}),))


def written(state_dir: Path, session_id: str) -> SessionDir:
    """A session that an engine has written."""
    session = create_session(state_dir, lambda _length: session_id)
    session.get_part(1).touch()
    return session


# --------------------------------------------------------------------- one is made
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
    assert f"in {here}, nor in {there}" in str(raised.value)
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
    other = replace(PLAN, plan_id="p2")
    first, second = session.save_plan(PLAN), session.save_plan(other)
    assert (session.load_plan(first), session.load_plan(second)) == (PLAN, other)
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


# ------------------------------------------------------------------------ the list
@pytest.fixture
def engine(tmp_path: Path) -> WholeSession:
    return WholeSession(tmp_path / "k7f2")


JOBS = (("a", "train", 1e-3), ("b", "train", 2e-3), ("c", "evaluate", 1e-3))
"""Name, stage, rate."""


def row_of(engine: WholeSession) -> SessionRow:
    (row,) = list_sessions(engine.session.state_dir)
    return row


def test_a_row_says_what_the_journal_says(engine: WholeSession) -> None:
    engine.write(JobsReleased(jobs=("a",)), t=200.0)
    row = row_of(engine)
    assert (row.id, row.name, row.open) == ("k7f2", "test", True)
    assert (row.counts, row.last_event_at) == ({JobState.WAITING: 1}, 200.0)
    assert (row.owner, bool(row.host)) == (Alive.YES, True)
    engine.lease.release()
    assert row_of(engine).owner is Alive.NO
    effect = PlanJobs(config_ref="more", job="a", action="saved/0")
    engine.write(EffectOrdered(effect_id="e1", effect=effect))
    engine.write(JobEnded(job="a", state=JobState.CANCELLED))
    assert [row_of(engine).open, row_of(engine).open] == [True, True]  # kept, too
    engine.write(EffectSettled(effect_id="e1", outcome="failed"))
    assert not row_of(engine).open


def test_a_row_has_what_needs_a_person_and_the_best_result(tmp_path: Path) -> None:
    jobs = [job(name, stage=stage, parameters={"lr": lr}) for name, stage, lr in JOBS]
    made = WholeSession(tmp_path / "k7f2", plan=replace(PLAN, jobs=tuple(jobs)))
    names = tuple(name for name, *_ in JOBS)
    assert (row_of(made).needs, row_of(made).best) == ({}, None)
    submit = SubmitTasks(token="t1", tasks=tuple((name, 1) for name in names))
    ordered = EffectOrdered(effect_id="e1", effect=submit)
    taken = SubmissionAccepted(token="t1", executor_ids=names, submitted_at=1.0)
    made.write(JobsReleased(jobs=names), ordered)
    made.write(taken, EffectSettled(effect_id="e1", outcome="ok"))
    for name, value in zip(names, (3.0, 2.0, "nan"), strict=True):
        where: dict[str, Any] = {"job": name, "attempt": 1, "run": 0}
        values: Any = {"loss": value}
        told = MetricsNoted(**where, step=4, total=None, values=values)
        made.write(RunBegan(**where, began_at=2.0), told)
    stall = WarningRaised(
        warning_id="w", why=why("stall", job="a", step=4, seconds=9), job="a"
    )
    ended = AttemptEnded(job="b", attempt=1, outcome=Outcome.LOST)
    lost = JobEnded(job="b", state=JobState.LOST)
    made.write(stall, ended, lost)
    for _ in range(2):  # kept, too
        assert row_of(made).needs == {"failed": 1, "stalled": 1}
        assert row_of(made).best == BestResult("loss", 2.0, "lr=2e-3", "train")


def test_a_trial_that_failed_needs_nobody(tmp_path: Path) -> None:
    jobs = (job("a", trial=True), job("b"))
    made = WholeSession(tmp_path / "k7f2", plan=replace(PLAN, jobs=jobs))
    names = ("a", "b")
    made.write(JobsReleased(jobs=names))
    made.write(*(JobEnded(job=name, state=JobState.FAILED) for name in names))
    row = row_of(made)
    assert (row.counts, row.needs) == ({JobState.FAILED: 2}, {"failed": 1})


def test_the_session_with_the_newest_event_comes_first(tmp_path: Path) -> None:
    for name, t in (("a2aa", 5.0), ("b2bb", 9.0), ("c2cc", 7.0)):
        made = WholeSession(tmp_path / name, t)
    assert [row.id for row in list_sessions(tmp_path)] == ["b2bb", "c2cc", "a2aa"]
    assert list_sessions(tmp_path / "none") == ()
    made.session.get_part(1).write_bytes(b"oh no\n")  # a row with its problem
    problems = {row.id: row.problem for row in list_sessions(tmp_path)}
    assert "not a line of JSON" in problems.pop("c2cc")
    assert problems == {"a2aa": "", "b2bb": ""}


def test_a_session_that_does_not_answer_is_a_row_and_hides_no_other(
    tmp_path: Path, engine: WholeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def load(session: SessionDir, *words: Any, **options: Any) -> Any:
        if session.id == engine.session.id:  # its disk does not answer
            answers.wait()
        return load_state(session, *words, **options)

    WholeSession(tmp_path / "m3x9", 1.0)
    monkeypatch.setattr(sessions, "load_state", load)
    monkeypatch.setattr(sessions, "ANSWER_SECONDS", 0.3)
    rows = {row.id: row.problem for row in list_sessions(tmp_path)}
    answers.set()
    assert rows == {"k7f2": "it did not answer within 2 s", "m3x9": ""}


def test_a_session_is_folded_again_only_when_it_has_changed(
    engine: WholeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = describe(engine.session)
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "load_state", None)
        assert describe(engine.session) == first
    engine.write(JobsReleased(jobs=("a",)), t=200.0)

    refused = EnvironmentFailed("read-only")
    monkeypatch.setattr(sessions, "write_atomic", Mock(side_effect=refused))
    for _ in range(2):  # a cache that cannot be written is done without
        assert describe(engine.session).counts == {JobState.WAITING: 1}


@pytest.mark.parametrize(
    "cache",
    [
        *(b"", b"?", b"[]", b'{"of":[]}', b'{"of":0,"summary":{"name":"x"}}'),
        *(b"DREAMING", b'"best": [1]', b'"needs": 3'),
    ],
)
def test_a_cache_that_does_not_fit_is_folded_over(
    engine: WholeSession, cache: bytes
) -> None:
    first = describe(engine.session)
    if cache == b"DREAMING":  # a state of another version
        cache = engine.session.snapshot.read_bytes().replace(b"PLANNED", cache)
    key = cache.partition(b":")[0]
    if key in (b'"best"', b'"needs"'):  # what another hand wrote there
        usual = {b'"best"': b'"best": null', b'"needs"': b'"needs": {}'}[key]
        cache = engine.session.snapshot.read_bytes().replace(usual, cache)
        assert cache != engine.session.snapshot.read_bytes()
    engine.session.snapshot.write_bytes(cache)
    assert describe(engine.session) == first
