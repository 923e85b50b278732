"""What happened meanwhile: a sentence, and what stands behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.render.digest import write_digest
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.causes import group_causes
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.events.events import EvidenceCaptured
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import JobState, why
from tests.support.campaigns import HOUR, T0, all_done, campaign, planned
from tests.support.scripted_handle import with_events, with_job, with_warnings

BASE = campaign(125)


def lines(snapshot: Snapshot = BASE, ago: float = 9 * HOUR, lead: str = "") -> str:
    session = build_session(snapshot)
    groups = group_causes(session, PlanWords(snapshot.plan))
    found = write_digest(session, groups, T0 - ago, T0, lead=lead)
    assert all(width(one) <= 120 for one in found[1:])
    return "\n".join(plain(one) for one in found)


def told(snapshot: Snapshot = BASE, ago: float = 9 * HOUR) -> str:
    return lines(snapshot, ago).split("\n")[0]


def test_everything_that_changed_is_counted() -> None:
    sentence = told()
    assert sentence.startswith(
        "You left at 2026-03-13 23:41; the engine went on. Since then: "
    )
    for part in ("61 done", "7 failed", "2 stalled", "4 can never start", "1 asks you"):
        assert part in sentence
    assert sentence.endswith("! walks through them.")
    assert not told(all_done(10)).endswith("! walks through them.")
    for line in ("✗4  out of memory", "✗2  node failure", "⊘4  "):
        assert line in lines()


def test_what_happened_before_is_not_told_again() -> None:
    sentence = told(ago=400)
    assert "done" not in sentence
    assert "can never start" not in sentence
    assert "1 asks you" in sentence
    assert "out of memory" not in lines(ago=400)


def test_a_wait_counts_as_doomed_from_when_it_became_so() -> None:
    """Its state is older: it waited before."""
    doomed = next(job for job in build_session(BASE).jobs if job.look is Look.DOOMED)
    status = doomed.record.start[0]
    assert status is not None
    later = replace(status, since=T0 - 60)
    snapshot = with_job(BASE, doomed.name, since=T0 - 8 * HOUR, start=(later,))
    assert "1 can never start" in told(snapshot, ago=300)


AGAIN = next(job for job in BASE.jobs if job.attempts)
SECOND = replace(AGAIN.attempts[0], number=2, ordered_at=T0 - 60)
KEPT = EvidenceCaptured(job="a", attempt=1, reason="stall", directory="/", summary="")


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (with_job(BASE, AGAIN.name, attempts=(*AGAIN.attempts, SECOND)), "1 restart"),
        (with_events(BASE, [KEPT]), "evidence kept of 1 run"),
        (replace(BASE, paused=why("storm", count=5)), "5 quick failures"),
    ],
)
def test_what_rules_and_the_engine_did_is_told(snapshot: Snapshot, words: str) -> None:
    assert words in lines(snapshot)


def test_a_time_without_an_engine_is_told_with_its_length() -> None:
    gaps = ((T0 - 5 * HOUR, T0 - 3 * HOUR),)
    shown = lines(replace(BASE, gaps=gaps))
    assert "the engine went on" not in shown
    assert "The engine was not running from 03:41 to 05:41 (2 h" in shown
    assert "No engine" not in lines(replace(BASE, gaps=gaps), ago=2 * HOUR)
    alone = replace(BASE, gaps=((T0 - 2, T0 - 1),))
    assert told(alone, ago=3).endswith("Since then: nothing else.")


def test_a_time_in_which_no_engine_was_needed_is_no_news() -> None:
    begin = max(job.since for job in all_done().jobs) + 1
    ended = replace(all_done(), gaps=((begin, T0 + 60),))
    assert "No engine" not in lines(ended)


def test_a_new_warning_is_counted_and_named() -> None:
    job = next(job for job in BASE.jobs if job.state is JobState.RUNNING)
    flat = why("plateau", metric="loss", percent=0.5, steps=4000, value=1.3, step=44800)
    entry = Warned(
        warning_id="w",
        why=flat,
        job=job.name,
        severity="warning",
        evidence="",
        raised_at=T0 - 60,
    )
    shown = lines(with_warnings(BASE, entry), ago=300)
    assert "1 warning" in shown.split("\n")[0]
    assert "!1  loss is flat" in shown
    assert "warning" not in lines(with_warnings(BASE, entry), ago=30)


def test_nothing_new_is_nothing_told() -> None:
    assert lines(ago=0) == ""
    assert lines(planned(10), ago=0) == ""


def test_elsewhere_than_on_the_screen_it_names_no_key() -> None:
    shown = lines(lead="Since")
    assert shown.startswith("Since 2026-03-13 23:41: ")
    assert "!" not in shown.split("\n")[0]
