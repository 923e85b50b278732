"""Two jobs compared, and the list of sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render.job_details import build_pages
from autoexp_tui.cockpit.render.lists import render_session, render_session_counts
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.event_history import Entry, find_headline
from autoexp_tui.events import events
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.masking import MaskRules
from autoexp_tui.model.snapshot import SessionBrief
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import JobState, why
from autoexp_tui.model.wording import sentence
from autoexp_tui.planning.job_details import JobDetails
from tests.model.builders import job, plan
from tests.support.campaigns import T0, campaign, plan_of

SPECS = plan_of(campaign(31)).jobs


def told(first: JobSpec, second: JobSpec) -> list[str]:
    """The first page of what differs."""
    page = build_pages(plan_of(campaign(31)), [first, second])[0]
    return [plain(line) for line in page.lines]


def test_what_differs_is_shown_with_both_values() -> None:
    text = told(SPECS[0], SPECS[3])
    assert "-optim.lr: 1e-3" in text
    assert "+optim.lr: 3e-4" in text
    assert told(SPECS[0], SPECS[0]) == ["Nothing differs here."]


def brief(**fields: Any) -> SessionBrief:
    usual: dict[str, Any] = {
        "id": "k7f2",
        "name": "dense300m",
        "counts": {JobState.COMPLETED: 3, JobState.PLANNED: 2},
        "last_event_at": T0 - 7200,
        "owner": "yes",
        "host": "login1",
    }
    return SessionBrief(**{**usual, **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "runs on login1"),
        ({"halted_pid": 4711}, "stopped, pid 4711"),
        ({"owner": "no"}, "none"),
        ({"owner": "unknown"}, "may run on login1"),
    ],
)
def test_a_session_says_who_runs_it_and_when_it_last_moved(
    fields: dict[str, Any], words: str
) -> None:
    text = plain(render_session(brief(**fields), T0))
    assert all(one in text for one in (words, "2 h ago", "✓3", "·2"))
    assert plain(render_session_counts(brief())) == " 5 jobs: 3 completed, 2 planned"


def test_whose_session_it_is_is_told_where_it_is_somebody_elses() -> None:
    session = brief(user="al\x1b[2Jice", owner="no")
    assert "alice: none" in plain(render_session(session, T0))
    assert "of alice, opens read-only" in plain(render_session_counts(session))


def test_a_session_that_cannot_be_read_says_why() -> None:
    text = plain(render_session(brief(problem="journal line 3\x1b[2J"), T0))
    assert "cannot be read: journal line 3" in text
    assert "\x1b" not in text


SECRET = "abc-def"


def text(mask: MaskRules) -> str:
    spec = replace(
        job("a"),
        parameters={"hub.token": SECRET, "lr": 1},
        overrides=(f"hub.token={SECRET}", "lr=1"),
    )
    made = replace(plan(spec), overrides=(f"hub.token={SECRET}",), mask=mask)
    pages = build_pages(made, [spec], [JobDetails()])
    return "\n".join(
        "".join(span.text for span in line) for page in pages for line in page.lines
    )


def test_the_page_of_overrides_is_masked() -> None:
    shown = text(MaskRules())
    assert SECRET not in shown
    assert "hub.token=***" in shown
    assert "lr=1" in shown
    assert SECRET in text(MaskRules(keep=("hub.token",)))


def test_reasons_and_events_are_masked() -> None:
    reason = why("other_overrides", overrides=f"hub.token={SECRET} lr=1")
    assert sentence(reason, 0.0) == "runs with other overrides: hub.token=*** lr=1"
    logged = events.MessageLogged(text=f"login with api_key={SECRET}", level="info")
    record = Recorded(seq=1, epoch=1, t=0.0, event_id="e", event=logged)
    assert SECRET not in str(find_headline(Entry(record), 0.0))
