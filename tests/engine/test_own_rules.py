"""Jobs that are watched by rules of their own."""

from __future__ import annotations

from autoexp_tui.actions.restart import Restart
from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import LogChunk
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import (
    DecisionContext,
    rules_of,
)
from autoexp_tui.model.rules import (
    Anomalies,
    LogEvent,
    Monitoring,
    Progress,
    StateEvent,
)
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.scheduling.circuit_breaker import end_attempt
from tests.engine.bench import decide
from tests.model.builders import ended, job, plan, run, started

OWN = Monitoring(
    log_events=(LogEvent(name="own", pattern="shared"),),
    state_events=(StateEvent(name="again", state="crash", actions=(Restart(),)),),
    anomalies=Anomalies(nan="warn"),
    progress=Progress(metric="epoch"),
)
COMMON = Monitoring(log_events=(LogEvent(name="common", pattern="shared"),))


def session() -> SessionState:
    """Two running jobs, the second with rules of its own."""
    both = (job("a"), job("b", 1, rules="r"))
    state = started(plan(*both, monitoring=COMMON, rule_sets={"r": OWN}))
    run(state, "a")
    run(state, "b")
    return state


def context(state: SessionState) -> DecisionContext:
    return decide(state, 300.0)


def read(state: SessionState, name: str, data: bytes) -> DecisionContext:
    made = context(state)
    feed(Telemetry(state), made, name, data)
    return made


def feed(telemetry: Telemetry, made: DecisionContext, name: str, data: bytes) -> None:
    cursor = telemetry.make_cursor(made.job(name), final=False)
    chunk = LogChunk(
        job=name, attempt=1, run=0, offset=cursor.offset, data=data, size=len(data)
    )
    telemetry.read(made, LogRead(job=name, attempt=1, run=0, chunk=chunk))


def matched(made: DecisionContext) -> list[str]:
    found = (record.event for record in made.draft.records)
    return [one.rule for one in found if isinstance(one, events.LogMatched)]


def test_jobs_with_different_rules_are_read_by_one_reader_of_logs() -> None:
    state = session()
    telemetry, made = Telemetry(state), context(state)
    for name in ("a", "b", "a", "b"):
        feed(telemetry, made, name, b"shared\n")
    assert matched(made) == ["common", "own", "common", "own"]


def test_a_nan_ends_only_the_job_whose_rules_say_so() -> None:
    line = b"step 1 loss: nan\n"
    killed = read(session(), "a", line).state.jobs["a"].attempts[0]
    warned = read(session(), "b", line).state.jobs["b"].attempts[0]
    assert (killed.cancel_cause is None, warned.cancel_cause is None) == (False, True)


def test_progress_counts_in_the_metric_of_the_jobs_own_rules() -> None:
    state = session()
    telemetry, made = Telemetry(state), context(state)
    feed(telemetry, made, "b", b"step: 900 loss: 1.0\n")
    live = telemetry.build_live("b")
    assert live is not None
    assert (live.step, live.metrics["loss"]) == (None, 1.0)


def test_an_end_is_answered_by_the_rules_of_the_job() -> None:
    made = context(session())
    for name in ("a", "b"):
        end_attempt(made, ended(name))
    states = {name: made.job(name).state for name in ("a", "b")}
    assert states == {"a": JobState.FAILED, "b": JobState.RETRYING}


def test_a_job_planned_anew_brings_its_rules_with_it() -> None:
    state = session()
    spec = job("a", own_rules=OWN)
    assert rules_of(state, spec) is OWN


def test_a_job_of_an_earlier_plan_keeps_the_rules_of_that_plan() -> None:
    state = session()
    state.plan = plan(job("c", 2))
    assert rules_of(state, state.jobs["b"].spec) is OWN
    assert rules_of(state, state.jobs["a"].spec) == Monitoring()
