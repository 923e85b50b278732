"""Whose an output directory is: one living session's at a time."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events.jobs import JobEnded, JobsReleased
from autoexp_tui.events.runs import EffectOrdered
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.output_dir_lock import (
    Living,
    Owner,
    read_owner,
    take_ownership,
)
from tests.storage.test_records import begin, ended
from tests.storage.whole_session import WholeSession

SUBMIT = EffectOrdered(effect_id="e", effect=SubmitTasks(token="t", tasks=(("a", 1),)))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out" / "a"


def owner(session: str, state_dir: Path = Path("/state")) -> Owner:
    return Owner(session=session, state_dir=str(state_dir), job="a", fingerprint="f")


def alive(_owner: Owner) -> str:
    return "it lives"


def test_a_session_takes_a_free_directory_and_again_for_its_other_work(
    output: Path,
) -> None:
    other = replace(owner("k7f2"), fingerprint="g")
    for number, mine in enumerate((owner("k7f2"), other), 1):
        for _ in range(2):
            take_ownership(output, mine, alive)
            assert read_owner(output) == mine
            assert len(list((output / ".autoexp").iterdir())) == number
    assert (output / ".autoexp" / "owner.json").exists()


def test_a_living_owner_is_an_error_that_names_it(output: Path) -> None:
    take_ownership(output, owner("k7f2"))
    with pytest.raises(SessionOwned) as caught:
        take_ownership(output, owner("m3x9"), alive)
    assert caught.value.exit_code == 4
    owned = "session k7f2 owns it for job a: it lives"
    for told in (owned, str(output), "autoexp-sessions stop --jobs k7f2"):
        assert told in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"?", b"[]", b'{"session":"x"}'])
def test_an_owner_that_does_not_read_is_nobody(output: Path, data: bytes) -> None:
    take_ownership(output, owner("k7f2"))
    (output / ".autoexp" / "owner.json").write_bytes(data)
    take_ownership(output, owner("m3x9"), alive)
    assert read_owner(output) == owner("m3x9")
    file = output / "file"  # in the way of a directory
    file.write_text("")
    assert read_owner(file) is None
    with pytest.raises(EnvironmentFailed, match="cannot make the directory") as told:
        take_ownership(file, owner("k7f2"))
    assert "project.base_output_dir" in str(told.value.hint)


def test_of_many_that_follow_a_dead_owner_one_gets_it(output: Path) -> None:
    take_ownership(output, owner("former"))
    start = threading.Barrier(8)
    won: list[str] = []

    def judge(other: Owner) -> str:
        return "" if other.session == "former" else "it lives"

    def run(name: str) -> None:
        start.wait()
        with suppress(SessionOwned):
            take_ownership(output, owner(name), judge)
            won.append(name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, (f"s{n}" for n in range(8))))
    assert [read_owner(output)] == [owner(name) for name in won]
    for number in range(4):  # one after another
        take_ownership(output, owner(f"d{number}"), lambda _: "")
    assert read_owner(output) == owner("d3")


# -------------------------------------------------------------------- who still lives
@pytest.fixture
def submitted(tmp_path: Path) -> WholeSession:
    engine = WholeSession(tmp_path / "k7f2")
    engine.write(JobsReleased(jobs=("a",)), SUBMIT)
    return engine


def why_alive(engine: WholeSession, living: Living | None = None) -> str:
    return (living or Living())(owner("k7f2", engine.session.state_dir))


def test_a_session_is_alive_while_its_engine_runs_or_its_job_may(
    submitted: WholeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "engine is running" in why_alive(submitted)
    submitted.lease.release()
    assert "job a was SUBMITTING" in why_alive(submitted)
    attempt = submitted.session.get_attempt("a", 1)
    attempt.mkdir(parents=True)
    (attempt / "begin.0.json").write_text(json.dumps(begin()))
    (attempt / "exit.0.json").write_text(json.dumps(ended()))
    living = Living()
    assert why_alive(submitted, living) == ""
    with monkeypatch.context() as patch:  # folded once for all its directories
        patch.setattr("autoexp_tui.storage.output_dir_lock.load_state", None)
        assert why_alive(submitted, living) == ""
    (attempt / "begin.1.json").write_text(json.dumps(begin(1)))
    assert "job a was SUBMITTING" in why_alive(submitted)


def test_a_session_whose_job_ended_or_that_was_deleted_is_dead(
    submitted: WholeSession, tmp_path: Path
) -> None:
    submitted.write(JobEnded(job="a", state=JobState.CANCELLED))
    submitted.lease.release()
    assert why_alive(submitted) == ""
    assert Living()(owner("gone", tmp_path)) == ""
    submitted.session.get_part(1).write_bytes(b"oh no\n")  # does not read: it may live
    assert "cannot be read" in why_alive(submitted)
