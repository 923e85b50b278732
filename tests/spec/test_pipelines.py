"""Pipelines of several stages, from the config to the end of their last job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import FileExists, LogPattern, MetadataIs
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import sentence
from tests.spec.campaign import Campaign, job_of, outcome_of, plan_of, says
from tests.support.fake_script import RunScript, Write
from tests.support.fake_slurm_jobs import ClusterSettings

STABLES = ["test_lr1e-4_stable", "test_lr5e-4_stable"]
COOLDOWNS = {"test_lr1e-4_cooldown", "test_lr5e-4_cooldown"}
SAVED = "saved checkpoint from iteration 1000 to /checkpoint"


def stable(root: Path, name: str, *lines: tuple[float, str]) -> list[list[RunScript]]:
    """A run of a minute that leaves its checkpoint after 5 seconds."""
    directory = root / "outputs" / name / "checkpoint"
    directory.mkdir(parents=True)
    file = Write(at=5.0, data=b"done", path=str(directory / "done.txt"))
    logged = [says(at, text) for at, text in lines]
    writes = sorted([file, *logged], key=lambda write: write.at)
    return [[RunScript(seconds=60.0, writes=tuple(writes))]]


def two_stages(root: Path, saved_at: float = 20.0) -> Campaign:
    scripts = {name: stable(root, name, (saved_at, SAVED)) for name in STABLES}
    return Campaign(root, plan_of("multi_stage_basic", root), scripts)


# ------------------------------------------------------------------ two stages, planned
def test_two_rates_and_two_stages_are_four_jobs(tmp_path: Path) -> None:
    plan = plan_of("multi_stage_basic", tmp_path)
    assert [job.stage for job in plan.jobs] == ["stable", "cooldown"] * 2


def test_a_cooldown_loads_from_its_siblings_directory(tmp_path: Path) -> None:
    cooldown = job_of(plan_of("multi_stage_basic", tmp_path), "test_lr5e-4_cooldown")
    path = f"{tmp_path}/outputs/test_lr5e-4_stable/checkpoint"
    assert f"backend.megatron.load={path}" in cooldown.overrides


def test_start_conditions_name_the_sibling_as_it_will_be(tmp_path: Path) -> None:
    cooldown = job_of(plan_of("multi_stage_basic", tmp_path), "test_lr5e-4_cooldown")
    name = "test_lr5e-4_stable"
    assert cooldown.start_conditions == (
        FileExists(
            path=f"{tmp_path}/outputs/{name}/checkpoint/done.txt",
            timeout_seconds=600.0,
            writer=name,
        ),
        MetadataIs(
            job=name, key="checkpoint_iteration", value=1000, timeout_seconds=600.0
        ),
    )


# ----------------------------------------------------------------- two stages, run
def test_only_the_first_stage_is_submitted_at_once(tmp_path: Path) -> None:
    campaign = two_stages(tmp_path)
    campaign.run(3)
    assert (campaign.submitted(), campaign.waiting()) == (STABLES, COOLDOWNS)


def test_the_file_alone_does_not_start_a_cooldown(tmp_path: Path) -> None:
    campaign = two_stages(tmp_path)
    campaign.run(15)
    found = [
        verdict.result for verdict in campaign.job(min(COOLDOWNS)).start if verdict
    ]
    assert found == ["pass", "wait"]


def test_the_logged_iteration_alone_does_not_start_a_cooldown(tmp_path: Path) -> None:
    logged = RunScript(seconds=60.0, writes=(says(3.0, SAVED),))
    scripts = {name: [[logged]] for name in STABLES}
    campaign = Campaign(tmp_path, plan_of("multi_stage_basic", tmp_path), scripts)
    campaign.run(20)
    found = [
        verdict.result for verdict in campaign.job(min(COOLDOWNS)).start if verdict
    ]
    assert found == ["wait", "pass"]


def test_file_and_logged_iteration_start_the_cooldowns(tmp_path: Path) -> None:
    campaign = two_stages(tmp_path)
    campaign.until(lambda: not campaign.waiting(), 40)
    assert [campaign.job(name).state for name in STABLES] == [JobState.RUNNING] * 2


def test_a_checkpoint_of_another_iteration_starts_nothing(tmp_path: Path) -> None:
    early = (8.0, SAVED.replace("1000", "900"))
    scripts = {name: stable(tmp_path, name, early) for name in STABLES}
    campaign = Campaign(tmp_path, plan_of("multi_stage_basic", tmp_path), scripts)
    campaign.run(30)
    assert campaign.waiting() == COOLDOWNS


def test_every_job_is_submitted_once_and_completes(tmp_path: Path) -> None:
    campaign = two_stages(tmp_path)
    campaign.until_all(JobState.COMPLETED)
    assert sorted(campaign.submitted()) == sorted([*STABLES, *COOLDOWNS])
    assert campaign.faults == []


def test_a_cooldown_whose_checkpoint_never_comes_is_skipped(tmp_path: Path) -> None:
    scripts = {name: [[RunScript(seconds=2.0, exit_code=1)]] for name in STABLES}
    campaign = Campaign(tmp_path, plan_of("multi_stage_basic", tmp_path), scripts)
    campaign.until_all(JobState.FAILED, JobState.SKIPPED)
    assert {campaign.job(name).cause for name in COOLDOWNS} == {Cause.UPSTREAM}


# ---------------------------------------------------------------------- branching
def branching(root: Path, score: float) -> Campaign:
    judged = RunScript(seconds=5.0, writes=(says(1.0, f"validation score {score}"),))
    scripts = {
        "test_train": [[RunScript(seconds=5.0)]],
        "test_eval_val": [[judged]],
    }
    return Campaign(root, plan_of("multi_stage_branching", root), scripts)


def test_branches_run_beside_each_other_when_their_stage_is_done(
    tmp_path: Path,
) -> None:
    campaign = branching(tmp_path, 0.9)
    campaign.until(campaign.is_("test_eval_val", JobState.RUNNING))
    assert campaign.submitted() == ["test_train", "test_eval_val", "test_eval_train"]


def test_a_third_stage_follows_the_second(tmp_path: Path) -> None:
    campaign = branching(tmp_path, 0.9)
    campaign.until_all(JobState.COMPLETED)
    assert campaign.submitted()[-1] == "test_eval_test"


def test_a_third_stage_is_skipped_when_the_second_was_not_good(tmp_path: Path) -> None:
    campaign = branching(tmp_path, 0.1)
    campaign.until(campaign.is_("test_eval_test", JobState.SKIPPED))
    assert campaign.states()["test_eval_val"] == "COMPLETED"


# ------------------------------------------------------------------ filtered stages
def test_a_filter_leaves_one_stage_of_one_family_out(tmp_path: Path) -> None:
    left_out = 'not (lr == 1e-4 and stage == "cooldown")'
    plan = plan_of("multi_stage_basic", tmp_path, [f"+sweep.filter='{left_out}'"])
    assert [job.name for job in plan.jobs] == [
        "test_lr1e-4_stable",
        "test_lr5e-4_stable",
        "test_lr5e-4_cooldown",
    ]


def test_a_filter_that_drops_a_stage_others_wait_for_is_an_error(
    tmp_path: Path,
) -> None:
    left_out = 'not (lr == 1e-4 and stage == "stable")'
    found = outcome_of("multi_stage_basic", tmp_path, [f"+sweep.filter='{left_out}'"])
    said = " ".join(str(error) for error in found.errors)
    assert "No sibling found matching pattern: stable" in said
    assert "sweep.filter" in said


# -------------------------------------------------------------- cooldowns at scales
SCALES = {600: "6B", 1200: "12B", 3000: "30B", 5000: "50B"}


def progressive(root: Path) -> Campaign:
    lines = [says(at / 100, f"saved checkpoint from iteration {at}") for at in SCALES]
    scripts = {"test_lr1e-4_stable": [[RunScript(seconds=60.0, writes=tuple(lines))]]}
    plan = plan_of("multi_stage_progressive_cooldown", root)
    return Campaign(root, plan, scripts)


@pytest.mark.parametrize("iteration", SCALES)
def test_each_cooldown_loads_the_checkpoint_of_its_scale(
    tmp_path: Path, iteration: int
) -> None:
    plan = plan_of("multi_stage_progressive_cooldown", tmp_path)
    cooldown = job_of(plan, f"test_lr1e-4_cooldown_{SCALES[iteration]}")
    path = f"{tmp_path}/outputs/test_lr1e-4_stable/iter_{iteration}"
    assert f"backend.megatron.load={path}" in cooldown.overrides


def test_cooldowns_start_one_after_another_as_their_checkpoints_come(
    tmp_path: Path,
) -> None:
    campaign = progressive(tmp_path)
    campaign.until_all(JobState.COMPLETED)
    scales = [name.rpartition("_")[2] for name in campaign.submitted()]
    assert scales == ["stable", *SCALES.values()]


def test_a_cooldown_starts_while_the_stable_run_goes_on(tmp_path: Path) -> None:
    campaign = progressive(tmp_path)
    campaign.until(lambda: len(campaign.waiting()) == 2)
    assert campaign.states()["test_lr1e-4_stable"] == "RUNNING"


# ------------------------------------------------------------- cancelled by a sibling
STABLE, COOLDOWN = "test_lr1e-4_stable", "test_lr1e-4_cooldown"
FATAL = RunScript(
    seconds=500.0,
    writes=(says(0.0, "Starting training..."), says(3.0, "FATAL ERROR: disk")),
)


def cancelling(root: Path, stable: Sequence[RunScript]) -> Campaign:
    scripts: Mapping[str, Sequence[Sequence[RunScript]]] = {STABLE: [stable]}
    return Campaign(root, plan_of("multi_stage_cancel", root), scripts)


def test_a_cancel_condition_reads_through_the_link_to_the_current_log(
    tmp_path: Path,
) -> None:
    campaign = cancelling(tmp_path, [FATAL])
    campaign.until(campaign.is_(COOLDOWN, JobState.CANCELLED), 20)
    link = tmp_path / "logs" / STABLE / "current.log"
    assert link.is_symlink()
    assert "FATAL ERROR" in link.read_text()


def test_a_cancelled_job_was_never_submitted(tmp_path: Path) -> None:
    campaign = cancelling(tmp_path, [FATAL])
    campaign.until(campaign.is_(COOLDOWN, JobState.CANCELLED), 20)
    assert campaign.submitted() == [STABLE]
    assert campaign.waiting() == set()


def test_the_reason_of_a_cancelled_job_names_the_cancel_condition(
    tmp_path: Path,
) -> None:
    campaign = cancelling(tmp_path, [FATAL])
    campaign.until(campaign.is_(COOLDOWN, JobState.CANCELLED), 20)
    assert campaign.job(COOLDOWN).cause == "cancel_condition"


def test_the_reason_of_a_cancelled_job_shows_the_line(tmp_path: Path) -> None:
    campaign = cancelling(tmp_path, [FATAL])
    campaign.until(campaign.is_(COOLDOWN, JobState.CANCELLED), 20)
    why = campaign.job(COOLDOWN).why
    assert why is not None
    assert "FATAL ERROR: disk" in sentence(why, 0.0)


def test_a_sibling_that_failed_cancels_too(tmp_path: Path) -> None:
    campaign = cancelling(tmp_path, [RunScript(seconds=2.0, exit_code=1)])
    campaign.until(campaign.is_(COOLDOWN, JobState.CANCELLED), 40)
    assert campaign.job(COOLDOWN).cause is Cause.CANCEL_CONDITION


def test_a_sibling_that_completes_starts_the_cooldown(tmp_path: Path) -> None:
    campaign = cancelling(tmp_path, [RunScript(seconds=5.0)])
    campaign.until_all(JobState.COMPLETED)
    assert campaign.submitted() == [STABLE, COOLDOWN]


def test_the_line_of_an_earlier_session_cancels_nothing(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / STABLE
    logs.mkdir(parents=True)
    (logs / "slurm-old.out").write_text("FATAL ERROR: yesterday\n")
    (logs / "current.log").symlink_to("slurm-old.out")
    slow = ClusterSettings(schedule_seconds=20.0)
    scripts = {STABLE: [[RunScript(seconds=5.0)]]}
    plan = plan_of("multi_stage_cancel", tmp_path)
    campaign = Campaign(tmp_path, plan, scripts, slow)
    campaign.until_all(JobState.COMPLETED)
    assert campaign.submitted() == [STABLE, COOLDOWN]


def behind_a_line(root: Path, timeout: float | None = None) -> Plan:
    """The cooldown starts at a line of the stable run's log; an old log has it too."""
    logs = root / "logs" / STABLE
    logs.mkdir(parents=True)
    (logs / "slurm-old.out").write_text("training finished\n")
    (logs / "current.log").symlink_to("slurm-old.out")
    log = LogPattern(
        log_path=str(logs / "current.log"),
        pattern="training finished",
        writer=STABLE,
        timeout_seconds=timeout,
    )
    made = plan_of("multi_stage_cancel", root)
    jobs = tuple(
        replace(one, start_conditions=(log,), cancel_conditions=())
        if one.name == COOLDOWN
        else one
        for one in made.jobs
    )
    return replace(made, jobs=jobs)


FINISHES = RunScript(seconds=60.0, writes=(says(10.0, "training finished"),))


def test_the_line_of_an_earlier_session_starts_nothing(tmp_path: Path) -> None:
    slow = ClusterSettings(schedule_seconds=20.0)
    plan = behind_a_line(tmp_path)
    campaign = Campaign(tmp_path, plan, {STABLE: [[FINISHES]]}, slow)
    campaign.until(campaign.is_(STABLE, JobState.RUNNING))
    assert campaign.waiting() == {COOLDOWN}
    campaign.run(5)
    assert campaign.waiting() == {COOLDOWN}


def test_the_line_of_the_new_run_starts_what_waits_for_it(tmp_path: Path) -> None:
    plan = behind_a_line(tmp_path)
    campaign = Campaign(tmp_path, plan, {STABLE: [[FINISHES]]})
    campaign.until(lambda: not campaign.waiting(), 30)
    assert campaign.job(STABLE).state is JobState.RUNNING
    campaign.until_all(JobState.COMPLETED)


def test_what_waits_for_the_new_run_s_line_says_so(tmp_path: Path) -> None:
    slow = ClusterSettings(schedule_seconds=20.0)
    plan = behind_a_line(tmp_path)
    campaign = Campaign(tmp_path, plan, {STABLE: [[FINISHES]]}, slow)
    campaign.run(5)
    (found,) = campaign.job(COOLDOWN).start
    assert found is not None
    assert "an earlier run's" in sentence(found.why, 0.0)


def test_waiting_for_the_new_run_s_line_has_its_time_limit(tmp_path: Path) -> None:
    slow = ClusterSettings(schedule_seconds=50.0)
    plan = behind_a_line(tmp_path, timeout=10.0)
    campaign = Campaign(tmp_path, plan, {STABLE: [[FINISHES]]}, slow)
    campaign.until(campaign.is_(COOLDOWN, JobState.SKIPPED), 20)
    assert campaign.job(COOLDOWN).cause is Cause.START_TIMEOUT


def test_what_was_found_before_the_new_run_is_not_taken_for_its_own(
    tmp_path: Path,
) -> None:
    made = behind_a_line(tmp_path)
    seldom = replace(made.monitoring, poll_seconds=30.0)
    slow = ClusterSettings(schedule_seconds=20.0)
    plan = replace(made, monitoring=seldom)
    campaign = Campaign(tmp_path, plan, {STABLE: [[FINISHES]]}, slow)
    campaign.until(campaign.is_(STABLE, JobState.RUNNING))
    campaign.run(5)
    assert campaign.waiting() == {COOLDOWN}
