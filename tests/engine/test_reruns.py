"""Runs that the executor forgot, and would have started again itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.actions.reactions import MOST_RERUNS
from autoexp_tui.engine.executor_port import PollAnswer, Task
from autoexp_tui.model.rules import Monitoring, Storm
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

FORGOTTEN = RunScript(seconds=2.0, cause=Cause.NODE_FAIL, exit_code=1)
OK = RunScript(seconds=2.0)


def bench(*scripts: RunScript, jobs: int = 1, storm: int = 0) -> Bench:
    """Attempt after attempt of each job; what fails was forgotten by its executor."""
    names = [f"j{n}" for n in range(jobs)]
    one = Bench(
        plan(
            *(job(name, n) for n, name in enumerate(names)),
            monitoring=Monitoring(storm=Storm(failures=storm, quick_seconds=60.0)),
        ),
        {name: [[script] for script in scripts] for name in names},
    )
    poll = one.executor.poll

    def forgetful(tasks: Sequence[Task]) -> PollAnswer:
        answer = poll(tasks)
        reports = (replace(one, rerun=one.cause is not None) for one in answer.reports)
        return replace(answer, reports=tuple(reports))

    one.executor.poll = forgetful  # type: ignore[method-assign]
    return one


def test_a_forgotten_run_is_run_again_without_a_rule_and_says_why() -> None:
    one = bench(FORGOTTEN, OK)
    one.run(60)
    assert one.states() == {"j0": JobState.COMPLETED}
    assert len(one.job("j0").attempts) == 2
    ordered = one.job("j0").attempts[1].ordered_why
    assert ordered is not None
    assert sentence(ordered, 0.0) == (
        "runs again as attempt 2, from its newest checkpoint: Slurm would have done "
        "so, and forgot it"
    )


def test_what_is_forgotten_over_and_over_needs_a_person() -> None:
    one = bench(*[FORGOTTEN] * 9)
    one.run(300)
    assert one.states() == {"j0": JobState.FAILED}
    assert len(one.job("j0").attempts) == 1 + MOST_RERUNS


def test_many_forgotten_at_once_are_no_storm() -> None:
    one = bench(FORGOTTEN, OK, jobs=4, storm=3)
    one.run(60)
    assert set(one.states().values()) == {JobState.COMPLETED}
