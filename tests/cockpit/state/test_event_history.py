"""The event log grows at both ends, and what is filtered stays so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.cockpit.screens.events import render_entry
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state import event_history
from autoexp_tui.cockpit.state.event_history import (
    KINDS,
    Entry,
    EventFilter,
    EventHistory,
    build_page,
    collect_tokens,
    find_kinds,
    format_entry,
)
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import why
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_events
from tests.support.week import week

WEEK = week(31, note_seconds=4 * 3600, slots=4)
RECORDS = WEEK.records
BASE = replace(campaign(4), session="w7k2")
ALL = EventFilter(everything=True)


def carrying(records: Sequence[Recorded]) -> Snapshot:
    return replace(BASE, seq=records[-1].seq, events=tuple(records))


def as_of(stop: int, tail: int = 40) -> Snapshot:
    """As of the first `stop` records, of which it carries the last `tail`."""
    return carrying(RECORDS[max(0, stop - tail) : stop])


def history_of(wanted: EventFilter, shown: Snapshot) -> EventHistory:
    history = EventHistory()
    history.filter_by(wanted, shown)
    return history


def read_all_back(history: EventHistory, page: int) -> None:
    while not history.complete:
        stop = history.page.first - 1
        records = RECORDS[max(0, stop - page) : stop]
        history.prepend(build_page(records, history.wanted))


@pytest.mark.parametrize("page", [1, 2, 7, 25])
@pytest.mark.parametrize("wanted", [ALL, EventFilter(), EventFilter(kind="submit")])
def test_snapshots_and_pages_make_the_whole_with_what_came_of_orders(
    wanted: EventFilter, page: int
) -> None:
    history = history_of(wanted, as_of(100))
    for stop in (*range(110, len(RECORDS), 30), len(RECORDS)):
        history.take(as_of(stop))
    read_all_back(history, page)
    whole = history_of(wanted, carrying(RECORDS)).page.entries
    found = [(one.key, one.settled) for one in history.page.entries]
    assert found == [(one.key, one.settled) for one in whole]


def test_a_snapshot_that_missed_some_or_went_back_begins_anew() -> None:
    history = history_of(ALL, as_of(100))
    assert not history.take(as_of(100))
    history.take(as_of(300))
    assert history.page.first == RECORDS[260].seq
    assert len(history.page.entries) <= 40
    history.take(as_of(100))
    newest = max(entry.record.seq for entry in history.page.entries)
    assert newest == RECORDS[99].seq


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_history, "MOST", 60)
    history = history_of(ALL, as_of(len(RECORDS)))
    read_all_back(history, 25)
    assert len(history.page.entries) <= 60 + 25


def test_an_order_that_fails_later_becomes_an_error_then() -> None:
    order = events.EffectOrdered(effect_id="e1", effect=SUBMIT)
    failed = events.EffectSettled(effect_id="e1", outcome="failed")
    first = with_events(BASE, [order])
    history = history_of(EventFilter(kind="error"), first)
    assert not history.page.entries
    history.take(with_events(first, [failed]))
    assert [entry.settled for entry in history.page.entries] == [failed]


@given(st.sampled_from(RECORDS))
def test_every_event_is_of_kinds_that_are_listed(record: Recorded) -> None:
    found = find_kinds(Entry(record))
    assert found <= set(KINDS)
    assert found or isinstance(record.event, events.MetricsNoted)


def test_typed_words_and_a_kind_all_have_to_hold() -> None:
    wanted = EventFilter(kind="state", text="lr0.001 COMPLETED")
    kept = [Entry(one) for one in RECORDS if wanted.keeps(Entry(one))]
    told = [format_entry(one, one.record.t).lower() for one in kept]
    assert told
    assert all("lr0.001" in text and "completed" in text for text in told)
    assert all("state" in find_kinds(one) for one in kept)


def test_an_acceptance_is_among_its_job_s_events_wherever_the_order_lies() -> None:
    token, name = BASE.jobs[0].attempts[0].token, BASE.jobs[0].name
    own = {"token": token, "executor_ids": ("7",), "submitted_at": T0}
    shown = with_events(BASE, [events.SubmissionAccepted(**own)])  # type: ignore[arg-type]
    wanted = EventFilter(job=name)
    (entry,) = history_of(wanted, shown).page.entries
    assert name in entry.jobs
    row = plain(render_entry(entry, T0, 160))
    assert f"{len(entry.jobs)} jobs" in row.partition("accepted")[0]
    page = build_page(shown.events, wanted, collect_tokens(shown))
    assert [older.event for older in page.entries] == [entry.event]


def test_what_is_tried_again_or_asked_is_among_what_matters() -> None:
    told: tuple[Event, ...] = (
        events.RetryOrdered(
            job="a", wait_seconds=0, from_checkpoint=True, why=why("r")
        ),
        events.ApprovalAsked(job="a", attempt=1, digest="d", prompt="Go on?"),
    )
    entries = history_of(EventFilter(), with_events(BASE, told)).page.entries
    assert tuple(entry.event for entry in entries) == told


SUBMIT = effects.SubmitTasks(token="t", tasks=(("a", 1), ("b", 1)))
SENT = "$ cd /data && python train.py --lr=1e-3  # on node7"


def shown(*happened: Event, cells: int = 100) -> tuple[str, str]:
    """The first entry's line, and its detail."""
    entry = history_of(ALL, with_events(BASE, happened)).page.entries[0]
    row = render_entry(entry, T0, cells)
    assert width(row) <= cells
    return plain(row), format_entry(entry, T0)


def test_an_effect_names_its_jobs_and_what_came_of_it() -> None:
    row, detail = shown(
        events.EffectOrdered(effect_id="e1", effect=SUBMIT, why=why("ready")),
        events.EffectSettled(effect_id="e1", outcome="ok", detail="sbatch x\n48213"),
    )
    assert row.startswith("✓ ")
    assert row.index("2 jobs") < row.index("submit") < row.index("a, b")
    assert all(part in detail for part in ("sbatch x", "48213", "attempt 1"))
    alone = effects.SubmitTasks(token="t", tasks=(("a", 1),))
    order = events.EffectOrdered(effect_id="e1", effect=alone)
    result = events.EffectSettled(effect_id="e1", outcome="ok", detail=f"{SENT}\n4")
    assert SENT in shown(order, result, cells=140)[0]


def test_each_outcome_has_its_mark_and_a_doubt_what_was_sent() -> None:
    assert shown(events.EffectOrdered(effect_id="e1", effect=SUBMIT))[0][0] == "⧗"
    for outcome, mark in (("ok", "✓"), ("failed", "✗"), ("uncertain", "≈")):
        settled = events.EffectSettled(effect_id="e0", outcome=outcome)  # type: ignore[arg-type]
        assert shown(settled)[0][0] == mark
    doubt = why("in_doubt", message="no answer", sent="sbatch --parsable job.sh")
    _, detail = shown(events.SubmissionUncertain(token="t", why=doubt))
    assert "sent        $ sbatch --parsable job.sh" in detail
