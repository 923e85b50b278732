"""Dialogs name exactly what they will touch, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render.job_questions import (
    MOST_BEHIND,
    ask_kill,
    ask_resubmit,
    ask_skip,
)
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
    find_linked,
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
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.specs import ExecutorSpec
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, why
from autoexp_tui.text.spelling import duration
from tests.support.campaigns import all_done, campaign, plan_of, planned

SESSION = build_session(campaign(125))
NOBODY = Scope(jobs=())


def looking(look: Look, number: int = 1) -> Scope:
    jobs = [job for job in SESSION.jobs if job.look is look]
    return Scope(jobs=tuple(jobs[:number]))


def failed_by(cause: Cause) -> Scope:
    job = next(job for job in SESSION.jobs if job.record.cause is cause)
    return Scope(jobs=(job,))


def body(question: Question | None) -> str:
    assert question is not None
    return "\n".join(plain(line) for line in question.lines)


def choices(question: Question | None) -> dict[str, Choice]:
    assert question is not None
    return {choice.id: choice for choice in question.choices}


def test_a_kill_tells_of_each_job_and_of_all_what_is_lost() -> None:
    wanted = looking(Look.RUNNING, 2)
    told = body(ask_kill(wanted, SESSION))
    losses = [estimate_loss(job, SESSION.now) for job in wanted.jobs]
    for loss in losses:
        row = next(line for line in told.split("\n") if f" {loss.job.name} " in line)
        assert f"{loss.steps} steps" in row
        assert duration(loss.seconds) in row
        assert f"{loss.gpu_hours:.1f} GPU h" in row
    steps = f"{losses[0].steps} and {losses[1].steps} steps"
    assert f"Lost since their checkpoints: {steps}" in told
    many = looking(Look.RUNNING, 6)
    lost = [estimate_loss(job, SESSION.now).steps or 0 for job in many.jobs]
    first = body(ask_kill(many, SESSION)).split("\n")[0]
    assert f"checkpoints: {sum(lost)} steps in all, {max(lost)} at most, " in first


def test_what_has_not_begun_loses_nothing_and_may_have_nothing_to_end() -> None:
    assert "ost" not in body(ask_kill(looking(Look.QUEUED, 2), SESSION))
    session = build_session(planned(10))
    assert ask_kill(Scope(jobs=session.jobs), session) is None
    assert ask_submit(NOBODY, SESSION) is None


def test_a_kill_names_what_waits_behind_it_and_counts_the_rest_of_many() -> None:
    wanted = looking(Look.RUNNING)
    behind = find_waiting(wanted.jobs, SESSION)
    assert behind
    assert all(job.name in body(ask_kill(wanted, SESSION)) for job in behind)
    jobs = tuple(job for job in SESSION.jobs if job.stage in ("stable", "cooldown"))
    behind = find_waiting(select_killable(jobs), SESSION)
    told = body(ask_kill(Scope(jobs=jobs), SESSION))
    assert f"and {len(behind) - MOST_BEHIND} more" in told


@pytest.mark.parametrize(
    ("doomed", "words"),
    [("hold", "can never start, and are held"), ("skip", "will be skipped")],
)
def test_what_the_plan_holds_is_not_said_to_be_skipped(doomed: Any, words: str) -> None:
    running = looking(Look.RUNNING, 99).jobs
    job = next(job for job in running if job.stage == "stable")
    known = plan_of(SESSION.snapshot)
    plan = replace(known, monitoring=replace(known.monitoring, doomed=doomed))
    session = build_session(replace(SESSION.snapshot, plan=plan))
    told = body(ask_kill(Scope(jobs=(job,)), session))
    assert f"3 jobs that wait for it {words}." in told


def test_a_kill_says_how_many_run_and_has_the_count_of_many_typed() -> None:
    running, waiting = looking(Look.RUNNING, 10).jobs, looking(Look.WAITING).jobs
    question = ask_kill(Scope(jobs=running[:1] + waiting), SESSION)
    assert question is not None
    assert question.title == "Kill 2 jobs, 1 of them running?"
    for number, typed in ((9, None), (10, 10)):
        question = ask_kill(Scope(jobs=running[:number]), SESSION)
        assert question is not None
        assert question.typed == typed


def bare(**fields: Any) -> JobView:
    """A job that runs, at step 8,812, and whose log told of no checkpoint."""
    job = looking(Look.RUNNING).jobs[0]
    live = Live(**{"step": 8812, "first_step": 1, **fields})
    return replace(job, record=replace(job.record, metadata={}), live=live)


def killing(job: JobView, look: SeenCheckpoint | str) -> str:
    return body(ask_kill(Scope(jobs=(job,)), SESSION, {job.name: look}))


def test_a_kill_counts_what_is_lost_since_a_checkpoint_that_was_found() -> None:
    said = killing(bare(), SeenCheckpoint(step=8000, age=90.0))
    assert "Lost since its checkpoint: 812 steps, 90 s of running" in said
    assert "812 steps since 8000, 90 s" in said
    assert "no checkpoint known" not in said
    way = "monitoring.checkpoints.glob finds none"
    assert f"1 job with no checkpoint known ({way})." in killing(bare(), way)


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


@pytest.mark.parametrize(
    ("first", "is_saved", "anew", "lost"),
    [(8001, False, False, 812), (1, True, False, 812), (1, True, True, 8812)],
    ids=["none, since the first step", "found at an end", "found before other work"],
)
def test_steps_are_lost_since_what_is_known_without_a_look(
    first: int, is_saved: bool, anew: bool, lost: int
) -> None:
    job = bare(first_step=first)
    assert job.attempt is not None
    saved = SavedCheckpoint(checkpoint=Checkpoint(path="/c/iter_8000", step=8000))
    record = replace(
        job.record,
        saved=saved if is_saved else None,
        attempts=(*job.record.attempts[:-1], replace(job.attempt, anew=anew)),
    )
    assert estimate_loss(replace(job, record=record), SESSION.now).steps == lost


def test_checkpoints_are_looked_for_where_a_glob_is_set_and_the_job_runs() -> None:
    plan = plan_of(SESSION.snapshot)
    glob = Checkpoints(glob="iter_*")
    rules = replace(plan, monitoring=replace(plan.monitoring, checkpoints=glob))
    session = replace(SESSION, snapshot=replace(SESSION.snapshot, plan=rules))
    jobs = (*looking(Look.RUNNING).jobs, *looking(Look.WAITING).jobs)
    (place,) = list_checkpoint_places(jobs, session)
    spec = jobs[0].record.spec
    assert (place.job, place.output_dir) == (spec.name, spec.output_dir)
    assert (place.glob, place.since) == ("iter_*", None)
    assert not list_checkpoint_places(jobs, SESSION)


def test_no_close_button_says_cancel() -> None:
    asked = [
        ask_kill(looking(Look.RUNNING), SESSION),
        ask_skip(looking(Look.WAITING), SESSION),
        ask_resubmit(looking(Look.FAILED), SESSION),
        ask_submit(NOBODY, build_session(planned(10))),
        ask_leave(SESSION, ""),
    ]
    for question in asked:
        assert question is not None
        assert "cancel" not in f"{question.stay} {question.confirm}".lower()


def test_marks_come_first_and_those_that_a_filter_hides_are_told() -> None:
    marked, other, third = looking(Look.RUNNING, 3).jobs
    assert choose_scope(SESSION, {marked.name}, set, (other,)).jobs == (marked,)
    assert choose_scope(SESSION, (), set, (other,)).jobs == (other,)
    marks = {marked.name, other.name, third.name}
    wanted = choose_scope(SESSION, marks, lambda: {marked.name}, ())
    told = body(ask_kill(wanted, SESSION))
    assert "3 marked jobs, 2 of them hidden by the filter" in told


def offered(number: int = 10, at_a_time: int | None = None, **engine: Any) -> Any:
    """A plan that nobody submitted, as an engine would run it."""
    base = planned(number)
    plan = plan_of(base)
    if at_a_time:
        plan = replace(plan, executor=ExecutorSpec(max_parallel=at_a_time))
    engines = replace(base.engine, **engine)
    return build_session(replace(base, engine=engines, plan=plan))


@pytest.mark.parametrize(
    ("at_a_time", "engine", "words"),
    [
        (3, {}, "On slurm, default partition, 3 at a time, time limit 8 h."),
        (None, {"slots": 4}, "4 at a time"),
        (2, {"slots": 4}, "2 at a time"),
        (None, {"slots": 4, "gpus": 2}, "4 at a time, 2 GPUs, time limit 8 h."),
        (None, {"gpus": 2}, "This machine has 2, and refuses them. Lower slurm.sbatch"),
        (4, {"gpus": 2}, "! 10 jobs want up to 8 GPUs: {names} and 7 more."),
    ],
)
def test_submitting_says_where_and_how_many_run_at_a_time(
    at_a_time: int | None, engine: dict[str, int], words: str
) -> None:
    session = offered(10, at_a_time, **engine)
    names = ", ".join(job.name for job in session.jobs[:3])
    assert words.format(names=names) in body(ask_submit(NOBODY, session))


def test_submitting_to_a_cluster_says_its_partitions_and_limits() -> None:
    told = ask_submit(NOBODY, wanting(("gpu", 7200.0), ("cpu", 10800.0)))
    assert "On slurm, partitions cpu and gpu, 16 at a time, " in body(told)
    assert "time limits 2 h to 3 h." in body(told)
    endless = choices(ask_submit(NOBODY, wanting(("gpu", None))))
    assert "without a bound" in endless["all"].label


def wanting(*asked: tuple[str, float | None]) -> SessionView:
    """A plan whose jobs want these partitions and time limits, in turn."""
    base = planned(2)
    wants = [
        replace(
            base.jobs[0].spec.resources,
            options={"partition": name},
            time_limit_seconds=limit,
        )
        for name, limit in asked
    ]
    jobs = tuple(
        replace(
            job, spec=replace(job.spec, resources=wants[job.spec.index % len(wants)])
        )
        for job in base.jobs
    )
    return build_session(replace(base, jobs=jobs))


@pytest.mark.parametrize(
    ("which", "number", "label"),
    [
        ("all", 10, "all 10 jobs: at most 640 GPU h an attempt"),
        ("marked", 3, "the 1 marked job and 2 needed upstream"),
        ("family", 3, "one family first"),
    ],
)
def test_submitting_offers_all_the_marked_and_one_family(
    which: str, number: int, label: str
) -> None:
    session = offered()
    wanted = Scope(jobs=(session.jobs[2],), by_marks=True)
    found = choices(ask_submit(wanted, session))[which]
    assert found.jobs == tuple(job.name for job in session.jobs[:number])
    assert label in found.label


def done_by_another(job: JobRecord) -> JobRecord:
    work = DoneWork(job=job.name, session="k7f2", mark="k", fingerprint="f", at=1.0)
    return replace(job, done=work)


def test_submitting_says_how_many_are_done_already_and_bills_the_rest() -> None:
    base = planned(10)
    jobs = (*map(done_by_another, base.jobs[:3]), *base.jobs[3:])
    question = ask_submit(NOBODY, build_session(replace(base, jobs=jobs)))
    assert "3 of 10 jobs are done already" in body(question)
    before = choices(ask_submit(NOBODY, build_session(base)))["all"]
    assert choices(question)["all"].label != before.label
    jobs = tuple(map(done_by_another, base.jobs))
    question = ask_submit(NOBODY, build_session(replace(base, jobs=jobs)))
    assert "nothing is left to run" in choices(question)["all"].label


def test_a_resubmission_knows_its_checkpoint() -> None:
    memory = failed_by(Cause.OUT_OF_MEMORY)
    found = choices(ask_resubmit(memory, SESSION))
    assert list(found) == ["checkpoint", "planned", "overrides", "nodes", "limit"]
    assert "step 30000" in found["checkpoint"].label
    assert found["nodes"].given == memory.jobs[0].record.attempts[0].node


def test_what_is_done_already_is_run_anew_from_the_beginning_first() -> None:
    base = all_done(4)
    jobs = tuple(replace(done_by_another(job), attempts=()) for job in base.jobs)
    session = build_session(replace(base, jobs=jobs))
    question = ask_resubmit(Scope(jobs=session.jobs[:1]), session)
    assert question is not None
    assert not question.choices[0].from_checkpoint
    assert "build on its results" in body(question)


def test_one_waiting_job_may_waive_each_of_its_conditions() -> None:
    found = choices(ask_skip(looking(Look.DOOMED), SESSION))
    assert list(found) == ["skip", "waive:0"]
    assert "iter_48000/done.txt" in found["waive:0"].label
    assert list(choices(ask_skip(looking(Look.DOOMED, 3), SESSION))) == ["skip"]


def test_an_approval_shows_prompt_and_files_and_what_starts() -> None:
    job, first = looking(Look.ASKS).jobs[0], SESSION.jobs[0]
    assert job.record.ask is not None
    files = [
        ("/plan.md", "line one\nline two"),
        (f"{first.record.spec.output_dir}/rows/a.md", "x"),
    ]
    question = ask_approval(job, job.record.ask, files, "1 of 2", SESSION)
    told = body(question)
    for words in (
        "Publish the comparison of all runs?",
        "line two",
        "-- /plan.md",
        f"-- {first.name}  rows/a.md",
        f"y starts {job.name}.",
    ):
        assert words in told
    assert "digest" not in told
    assert question.title.endswith("(1 of 2)?")


def test_leaving_says_that_the_engine_goes_on() -> None:
    told = body(ask_leave(SESSION, "come back so"))
    assert "The engine goes on" in told
    assert "come back so" in told
    paused = ask_leave(
        build_session(replace(SESSION.snapshot, paused=why("paused"))), ""
    )
    assert paused is not None
    assert paused.others == ()
    ended = build_session(replace(all_done(4), open=True))
    ordered = "All jobs have ended; what rules ordered is still being done."
    assert ordered in body(ask_leave(ended, ""))


@pytest.mark.parametrize(
    "snapshot",
    [planned(10), campaign(31, role="viewer"), all_done(10)],
    ids=["a plan", "a view", "a finished session"],
)
def test_leaving_what_nothing_disturbs_asks_nothing(snapshot: Snapshot) -> None:
    assert ask_leave(build_session(snapshot), "") is None


def test_all_that_waits_and_all_that_is_needed_is_found_however_far_away() -> None:
    session = build_session(planned(10))
    stages = [job.stage for job in find_waiting(session.jobs[:1], session)]
    assert stages == ["cooldown", "evaluate", "report"]
    stages = [
        job.stage
        for job in find_linked(session.jobs[2:3], session, session.links.upstream)
    ]
    assert stages == ["stable", "cooldown"]
    states = {job.record.state for job in find_waiting(SESSION.jobs[:3], SESSION)}
    assert states <= {JobState.WAITING, JobState.HELD, JobState.PLANNED}
