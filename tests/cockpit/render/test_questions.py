"""Dialogs name what they will touch and what it costs; answers become commands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render import questions
from autoexp_tui.cockpit.render.questions import ask_kill, build_skip
from autoexp_tui.cockpit.render.resubmit_questions import (
    ask_resubmit,
    build_resubmit,
    parse_overrides,
    parse_time_limit,
)
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.state import forecast
from autoexp_tui.cockpit.state.forecast import estimate_loss, find_waiting
from autoexp_tui.cockpit.state.reasons import find_reason
from autoexp_tui.cockpit.state.session import (
    JobView,
    Look,
    Scope,
    SessionView,
    build_session,
)
from autoexp_tui.conditions.kinds import FileExists
from autoexp_tui.model import outputs
from autoexp_tui.model.commands import Resubmit, Skip, Waive
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.specs import Edge, ExecutorSpec, Resources
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Why, why
from autoexp_tui.text.spelling import duration
from tests.cockpit.views import SESSION, looking, text
from tests.support.campaigns import all_done, campaign, plan_of, planned
from tests.support.scripted_handle import with_job

NOBODY = Scope(jobs=())


def scope(look: Look, number: int = 1) -> Scope:
    return Scope(jobs=looking(look)[:number])


def body(question: questions.Question | None) -> str:
    assert question is not None
    return text(*question.lines)


def choices(question: questions.Question | None) -> dict[str, questions.Choice]:
    assert question is not None
    return {choice.id: choice for choice in question.choices}


def test_a_kill_tells_of_each_job_and_of_all_what_is_lost() -> None:
    wanted = scope(Look.RUNNING, 2)
    told = body(ask_kill(wanted, SESSION))
    both = ask_kill(Scope(jobs=(wanted.jobs[0], looking(Look.WAITING)[0])), SESSION)
    assert both is not None
    assert both.title == "Kill 2 jobs, 1 of them running?"
    losses = [estimate_loss(job, SESSION.now) for job in wanted.jobs]
    for loss in losses:
        row = next(line for line in told.split("\n") if f" {loss.job.name} " in line)
        hours = f"{loss.gpu_hours:.1f} GPU h"
        for words in (f"{loss.steps} steps", duration(loss.seconds), hours):
            assert words in row
    steps = f"{losses[0].steps} and {losses[1].steps} steps"
    assert f"Lost since their checkpoints: {steps}" in told
    many = scope(Look.RUNNING, 6)
    lost = [estimate_loss(job, SESSION.now).steps or 0 for job in many.jobs]
    first = body(ask_kill(many, SESSION)).split("\n")[0]
    assert f"checkpoints: {sum(lost)} steps, " in first
    assert "ost" not in body(ask_kill(scope(Look.QUEUED, 2), SESSION))


def test_a_kill_names_what_waits_behind_it_however_far_and_counts_the_rest() -> None:
    wanted = scope(Look.RUNNING)
    behind = find_waiting(wanted.jobs, SESSION)
    assert behind
    assert all(job.name in body(ask_kill(wanted, SESSION)) for job in behind)
    jobs = tuple(job for job in SESSION.jobs if job.stage in ("stable", "cooldown"))
    behind = find_waiting(forecast.select_killable(jobs), SESSION)
    told = body(ask_kill(Scope(jobs=jobs), SESSION))
    assert f"and {len(behind) - questions.MOST_BEHIND} more" in told
    session = build_session(planned(10))
    stages = [job.stage for job in find_waiting(session.jobs[:1], session)]
    assert stages == ["cooldown", "evaluate", "report"]


def test_what_the_plan_skips_is_not_said_to_be_held() -> None:
    job = next(job for job in looking(Look.RUNNING) if job.stage == "stable")
    known = plan_of(SESSION.snapshot)
    plan = replace(known, monitoring=replace(known.monitoring, doomed="skip"))
    session = build_session(replace(SESSION.snapshot, plan=plan))
    told = body(ask_kill(Scope(jobs=(job,)), session))
    assert "3 jobs that wait for it will be skipped." in told


def bare(steps: int | None = 8812, first: int = 1, **record: Any) -> JobView:
    """A job that runs, and whose log told of no checkpoint."""
    job = looking(Look.RUNNING)[0]
    live = Live(step=steps, first_step=first)
    return replace(job, record=replace(job.record, metadata={}, **record), live=live)


def killing(job: JobView, look: outputs.SeenCheckpoint | str) -> str:
    return body(ask_kill(Scope(jobs=(job,)), SESSION, {job.name: look}))


@pytest.mark.parametrize(
    ("steps", "seen", "lost", "since"),
    [
        (8812, 8000, "812 steps, 90 s", "812 steps since 8000, 90 s"),
        (None, 8000, "90 s", "since 8000, 90 s"),
        (8812, None, "90 s", "since its checkpoint, 90 s"),
        (8812, 9000, "90 s", "since 9000, 90 s"),
    ],
)
def test_a_kill_counts_what_is_lost_since_a_checkpoint_that_was_found(
    steps: int | None, seen: int | None, lost: str, since: str
) -> None:
    said = killing(bare(steps, noted=None), outputs.SeenCheckpoint(step=seen, age=90.0))
    assert f"Lost since its checkpoint: {lost} of running" in said
    assert since in said
    assert "no checkpoint known" not in said
    way = "monitoring.checkpoints.glob finds none"
    assert f"1 job with no checkpoint known ({way})." in killing(bare(), way)


@pytest.mark.parametrize(
    ("first", "is_saved", "anew", "lost"),
    [(8001, False, False, 812), (1, True, False, 812), (1, True, True, 8812)],
)
def test_steps_are_lost_since_what_is_known_without_a_look(
    first: int, is_saved: bool, anew: bool, lost: int
) -> None:
    saved = outputs.SavedCheckpoint(
        checkpoint=outputs.Checkpoint(path="/c/iter_8000", step=8000)
    )
    last = replace(bare().record.attempts[-1], anew=anew)
    told: Any = {"saved": saved if is_saved else None, "attempts": (last,)}
    job = bare(first=first, **told)
    found, whole = estimate_loss(job, SESSION.now), job.measure_run(SESSION.now) or 0.0
    share = lost / 8812 if is_saved and not anew else 1.0
    assert found.steps == lost
    assert found.seconds == pytest.approx(whole * share)


def offered(at_a_time: int | None = None, **engine: Any) -> SessionView:
    """A plan that nobody submitted, as an engine would run it."""
    base = planned(10)
    plan = plan_of(base)
    if at_a_time:
        plan = replace(plan, executor=ExecutorSpec(max_parallel=at_a_time))
    return build_session(
        replace(base, engine=replace(base.engine, **engine), plan=plan)
    )


@pytest.mark.parametrize(
    ("at_a_time", "engine", "words"),
    [
        (3, {}, "On slurm, default partition, 3 at a time, time limit 8 h."),
        (None, {"slots": 4}, "4 at a time"),
        (2, {"slots": 4}, "2 at a time"),
        (None, {"slots": 4, "gpus": 2}, "4 at a time, 2 GPUs, time limit 8 h."),
    ],
)
def test_submitting_says_where_and_how_many_run_at_a_time(
    at_a_time: int | None, engine: dict[str, int], words: str
) -> None:
    session = offered(at_a_time, **engine)
    assert words in body(questions.ask_submit(NOBODY, session))


def test_submitting_to_a_cluster_says_its_partitions_and_limits() -> None:
    base, jobs = planned(2), []
    for place, job in enumerate(base.jobs):
        partition, limit = (("gpu", 7200), ("cpu", 10800))[place % 2]
        own = Resources(time_limit_seconds=limit, options={"partition": partition})
        jobs.append(replace(job, spec=replace(job.spec, resources=own)))
    session = build_session(replace(base, jobs=tuple(jobs)))
    words = "partition cpu and gpu, 16 at a time, time limit 2 h to 3 h."
    assert words in body(questions.ask_submit(NOBODY, session))


def test_submitting_offers_all_the_marked_and_one_family() -> None:
    session = offered()
    wanted = Scope(jobs=(session.jobs[2],), by_marks=True)
    found = choices(questions.ask_submit(wanted, session))
    for which, number, label in (
        ("all", 10, "all 10 jobs: at most 640 GPU h an attempt"),
        ("marked", 3, "the 1 marked job and 2 needed upstream"),
        ("family", 3, "one family first"),
    ):
        assert label in found[which].label
        assert found[which].jobs == tuple(job.name for job in session.jobs[:number])


def done_by_another(base: Snapshot, number: int, **changes: Any) -> SessionView:
    def note(job: JobRecord) -> JobRecord:
        told: Any = {"session": "k7f2", "mark": "k", "fingerprint": "f", "at": 1.0}
        return replace(job, done=outputs.DoneWork(job=job.name, **told), **changes)

    jobs = (*map(note, base.jobs[:number]), *base.jobs[number:])
    return build_session(replace(base, jobs=jobs))


def test_what_is_done_already_is_not_billed_and_runs_anew_when_asked() -> None:
    some, whole = (
        questions.ask_submit(NOBODY, done_by_another(planned(10), number))
        for number in (3, 10)
    )
    assert "3 of 10 jobs done already" in body(some)
    usual = choices(questions.ask_submit(NOBODY, build_session(planned(10))))
    assert choices(some)["all"].label != usual["all"].label
    assert "nothing is left to run" in choices(whole)["all"].label
    session = done_by_another(all_done(4), 4, attempts=())
    anew = ask_resubmit(Scope(jobs=session.jobs[:1]), session)
    assert "built on its results" in body(anew)
    first = next(iter(choices(anew).values()))
    assert not first.from_checkpoint


@pytest.mark.parametrize("typed", ["", "soon", "12", "-3h", "0m", "lr", "=3", "a='x"])
def test_what_is_no_limit_or_no_override_is_refused(typed: str) -> None:
    for parse in (parse_time_limit, parse_overrides):
        with pytest.raises(questions.AnswerError):
            parse(typed)
    limits = ("90m", "1.5h", "01:30:00", "1:30", "1-00:00:00")
    assert [*map(parse_time_limit, limits)] == [5400, 5400, 5400, 5400, 86400]


def test_each_way_is_its_command_and_what_says_too_little_is_refused() -> None:
    ways: list[tuple[str, str, dict[str, Any]]] = [
        ("planned", "", {"from_checkpoint": False}),
        ("overrides", "a=1 'b=x y' ~c.d", {"overrides": ("a=1", "b=x y", "~c.d")}),
        ("nodes", "n1, n2", {"exclude_nodes": ("n1", "n2")}),
        ("limit", "2h", {"time_limit_seconds": 7200}),
    ]
    for choice, typed, changes in ways:
        sent = build_resubmit(["a"], questions.Choice(choice, ""), typed)
        assert sent == Resubmit(jobs=("a",), **changes)
    skip = build_skip(["a", "b"], questions.Choice("skip", ""), " too slow ")
    assert skip == Skip(jobs=("a", "b"), reason="too slow")
    waive = build_skip(["a", "b"], questions.Choice("waive:2", ""), "seen")
    assert waive == Waive(job="a", condition=2, reason="seen")
    with pytest.raises(questions.AnswerError, match="no node"):
        build_resubmit(["a"], questions.Choice("nodes", ""), " ,")
    with pytest.raises(questions.AnswerError, match="needs a reason"):
        build_skip(["a"], questions.Choice("waive:0", ""), "  ")


def chain(cause: Cause | None, state: JobState, **changes: Any) -> Snapshot:
    """The first job failed; the one that depends on it ended for `cause`."""
    base = campaign(10)
    first, second = base.jobs[0], base.jobs[1]
    spec = replace(second.spec, depends_on=(first.name,), **changes)
    failed = with_job(base, first.name, state=JobState.FAILED, cause=Cause.EXIT_CODE)
    return with_job(failed, second.name, spec=spec, state=state, cause=cause)


def resubmitting(snapshot: Snapshot) -> questions.Question:
    session = build_session(snapshot)
    asked = ask_resubmit(Scope(jobs=session.jobs[:1]), session)
    assert asked is not None
    return asked


def test_r_names_whoever_ended_because_of_it_and_nobody_else() -> None:
    cancelled = chain(Cause.CANCEL_CONDITION, JobState.CANCELLED)
    told = body(resubmitting(cancelled))
    assert "Brings back 1 job that ended because of this:" in told
    assert cancelled.jobs[1].name in told
    by_a_person = resubmitting(chain(Cause.USER, JobState.SKIPPED))
    assert "Brings back" not in body(by_a_person)
    (way,) = [one for one in by_a_person.choices if one.id == "overrides"]
    assert "followers" not in way.label


def test_r_lists_the_followers_what_they_will_read_and_what_they_do() -> None:
    path = "/out/iter_8/done.txt"
    before, after = (job.name for job in campaign(10).jobs[:2])
    waits = FileExists(path=path, writer=before)
    told = chain(None, JobState.WAITING, start_conditions=(waits,))
    told = with_job(told, after, start=(None,))
    edge = Edge(before=before, after=after, mode="waits")
    asked = resubmitting(replace(told, plan=replace(plan_of(told), edges=(edge,))))
    assert "Wait for what it writes, and will read:" in body(asked)
    rows = body(asked).splitlines()
    assert any(path in row and after in row for row in rows)
    ways = [one for one in asked.choices if one.id == "overrides"]
    assert [one.label.rpartition("; ")[2] for one in ways] == [
        "followers wait for its new files",
        "followers use the files that are there",
    ]
    sent = [build_resubmit(["a"], one, "lr=2e-4") for one in ways]
    assert [command.use_files for command in sent] == [False, True]


@pytest.mark.parametrize("saved", [400, 500, 600])
def test_a_checkpoint_with_the_nan_in_it_is_not_what_any_way_goes_on_from(
    saved: int,
) -> None:
    base, is_ill = campaign(10), saved >= 500
    told = why("nan", metric="loss", value="nan", step=500)
    ill: Any = {"state": JobState.FAILED, "cause": Cause.NAN, "why": told}
    step = {"checkpoint_step": str(saved)}
    asked = resubmitting(with_job(base, base.jobs[0].name, metadata=step, **ill))
    assert choices(asked)["nodes"].given == base.jobs[0].attempts[0].node
    first = asked.choices[0]
    assert first.id == ("planned" if is_ill else "checkpoint")
    reason = f"checkpoint {saved} was saved when the loss was nan"
    assert (reason in first.label) is is_ill
    for choice, typed in {"overrides": "a=1", "nodes": "n1", "limit": "2h"}.items():
        sent = build_resubmit(["a"], choices(asked)[choice], typed)
        assert ("from the beginning" in choices(asked)[choice].label) is is_ill
        assert sent.from_checkpoint is not is_ill
    assert not build_resubmit(["a"], choices(asked)["planned"], "").from_checkpoint


@pytest.mark.parametrize(("state", "is_told"), [("COMPLETED", True), ("FAILED", False)])
def test_a_file_that_its_writer_never_wrote_needs_a_person_unless_it_failed(
    state: str, is_told: bool
) -> None:
    file = (("path", "/o/iter_8/done.txt"), ("writer", "w"), ("state", state))
    base = campaign(10)
    ended: Any = {"state": JobState.SKIPPED, "cause": Cause.UPSTREAM}
    name = base.jobs[1].name
    model = SessionModel(with_job(base, name, why=Why("doomed_file", file), **ended))
    groups = [one.title for one in model.groups if one.look is Look.SKIPPED]
    never = "iter_8/done.txt never came"
    assert groups == [never] * is_told
    assert model.session.jobs[1].is_needy is is_told
    assert (find_reason(model.session.jobs[1], model.session) == never) is is_told


def test_an_approval_shows_prompt_and_files_and_what_starts() -> None:
    job = looking(Look.ASKS)[0]
    assert job.record.ask is not None
    files = [("/plan.md", "line one\nline two"), ("/out/rows/a.md", "x")]
    asked = questions.ask_approval(job, job.record.ask, files, "1 of 2")
    told = ("the comparison of all", "line two", "-- /plan.md", "-- /out/rows/a.md")
    assert all(words in body(asked) for words in (*told, f"y starts {job.name}."))
    assert asked.title.endswith("(1 of 2)?")


def test_leaving_says_that_the_engine_goes_on() -> None:
    told = body(questions.ask_leave(SESSION, "come back so"))
    assert "The engine goes on" in told
    assert "come back so" in told
    paused = questions.ask_leave(
        build_session(replace(SESSION.snapshot, paused=why("paused"))), ""
    )
    assert paused is not None
    assert paused.others == ()
    assert all(paused.lines)  # no empty one where nobody says how to come back
    ended = build_session(replace(all_done(4), open=True))
    ordered = "All jobs have ended; what rules ordered is still being done."
    assert ordered in body(questions.ask_leave(ended, ""))
