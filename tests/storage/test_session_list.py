"""The list of sessions: right first, and cheap where nothing changed."""

from __future__ import annotations

import threading
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
from autoexp_tui.storage.sessions import (
    SessionRow,
    create_session,
    describe,
    list_sessions,
)
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import at
from tests.support.journal_contract import PLAN

FOLD = "autoexp_tui.storage.sessions.load_state"


class Engine:
    """A session with one job, and its engine."""

    def __init__(self, state_dir: Path, session_id: str, t: float = 100.0) -> None:
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
    return Engine(tmp_path, "k7f2")


def row_of(engine: Engine) -> SessionRow:
    (row,) = list_sessions(engine.session.state_dir)
    return row


def test_a_row_says_what_the_journal_says(engine: Engine) -> None:
    engine.write(200.0, JobsReleased(jobs=("a",)))
    row = row_of(engine)
    assert (row.id, row.name, row.open) == ("k7f2", "campaign k7f2", True)
    assert (row.counts, row.last_event_at) == ({JobState.WAITING: 1}, 200.0)
    assert (row.owner, bool(row.host)) == (Alive.YES, True)
    engine.lease.release()
    assert row_of(engine).owner is Alive.NO


@pytest.mark.parametrize("planning", [False, True])
def test_a_session_whose_jobs_all_ended_is_over_unless_a_rule_s_plan_is_to_come(
    engine: Engine, *, planning: bool
) -> None:
    effect = PlanJobs(config_ref="more", job="a", action="saved/0")
    if planning:
        engine.write(150.0, EffectOrdered(effect_id="e1", effect=effect))
    engine.write(200.0, JobEnded(job="a", state=JobState.CANCELLED))
    assert [row_of(engine).open, row_of(engine).open] == [planning] * 2  # kept, too


def test_the_session_with_the_newest_event_comes_first(tmp_path: Path) -> None:
    for name, t in (("a2aa", 5.0), ("b2bb", 9.0), ("c2cc", 7.0)):
        made = Engine(tmp_path, name, t)
    assert [row.id for row in list_sessions(tmp_path)] == ["b2bb", "c2cc", "a2aa"]
    assert list_sessions(tmp_path / "none") == ()
    made.session.get_part(1).write_bytes(b"oh no\n")  # a row with its problem
    problems = {row.id: row.problem for row in list_sessions(tmp_path)}
    assert "not a line of JSON" in problems.pop("c2cc")
    assert problems == {"a2aa": "", "b2bb": ""}


def test_a_session_that_does_not_answer_is_a_row_and_hides_no_other(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def load(session: SessionDir, *words: Any, **options: Any) -> Any:
        if session.id == engine.session.id:  # its disk does not answer
            answers.wait()
        return load_state(session, *words, **options)

    Engine(tmp_path, "m3x9", 1.0)
    monkeypatch.setattr(FOLD, load)
    monkeypatch.setattr("autoexp_tui.storage.sessions.ANSWER_SECONDS", 0.3)
    rows = {row.id: row.problem for row in list_sessions(tmp_path)}
    answers.set()
    assert rows == {"k7f2": "it did not answer within 2 s", "m3x9": ""}


def test_a_session_is_folded_again_only_when_it_has_changed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = describe(engine.session)
    with monkeypatch.context() as patch:
        patch.setattr(FOLD, None)
        assert describe(engine.session) == first
    engine.write(200.0, JobsReleased(jobs=("a",)))

    def refuse(*_args: object, **_options: object) -> None:
        raise EnvironmentFailed("read-only")

    monkeypatch.setattr("autoexp_tui.storage.sessions.write_atomic", refuse)
    for _ in range(2):  # a cache that cannot be written is done without
        assert describe(engine.session).counts == {JobState.WAITING: 1}


@pytest.mark.parametrize(
    "cache",
    [b"", b"?", b"[]", b'{"of":[]}', b'{"of":0,"summary":{"name":"x"}}', b"DREAMING"],
)
def test_a_cache_that_does_not_fit_is_folded_over(engine: Engine, cache: bytes) -> None:
    first = describe(engine.session)
    if cache == b"DREAMING":  # a state of another version
        cache = engine.session.snapshot.read_bytes().replace(b"PLANNED", cache)
    engine.session.snapshot.write_bytes(cache)
    assert describe(engine.session) == first
