"""Events mode: every effect as sent, and what it said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.event_history import (
    Entry,
    EventFilter,
    EventHistory,
    find_kinds,
    format_entry,
)
from autoexp_tui.cockpit.widgets.events_panes import render_entry
from autoexp_tui.effects import effects
from autoexp_tui.effects.errands import NoteDone, RunNotifyCommand
from autoexp_tui.events import events
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.event import Event
from autoexp_tui.model.states import JobState, why
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_events

SUBMIT = effects.SubmitTasks(token="t", tasks=(("a", 1), ("b", 1)))


def told(*happened: Event) -> Sequence[Entry]:
    history = EventHistory()
    history.filter_by(EventFilter(everything=True), with_events(campaign(4), happened))
    return history.page.entries


def lines(entry: Entry) -> str:
    return format_entry(entry, T0)


def test_a_settlement_whose_effect_is_out_of_sight_stands_alone() -> None:
    assert len(told(events.EffectSettled(effect_id="e0", outcome="failed"))) == 1


def test_an_effect_names_its_jobs_and_what_came_of_it() -> None:
    found = told(
        events.EffectOrdered(effect_id="e1", effect=SUBMIT),
        events.EffectSettled(effect_id="e1", outcome="ok", detail="sbatch x\n48213"),
    )
    assert len(found) == 1
    text = plain(render_entry(found[0], T0, 100))
    assert text.startswith("✓ ")
    assert "submit" in text
    assert text.index("2 jobs") < text.index("submit") < text.index("a, b")


def test_the_exact_words_stand_in_the_detail() -> None:
    found = told(
        events.EffectOrdered(effect_id="e1", effect=SUBMIT, why=why("ready")),
        events.EffectSettled(effect_id="e1", outcome="ok", detail="sbatch x\n48213"),
    )
    text = lines(found[0])
    assert "sbatch x" in text
    assert "48213" in text
    assert "attempt 1" in text


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
    assert plain(render_entry(told(settled)[0], T0, 80)).startswith(mark)


def test_an_effect_without_an_answer_is_pending() -> None:
    found = told(events.EffectOrdered(effect_id="e1", effect=SUBMIT))
    assert plain(render_entry(found[0], T0, 80)).startswith("⧗")


def test_other_events_are_named_in_words() -> None:
    found = told(events.JobEnded(job="a", state=JobState.FAILED, why=why("oom")))
    text = plain(render_entry(found[0], T0, 100))
    assert "job ended" in text
    assert "out of memory" in text


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


def test_hostile_words_are_harmless() -> None:
    found = told(events.MessageLogged(text="a\x1b[2Jb\x1b]52;c;eA==\x07"))
    assert "\x1b" not in plain(render_entry(found[0], T0, 80))
    assert "\x1b" not in lines(found[0])


@pytest.mark.parametrize("cells", [40, 80, 120])
def test_no_line_is_too_wide(cells: int) -> None:
    found = told(events.MessageLogged(text="word " * 80))
    assert width(render_entry(found[0], T0, cells)) <= cells


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
