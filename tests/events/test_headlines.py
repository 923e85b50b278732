"""What each event says of itself on a line, and the table of events."""

from __future__ import annotations

from typing import get_args

import pytest

from autoexp_tui.events import events
from autoexp_tui.model.event import Event, Headline
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, Topic, why
from tests.support.campaigns import T0


@pytest.mark.parametrize("event", events.Event.kinds.values(), ids=events.Event.kinds)
def test_every_event_in_the_table_has_a_topic_and_words(
    event: type[Event],
) -> None:
    assert event.topic in get_args(Topic)
    assert (event is events.EffectOrdered) == (
        event.format_headline is Event.format_headline
    ), "the words of an order are its effect's"


@pytest.mark.parametrize(
    ("approved", "words"),
    [
        (True, Headline("approved", "by cockpit: looks right")),
        (False, Headline("refused", "by cockpit: looks right")),
    ],
)
def test_an_answer_says_whether_it_was_yes(approved: bool, words: Headline) -> None:
    event = events.ApprovalAnswered(
        job="a", digest="d", approved=approved, by="cockpit", reason="looks right"
    )
    assert event.format_headline(T0) == words


def test_an_attempt_s_end_says_outcome_cause_code_and_step() -> None:
    event = events.AttemptEnded(
        job="a",
        attempt=2,
        outcome=Outcome.FAILED,
        cause=Cause.OUT_OF_MEMORY,
        exit_code=137,
        reached=1200,
        streak="quick",
    )
    words = "failed, out of memory, exit 137, at step 1200"
    assert event.format_headline(T0) == ("attempt 2 ended", words)


def test_a_judged_condition_is_numbered_as_a_person_counts() -> None:
    event = events.ConditionJudged(
        job="a", role="start", index=0, result=Result.PASS, why=why("ready")
    )
    assert event.format_headline(T0).verb == "condition 1 holds"


def test_a_first_run_is_not_numbered_and_a_further_one_is() -> None:
    first = events.RunBegan(job="a", attempt=1, run=0, began_at=T0, node="n1")
    again = events.RunBegan(job="a", attempt=1, run=2, began_at=T0, node="n1")
    assert first.format_headline(T0).about == "attempt 1, on n1"
    assert again.format_headline(T0).about == "attempt 1, run 2, on n1"


def test_an_engine_says_how_long_there_was_none() -> None:
    event = events.EngineStarted(host="login1", pid=7, gap_seconds=7200.0)
    assert (
        event.format_headline(T0).about
        == "on login1, pid 7, after 2 h without an engine"
    )


def test_metrics_are_told_with_their_step_and_values() -> None:
    event = events.MetricsNoted(
        job="a", attempt=1, run=0, step=300, total=1000, values={"loss": 2.5}
    )
    assert event.format_headline(T0).about == "step 300 of 1000, loss 2.5"


def test_a_job_s_end_is_told_in_words() -> None:
    event = events.JobEnded(job="a", state=JobState.SKIPPED, cause=Cause.UPSTREAM)
    assert event.format_headline(T0).about == "skipped, what it needs ended"
