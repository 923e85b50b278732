"""Which job of a simulated campaign is late to be tried again."""

from __future__ import annotations

from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.events import events
from autoexp_tui.model.event import Event
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import why
from tests.model.builders import ended, happen, job, plan, run, started
from tests.support.sim_checks import HANG_SECONDS, Timers

BEGAN = 200.0
"""When the retries of these tests are ordered, in seconds that engines lived."""
LATE = HANG_SECONDS + 100.0
RETRY = events.RetryOrdered(
    job="a", wait_seconds=50.0, from_checkpoint=True, why=why("retry")
)
RESUMED = events.SubmissionResumed()
PAUSED = events.SubmissionPaused(why=why("paused_by"))


class Campaign:
    """A job of two that is to be tried again, and a watch on its timer."""

    def __init__(self) -> None:
        self.state: SessionState = started(plan(job("a"), job("b")))
        self._now = BEGAN
        self._timers = Timers(lambda: self._now)
        run(self.state, "a")
        self.problems("a0", ended("a"), RETRY, t=BEGAN)

    def problems(self, text: str, *happened: Event, t: float) -> list[str]:
        """What is wrong once these events have happened at `t`."""
        self._now = t
        found: list[str] = []
        for event in (*happened, events.MessageLogged(text=text)):
            for record in happen(self.state, event, t=t):
                found += self._timers.problems(record, self.state)
        return found


def test_a_job_that_nothing_holds_back_is_late() -> None:
    campaign = Campaign()
    assert campaign.problems("later", t=BEGAN + 50 + LATE) == [
        "a is 700 s late to be tried again"
    ]


def test_a_job_is_not_late_while_it_waits() -> None:
    assert not Campaign().problems("later", t=BEGAN + 50 + HANG_SECONDS)


def test_a_job_is_not_late_by_the_time_that_a_pause_held_it_back() -> None:
    campaign = Campaign()
    assert not campaign.problems("paused", PAUSED, t=BEGAN + 1)
    assert not campaign.problems("pauses still", t=BEGAN + 5 * LATE)
    assert not campaign.problems("goes on", RESUMED, t=BEGAN + 5 * LATE)


def test_a_job_that_stands_still_after_a_pause_is_late() -> None:
    campaign = Campaign()
    campaign.problems("paused", PAUSED, t=BEGAN + 1)
    campaign.problems("goes on", RESUMED, t=BEGAN + 1000)
    assert campaign.problems("later", t=BEGAN + 1000 + LATE)


def test_a_job_is_late_although_another_is_planned_anew() -> None:
    campaign = Campaign()
    compose = ComposeJob(job="b", overrides=())
    ordered = events.EffectOrdered(effect_id="c", effect=compose)
    campaign.problems("composes", ordered, t=BEGAN + 1)
    assert campaign.problems("later", t=BEGAN + 50 + LATE)
