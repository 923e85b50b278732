"""What events make of a session's state; and a plan that joins another."""

from __future__ import annotations

import pytest

from autoexp_tui.events import events
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.event import IllegalTransition, fold
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import TERMINAL, TRANSITIONS, JobState, why
from tests.model.builders import at, ended, happen, job, plan, started, submit_event

RELEASED = events.JobsReleased(jobs=("a",))
BEGAN = events.RunBegan(job="a", attempt=1, run=0, began_at=1.0)


@pytest.fixture
def state() -> SessionState:
    return started(plan(job("a")))


def test_an_illegal_transition_is_refused(state: SessionState) -> None:
    with pytest.raises(IllegalTransition, match="PLANNED -> RUNNING"):
        happen(state, BEGAN)


def test_the_same_intent_sent_again_opens_no_second_attempt(
    state: SessionState,
) -> None:
    happen(state, RELEASED, submit_event("a"))
    happen(state, events.SubmissionUncertain(token="token-a-1", why=why("in_doubt")))
    happen(state, events.SubmissionAbsent(token="token-a-1"))
    assert len(state.jobs["a"].attempts) == 1
    states = [state.jobs["a"].state]
    happen(state, BEGAN)  # before the answer, which does not undo it
    happen(
        state,
        events.SubmissionAccepted(
            token="token-a-1", executor_ids=("x9",), submitted_at=1.0
        ),
    )
    states += [state.jobs["a"].state]
    assert states == [JobState.SUBMITTING, JobState.RUNNING]
    assert state.jobs["a"].attempts[0].executor_id == "x9"


def test_an_answer_to_another_digest_changes_nothing(state: SessionState) -> None:
    happen(
        state,
        events.ApprovalAsked(job="a", attempt=1, digest="d1", prompt="?"),
        events.ApprovalAnswered(job="a", digest="d2", approved=True, by="me"),
    )
    ask = state.jobs["a"].ask
    assert ask is not None
    assert ask.approved is None


def test_every_end_but_completed_can_be_brought_back() -> None:
    back = {state for state in TERMINAL if JobState.WAITING in TRANSITIONS[state]}
    assert back == TERMINAL - {JobState.COMPLETED}
    assert TRANSITIONS[JobState.LOST] == {JobState.WAITING, JobState.COMPLETED}


def test_records_that_were_shown_stay_as_they_were_when_more_is_folded(
    state: SessionState,
) -> None:
    draft = Draft(state, at(100.0), epoch=1)
    completed = events.JobEnded(job="a", state=JobState.COMPLETED)
    for event in (RELEASED, submit_event("a"), BEGAN, ended("a", code=0), completed):
        draft.emit(event)
    shown = fold(state, draft.records[:2]).jobs["a"]
    fold(state, draft.records[2:])
    states = (shown.state, state.jobs["a"].state)
    assert states == (JobState.SUBMITTING, JobState.COMPLETED)


FIRST = plan(job("a"), job("b", 1, depends_on=("a",)))


def join(*further: Plan) -> Plan:
    """The plan of a session in which plans joined, as journals of old have it."""
    state = started(FIRST)
    for number, one in enumerate(further):
        state.plans[f"s{number}"] = one
        happen(state, events.PlanAdded(sha=f"s{number}"))
    assert state.plan is not None
    return state.plan


OTHER = Monitoring(loss="perplexity")


@pytest.mark.parametrize(
    ("further", "places"),
    [
        ([job("x"), job("y", 1)], [("x", 2), ("y", 3)]),
        ([job("x", 5)], [("x", 5)]),  # a place that is free
        ([job("b", 1, stage="other"), job("x", 2)], [("x", 2)]),  # b is there already
    ],
)
def test_what_joins_stands_behind_in_its_own_order(
    further: list[JobSpec], places: list[tuple[str, int]]
) -> None:
    first, new = (jobs := join(plan(*further)).jobs)[:2], jobs[2:]
    assert first == FIRST.jobs
    assert [(one.name, one.index) for one in new] == places
    edge = Edge(before="b", after="x", mode="waits")  # those of both are kept once
    merged = join(plan(*further, edges=(*FIRST.edges, edge)))
    assert merged.edges == (*FIRST.edges, edge)


def test_what_joins_a_draft_is_in_its_plan_alone() -> None:
    state = started(FIRST)
    draft = state.fork(briefly=True)
    draft.plans.update((name, plan(job(name))) for name in ("x", "y"))
    happen(draft, events.PlanAdded(sha="x"), events.PlanAdded(sha="y"))
    plans = [[one.name for one in it.plan.jobs] for it in (draft, state) if it.plan]
    assert plans == [["a", "b", "x", "y"], ["a", "b"]]
    assert draft.order == ("a", "b", "x", "y")


def test_each_job_is_under_the_rules_of_the_plan_that_it_came_with() -> None:
    own = {"own": Monitoring(loss="mine")}
    further = plan(job("x"), job("y", 1, rules="own"), monitoring=OTHER, rule_sets=own)
    merged = join(further, plan(job("z")))
    losses = [merged.rules_of(one).loss for one in merged.jobs]
    assert losses == ["loss", "loss", "perplexity", "mine", "loss"]
    assert merged.jobs[-1].index == 4
