"""Journals of earlier versions still fold, to what they meant when they were written.

A golden journal is data and never changes. When this fails after a change of an event,
the change needs an upcaster, not another golden journal.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import Composite, MetricIs, Not
from autoexp_tui.model.event import Event
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Outcome
from autoexp_tui.storage.journal import Loaded, decode_record, encode_record, load_state
from autoexp_tui.storage.session_dir import SessionDir

DATA = Path(__file__).parent / "data"
JOURNAL_V1 = DATA / "journal_v1.jsonl"
SECOND_SHA = "6fcfff28148619c4"
EVENTS_OF_V1 = frozenset(
    [
        "SessionStarted",
        "EngineStarted",
        "EngineStopped",
        "PlanAdded",
        "SubmissionPaused",
        "SubmissionResumed",
        "CommandRefused",
        "JobsReleased",
        "JobsHeld",
        "ConditionJudged",
        "ConditionWaived",
        "WaitExplained",
        "ApprovalAsked",
        "ApprovalAnswered",
        "JobReplanned",
        "EffectOrdered",
        "EffectSettled",
        "SubmissionAccepted",
        "SubmissionUncertain",
        "SubmissionAbsent",
        "RunBegan",
        "RunRequeued",
        "AttemptEnded",
        "RetryOrdered",
        "JobEnded",
        "JobRevived",
        "LogMatched",
        "MetricsNoted",
        "WarningRaised",
        "WarningCleared",
        "ActionFired",
        "ActionDeferred",
        "ActionDropped",
        "MessageLogged",
        "EngineFaulted",
    ]
)


@pytest.fixture
def v1(tmp_path: Path) -> Loaded:
    session = SessionDir(tmp_path / "k7f2")
    session.path.mkdir()
    shutil.copy(JOURNAL_V1, session.get_part(1))
    shutil.copy(DATA / "plan_v1.json", session.plan)
    further = session.plans / f"{SECOND_SHA}.json"
    further.parent.mkdir()
    shutil.copy(DATA / "further_plan_v1.json", further)
    return load_state(session)


def job(loaded: Loaded, name: str) -> JobRecord:
    return loaded.state.jobs[name]


def test_the_first_golden_journal_has_every_event_of_its_time() -> None:
    lines = JOURNAL_V1.read_bytes().splitlines(keepends=True)
    types = {type(decode_record(line).event).__name__ for line in lines}
    assert types == EVENTS_OF_V1
    assert set(Event.kinds) >= types


def test_the_first_golden_journal_folds_to_the_states_it_meant(v1: Loaded) -> None:
    states = {name: record.state for name, record in v1.state.jobs.items()}
    assert states == {
        "lr3e-4_s0_train": JobState.COMPLETED,
        "lr3e-4_s0_cooldown": JobState.WAITING,
        "lr3e-4_s0_évaluate": JobState.WAITING,
        "report": JobState.CANCELLED,
        "lr3e-4_s1_train": JobState.HELD,
        "lr3e-4_s2_train": JobState.PLANNED,
    }


def test_the_first_golden_journal_keeps_what_happened_to_a_job(v1: Loaded) -> None:
    train = job(v1, "lr3e-4_s0_train")
    first, second = train.attempts
    assert (first.outcome, first.cause, first.run) == (Outcome.FAILED, Cause.STALL, 1)
    assert (second.outcome, second.exit_code) == (Outcome.COMPLETED, 0)
    assert train.metadata == {"checkpoint_iteration": "8000"}
    assert train.noted is not None
    assert train.noted.values["grad_norm"] == "nan"
    assert second.executor_id == "48300_0"


def test_the_first_golden_journal_keeps_what_people_said(v1: Loaded) -> None:
    ask = job(v1, "lr3e-4_s0_cooldown").ask
    assert ask is not None
    assert (ask.approved, ask.by, ask.reason) == (True, "cockpit", "looks right")
    waived = job(v1, "lr3e-4_s0_évaluate").start[0]
    assert waived is not None
    assert waived.waived == "the file is elsewhere"
    assert "c-submit" in v1.state.commands


def test_the_first_golden_journal_leaves_nothing_pending(v1: Loaded) -> None:
    assert not v1.state.pending
    assert not v1.state.warnings
    assert v1.state.paused is None
    assert v1.state.engine_stopped


def test_the_plan_of_the_first_golden_journal_reads(v1: Loaded) -> None:
    assert v1.state.plan is not None
    assert v1.state.plan.plan_id == "20260314-0841"
    either = job(v1, "lr3e-4_s0_cooldown").spec.start_conditions[1]
    assert isinstance(either, Composite)
    assert either.conditions[1] == Not(
        condition=MetricIs(name="loss", op=">", value=3.5, after_step=100)
    )


def test_what_joined_in_the_first_golden_journal_is_part_of_its_plan(
    v1: Loaded,
) -> None:
    assert v1.state.plan is not None
    assert v1.state.plan.jobs[-1].name == "lr3e-4_s2_train"
    further = v1.state.plan_of("lr3e-4_s2_train")
    assert further is not None
    assert further.plan_id == "20260314-0930"


def test_records_of_the_first_version_survive_being_written_anew() -> None:
    for line in JOURNAL_V1.read_bytes().splitlines(keepends=True):
        record = decode_record(line)
        assert decode_record(encode_record(record)) == record
