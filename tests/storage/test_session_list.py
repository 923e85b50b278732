"""The list of sessions: right first, and cheap where nothing changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.effects.effects import PlanJobs
from autoexp_tui.events.jobs import JobEnded, JobsReleased
from autoexp_tui.events.session import PlanAdded, SessionStarted
from autoexp_tui.events.submissions import EffectOrdered
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.event import Event
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import FileLease, take_lease
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import create_session, describe, list_sessions
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import at
from tests.support.journal_contract import PLAN

FOLD = "autoexp_tui.storage.sessions.load_state"


class Engine:
    """A session with one job, and its engine."""

    def __init__(self, state_dir: Path, session_id: str, t: float) -> None:
        self.session: SessionDir = create_session(state_dir, lambda _length: session_id)
        self.lease: FileLease = take_lease(self.session, ManualClock())
        self.journal = FileJournal(self.session, self.lease)
        sha = self.journal.add_plan(PLAN)
        self.state = SessionState(plans={sha: PLAN})
        started = SessionStarted(
            session=session_id,
            name=f"campaign {session_id}",
            engine_version="1",
            wrapper_version="1",
            plan_sha=sha,
        )
        self.write(t, started, PlanAdded(sha=sha))

    def write(self, t: float, *happened: Event) -> None:
        draft = Draft(self.state, at(t), self.lease.epoch)
        for event in happened:
            draft.emit(event)
        self.journal.append(draft.records)
        self.state = draft.state


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path, "k7f2", 100.0)


def test_a_row_says_what_the_journal_says(tmp_path: Path, engine: Engine) -> None:
    engine.write(200.0, JobsReleased(jobs=("a",)))
    (row,) = list_sessions(tmp_path)
    assert (row.id, row.name) == ("k7f2", "campaign k7f2")
    assert row.counts == {JobState.WAITING: 1}
    assert row.last_event_at == 200.0
    assert row.open


def test_a_session_whose_jobs_all_ended_is_over(tmp_path: Path, engine: Engine) -> None:
    engine.write(200.0, JobEnded(job="a", state=JobState.CANCELLED))
    (row,) = list_sessions(tmp_path)
    assert not row.open


def test_a_session_with_a_rule_s_plan_to_come_is_open_though_its_jobs_ended(
    tmp_path: Path, engine: Engine
) -> None:
    ordered = EffectOrdered(
        effect_id="e1", effect=PlanJobs(config_ref="more", job="a", action="saved/0")
    )
    engine.write(200.0, ordered, JobEnded(job="a", state=JobState.CANCELLED))
    for _ in ("folded", "from the cache"):
        (row,) = list_sessions(tmp_path)
        assert row.open


def test_the_session_with_the_newest_event_comes_first(tmp_path: Path) -> None:
    for name, t in (("a2aa", 5.0), ("b2bb", 9.0), ("c2cc", 7.0)):
        Engine(tmp_path, name, t)
    assert [row.id for row in list_sessions(tmp_path)] == ["b2bb", "c2cc", "a2aa"]


def test_an_engine_that_left_shows(tmp_path: Path, engine: Engine) -> None:
    (row,) = list_sessions(tmp_path)
    assert (row.owner, bool(row.host)) == (Alive.YES, True)
    engine.lease.release()
    (row,) = list_sessions(tmp_path)
    assert row.owner is Alive.NO


def test_a_session_that_does_not_read_is_a_row_with_its_problem(
    tmp_path: Path, engine: Engine
) -> None:
    engine.session.get_part(1).write_bytes(b"oh no\n")
    Engine(tmp_path, "m3x9", 1.0)
    rows = {row.id: row for row in list_sessions(tmp_path)}
    assert "not a line of JSON" in rows["k7f2"].problem
    assert rows["m3x9"].problem == ""


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The session k7f2 lies on a disk that does not answer."""
    answers = threading.Event()

    def load(session: SessionDir, *words: Any, **options: Any) -> Any:
        if session.id == "k7f2":
            answers.wait()
        return load_state(session, *words, **options)

    monkeypatch.setattr(FOLD, load)
    monkeypatch.setattr("autoexp_tui.storage.sessions.ANSWER_SECONDS", 0.3)
    yield
    answers.set()


@pytest.mark.usefixtures("silent", "engine")
def test_a_session_that_does_not_answer_is_a_row_and_hides_no_other(
    tmp_path: Path,
) -> None:
    Engine(tmp_path, "m3x9", 1.0)
    rows = {row.id: row.problem for row in list_sessions(tmp_path)}
    assert rows == {"k7f2": "it did not answer within 2 s", "m3x9": ""}


def test_there_are_no_sessions_where_there_is_no_state_dir(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "none") == ()


def test_a_session_that_has_not_changed_is_not_folded_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = describe(engine.session)
    monkeypatch.setattr(FOLD, None)
    assert describe(engine.session) == first


def test_a_session_that_has_changed_is_folded_again(engine: Engine) -> None:
    describe(engine.session)
    engine.write(200.0, JobsReleased(jobs=("a",)))
    assert describe(engine.session).counts == {JobState.WAITING: 1}


@pytest.mark.parametrize(
    "cache", [b"", b"?", b"[]", b'{"of":[]}', b'{"of":0,"summary":{"name":"x"}}']
)
def test_a_cache_that_does_not_fit_is_folded_over(engine: Engine, cache: bytes) -> None:
    first = describe(engine.session)
    engine.session.snapshot.write_bytes(cache)
    assert describe(engine.session) == first


def test_a_cache_with_a_state_of_another_version_is_folded_over(
    engine: Engine,
) -> None:
    first = describe(engine.session)
    data = engine.session.snapshot.read_bytes()
    engine.session.snapshot.write_bytes(data.replace(b"PLANNED", b"DREAMING"))
    assert describe(engine.session) == first


def test_a_cache_that_cannot_be_written_is_done_without(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise EnvironmentFailed("read-only")

    monkeypatch.setattr("autoexp_tui.storage.sessions.write_atomic", refuse)
    assert describe(engine.session).counts == {JobState.PLANNED: 1}
