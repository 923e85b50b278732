"""What answers from the outside mean: each becomes events in the draft."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, assert_never

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.command_handlers import handle_order
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.effect_answers import EffectAnswers
from autoexp_tui.engine.effect_settlement import EffectSettler
from autoexp_tui.engine.ephemeral_state import Health
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.session_warnings import clear_warning, raise_warning
from autoexp_tui.engine.submission_answers import SubmissionAnswers
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.facts import Fact, OutsideKey
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import BEGUN, JobState, why


class ObservationHandlers:
    """The one table of what was observed, and of who takes it."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        telemetry: Telemetry,
        health: Health,
        outside: dict[OutsideKey, Fact],
        monotonic: Callable[[], float],
        lived_at: Callable[[float], float],
        find_lost_seconds: Callable[[], float],
        log_fault: Callable[[str], None],
    ) -> None:
        settler = EffectSettler(dispatcher, monotonic)
        self.health = health
        self.outside = outside
        self.lived_at = lived_at
        self.submissions = SubmissionAnswers(settler, health, log_fault)
        self.effects = EffectAnswers(settler)
        self.runs = RunReports(telemetry, health, outside, find_lost_seconds)

    def handle(self, context: DecisionContext, observation: Observation) -> list[str]:
        """Turn one observation into events; returns further jobs to judge."""
        match observation:
            case seen.Submitted():
                self.submissions.note_submitted(context, observation)
            case seen.Probed():
                self.submissions.note_probed(context, observation)
            case seen.Cancelled():
                self.submissions.note_cancelled(context, observation)
            case seen.CallFailed():
                self.submissions.note_call_failed(context, observation)
            case seen.EffectAnswered():
                self.effects.note(context, observation)
            case seen.Polled():
                self.runs.note_poll(context, observation)
            case seen.LogsRead():
                return self.runs.note_logs(context, observation)
            case seen.FactsSeen():
                return self._note_facts(context, observation)
            case seen.PlaceHeard():
                _note_place(context, observation)
            case seen.OrdersTaken():
                for order in observation.orders:
                    handle_order(context, order)
            case seen.Heartbeat():
                self.health.deposed = self.health.deposed or not observation.ours
            case seen.JobsOpened():
                pass  # decides nothing: `log_poller` reads their logs
            case _:
                assert_never(observation)
        return []

    def _note_facts(self, context: DecisionContext, got: seen.FactsSeen) -> list[str]:
        touched: list[str] = []
        for key, fact in got.facts:
            if not context.watch.is_read(key):
                continue
            old = self.outside.get(key)
            began = self.lived_at(fact.observed_at)
            self.outside[key] = replace(fact, observed_at=began)
            if old is None or old.value != fact.value or old.error != fact.error:
                touched.extend(context.watch.jobs(key))
        return touched

    def forget(self, keys: Iterable[OutsideKey]) -> None:
        """Nobody reads these any more: an old look must not count as a new one."""
        for key in keys:
            self.outside.pop(key, None)

    def note_state(self, job: JobRecord) -> None:
        """A job moved on: forget what no longer concerns it."""
        if job.state not in _OUTSIDE:
            self.health.queue.pop(job.name, None)


_OUTSIDE: Final = frozenset({JobState.QUEUED, *BEGUN})
"""States of jobs that the executor has a word on."""


def _note_place(context: DecisionContext, got: seen.PlaceHeard) -> None:
    """A file system that is silent is a warning until it answers."""
    warning_id = "f" + ids.digest(got.place)
    if got.silence is None:
        clear_warning(context, warning_id)
    else:
        reason = why("place_silent", place=got.place, since=got.silence.since)
        raise_warning(context, warning_id, reason)
