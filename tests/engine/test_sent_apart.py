"""Jobs that cannot be sent together are sent one by one: only the bad one fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.executor_port import Submission
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import Cause, JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.sim_world import Ready


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Three alike jobs; nothing can be written for `b`."""

    def prepare(
        _: Ready, submission: Submission, specs: Sequence[JobSpec], plans: object
    ) -> None:
        del submission, plans
        if any(spec.name == "b" for spec in specs):
            raise EnvironmentFailed("cannot make the directory", "/full/b")

    monkeypatch.setattr(Ready, "prepare", prepare)
    made = Bench(
        plan(*(job(n, i, stage="s") for i, n in enumerate("abc"))), submit=False
    )
    made.executor.array_size = 10
    made.order(commands.Submit())
    return made


def test_the_others_run_as_first_attempts_and_the_bad_one_says_why(
    bench: Bench,
) -> None:
    bench.run(10)
    assert bench.states() == {"a": "COMPLETED", "b": "FAILED", "c": "COMPLETED"}
    assert bench.job("b").cause is Cause.SUBMIT_ERROR
    assert "/full/b" in str(bench.job("b").why)
    assert [len(bench.job(name).attempts) for name in "abc"] == [1, 1, 1]
    ordered = [event.effect for event in bench.happened(events.EffectOrdered)]
    sizes = [len(one.tasks) for one in ordered if isinstance(one, SubmitTasks)]
    assert sizes == [3, 1, 1, 1]


def test_what_is_no_longer_wanted_is_not_sent(bench: Bench) -> None:
    bench.engine.commit()
    bench.order(commands.Kill(jobs=("a",)))
    bench.run(10)
    assert bench.job("a").state is JobState.CANCELLED
    assert bench.job("c").state is JobState.COMPLETED
