"""Small plans and records for tests of the core and the engine."""

from __future__ import annotations

from typing import Any

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events.events import (
    AttemptEnded,
    EffectOrdered,
    JobsReleased,
    PlanAdded,
    RunBegan,
    SessionStarted,
    SubmissionAccepted,
)
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.event import Event, Recorded, fold
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, Outcome


def at(t: float) -> Moment:
    """A moment of a session that has always lived, by a wall clock nobody set."""
    return Moment(t=t, utc=t, lived=t)


def job(name: str, index: int = 0, **fields: Any) -> JobSpec:
    places = {"output_dir": f"/out/{name}", "log_dir": f"/logs/{name}"}
    given: dict[str, Any] = {"command": ("true",), **places, **fields}
    return JobSpec(name=name, index=index, **given)


def plan(*jobs: JobSpec, **fields: Any) -> Plan:
    """A plan of these jobs, with a waits edge for each `depends_on`."""
    edges = tuple(
        Edge(before=before, after=spec.name, mode="waits")
        for spec in jobs
        for before in spec.depends_on
    )
    usual = {"plan_id": "p1", "name": "test", "state_dir": "/state"}
    given: dict[str, Any] = {**usual, "edges": edges, **fields}
    return Plan(jobs=jobs, **given)


def started(the_plan: Plan) -> SessionState:
    """A session that has the plan and nothing else."""
    state = SessionState(plans={"sha": the_plan})
    draft = Draft(state, at(100.0), epoch=1)
    draft.emit(
        SessionStarted(
            session="s1",
            name="test",
            engine_version="0",
            wrapper_version="0",
            plan_sha="sha",
        )
    )
    draft.emit(PlanAdded(sha="sha"))
    return fold(state, draft.records)


def happen(state: SessionState, *happened: Event, t: float = 200.0) -> list[Recorded]:
    draft = Draft(state, at(t), epoch=1)
    for event in happened:
        draft.emit(event)
    fold(state, draft.records)
    return draft.records


def submit_event(name: str, number: int = 1) -> EffectOrdered:
    token = f"token-{name}-{number}"
    return EffectOrdered(
        effect_id=f"e-{name}-{number}",
        effect=SubmitTasks(token=token, tasks=((name, number),)),
    )


def run(state: SessionState, name: str, number: int = 1, t: float = 200.0) -> None:
    """Bring a planned or waiting job to RUNNING."""
    if not state.jobs[name].waiting_lived:
        happen(state, JobsReleased(jobs=(name,)), t=t)
    happen(
        state,
        submit_event(name, number),
        SubmissionAccepted(
            token=f"token-{name}-{number}", executor_ids=("x1",), submitted_at=1.0
        ),
        RunBegan(job=name, attempt=number, run=0, began_at=1.0),
        t=t,
    )


def ended(name: str, number: int = 1, code: int = 1) -> AttemptEnded:
    return AttemptEnded(
        job=name,
        attempt=number,
        outcome=Outcome.COMPLETED if code == 0 else Outcome.FAILED,
        cause=None if code == 0 else Cause.EXIT_CODE,
        exit_code=code,
        ended_at=2.0,
    )
