"""Smaller views: what happened meanwhile, sessions, what differs, proofs of events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.dialogs.reader import build_pages
from autoexp_tui.cockpit.logfile import find_evidence
from autoexp_tui.cockpit.render.lists import write_digest
from autoexp_tui.cockpit.render.sessions import (
    render_session,
    render_session_counts,
    render_session_titles,
)
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.event_history import Entry, find_headline
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.reasons import group_causes
from autoexp_tui.cockpit.state.session import Look, build_session
from autoexp_tui.cockpit.widgets.grid_pane import explain_cell
from autoexp_tui.events import events
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.masking import MaskRules
from autoexp_tui.model.snapshot import BestResult, Snapshot
from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import JobState, Outcome, why
from autoexp_tui.model.wording import sentence
from autoexp_tui.planning.grid import build_grid
from autoexp_tui.planning.job_details import JobDetails
from tests.cockpit.views import SESSION, brief, looking, questioned, text
from tests.planning.plans import job, plan
from tests.support.campaigns import HOUR, T0, all_done, planned
from tests.support.scripted_handle import with_events, with_job, with_warnings

BASE = SESSION.snapshot


def digest(snapshot: Snapshot = BASE, ago: float = 9 * HOUR, lead: str = "") -> str:
    session = build_session(snapshot)
    groups = group_causes(session, PlanWords(snapshot.plan))
    found = write_digest(session, groups, T0 - ago, T0, lead=lead)
    assert all(width(one) <= 120 for one in found[1:])
    return text(*found)


def headline(snapshot: Snapshot = BASE, ago: float = 9 * HOUR) -> str:
    return digest(snapshot, ago).split("\n")[0]


def test_everything_that_changed_since_is_counted() -> None:
    told = headline()
    assert told.startswith(
        "You left at 2026-03-13 23:41; the engine went on. Since then: "
    )
    for part in ("61 done", "7 failed", "2 stalled", "4 can never start", "1 asks you"):
        assert part in told
    assert told.endswith("! walks through them.")
    for row in ("✗4  out of memory", "✗2  node failure", "⊘4  "):
        assert row in digest()
    assert not headline(all_done(10)).endswith("! walks through them.")
    assert digest(ago=0) == digest(planned(10), ago=0) == ""
    halted = replace(BASE, paused=why("paused_by", by="script"))
    assert digest(halted).count("P resumes") == 1
    elsewhere = digest(halted, lead="Since")  # no key is named
    assert "are paused by a script" in elsewhere
    assert "P resumes" not in elsewhere
    assert elsewhere.startswith("Since 2026-03-13 23:41: ")
    assert "!" not in elsewhere.split("\n")[0]


RAN = looking(Look.DONE)[0].record
SECOND = replace(RAN.attempts[0], number=2, ordered_at=T0 - 60)
KEPT = {"job": RAN.name, "attempt": 1, "reason": "stall", "summary": "all"}
EVIDENCE = events.EvidenceCaptured(directory="/s/evidence", **KEPT)  # type: ignore[arg-type]
FLAT = Warned(
    warning_id="w",
    why=why("plateau", metric="loss", percent=0.5, steps=4, value=1.3, step=44800),
    job=looking(Look.RUNNING)[0].name,
    severity="warning",
    evidence="",
    raised_at=T0 - 60,
)


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (with_job(BASE, RAN.name, attempts=(*RAN.attempts, SECOND)), "1 restart"),
        (with_events(BASE, [EVIDENCE]), "evidence kept of 1 run"),
        (replace(BASE, paused=why("storm", count=5)), "5 quick failures"),
        (with_warnings(BASE, FLAT), "1 warning|!1  loss is flat"),
        (questioned(base=BASE), "2 ask you|?1  Promote two?"),
    ],
)
def test_what_rules_and_the_engine_did_is_told(snapshot: Snapshot, words: str) -> None:
    assert all(word in digest(snapshot) for word in words.split("|"))
    assert not {"warning", "Promote"} & set(digest(snapshot, ago=30).split())


def test_a_time_without_an_engine_is_told_with_its_length_where_one_was_needed() -> (
    None
):
    gone = replace(BASE, gaps=((T0 - 5 * HOUR, T0 - 3 * HOUR),))
    assert "the engine went on" not in digest(gone)
    assert "The engine was not running from 03:41 to 05:41 (2 h" in digest(gone)
    alone = replace(BASE, gaps=((T0 - 2, T0 - 1),))
    assert headline(alone, ago=3).endswith("Since then: nothing else.")
    over = max(job.since for job in all_done().jobs) + 1
    assert "not running" not in digest(replace(all_done(), gaps=((over, T0 + 60),)))


@pytest.mark.parametrize(
    ("fields", "row", "counts"),
    [
        ({}, "runs on login1|2 h |3/5 |·2|-", "5 jobs: 3 completed, 2 planned"),
        ({"halted_pid": 4711}, "stopped, pid 4711|2 h ", "5 jobs"),
        ({"owner": "unknown"}, "may run on login1", "5 jobs"),
        (
            {"user": "al\x1b[2Jice", "owner": "no"},
            "alice: none",
            "of alice, opens read-only",
        ),
        ({"problem": "line 3\x1b[2J"}, "cannot be read: line 3", ""),
        (
            {
                "counts": {JobState.RUNNING: 4, JobState.WAITING: 3},
                "needs": {"stalled": 1, "asks": 2},
            },
            "0/7|▸3 ◌1 ‖1 ?2",
            "4 running, 3 waiting, 1 stalled, 2 asks",
        ),
        (
            {"best": BestResult("loss", 2.67114, "lr=1e-3\x1b[2J", "train")},
            "2.6711 loss lr=1e-3",
            "; best 2.6711 loss of train lr=1e-3",
        ),
    ],
)
def test_a_session_says_who_runs_it_and_when_it_last_moved(
    fields: dict[str, Any], row: str, counts: str
) -> None:
    told = plain(render_session(brief(**fields), T0, 118))
    assert all(word in told for word in row.split("|"))
    assert "\x1b" not in told
    for cells in (78, 118, 198):
        drawn = render_session(brief(**fields), T0, cells), render_session_titles(cells)
        assert all(width(line) <= cells for line in drawn)
    assert counts in plain(render_session_counts(brief(**fields)))


SECRET = "abc-def"


def test_secrets_are_masked_in_pages_reasons_and_events() -> None:
    given = (f"hub.token={SECRET}", "lr=1")
    values = {"hub.token": SECRET, "lr": 1}
    spec = job("a", parameters=values, overrides=given)

    def show(mask: MaskRules) -> str:
        made = replace(plan([spec]), overrides=given[:1], mask=mask)
        pages = build_pages(made, [spec], [JobDetails()])
        return "\n".join(text(*page.lines) for page in pages)

    shown = show(MaskRules())
    assert SECRET not in shown
    assert all(words in shown for words in ("hub.token=***", "lr=1"))
    assert SECRET in show(MaskRules(keep=("hub.token",)))
    reason = why("other_overrides", overrides=" ".join(given))
    assert sentence(reason, 0.0) == "runs with other overrides: hub.token=*** lr=1"
    logged = events.MessageLogged(text=f"login with api_key={SECRET}", level="info")
    record = Recorded(seq=1, epoch=1, t=0.0, event_id="e", event=logged)
    assert SECRET not in str(find_headline(Entry(record), 0.0))


def test_what_filters_took_and_no_row_shows_is_counted() -> None:
    said = "1200 more combinations that filters took have no row here."
    grid = build_grid(plan([job("a", 0, stage="s")], holes_more=1200))
    assert said in plain(explain_cell(grid, (), "t").lines[-1])


def match(job: str, attempt: int = 1) -> events.LogMatched:
    told: dict[str, Any] = {"match_id": "m", "run": 0, "rule": "r", "line": "x"}
    return events.LogMatched(job=job, attempt=attempt, offset=812, **told)


ENDED = events.AttemptEnded(
    job=RAN.name, attempt=1, outcome=Outcome.FAILED, evidence="KeyError"
)
OVER = events.JobEnded(job=RAN.name, state=JobState.COMPLETED)


@pytest.mark.parametrize(
    ("event", "proof"),
    [
        (match(RAN.name), (RAN.attempts[0].log_path, 812, "")),
        (ENDED, (RAN.attempts[0].log_path, None, "KeyError")),
        (OVER, (RAN.attempts[0].log_path, None, "")),
        (EVIDENCE, ("/s/evidence/summary.txt", None, "")),
        (match(looking(Look.WAITING)[0].name), None),
        (match(RAN.name, attempt=7), None),
        (events.SubmissionPaused(why=why("paused")), None),
    ],
)
def test_an_event_leads_to_its_byte_its_words_the_end_of_a_log_or_nowhere(
    event: Event, proof: tuple[str, int | None, str] | None
) -> None:
    found = find_evidence(event, SESSION)
    assert (found and (found.source.path, found.offset, found.words)) == proof
