"""The event log grows at both ends, and what is filtered stays so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state import event_history as module
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
from autoexp_tui.cockpit.widgets.events_panes import render_entry
from autoexp_tui.effects import effects
from autoexp_tui.effects.errands import NoteDone, RunNotifyCommand
from autoexp_tui.events import events
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.event import Event, Recorded, fold
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import why
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_events
from tests.support.week import SHA, week

WEEK = week(31, note_seconds=4 * 3600, slots=4)
RECORDS = WEEK.records
BASE = replace(campaign(4), session="w7k2")
ALL = EventFilter(everything=True)


def snapshot(stop: int, tail: int = 40) -> Snapshot:
    """As of the first `stop` records, of which it carries the last `tail`."""
    carried = RECORDS[max(0, stop - tail) : stop]
    return replace(BASE, seq=carried[-1].seq, events=carried)


def read_all_back(history: EventHistory, page: int = 25) -> None:
    while not history.complete:
        stop = history.page.first - 1
        records = RECORDS[max(0, stop - page) : stop]
        history.prepend(build_page(records, history.wanted))


def fresh(wanted: EventFilter, records: Sequence[Recorded]) -> list[str]:
    """What a filter keeps of all records, read at once."""
    history = EventHistory()
    history.filter_by(wanted, replace(BASE, seq=records[-1].seq, events=tuple(records)))
    return [entry.key for entry in history.page.entries]


@pytest.mark.parametrize("wanted", [ALL, EventFilter(), EventFilter(kind="submit")])
def test_snapshots_and_pages_make_the_whole(wanted: EventFilter) -> None:
    history = EventHistory()
    history.filter_by(wanted, snapshot(100))
    for stop in range(110, len(RECORDS), 30):
        history.take(snapshot(stop))
    history.take(snapshot(len(RECORDS)))
    read_all_back(history)
    assert [entry.key for entry in history.page.entries] == fresh(wanted, RECORDS)


def test_what_came_of_an_order_is_told_with_it_wherever_the_page_ends() -> None:
    for page in (1, 2, 3, 7):
        history = EventHistory()
        history.filter_by(EventFilter(kind="submit"), snapshot(len(RECORDS)))
        read_all_back(history, page)
        orders = [
            entry
            for entry in history.page.entries
            if isinstance(entry.event, events.EffectOrdered)
        ]
        assert orders
        assert all(entry.settled is not None for entry in orders)


def test_a_snapshot_that_missed_some_begins_anew() -> None:
    history = EventHistory()
    history.filter_by(ALL, snapshot(100))
    assert not history.take(snapshot(100))
    history.take(snapshot(300))
    assert history.page.first == RECORDS[260].seq
    assert len(history.page.entries) <= 40


def test_a_replay_that_went_back_shows_what_had_happened_then() -> None:
    history = EventHistory()
    history.filter_by(ALL, snapshot(300))
    history.take(snapshot(100))
    assert max(entry.record.seq for entry in history.page.entries) == RECORDS[99].seq


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 60)
    history = EventHistory()
    history.filter_by(ALL, snapshot(len(RECORDS)))
    read_all_back(history)
    assert len(history.page.entries) <= 60 + 25


def test_an_order_that_fails_later_becomes_an_error_then() -> None:
    submit = effects.SubmitTasks(token="t", tasks=(("a", 1),))
    order = Recorded(
        seq=1,
        epoch=1,
        t=1.0,
        event_id="e",
        event=events.EffectOrdered(effect_id="e1", effect=submit),
    )
    end = replace(
        order, seq=2, event=events.EffectSettled(effect_id="e1", outcome="failed")
    )
    history = EventHistory()
    history.filter_by(EventFilter(kind="error"), replace(BASE, seq=1, events=(order,)))
    assert not history.page.entries
    history.take(replace(BASE, seq=2, events=(order, end)))
    assert [entry.settled for entry in history.page.entries] == [end.event]


@given(st.sampled_from(RECORDS))
def test_every_event_is_of_kinds_that_are_listed(record: Recorded) -> None:
    found = find_kinds(Entry(record))
    assert found <= set(KINDS)
    assert found or isinstance(record.event, events.MetricsNoted)


def test_kinds_are_gone_through_in_a_ring() -> None:
    wanted = EventFilter()
    seen = []
    for _ in range(len(KINDS) + 1):
        wanted = wanted.next_kind(1)
        seen.append(wanted.kind)
    assert seen == [*KINDS, ""]
    assert EventFilter().next_kind(-1).kind == KINDS[-1]


def test_typed_words_and_a_kind_all_have_to_hold() -> None:
    wanted = EventFilter(kind="state", text="lr0.001 COMPLETED")
    kept = [Entry(one) for one in RECORDS if wanted.keeps(Entry(one))]
    told = [format_entry(one, one.record.t).lower() for one in kept]
    assert told
    assert all("lr0.001" in text and "completed" in text for text in told)
    assert all("state" in find_kinds(one) for one in kept)


def test_only_one_job_s_events_are_kept_with_its_bookkeeping() -> None:
    name = next(
        one.event.job for one in RECORDS if isinstance(one.event, events.RunBegan)
    )
    wanted = EventFilter(job=name)
    kept = [one for one in RECORDS if wanted.keeps(Entry(one))]
    assert any(isinstance(one.event, events.RunBegan) for one in kept)
    assert all(name in repr(one.event) for one in kept)


def accepted() -> Recorded:
    return next(
        one for one in RECORDS if isinstance(one.event, events.SubmissionAccepted)
    )


def ordered(token: str) -> str:
    """The job whose submission has the token."""
    return next(
        one.event.effect.tasks[0][0]
        for one in RECORDS
        if isinstance(one.event, events.EffectOrdered)
        and isinstance(one.event.effect, effects.SubmitTasks)
        and one.event.effect.token == token
    )


def with_jobs(*records: Recorded) -> Snapshot:
    state = fold(SessionState(plans={SHA: WEEK.plan}), RECORDS)
    jobs = tuple(state.jobs.values())
    return replace(BASE, seq=records[-1].seq, events=records, jobs=jobs)


def test_an_acceptance_is_among_its_job_s_events_wherever_the_order_lies() -> None:
    record = accepted()
    assert isinstance(record.event, events.SubmissionAccepted)
    name = ordered(record.event.token)
    history, wanted = EventHistory(), EventFilter(job=name)
    history.filter_by(wanted, with_jobs(record))
    (entry,) = history.page.entries
    assert entry.event == record.event
    assert name in entry.jobs
    assert (
        name[:8] in plain(render_entry(entry, record.t, 160)).partition("accepted")[0]
    )
    page = build_page([record], wanted, collect_tokens(with_jobs(record)))
    assert [older.event for older in page.entries] == [record.event]


SUBMIT = effects.SubmitTasks(token="t", tasks=(("a", 1), ("b", 1)))


def told(*happened: Event) -> Sequence[Entry]:
    history = EventHistory()
    history.filter_by(EventFilter(everything=True), with_events(campaign(4), happened))
    return history.page.entries


def lines(entry: Entry) -> str:
    return format_entry(entry, T0)


def test_an_effect_names_its_jobs_and_what_came_of_it() -> None:
    (found,) = told(
        events.EffectOrdered(effect_id="e1", effect=SUBMIT, why=why("ready")),
        events.EffectSettled(effect_id="e1", outcome="ok", detail="sbatch x\n48213"),
    )
    text = plain(render_entry(found, T0, 100))
    assert text.startswith("✓ ")
    assert text.index("2 jobs") < text.index("submit") < text.index("a, b")
    assert all(part in lines(found) for part in ("sbatch x", "48213", "attempt 1"))


def test_the_line_of_a_single_start_shows_what_was_sent() -> None:
    alone = effects.SubmitTasks(token="t", tasks=(("a", 1),))
    sent = "$ cd /data && python train.py --lr=1e-3  # on node7"
    found = told(
        events.EffectOrdered(effect_id="e1", effect=alone),
        events.EffectSettled(effect_id="e1", outcome="ok", detail=f"{sent}\n48213"),
    )
    assert sent in plain(render_entry(found[0], T0, 140))


@pytest.mark.parametrize(
    ("outcome", "mark"), [("ok", "✓"), ("failed", "✗"), ("uncertain", "≈")]
)
def test_each_outcome_has_its_mark(outcome: str, mark: str) -> None:
    settled = events.EffectSettled(effect_id="e0", outcome=outcome)  # type: ignore[arg-type]
    (alone,) = told(settled)
    assert plain(render_entry(alone, T0, 80)).startswith(mark)
    (pending,) = told(events.EffectOrdered(effect_id="e1", effect=SUBMIT))
    assert plain(render_entry(pending, T0, 80)).startswith("⧗")


@pytest.mark.parametrize(
    "effect",
    [
        SUBMIT,
        effects.CancelTasks(tasks=(("a", 1),)),
        effects.ComposeJob(job="a", overrides=("x=1",)),
        RunNotifyCommand(command=("mail", "me"), message="done"),
        NoteDone(job="a"),
    ],
)
def test_the_kind_of_every_effect_is_told_in_words(effect: Effect) -> None:
    found, kind = told(events.EffectOrdered(effect_id="e1", effect=effect)), effect.kind
    assert f"{kind.replace('_', ' ')} " in plain(render_entry(found[0], T0, 100))
    assert f"{kind.replace('_', ' ')} " in lines(found[0])


@pytest.mark.parametrize("cells", [40, 80, 120])
def test_hostile_words_are_harmless_and_no_line_is_too_wide(cells: int) -> None:
    (found,) = told(
        events.MessageLogged(text="a\x1b[2Jb\x1b]52;c;eA==\x07" + "w " * 80)
    )
    assert "\x1b" not in plain(render_entry(found, T0, cells)) + lines(found)
    assert width(render_entry(found, T0, cells)) <= cells


def test_of_many_names_the_line_counts_the_rest_and_the_detail_has_all() -> None:
    names = tuple(f"job{n}" for n in range(9))
    found = told(events.JobsReleased(jobs=names))
    assert "job5 and 3 more" in plain(render_entry(found[0], T0, 200))
    assert all(name in lines(found[0]) for name in names)


def test_a_submission_in_doubt_shows_the_words_that_were_sent() -> None:
    doubt = why("in_doubt", message="no answer", sent="sbatch --parsable job.sh")
    (entry,) = told(events.SubmissionUncertain(token="t", why=doubt))
    assert "sent        $ sbatch --parsable job.sh" in lines(entry)


def test_what_stays_found_is_told_by_its_line_and_not_by_its_digest() -> None:
    latched = events.ConditionLatched(
        job="a", key="0123abcd", line="warm-up is over", path="/logs/a/current.log"
    )
    (entry,) = told(latched)
    text = plain(render_entry(entry, T0, 160))
    assert "warm-up is over" in text
    assert "0123abcd" not in text
    assert find_kinds(entry) == {"condition"}


@pytest.mark.parametrize(
    "event",
    [
        events.RetryOrdered(
            job="a", wait_seconds=0.0, from_checkpoint=True, why=why("restart")
        ),
        events.ApprovalAsked(job="a", attempt=1, digest="d", prompt="Go on?"),
    ],
)
def test_what_is_tried_again_or_asked_is_among_what_matters(event: Event) -> None:
    history = EventHistory()
    history.filter_by(EventFilter(), with_events(campaign(4), [event]))
    assert [entry.event for entry in history.page.entries] == [event]
