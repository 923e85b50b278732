"""No screen shows a secret of a job's values, overrides, commands or events."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.cockpit.render.job_details import build_pages
from autoexp_tui.cockpit.state.event_history import Entry, find_headline
from autoexp_tui.events import events
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.masking import MaskRules
from autoexp_tui.model.states import why
from autoexp_tui.model.wording import sentence
from autoexp_tui.planning.job_details import JobDetails
from tests.model.builders import job, plan

SECRET = "abc-def"


def text(mask: MaskRules) -> str:
    spec = replace(
        job("a"),
        parameters={"hub.token": SECRET, "lr": 1},
        overrides=(f"hub.token={SECRET}", "lr=1"),
    )
    made = replace(plan(spec), overrides=(f"hub.token={SECRET}",), mask=mask)
    pages = build_pages(made, spec, JobDetails())
    return "\n".join(
        "".join(span.text for span in line) for page in pages for line in page.lines
    )


def test_the_page_of_overrides_is_masked() -> None:
    shown = text(MaskRules())
    assert SECRET not in shown
    assert "hub.token=***" in shown
    assert "lr=1" in shown


def test_a_key_that_the_config_keeps_is_shown() -> None:
    assert SECRET in text(MaskRules(keep=("hub.token",)))


def test_reasons_and_events_are_masked() -> None:
    reason = why("other_overrides", overrides=f"hub.token={SECRET} lr=1")
    assert sentence(reason, 0.0) == "runs with other overrides: hub.token=*** lr=1"
    logged = events.MessageLogged(text=f"login with api_key={SECRET}", level="info")
    record = Recorded(seq=1, epoch=1, t=0.0, event_id="e", event=logged)
    assert SECRET not in str(find_headline(Entry(record), 0.0))
