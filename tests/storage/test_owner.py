"""Whose an output directory is: one living session's at a time."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events.jobs import JobEnded, JobsReleased
from autoexp_tui.events.session import PlanAdded, SessionStarted
from autoexp_tui.events.submissions import EffectOrdered
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Event
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import FileLease, take_lease
from autoexp_tui.storage.output_dir_lock import (
    Living,
    Owner,
    read_owner,
    take_ownership,
)
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import create_session
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import at
from tests.storage.test_records import begin, ended
from tests.support.journal_contract import PLAN

SUBMIT = EffectOrdered(effect_id="e", effect=SubmitTasks(token="t", tasks=(("a", 1),)))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out" / "a"


def owner(session: str, state_dir: Path = Path("/state")) -> Owner:
    return Owner(session=session, state_dir=str(state_dir), job="a", fingerprint="f")


def dead(_owner: Owner) -> str:
    return ""


def alive(_owner: Owner) -> str:
    return "it lives"


def test_a_directory_that_nobody_owns_is_taken(output: Path) -> None:
    take_ownership(output, owner("k7f2"))
    assert read_owner(output) == owner("k7f2")
    assert (output / ".autoexp" / "owner.json").exists()


def test_a_session_takes_its_own_directory_again(output: Path) -> None:
    take_ownership(output, owner("k7f2"))
    take_ownership(output, owner("k7f2"), alive)
    assert len(list((output / ".autoexp").iterdir())) == 1


def test_a_session_s_other_work_is_the_directory_s_from_then_on(output: Path) -> None:
    take_ownership(output, owner("k7f2"))
    other = replace(owner("k7f2"), fingerprint="g")
    take_ownership(output, other, alive)
    assert read_owner(output) == other
    take_ownership(output, other, alive)
    assert len(list((output / ".autoexp").iterdir())) == 2


def test_a_living_owner_is_an_error_that_names_it(output: Path) -> None:
    take_ownership(output, owner("k7f2"))
    with pytest.raises(SessionOwned) as caught:
        take_ownership(output, owner("m3x9"), alive)
    text = str(caught.value)
    assert "session k7f2 owns it for job a: it lives" in text
    assert str(output) in text
    assert "autoexp-sessions stop k7f2 --jobs" in text
    assert caught.value.exit_code == 4


def test_a_dead_owner_is_followed(output: Path) -> None:
    for number in range(4):
        take_ownership(output, owner(f"s{number}"), dead)
    assert read_owner(output) == owner("s3")


def test_equal_session_ids_of_two_state_dirs_are_two_sessions(output: Path) -> None:
    take_ownership(output, owner("k7f2", Path("/one")))
    with pytest.raises(SessionOwned):
        take_ownership(output, owner("k7f2", Path("/two")), alive)


def test_one_state_dir_under_two_names_is_one(output: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    take_ownership(output, owner("k7f2", real))
    take_ownership(output, owner("k7f2", link), alive)
    assert read_owner(output) == owner("k7f2", real)


@pytest.mark.parametrize("data", [b"", b"?", b"[]", b'{"session":"x"}'])
def test_an_owner_that_does_not_read_is_nobody(output: Path, data: bytes) -> None:
    take_ownership(output, owner("k7f2"))
    (output / ".autoexp" / "owner.json").write_bytes(data)
    take_ownership(output, owner("m3x9"), alive)
    assert read_owner(output) == owner("m3x9")


def test_a_file_in_the_way_of_a_directory_has_no_owner(output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("")
    assert read_owner(output) is None
    with pytest.raises(EnvironmentFailed, match="cannot make the directory") as told:
        take_ownership(output, owner("k7f2"))
    assert "project.base_output_dir" in str(told.value.hint)


def test_of_many_that_follow_a_dead_owner_one_gets_it(output: Path) -> None:
    take_ownership(output, owner("former"))
    start = threading.Barrier(8)
    won: list[str] = []

    def judge(other: Owner) -> str:
        return "" if other.session == "former" else "it lives"

    def run(name: str) -> None:
        start.wait()
        try:
            take_ownership(output, owner(name), judge)
        except SessionOwned:
            return
        won.append(name)

    threads = [threading.Thread(target=run, args=(f"s{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [read_owner(output)] == [owner(name) for name in won]


class Engine:
    """Owns a session that has the job `a` in a state."""

    def __init__(self, state_dir: Path, *happened: Event) -> None:
        self.session: SessionDir = create_session(state_dir)
        self.lease: FileLease = take_lease(self.session, ManualClock())
        self.journal = FileJournal(self.session, self.lease)
        sha = self.journal.add_plan(PLAN)
        draft = Draft(SessionState(plans={sha: PLAN}), at(1.0), self.lease.epoch)
        for event in (_started(self.session.id, sha), PlanAdded(sha=sha), *happened):
            draft.emit(event)
        self.journal.append(draft.records)
        self.journal.close()

    @property
    def owner(self) -> Owner:
        return owner(self.session.id, self.session.state_dir)

    def why_alive(self) -> str:
        return Living()(self.owner)


def _started(session: str, sha: str) -> SessionStarted:
    return SessionStarted(
        session=session,
        name="n",
        engine_version="1",
        wrapper_version="1",
        plan_sha=sha,
    )


@pytest.fixture
def submitted(tmp_path: Path) -> Engine:
    return Engine(tmp_path, JobsReleased(jobs=("a",)), SUBMIT)


def test_a_session_with_an_engine_is_alive(submitted: Engine) -> None:
    assert "engine is running" in submitted.why_alive()


def test_a_session_whose_job_may_still_run_is_alive(submitted: Engine) -> None:
    submitted.lease.release()
    assert "job a was SUBMITTING" in submitted.why_alive()


def test_a_session_whose_job_left_its_exit_record_is_dead(submitted: Engine) -> None:
    submitted.lease.release()
    attempt = submitted.session.get_attempt("a", 1)
    attempt.mkdir(parents=True)
    (attempt / "begin.0.json").write_text(json.dumps(begin()))
    (attempt / "exit.0.json").write_text(json.dumps(ended()))
    assert submitted.why_alive() == ""


def test_a_session_whose_job_began_again_is_alive(submitted: Engine) -> None:
    submitted.lease.release()
    attempt = submitted.session.get_attempt("a", 1)
    attempt.mkdir(parents=True)
    for name in ("begin.0.json", "exit.0.json", "begin.1.json"):
        (attempt / name).touch()
    assert submitted.why_alive()


def test_a_session_whose_job_ended_is_dead(tmp_path: Path) -> None:
    cancelled = JobEnded(job="a", state=JobState.CANCELLED)
    engine = Engine(tmp_path, cancelled)
    engine.lease.release()
    assert engine.why_alive() == ""


def test_a_session_that_was_deleted_is_dead(tmp_path: Path) -> None:
    assert Living()(owner("gone", tmp_path)) == ""


def test_a_session_that_does_not_read_counts_as_alive(submitted: Engine) -> None:
    submitted.lease.release()
    submitted.session.get_part(1).write_bytes(b"oh no\n")
    assert "cannot be read" in submitted.why_alive()


def test_a_session_is_folded_once_for_all_its_directories(
    submitted: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted.lease.release()
    living = Living()
    first = living(submitted.owner)
    monkeypatch.setattr("autoexp_tui.storage.output_dir_lock.load_state", None)
    assert living(submitted.owner) == first
