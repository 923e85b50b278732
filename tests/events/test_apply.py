from __future__ import annotations

import pytest

from autoexp_tui.conditions.kinds import TimeReached
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.event import IllegalTransition, apply, fold
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import TERMINAL, TRANSITIONS, Cause, JobState, Result, why
from tests.model.builders import (
    at,
    ended,
    happen,
    job,
    plan,
    run,
    started,
    submit_event,
)


def test_an_illegal_transition_is_refused() -> None:
    state = started(plan(job("a")))
    with pytest.raises(IllegalTransition, match="PLANNED -> RUNNING"):
        happen(state, events.RunBegan(job="a", attempt=1, run=0, began_at=1.0))


def test_the_same_intent_sent_again_opens_no_second_attempt() -> None:
    state = started(plan(job("a")))
    happen(state, events.JobsReleased(jobs=("a",)), submit_event("a"))
    happen(state, events.SubmissionUncertain(token="token-a-1", why=why("in_doubt")))
    happen(state, events.SubmissionAbsent(token="token-a-1"))
    assert len(state.jobs["a"].attempts) == 1
    assert state.jobs["a"].state is JobState.SUBMITTING


def test_a_begin_that_comes_before_the_answer_is_not_undone_by_it() -> None:
    state = started(plan(job("a")))
    happen(state, events.JobsReleased(jobs=("a",)), submit_event("a"))
    happen(state, events.RunBegan(job="a", attempt=1, run=0, began_at=1.0))
    happen(
        state,
        events.SubmissionAccepted(
            token="token-a-1", executor_ids=("x9",), submitted_at=1.0
        ),
    )
    assert state.jobs["a"].state is JobState.RUNNING
    assert state.jobs["a"].attempts[0].executor_id == "x9"


def test_a_journal_of_an_older_version_lived_while_it_had_engines() -> None:
    state = started(plan(job("a")))
    began = state.lived
    apart = events.EngineStarted(host="h", pid=1, gap_seconds=50.0)
    released = events.JobsReleased(jobs=("a",))
    happened: list[tuple[float, events.Event]] = [(300.0, apart), (310.0, released)]
    for seq, (t, event) in enumerate(happened, 3):
        apply(
            state,
            events.Recorded(seq=seq, epoch=1, t=t, event_id=f"e{seq}", event=event),
        )
    assert state.jobs["a"].waiting_lived == began + (310.0 - 100.0) - 50.0


def test_a_cancel_that_we_ordered_is_remembered_on_the_attempt() -> None:
    state = started(plan(job("a")))
    run(state, "a")
    order = events.EffectOrdered(
        effect_id="e1",
        effect=CancelTasks(tasks=(("a", 1),)),
        why=why("nan"),
        cause=Cause.NAN,
    )
    happen(state, order)
    assert state.jobs["a"].attempts[0].cancel_cause is Cause.NAN


def test_an_answer_to_another_digest_changes_nothing() -> None:
    state = started(plan(job("a")))
    happen(
        state,
        events.ApprovalAsked(job="a", attempt=1, digest="d1", prompt="?"),
        events.ApprovalAnswered(job="a", digest="d2", approved=True, by="me"),
    )
    ask = state.jobs["a"].ask
    assert ask is not None
    assert ask.approved is None


def test_a_revived_job_forgets_verdicts_and_approval_of_its_earlier_life() -> None:
    spec = job("a", start_conditions=(TimeReached(after_seconds=1.0),))
    state = started(plan(spec))
    happen(
        state,
        events.JobsReleased(jobs=("a",)),
        events.ConditionJudged(
            job="a", role="start", index=0, result=Result.FAIL, why=why("timeout")
        ),
        events.JobEnded(job="a", state=JobState.SKIPPED, cause=Cause.START_TIMEOUT),
        events.JobRevived(job="a", why=why("revived_by")),
    )
    revived = state.jobs["a"]
    found = (revived.state, revived.start, revived.cause)
    assert found == (JobState.WAITING, (None,), None)


def test_every_end_but_completed_can_be_brought_back() -> None:
    back = {state for state in TERMINAL if JobState.WAITING in TRANSITIONS[state]}
    assert back == TERMINAL - {JobState.COMPLETED}
    assert TRANSITIONS[JobState.LOST] == {JobState.WAITING, JobState.COMPLETED}


def test_the_draft_leaves_the_session_as_it_was() -> None:
    state = started(plan(job("a")))
    draft = Draft(state, at(300.0), epoch=1)
    draft.emit(events.JobsReleased(jobs=("a",)))
    assert draft.state.jobs["a"].state is JobState.WAITING
    assert state.jobs["a"].state is JobState.PLANNED
    assert state.seq == 2


def test_time_never_runs_backwards_in_a_draft() -> None:
    state = started(plan(job("a")))
    draft = Draft(state, at(5.0), epoch=1)
    assert draft.emit(events.MessageLogged(text="x")).t == state.t


# --------------------------------------------------------------------- a long fold
def a_life() -> tuple[SessionState, list[events.Recorded]]:
    """A session that was applied event by event, and its records."""
    state = SessionState(plans={"sha": plan(job("a"), job("b"))})
    draft = Draft(state, at(100.0), epoch=1)
    draft.emit(
        events.SessionStarted(
            session="s", name="s", engine_version="", wrapper_version="", plan_sha="sha"
        )
    )
    for event in (
        events.PlanAdded(sha="sha"),
        events.JobsReleased(jobs=("a", "b")),
        submit_event("a"),
        events.RunBegan(job="a", attempt=1, run=0, began_at=1.0, node="n1"),
        ended("a", code=0),
        events.JobEnded(job="a", state=JobState.COMPLETED),
    ):
        draft.emit(event)
    for record in draft.records:
        apply(state, record)
    return state, draft.records


def test_records_that_were_shown_stay_as_they_were_when_more_is_folded() -> None:
    _, records = a_life()
    state = fold(SessionState(plans={"sha": plan(job("a"), job("b"))}), records[:4])
    shown = state.jobs["a"]
    fold(state, records[4:])
    states = (shown.state, state.jobs["a"].state)
    assert states == (JobState.SUBMITTING, JobState.COMPLETED)


def test_a_time_without_an_engine_is_remembered() -> None:
    state = SessionState(t=100.0)
    event = events.EngineStarted(host="b", pid=2, gap_seconds=40.0)
    apply(state, events.Recorded(seq=1, epoch=2, t=140.0, event_id="e", event=event))
    assert state.gaps == ((100.0, 140.0),)
