"""What is known to go wrong in tools of this kind, asked of ours.

Whole sessions over the made-up cluster, or a plan as it is validated. What single parts
do about it has its tests beside them: docs/testing.md has the map.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import autoexp_tui
from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.kinds import Composite, MaxAttempts
from autoexp_tui.events import events
from autoexp_tui.model.commands import Resubmit
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.planning.validate import validate_execution_plan
from tests.model.builders import job, plan
from tests.spec.campaign import Campaign, plan_of
from tests.support.fake_script import RunScript
from tests.support.fake_slurm_faults import PlannedSlurmFaults, SlurmFault
from tests.support.fake_slurm_jobs import ClusterSettings

STABLE, COOLDOWN = "test_lr1e-4_stable", "test_lr1e-4_cooldown"


def campaign(root: Path, *runs: RunScript) -> Campaign:
    """`multi_stage_cancel`: the cooldown waits for the stable run to complete."""
    return Campaign(root, plan_of("multi_stage_cancel", root), {STABLE: [runs]})


# ------------------------------------------------------------ an engine that is killed
def test_the_next_engine_knows_how_a_running_job_ends(tmp_path: Path) -> None:
    session = campaign(tmp_path, RunScript(seconds=20.0))
    session.until(session.is_(STABLE, JobState.RUNNING))
    session.start()
    session.until_all(JobState.COMPLETED)
    assert session.submitted() == [STABLE, COOLDOWN]


def test_what_ended_while_no_engine_lived_is_not_run_again(tmp_path: Path) -> None:
    session = campaign(tmp_path, RunScript(seconds=5.0))
    session.until(session.is_(STABLE, JobState.RUNNING))
    session.clock.advance(4000.0)
    session.start()
    session.until_all(JobState.COMPLETED)
    assert session.submitted() == [STABLE, COOLDOWN]


def test_a_kill_between_sbatch_and_its_record_submits_nothing_twice(
    tmp_path: Path,
) -> None:
    session = campaign(tmp_path, RunScript(seconds=20.0))
    while not session.slurm.calls["sbatch"]:
        session.engine.commit()
        session.pool.step()
    assert session.job(STABLE).state is JobState.SUBMITTING
    session.start()
    session.until_all(JobState.COMPLETED)
    assert session.submitted() == [STABLE, COOLDOWN]
    assert session.slurm.calls["sbatch"] == 2


def test_a_stage_and_its_dependant_do_not_run_together_after_a_kill(
    tmp_path: Path,
) -> None:
    session = campaign(tmp_path, RunScript(seconds=30.0))
    session.until(session.is_(STABLE, JobState.RUNNING))
    session.start()
    session.run(10)
    assert session.slurm.cluster.living() == ((STABLE, 1),)
    assert session.waiting() == {COOLDOWN}


def test_a_stage_that_is_done_is_not_run_again_beside_its_dependant(
    tmp_path: Path,
) -> None:
    runs = {STABLE: [[RunScript(seconds=5.0)]], COOLDOWN: [[RunScript(seconds=20.0)]]}
    session = Campaign(tmp_path, plan_of("multi_stage_cancel", tmp_path), runs)
    session.until(session.is_(COOLDOWN, JobState.RUNNING))
    session.start()
    session.until_all(JobState.COMPLETED)
    assert session.submitted() == [STABLE, COOLDOWN]


def test_a_session_that_ended_badly_can_be_taken_up_again(tmp_path: Path) -> None:
    made = plan_of("multi_stage_cancel", tmp_path)
    runs = [[RunScript(seconds=2.0, exit_code=1)], [RunScript(seconds=2.0)]]
    session = Campaign(tmp_path, made, {STABLE: runs})
    session.until_all(JobState.FAILED, JobState.CANCELLED)
    session.start()
    session.order(Resubmit(jobs=(STABLE,)))
    session.until_all(JobState.COMPLETED)
    assert session.submitted() == [STABLE, STABLE, COOLDOWN]


# ------------------------------------------------------------------ a cluster that lies
@pytest.mark.parametrize(
    "fault", [SlurmFault.TOLD_FAILED, SlurmFault.ANSWER_LOST, SlurmFault.REQUEST_LOST]
)
def test_an_sbatch_that_fails_after_all_is_not_a_second_job(
    tmp_path: Path, fault: SlurmFault
) -> None:
    session = campaign(tmp_path, RunScript(seconds=60.0))
    session.slurm.faults = PlannedSlurmFaults([("sbatch", fault)])
    session.until(session.is_(COOLDOWN, JobState.COMPLETED), 800)
    assert session.submitted() == [STABLE, COOLDOWN]
    assert len(session.slurm.cluster.jobs) == 2, "nothing lies in the queue twice"


def test_a_limit_of_submitted_jobs_fails_nobody_and_holds_up_nobody_for_ever(
    tmp_path: Path,
) -> None:
    made = plan_of("multi_stage_basic", tmp_path)
    stables = tuple(one for one in made.jobs if one.stage == "stable")
    assert len(stables) == 2, "which are sent as one array"
    only = replace(made, jobs=stables, edges=())
    runs = {one.name: [[RunScript(seconds=5.0)]] for one in stables}
    session = Campaign(tmp_path, only, runs, ClusterSettings(max_jobs=1))
    session.until_all(JobState.COMPLETED)
    assert len(session.submitted()) == 2


@pytest.mark.parametrize("fault", [SlurmFault.AWAY, SlurmFault.EMPTY])
def test_a_queue_that_says_nothing_ends_no_job(
    tmp_path: Path, fault: SlurmFault
) -> None:
    session = campaign(tmp_path, RunScript(seconds=500.0))
    session.until(session.is_(STABLE, JobState.RUNNING))
    session.slurm.faults = PlannedSlurmFaults([("squeue", fault)] * 4)
    session.run(10)
    assert session.states() == {STABLE: "RUNNING", COOLDOWN: "WAITING"}


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("TIMEOUT", Cause.TIMEOUT),
        ("DEADLINE", Cause.TIMEOUT),
        ("OUT_OF_MEMORY", Cause.OUT_OF_MEMORY),
        ("NODE_FAIL", Cause.NODE_FAIL),
        ("BOOT_FAIL", Cause.NODE_FAIL),
        ("PREEMPTED", Cause.PREEMPTED),
    ],
)
def test_every_bad_end_is_an_end_without_a_rule_that_names_it(
    tmp_path: Path, word: str, cause: Cause
) -> None:
    session = campaign(tmp_path, RunScript(seconds=5000.0))
    session.until(session.is_(STABLE, JobState.RUNNING))
    session.slurm.cluster.say(session.slurm.cluster.jobs[0], word)
    session.until(session.is_(STABLE, JobState.FAILED))
    assert session.job(STABLE).cause is cause


def test_what_waits_for_a_job_that_ended_otherwise_does_not_wait_for_ever(
    tmp_path: Path,
) -> None:
    made = plan_of("multi_stage_cancel", tmp_path)
    jobs = tuple(replace(one, cancel_conditions=()) for one in made.jobs)
    runs = {STABLE: [[RunScript(seconds=5000.0)]]}
    session = Campaign(tmp_path, replace(made, jobs=jobs), runs)
    session.until(session.is_(STABLE, JobState.RUNNING))
    session.slurm.cluster.say(session.slurm.cluster.jobs[0], "TIMEOUT")
    session.until(session.is_(COOLDOWN, JobState.SKIPPED))
    assert session.submitted() == [STABLE]


def test_no_job_is_handed_over_to_wait_in_the_queue_for_another(
    tmp_path: Path,
) -> None:
    session = campaign(tmp_path, RunScript(seconds=5.0))
    session.until_all(JobState.COMPLETED)
    words = [word for line in session.slurm.lines for word in line]
    assert any("slurm-%j.out" in word for word in words)
    assert not [word for word in words if "dependency" in word]


def test_a_state_that_nobody_knows_is_alive(tmp_path: Path) -> None:
    session = campaign(tmp_path, RunScript(seconds=5000.0))
    session.until(session.is_(STABLE, JobState.RUNNING))
    session.slurm.cluster.say(session.slurm.cluster.jobs[0], "POWERING_SIDEWAYS")
    session.run(60)
    assert session.states() == {STABLE: "RUNNING", COOLDOWN: "WAITING"}


def test_a_job_that_was_queued_again_is_neither_failed_nor_a_second_attempt(
    tmp_path: Path,
) -> None:
    again = (RunScript(seconds=3.0, ends="requeue"), RunScript(seconds=5.0))
    session = campaign(tmp_path, *again)
    session.until_all(JobState.COMPLETED)
    assert len(session.job(STABLE).attempts) == 1
    ended = [r for r in session.session.records if isinstance(r.event, events.JobEnded)]
    assert len(ended) == 2


# ------------------------------------------------------------------- restarts and ends
CRASHES = StateEvent(name="crashed", state="crash", actions=(Restart(reason="crash"),))


def restarting(*rules: StateEvent) -> Plan:
    return plan(job("a"), monitoring=Monitoring(state_events=rules))


def warnings(the_plan: Plan) -> list[str]:
    return [str(one) for one in validate_execution_plan(the_plan).warnings]


def with_condition(condition: MaxAttempts | Composite) -> StateEvent:
    action = Restart(reason="crash", conditions=(condition,))
    return replace(CRASHES, actions=(action,))


def test_a_restart_without_a_limit_is_warned_about() -> None:
    assert warnings(restarting(CRASHES)) == [
        "monitoring.state_events.0: crashed restarts a job without a limit\n"
        "    add the condition MaxAttemptsCondition: max_attempts: 3"
    ]


def test_a_log_line_that_restarts_without_a_limit_is_warned_about() -> None:
    rule = LogEvent(name="nccl", pattern="NCCL", actions=(Restart(reason="nccl"),))
    found = warnings(plan(job("a"), monitoring=Monitoring(log_events=(rule,))))
    assert "nccl restarts a job without a limit" in found[0]


def test_rules_of_a_job_are_looked_at_too() -> None:
    own = Monitoring(state_events=(CRASHES,))
    found = warnings(plan(job("a", rules="r"), rule_sets={"r": own}))
    assert found[0].startswith("a monitoring.state_events.0")


@pytest.mark.parametrize(
    "limit",
    [
        MaxAttempts(max_attempts=3),
        Composite(conditions=(MaxAttempts(max_attempts=3),)),
    ],
)
def test_a_restart_with_a_limit_is_fine(limit: MaxAttempts | Composite) -> None:
    assert warnings(restarting(with_condition(limit))) == []


def test_a_limit_that_is_only_an_alternative_is_none() -> None:
    either = Composite(mode="any", conditions=(MaxAttempts(max_attempts=3),))
    assert warnings(restarting(with_condition(either)))


def test_going_on_after_a_time_limit_needs_no_limit() -> None:
    rule = replace(CRASHES, state="timeout")
    assert warnings(restarting(rule)) == []


# ------------------------------------------------------- references that nobody reads
@pytest.mark.parametrize(
    "text", ["{sibling.stable.output_dir}/x", "--out={output_dir}", "{runtime.a.b}"]
)
def test_a_reference_where_none_is_read_is_warned_about(text: str) -> None:
    found = warnings(plan(job("a", command=("train", text))))
    assert "as it is written" in found[0]


@pytest.mark.parametrize(
    "text", ['{"lr": 1}', "${output_dir}", "{{output_dir}}", "{epoch}", "{print $1}"]
)
def test_other_braces_of_a_command_are_let_be(text: str) -> None:
    assert warnings(plan(job("a", command=("train", text)))) == []


def test_braces_that_were_doubled_on_purpose_are_let_be() -> None:
    meant = {"backend.args.out": "{{output_dir}}"}
    spec = job("a", command=("train", "{output_dir}"), parameters=meant)
    assert warnings(plan(spec)) == []


# -------------------------------------------------------------------- what holds state
def test_no_state_lies_in_a_database_that_network_file_systems_corrupt() -> None:
    source = Path(autoexp_tui.__file__).parent
    imports = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
    named = {
        name
        for path in source.rglob("*.py")
        for name in imports.findall(path.read_text("utf-8"))
    }
    assert "json" in named
    assert named.isdisjoint({"sqlite3", "dbm", "shelve"})
