"""What each event says of itself on a line, and the table of events."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, get_args

import pytest

from autoexp_tui.events import events
from autoexp_tui.model.event import Event
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, Topic, why
from tests.model.builders import job
from tests.support.campaigns import T0

ANSWER: Final = events.ApprovalAnswered(
    job="a", digest="d", approved=True, by="cockpit", reason="looks right"
)
FIRST: Final = events.RunBegan(job="a", attempt=1, run=0, began_at=T0, node="n1")
CASES: Final[dict[str, tuple[Event, str, str]]] = {
    "yes": (ANSWER, "approved", "by cockpit: looks right"),
    "no": (replace(ANSWER, approved=False), "refused", "by cockpit: looks right"),
    "attempt": (
        events.AttemptEnded(
            job="a", attempt=2, outcome=Outcome.FAILED, cause=Cause.OUT_OF_MEMORY,
            exit_code=137, reached=1200, streak="quick"),
        "attempt 2 ended", "failed, out of memory, exit 137, at step 1200"),
    "conditions count from 1": (
        events.ConditionJudged(
            job="a", role="start", index=0, result=Result.PASS, why=why("ready")),
        "condition 1 holds", ""),
    "first run": (FIRST, "began", "attempt 1, on n1"),
    "further run": (replace(FIRST, run=2), "began", "attempt 1, run 2, on n1"),
    "engine": (
        events.EngineStarted(host="login1", pid=7, gap_seconds=7200.0),
        "engine began", "on login1, pid 7, after 2 h without an engine"),
    "metrics": (
        events.MetricsNoted(
            job="a", attempt=1, run=0, step=300, total=1000, values={"loss": 2.5}),
        "metrics noted", "step 300 of 1000, loss 2.5"),
    "job": (
        events.JobEnded(job="a", state=JobState.SKIPPED, cause=Cause.UPSTREAM),
        "job ended", "skipped, what it needs ended"),
    "jobs": (events.ForeignFilesFound(jobs=("a", "b")), "files of other work", "a, b"),
    "no reason": (events.JobsHeld(jobs=("a", "b")), "held", "a, b"),
    "no jobs": (events.RunSuspended(job="a", attempt=1, run=0), "suspended", ""),
    "ahead": (events.JobsReleased(jobs=("a",), ahead=True), "released", "a, ahead"),
    "aside": (events.FilesSetAside(job="a", attempt=2), "files set aside",
              "before attempt 2: none"),
    "cleared": (events.WarningCleared(warning_id="w", by="x"), "warning cleared",
                "by x"),
    "rotated": (events.JournalRotated(sealed_part="j.1", sealed_bytes=312),
                "journal went on", "j.1 has 312 B"),
    "joined": (events.PlanAdded(sha="s", job="a", action="r/0"), "plan added",
               "plan_s, by the action r/0 of a"),
    "added": (events.JobsAdded(policy="p", asked_by="e1", specs=(job("a"), job("b"))),
              "jobs added", "a, b, for e1"),
    "replaced": (events.LogReplaced(job="a", attempt=1, run=0, count=2),
                 "log began anew", "attempt 1, 2 times by now"),
    "seen": (events.CheckpointSeen(job="a"), "checkpoint seen", "none"),
    "waived": (events.ConditionWaived(job="a", index=0, reason="r"), "waived",
               "condition 1: r"),
    "settled": (events.EffectSettled(effect_id="e", outcome="failed", detail="x\ny"),
                "effect settled", "failed: x"),
    "matched": (events.LogMatched(match_id="m", job="a", attempt=1, run=0, rule="r",
                                  offset=0, line=" x ", count=2), "log matched",
                "r (2 times): x"),
    "two fields": (
        events.EngineFaulted(where="Polled", problem="boom"),
        "engine faulted", "Polled: boom"),
}  # fmt: skip


@pytest.mark.parametrize("event", events.Event.kinds.values(), ids=events.Event.kinds)
def test_every_event_in_the_table_has_a_topic_and_words(event: type[Event]) -> None:
    assert event.topic in get_args(Topic)
    inherits = event.format_headline is Event.format_headline and not event.verb
    assert inherits == (event is events.EffectOrdered), "an order has its effect's"


@pytest.mark.parametrize("case", CASES)
def test_an_event_says_what_it_is_and_what_about(case: str) -> None:
    event, verb, about = CASES[case]
    headline = event.format_headline(T0)
    assert headline.verb == verb
    assert about in (headline.about, "")
