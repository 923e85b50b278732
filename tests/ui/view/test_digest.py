"""What happened meanwhile, in a sentence."""

from __future__ import annotations

from autoexp_tui.testing.campaigns import T0, campaign, planned
from autoexp_tui.ui.view.causes import PlanWords, causes
from autoexp_tui.ui.view.digest import digest
from autoexp_tui.ui.view.session import observe

SESSION = observe(campaign(125))
GROUPS = causes(SESSION, PlanWords(SESSION.snapshot.plan))


def test_everything_that_changed_is_counted() -> None:
    told = digest(SESSION, GROUPS, T0 - 9 * 3600, T0)
    assert told.startswith("You left at 2026-03-13 23:41; the engine went on.")
    assert "61 done" in told
    assert "7 failed (3 causes)" in told
    assert "2 stalled" in told
    assert "4 can never start" in told
    assert "1 asks you" in told
    assert told.endswith("! walks through them.")


def test_what_happened_before_is_not_told_again() -> None:
    told = digest(SESSION, GROUPS, T0 - 400, T0)
    assert "done" not in told
    assert "1 asks you" in told


def test_nothing_new_is_nothing_told() -> None:
    assert digest(SESSION, GROUPS, T0, T0) == ""


def test_nobody_needed_is_no_walk() -> None:
    session = observe(planned(10))
    assert digest(session, (), T0, T0) == ""
