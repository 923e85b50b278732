"""What is done already is not run again, seen through whole sessions on fakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import JobStateIs, MaxAttempts, MetadataIs, MetricIs
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.done import done_before
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

SAVES = RunScript(
    seconds=5.0,
    writes=(Write(at=1.0, data=b"iteration 80 | loss: 2.5\nsaved checkpoint 80\n"),),
)
CRASH = RunScript(seconds=2.0, exit_code=1)
SAVED = LogEvent(
    name="saved",
    pattern=r"saved checkpoint (?P<n>\d+)",
    pattern_type="regex",
    extract_groups={"checkpoint_iteration": "n"},
)
SCRIPTS = {"a": [[SAVES]]}


def made(name: str, index: int, *after: str, **fields: Any) -> JobSpec:
    waits = tuple(JobStateIs(jobs=(one,), state="COMPLETED") for one in after)
    given: dict[str, Any] = {
        "fingerprint": f"f-{name}",
        "depends_on": after,
        "start_conditions": waits,
    }
    return job(name, index, **{**given, **fields})


def chain(**fields: Any) -> Plan:
    """`c` after `b` after `a`, which says that it saved a checkpoint."""
    return plan(
        made("a", 0, **fields),
        made("b", 1, "a"),
        made("c", 2, "b"),
        monitoring=Monitoring(log_events=(SAVED,)),
    )


def works(one: Bench, *names: str) -> list[DoneWork]:
    """What a session left in output directories."""
    left = one.world.ready.done
    return [left[name] for name in names or left]


def done_all(the_plan: Plan) -> list[DoneWork]:
    one = Bench(the_plan, SCRIPTS)
    one.until(lambda: all(j.ended for j in one.engine.state.jobs.values()))
    one.run(2)
    return works(one)


# ------------------------------------------------------------------ what is left behind
def test_a_completed_job_leaves_word_of_what_it_was_and_built_on() -> None:
    left = {work.job: work for work in done_all(chain())}
    assert set(left) == {"a", "b", "c"}
    assert left["b"].upstream == {"a": left["a"].mark}
    assert left["a"].fingerprint == "f-a"
    assert left["a"].metadata == {"checkpoint_iteration": "80"}
    assert (left["a"].step, left["a"].values["loss"]) == (80, 2.5)


def test_what_failed_leaves_no_word() -> None:
    one = Bench(plan(made("a", 0)), {"a": [[CRASH]]})
    one.run(10)
    assert not works(one)


def test_a_job_without_a_fingerprint_leaves_no_word() -> None:
    one = Bench(plan(job("a")))
    one.run(10)
    assert not works(one)
    assert one.job("a").state is JobState.COMPLETED


@pytest.mark.parametrize("cut", range(5, 40, 2))
def test_killed_at_any_event_every_completed_job_leaves_word(cut: int) -> None:
    one = Bench(chain(), SCRIPTS)
    one.die_at(cut, lambda: one.job("c").ended)
    one.run(60)
    assert {work.job for work in works(one)} == {"a", "b", "c"}
    assert not one.engine.state.pending


def test_a_rule_s_overrides_are_other_work() -> None:
    rule = StateEvent(
        name="again",
        state="crash",
        actions=(
            Restart(overrides=("load=x",), conditions=(MaxAttempts(max_attempts=3),)),
        ),
    )
    the_plan = plan(made("a", 0), monitoring=Monitoring(state_events=(rule,)))
    one = Bench(the_plan, {"a": [[CRASH], [SAVES]]})
    other = made("a", 0, fingerprint="other")
    _composes_to(one, other)
    one.until(one.is_("a", JobState.COMPLETED))
    one.run(2)
    assert one.job("a").spec.fingerprint == "other"
    assert works(one)[0].fingerprint == "other"


def _composes_to(one: Bench, spec: JobSpec) -> None:
    class Planner:
        def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
            return spec

    object.__setattr__(one.engine._parts, "planner", Planner())


# ------------------------------------------------------------------- the next session
def test_a_second_session_of_the_same_plan_runs_nothing() -> None:
    left = done_all(chain())
    report = done_before(chain(), {work.job: work for work in left})
    one = Bench(chain(), done=list(report.done.values()))
    one.step()
    assert set(one.states().values()) == {"COMPLETED"}
    assert not one.executor.copies
    assert not one.engine.state.pending


def test_they_complete_in_one_commit_and_say_why() -> None:
    one = Bench(chain(), done=done_all(chain()))
    one.step()
    records = one.world.session.records
    ends = [n for n, r in enumerate(records) if isinstance(r.event, events.JobEnded)]
    assert len(ends) == 3
    assert all(records[n].more for n in range(ends[0], ends[-1]))
    why = one.why("b")
    assert (why.code, why.arg("session")) == ("done_before", "s")


def test_nothing_completes_before_somebody_submits() -> None:
    one = Bench(chain(), done=done_all(chain()), submit=False)
    one.run(5)
    assert set(one.states().values()) == {"PLANNED"}


def test_a_dependant_runs_on_what_is_done() -> None:
    left = [work for work in done_all(chain()) if work.job != "c"]
    one = Bench(chain(), done=left)
    one.until(one.is_("c", JobState.COMPLETED))
    assert [begun.task[0] for begun in one.executor.begun] == ["c"]


def test_a_chosen_job_finds_what_is_done_though_only_it_was_chosen() -> None:
    left = [work for work in done_all(chain()) if work.job != "c"]
    one = Bench(chain(), done=left, submit=False)
    one.order(commands.Submit(jobs=("c",)))
    one.until(one.is_("c", JobState.COMPLETED))


def test_what_a_done_job_logged_lets_others_start() -> None:
    waits = (
        MetadataIs(job="a", key="checkpoint_iteration", op=">=", value=80),
        MetricIs(job="a", name="loss", op="<", value=3.0, after_step=10),
    )
    b = made("b", 1, "a", start_conditions=waits)
    rules = Monitoring(log_events=(SAVED,))
    left = done_all(plan(made("a", 0), monitoring=rules))
    one = Bench(plan(made("a", 0), b, monitoring=rules), done=left)
    one.until(one.is_("b", JobState.COMPLETED))


def test_what_later_jobs_leave_names_the_session_that_made_their_upstream() -> None:
    left = done_all(chain())
    first = [
        DoneWork(
            job=work.job,
            session="old",
            mark="old@1",
            fingerprint=work.fingerprint,
            at=1.0,
            upstream=dict.fromkeys(work.upstream, "old@1"),
        )
        for work in left
        if work.job != "c"
    ]
    one = Bench(chain(), done=first)
    one.until(one.is_("c", JobState.COMPLETED))
    one.run(2)
    (c,) = works(one)
    assert c.upstream == {"b": "old@1"}
    found = {work.job: work for work in (*first, c)}
    assert set(done_before(chain(), found).done) == {"a", "b", "c"}


# ------------------------------------------------------------------------ run it anew
def test_r_runs_a_done_job_anew_and_what_builds_on_it() -> None:
    one = Bench(chain(), SCRIPTS, done=done_all(chain()))
    one.step()
    one.order(commands.Resubmit(jobs=("b",), from_checkpoint=False))
    one.until(one.is_("c", JobState.COMPLETED))
    assert [begun.task for begun in one.executor.begun] == [("b", 1), ("c", 1)]
    assert one.job("a").done_before
    assert not one.job("b").done_before


def test_a_job_run_anew_forgets_what_its_former_life_logged() -> None:
    one = Bench(chain(), {"a": [[RunScript(seconds=3.0)]]}, done=done_all(chain()))
    one.step()
    assert one.job("a").metadata
    one.order(commands.Resubmit(jobs=("a",)))
    one.until(one.is_("a", JobState.RUNNING))
    assert not one.job("a").metadata
    assert one.job("a").noted is None


def test_what_completed_in_this_session_is_never_run_again() -> None:
    one = Bench(plan(made("a", 0)))
    one.until(one.is_("a", JobState.COMPLETED))
    one.order(commands.Resubmit(jobs=("a",)))
    one.run(10)
    assert len(one.executor.begun) == 1
    assert one.happened(events.CommandRefused)
