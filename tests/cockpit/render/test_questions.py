"""Dialogs name exactly what they will touch, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render import job_questions
from autoexp_tui.cockpit.render.job_questions import MOST_BEHIND
from autoexp_tui.cockpit.render.questions import (
    Choice,
    Question,
    ask_approval,
    ask_leave,
    ask_submit,
)
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.kill_cost import (
    estimate_loss,
    find_needed,
    find_waiting,
    list_checkpoint_places,
    select_killable,
)
from autoexp_tui.cockpit.state.session import (
    JobView,
    Scope,
    SessionView,
    build_session,
    choose_scope,
)
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.outputs import (
    Checkpoint,
    DoneWork,
    SavedCheckpoint,
    SeenCheckpoint,
)
from autoexp_tui.model.rules import Checkpoints
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.specs import ExecutorSpec, Resources
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import duration
from tests.support.campaigns import all_done, campaign, plan_of, planned

SESSION = build_session(campaign(125))


def looking(look: Look, number: int = 1) -> Scope:
    jobs = [job for job in SESSION.jobs if job.look is look]
    return Scope(jobs=tuple(jobs[:number]))


def body(question: Question | None) -> str:
    assert question is not None
    return "\n".join(plain(line) for line in question.lines)


def test_a_kill_names_every_job() -> None:
    wanted = looking(Look.RUNNING, 11)
    told = body(job_questions.ask_kill(wanted, SESSION))
    assert all(job.name in told for job in wanted.jobs)


def test_a_kill_counts_what_is_lost_since_the_checkpoints() -> None:
    wanted = looking(Look.RUNNING, 2)
    steps = [estimate_loss(job, SESSION.now).steps for job in wanted.jobs]
    told = body(job_questions.ask_kill(wanted, SESSION))
    assert f"Lost since their checkpoints: {steps[0]} and {steps[1]} steps" in told
    assert "GPU h" in told


def test_a_kill_tells_of_each_job_what_is_lost_of_it() -> None:
    wanted = looking(Look.RUNNING, 2)
    told = body(job_questions.ask_kill(wanted, SESSION))
    for job in wanted.jobs:
        loss = estimate_loss(job, SESSION.now)
        row = next(line for line in told.split("\n") if f" {job.name} " in line)
        assert f"{loss.steps} steps" in row
        assert duration(loss.seconds) in row
        assert f"{loss.gpu_hours:.1f} GPU h" in row


def test_of_many_losses_the_sum_and_the_most_are_told() -> None:
    wanted = looking(Look.RUNNING, 6)
    steps = [estimate_loss(job, SESSION.now).steps or 0 for job in wanted.jobs]
    told = body(job_questions.ask_kill(wanted, SESSION)).split("\n")[0]
    assert f"checkpoints: {sum(steps)} steps in all, {max(steps)} at most, " in told


def test_what_has_not_begun_loses_nothing() -> None:
    told = body(job_questions.ask_kill(looking(Look.QUEUED, 2), SESSION))
    assert "ost" not in told


def test_a_kill_names_what_waits_behind_it() -> None:
    wanted = looking(Look.RUNNING, 1)
    told = body(job_questions.ask_kill(wanted, SESSION))
    behind = find_waiting(wanted.jobs, SESSION)
    assert behind
    assert all(job.name in told for job in behind)


def test_of_many_that_wait_the_rest_is_counted() -> None:
    jobs = tuple(job for job in SESSION.jobs if job.stage in ("stable", "cooldown"))
    behind = find_waiting(select_killable(jobs), SESSION)
    told = body(job_questions.ask_kill(Scope(jobs=jobs), SESSION))
    assert f"and {len(behind) - MOST_BEHIND} more" in told


def test_what_the_plan_holds_is_not_said_to_be_skipped() -> None:
    job = next(
        job
        for job in SESSION.jobs
        if job.look is Look.RUNNING and job.stage == "stable"
    )
    held = body(job_questions.ask_kill(Scope(jobs=(job,)), SESSION))
    assert "3 jobs that wait for it can never start, and are held." in held
    known = plan_of(SESSION.snapshot)
    skips = replace(known, monitoring=replace(known.monitoring, doomed="skip"))
    session = build_session(replace(SESSION.snapshot, plan=skips))
    skipped = body(job_questions.ask_kill(Scope(jobs=(job,)), session))
    assert "3 jobs that wait for it will be skipped." in skipped


def test_a_kill_says_how_many_run() -> None:
    running, waiting = looking(Look.RUNNING).jobs, looking(Look.WAITING).jobs
    question = job_questions.ask_kill(Scope(jobs=running + waiting), SESSION)
    assert question is not None
    assert question.title == "Kill 2 jobs, 1 of them running?"


def test_without_a_checkpoint_steps_are_lost_from_the_attempt_s_first_on() -> None:
    job = looking(Look.RUNNING).jobs[0]
    live = Live(step=8500, first_step=8001)
    bare = replace(job, record=replace(job.record, metadata={}), live=live)
    assert estimate_loss(bare, SESSION.now).steps == 500


def bare(**fields: Any) -> JobView:
    """A job that runs, at step 8,812, and whose log told of no checkpoint."""
    job = looking(Look.RUNNING).jobs[0]
    live = Live(**{"step": 8812, "first_step": 1, **fields})
    return replace(job, record=replace(job.record, metadata={}), live=live)


def killing(job: JobView, look: SeenCheckpoint | str) -> str:
    looks = {job.name: look}
    return body(job_questions.ask_kill(Scope(jobs=(job,)), SESSION, looks))


def test_a_kill_counts_what_is_lost_since_a_checkpoint_that_was_found() -> None:
    said = killing(bare(), SeenCheckpoint(step=8000, age=90.0))
    assert "Lost since its checkpoint: 812 steps, 90 s of running" in said
    assert "812 steps since 8000, 90 s" in said
    assert "no checkpoint known" not in said


@pytest.mark.parametrize(
    ("steps", "seen", "since"),
    [
        (None, 8000, "since 8000, 90 s"),
        (8812, None, "since its checkpoint, 90 s"),
        (8812, 9000, "since 9000, 90 s"),
    ],
    ids=["a log without steps", "a name without a number", "ahead of the log"],
)
def test_where_steps_do_not_tell_the_time_since_the_checkpoint_does(
    steps: int | None, seen: int | None, since: str
) -> None:
    job = bare(step=steps)
    job = replace(job, record=replace(job.record, noted=None))
    said = killing(job, SeenCheckpoint(step=seen, age=90.0))
    assert "Lost since its checkpoint: 90 s of running" in said
    assert since in said


def test_why_no_checkpoint_is_known_is_told() -> None:
    said = killing(bare(), "monitoring.checkpoints.glob finds none")
    way = "monitoring.checkpoints.glob finds none"
    assert f"1 job with no checkpoint known ({way})." in said


def test_what_the_engine_found_at_an_end_is_known_without_a_look() -> None:
    job = bare()
    saved = SavedCheckpoint(checkpoint=Checkpoint(path="/c/iter_8000", step=8000))
    job = replace(job, record=replace(job.record, saved=saved))
    assert estimate_loss(job, SESSION.now).steps == 812


def test_what_it_found_before_other_work_began_does_not_count() -> None:
    job = bare()
    saved = SavedCheckpoint(checkpoint=Checkpoint(path="/c/iter_8000", step=8000))
    assert job.attempt is not None
    attempts = (*job.record.attempts[:-1], replace(job.attempt, anew=True))
    job = replace(job, record=replace(job.record, saved=saved, attempts=attempts))
    assert estimate_loss(job, SESSION.now).steps == 8812


def test_checkpoints_are_looked_for_where_a_glob_is_set_and_the_job_runs() -> None:
    plan = SESSION.snapshot.plan
    assert plan is not None
    glob = Checkpoints(glob="iter_*")
    rules = replace(plan, monitoring=replace(plan.monitoring, checkpoints=glob))
    session = replace(SESSION, snapshot=replace(SESSION.snapshot, plan=rules))
    jobs = (*looking(Look.RUNNING).jobs, *looking(Look.WAITING).jobs)
    (place,) = list_checkpoint_places(jobs, session)
    spec = jobs[0].record.spec
    assert (place.job, place.output_dir) == (spec.name, spec.output_dir)
    assert (place.glob, place.since) == ("iter_*", None)
    assert not list_checkpoint_places(jobs, SESSION)


def test_from_ten_jobs_on_the_count_is_typed() -> None:
    few = job_questions.ask_kill(looking(Look.RUNNING, 9), SESSION)
    many = job_questions.ask_kill(looking(Look.RUNNING, 10), SESSION)
    assert few is not None
    assert many is not None
    assert few.typed is None
    assert many.typed == 10


def test_no_close_button_says_cancel() -> None:
    asked = [
        job_questions.ask_kill(looking(Look.RUNNING), SESSION),
        job_questions.ask_skip(looking(Look.WAITING), SESSION),
        job_questions.ask_resubmit(looking(Look.FAILED), SESSION),
        ask_submit(Scope(jobs=()), build_session(planned(10))),
        ask_leave(SESSION, ""),
    ]
    for question in asked:
        assert question is not None
        assert "cancel" not in f"{question.stay} {question.confirm}".lower()


def test_what_nobody_asked_to_run_cannot_be_killed() -> None:
    session = build_session(planned(10))
    assert job_questions.ask_kill(Scope(jobs=session.jobs), session) is None


def test_marks_that_a_filter_hides_are_told() -> None:
    marks = {job.name for job in looking(Look.RUNNING, 3).jobs}
    shown = {looking(Look.RUNNING).jobs[0].name}
    wanted = choose_scope(SESSION, marks, lambda: shown, ())
    told = body(job_questions.ask_kill(wanted, SESSION))
    assert "3 marked jobs, 2 of them hidden by the filter" in told


def test_marks_come_before_the_row_under_the_cursor() -> None:
    marked, other = looking(Look.RUNNING, 2).jobs
    assert choose_scope(SESSION, {marked.name}, set, (other,)).jobs == (marked,)
    assert choose_scope(SESSION, (), set, (other,)).jobs == (other,)


def choices(question: Question | None) -> dict[str, Choice]:
    assert question is not None
    return {choice.id: choice for choice in question.choices}


def test_submitting_offers_all_with_the_gpu_hours_they_may_use() -> None:
    session = build_session(planned(10))
    found = choices(ask_submit(Scope(jobs=()), session))
    assert found["all"].label == "all 10 jobs: at most 640 GPU h an attempt"


def test_submitting_says_how_many_run_at_a_time() -> None:
    base = planned(10)
    plan = replace(plan_of(base), executor=ExecutorSpec(max_parallel=3))
    session = build_session(replace(base, plan=plan))
    told = body(ask_submit(Scope(jobs=()), session))
    assert "On slurm, default partition, 3 at a time, time limit 8 h." in told


def test_submitting_to_a_cluster_says_its_partitions_and_limits() -> None:
    base = planned(2)
    options = [{"partition": "gpu"}, {"partition": "cpu"}]
    limits = [7200.0, 10800.0]
    pairs = zip(options, limits, strict=True)
    asked = [Resources(options=o, time_limit_seconds=limit) for o, limit in pairs]
    jobs = tuple(with_resources(job, asked[job.spec.index % 2]) for job in base.jobs)
    told = body(ask_submit(Scope(jobs=()), build_session(replace(base, jobs=jobs))))
    assert "On slurm, partitions cpu and gpu, 16 at a time, " in told
    assert "time limits 2 h to 3 h." in told


def with_resources(job: JobRecord, resources: Resources) -> JobRecord:
    return replace(job, spec=replace(job.spec, resources=resources))


def offered(number: int = 10, **engine: Any) -> SessionView:
    base = planned(number)
    return build_session(replace(base, engine=replace(base.engine, **engine)))


def test_the_lower_limit_is_how_many_run_at_a_time() -> None:
    session = offered(slots=4)
    assert "4 at a time" in body(ask_submit(Scope(jobs=()), session))
    plan = replace(plan_of(session.snapshot), executor=ExecutorSpec(max_parallel=2))
    limited = build_session(replace(session.snapshot, plan=plan))
    assert "2 at a time" in body(ask_submit(Scope(jobs=()), limited))


def test_jobs_that_want_more_gpus_than_there_are_are_named_with_the_next_step() -> None:
    session = offered(slots=4, gpus=2)
    told = body(ask_submit(Scope(jobs=()), session))
    assert "4 at a time, 2 GPUs, time limit 8 h." in told
    names = ", ".join(job.name for job in session.jobs[:3])
    assert f"! 10 jobs want up to 8 GPUs: {names} and 7 more." in told
    assert "This machine has 2, and refuses them. Lower slurm.sbatch.gpus" in told


def test_a_choice_says_how_many_of_its_jobs_are_refused() -> None:
    asked = ask_submit(Scope(jobs=()), offered(gpus=0))
    assert asked is not None
    assert asked.choices[0].label.startswith("all 10 jobs, 10 of them refused here")


def test_the_jobs_that_can_run_here_are_offered_first() -> None:
    base = planned(10)
    small = replace(base.jobs[0].spec.resources, gpus=1)
    jobs = tuple(
        replace(record, spec=replace(record.spec, resources=small))
        if record.spec.stage == "stable"
        else record
        for record in base.jobs
    )
    session = build_session(
        replace(base, jobs=jobs, engine=replace(base.engine, gpus=1)),
    )
    asked = ask_submit(Scope(jobs=()), session)
    assert asked is not None
    stable = tuple(job.name for job in session.jobs if job.stage == "stable")
    assert asked.choices[0].jobs == stable
    assert "3 jobs that can run here, hold the rest" in asked.choices[0].label


def test_what_waits_for_a_job_that_cannot_run_here_is_not_said_to_run() -> None:
    base = planned(10)
    small = replace(base.jobs[0].spec.resources, gpus=1)
    jobs = tuple(
        record
        if record.spec.stage == "stable"
        else replace(record, spec=replace(record.spec, resources=small))
        for record in base.jobs
    )
    session = build_session(
        replace(base, jobs=jobs, engine=replace(base.engine, gpus=1))
    )
    asked = ask_submit(Scope(jobs=()), session)
    assert asked is not None
    assert asked.choices[0].id == "all"


def test_the_marked_ones_come_with_what_they_need() -> None:
    session = build_session(planned(10))
    evaluate = session.jobs[2]
    wanted = Scope(jobs=(evaluate,), by_marks=True)
    found = choices(ask_submit(wanted, session))["marked"]
    assert found.jobs == tuple(job.name for job in session.jobs[:3])
    assert "the 1 marked job and 2 needed upstream" in found.label


def test_one_family_first_holds_the_rest() -> None:
    session = build_session(planned(10))
    found = choices(ask_submit(Scope(jobs=(session.jobs[4],)), session))["family"]
    assert found.jobs == tuple(job.name for job in session.jobs[3:6])


def done_by_another(job: JobRecord) -> JobRecord:
    work = DoneWork(job=job.name, session="k7f2", mark="k", fingerprint="f", at=1.0)
    return replace(job, done=work)


def test_submitting_says_how_many_are_done_already_and_bills_the_rest() -> None:
    base = planned(10)
    jobs = (*map(done_by_another, base.jobs[:3]), *base.jobs[3:])
    question = ask_submit(Scope(jobs=()), build_session(replace(base, jobs=jobs)))
    assert "3 of 10 jobs are done already" in body(question)
    before = choices(ask_submit(Scope(jobs=()), build_session(base)))["all"]
    assert choices(question)["all"].label != before.label


def test_a_plan_that_is_all_done_has_nothing_left_to_run() -> None:
    base = planned(4)
    jobs = tuple(map(done_by_another, base.jobs))
    question = ask_submit(Scope(jobs=()), build_session(replace(base, jobs=jobs)))
    assert "nothing is left to run" in choices(question)["all"].label


def test_what_is_done_already_is_run_anew_from_the_beginning_first() -> None:
    base = all_done(4)
    jobs = tuple(replace(done_by_another(job), attempts=()) for job in base.jobs)
    session = build_session(replace(base, jobs=jobs))
    question = job_questions.ask_resubmit(Scope(jobs=session.jobs[:1]), session)
    assert question is not None
    assert not question.choices[0].from_checkpoint
    assert "build on its results" in body(question)


def test_nothing_planned_is_nothing_to_submit() -> None:
    assert ask_submit(Scope(jobs=()), SESSION) is None


def test_no_time_limit_is_no_bound() -> None:
    base = planned(10)
    jobs = tuple(
        replace(
            job,
            spec=replace(
                job.spec,
                resources=replace(job.spec.resources, time_limit_seconds=None),
            ),
        )
        for job in base.jobs
    )
    session = build_session(replace(base, jobs=jobs))
    found = choices(ask_submit(Scope(jobs=()), session))
    assert "without a bound" in found["all"].label


def test_a_resubmission_counts_what_it_brings_back() -> None:
    failed = next(job for job in SESSION.jobs if job.record.cause is Cause.EXIT_CODE)
    told = body(job_questions.ask_resubmit(Scope(jobs=(failed,)), SESSION))
    assert "Brings back 1 job that was skipped because of this:" in told


def test_a_resubmission_knows_its_checkpoint() -> None:
    memory = next(
        job for job in SESSION.jobs if job.record.cause is Cause.OUT_OF_MEMORY
    )
    found = choices(job_questions.ask_resubmit(Scope(jobs=(memory,)), SESSION))
    assert list(found) == ["checkpoint", "planned", "overrides", "nodes", "limit"]
    assert "step 30000" in found["checkpoint"].label
    assert found["nodes"].given == memory.record.attempts[0].node


def test_changed_values_are_shown_beside_the_old_ones() -> None:
    jobs = looking(Look.FAILED).jobs
    rows = [
        plain(row)
        for row in job_questions.render_overrides(jobs, ["optim.lr=5e-4", "x"])
    ]
    assert rows[0] == "  optim.lr: 3e-4 -> 5e-4"
    assert "not of the form key=value" in rows[1]


def test_one_waiting_job_may_waive_each_of_its_conditions() -> None:
    found = choices(job_questions.ask_skip(looking(Look.DOOMED), SESSION))
    assert list(found) == ["skip", "waive:0"]
    assert "iter_48000/done.txt" in found["waive:0"].label
    several = choices(job_questions.ask_skip(looking(Look.DOOMED, 3), SESSION))
    assert list(several) == ["skip"]


def test_an_approval_shows_prompt_and_files_and_what_starts() -> None:
    job = looking(Look.ASKS).jobs[0]
    assert job.record.ask is not None
    question = ask_approval(
        job,
        job.record.ask,
        [
            ("/plan.md", "line one\nline two"),
            (f"{SESSION.jobs[0].record.spec.output_dir}/rows/a.md", "x"),
        ],
        "1 of 2",
        SESSION,
    )
    told = body(question)
    assert "Publish the comparison of all runs?" in told
    assert "line two" in told
    assert "-- /plan.md" in told
    assert f"-- {SESSION.jobs[0].name}  rows/a.md" in told
    assert f"y starts {job.name}." in told
    assert "digest" not in told
    assert question.title.endswith("(1 of 2)?")


def leave(session: SessionView) -> Question | None:
    return ask_leave(session, "come back so")


def test_leaving_asks_while_what_a_rule_ordered_is_not_done() -> None:
    ended = replace(all_done(4), open=True)
    question = ask_leave(build_session(ended), "")
    assert question is not None
    text = "\n".join(plain(one) for one in question.lines)
    assert "All jobs have ended; what rules ordered is still being done." in text
    assert ask_leave(build_session(all_done(4)), "") is None


def test_leaving_says_that_the_engine_goes_on() -> None:
    told = body(leave(SESSION))
    assert "The engine goes on" in told
    assert "come back so" in told


def test_leaving_a_plan_a_view_or_a_finished_session_asks_nothing() -> None:
    assert leave(build_session(planned(10))) is None
    assert leave(build_session(campaign(31, role="viewer"))) is None
    assert leave(build_session(all_done(10))) is None


def test_a_paused_session_cannot_be_paused_again() -> None:
    from autoexp_tui.model.states import why

    paused = leave(build_session(replace(SESSION.snapshot, paused=why("paused"))))
    assert paused is not None
    assert paused.others == ()


def names(jobs: tuple[JobView, ...]) -> list[str]:
    return [job.stage for job in jobs]


def test_all_that_waits_however_far_down_is_found() -> None:
    session = build_session(planned(10))
    assert names(find_waiting(session.jobs[:1], session)) == [
        "cooldown",
        "evaluate",
        "report",
    ]


def test_all_that_is_needed_however_far_up_is_found() -> None:
    session = build_session(planned(10))
    assert names(find_needed(session.jobs[2:3], session)) == ["stable", "cooldown"]


def test_what_has_begun_does_not_wait() -> None:
    states = {job.record.state for job in find_waiting(SESSION.jobs[:3], SESSION)}
    assert states <= {JobState.WAITING, JobState.HELD, JobState.PLANNED}
