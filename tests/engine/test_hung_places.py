"""A file system that hangs: what waits for it says so, and all else goes on."""

from __future__ import annotations

import pytest

from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.dispatcher import MOST_SENDING
from autoexp_tui.events import events
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import JobState, Result
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write


def place_of(path: str) -> str:
    return "/" + path.split("/")[1]


HUNG = FileExists(path="/scratch/run/a/done", timeout_seconds=60.0)
FINE = FileExists(path="/home/run/a/done")


def waiting() -> Plan:
    """One job waits for each file system."""
    return plan(
        job("h", 0, start_conditions=(HUNG,)), job("f", 1, start_conditions=(FINE,))
    )


@pytest.fixture
def bench() -> Bench:
    made = Bench(waiting(), place_of=place_of)
    made.pool.held = {"facts /scratch"}
    return made


def test_the_wait_says_who_does_not_answer_and_for_how_long(bench: Bench) -> None:
    bench.run(42)
    status = bench.wait("h")
    assert status.why.code == "no_answer"
    now = bench.clock.utc()
    assert sentence(status.why, now).startswith("no answer from /scratch for 42 s")


def test_others_go_on(bench: Bench) -> None:
    bench.run(20)
    bench.files.append("/home/run/a/done", b"x")
    bench.until(bench.is_("f", JobState.RUNNING), 5)


def test_no_timeout_ends_the_wait_meanwhile(bench: Bench) -> None:
    bench.run(200)
    assert bench.job("h").state is JobState.WAITING


def test_the_wait_goes_on_where_it_was_when_it_answers(bench: Bench) -> None:
    bench.run(30)
    bench.files.append("/scratch/run/a/done", b"x")
    bench.pool.held.clear()
    bench.until(bench.is_("h", JobState.RUNNING), 5)


def test_a_person_is_told_once_and_no_longer_than_it_lasts(bench: Bench) -> None:
    bench.run(30)
    (warning,) = bench.engine.state.warnings.values()
    assert warning.why.code == "place_silent"
    assert len(bench.happened(events.WarningRaised)) == 1
    bench.pool.held.clear()
    bench.run(2)
    assert not bench.engine.state.warnings


def test_the_next_engine_takes_the_warning_back_when_the_place_answers(
    bench: Bench,
) -> None:
    bench.run(30)
    bench.start()
    bench.run(2)
    assert not bench.engine.state.warnings


def test_a_silent_place_is_not_looked_at_again_and_again(bench: Bench) -> None:
    bench.run(30)
    before = len(bench.world.session.records)
    bench.run(60)
    assert len(bench.world.session.records) == before


def test_what_was_there_before_is_not_known_while_nobody_answers() -> None:
    both = (HUNG, FileExists(path="/home/never"))
    bench = Bench(plan(job("h", start_conditions=both)), place_of=place_of)
    bench.files.append("/scratch/run/a/done", b"x")
    bench.run(5)
    assert [s.result for s in bench.job("h").start if s] == [Result.PASS, Result.WAIT]
    bench.pool.held = {"facts /scratch"}
    bench.run(20)
    status = bench.wait("h")
    assert (status.result, status.why.code) == (Result.WAIT, "no_answer")


def test_logs_elsewhere_are_read_beside_one_that_hangs() -> None:
    def logging(name: str, place: str) -> object:
        return job(name, log_dir=f"{place}/logs/{name}")

    jobs = (logging("a", "/scratch"), logging("b", "/home"))
    line = Write(at=20.0, data=b"iteration 10/100 | lm loss: 2.5\n")
    script = RunScript(seconds=500.0, writes=(line,))
    bench = Bench(
        plan(*jobs),  # type: ignore[arg-type]
        {"a": [[script]], "b": [[script]]},
        place_of=place_of,
    )
    bench.run(5)
    bench.pool.held = {"logs /scratch"}
    bench.run(40)
    assert bench.job("a").noted is None
    assert bench.job("b").noted is not None
    assert bench.warned() == ["place_silent"]


def test_submissions_that_hang_on_their_directories_hold_up_no_others() -> None:
    hung = [job(f"h{n}", n, output_dir=f"/scratch/h{n}") for n in range(10)]
    fine = [job(f"f{n}", 10 + n, output_dir=f"/home/f{n}") for n in range(3)]
    bench = Bench(plan(*hung, *fine), place_of=place_of)
    bench.engine.commit()
    submits = {
        effect_id: pending.effect.tasks[0][0]
        for effect_id, pending in bench.engine.state.pending.items()
        if isinstance(pending.effect, SubmitTasks)
    }
    bench.pool.held = {one for one, name in submits.items() if name.startswith("h")}
    sent = bench.pool.held & set(bench.pool.pending)
    assert len(sent) == MOST_SENDING
    bench.run(20)
    assert {bench.job(spec.name).state for spec in fine} == {JobState.COMPLETED}
    bench.pool.held = set()
    bench.until(lambda: set(bench.states().values()) == {"COMPLETED"}, 60)
