"""What answers from the outside mean: each becomes events in the draft."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, assert_never

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.command_handlers import obey
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.effect_answers import EffectAnswers
from autoexp_tui.engine.effect_settlement import Settling
from autoexp_tui.engine.failed_calls import FailedCalls
from autoexp_tui.engine.health import Health
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.submission_answers import SubmissionAnswers
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.facts import Fact, OutsideKey
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import BEGUN, JobState, why


class Intake:
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
        lost_after_seconds: Callable[[], float],
        log_fault: Callable[[str], None],
    ) -> None:
        settling = Settling(dispatcher, monotonic)
        self.health = health
        self.outside = outside
        self.lived_at = lived_at
        self.submissions = SubmissionAnswers(settling, health)
        self.effects = EffectAnswers(settling)
        self.runs = RunReports(telemetry, health, outside, lost_after_seconds)
        self.failed = FailedCalls(settling, self.submissions, health, log_fault)

    def take(self, context: DecisionContext, observation: Observation) -> list[str]:
        """Turn one observation into events; returns further jobs to judge."""
        match observation:
            case seen.Submitted():
                self.submissions.submitted(context, observation)
            case seen.Probed():
                self.submissions.probed(context, observation)
            case seen.Cancelled():
                self.submissions.cancelled(context, observation)
            case seen.Composed():
                self.effects.composed(context, observation)
            case seen.EffectAnswered():
                self.effects.answered(context, observation)
            case seen.Captured():
                self.effects.captured(context, observation)
            case seen.FilesLookedAt():
                self.effects.files_looked_at(context, observation)
            case seen.CheckpointLooked():
                self.effects.looked(context, observation)
            case seen.CheckpointMoved():
                self.effects.moved(context, observation)
            case seen.FurtherPlanned():
                self.effects.further_planned(context, observation)
            case seen.Polled():
                self.runs.polled(context, observation)
            case seen.FactsSeen():
                return self._facts(context, observation)
            case seen.PlaceHeard():
                _place_heard(context, observation)
            case seen.LogsRead():
                return self.runs.logs_read(context, observation)
            case seen.OrdersTaken():
                for order in observation.orders:
                    obey(context, order)
            case seen.Heartbeat():
                self.health.deposed = self.health.deposed or not observation.ours
            case seen.CallFailed():
                self.failed.call_failed(context, observation)
            case seen.JobsOpened():
                pass  # decides nothing: `log_poller` reads their logs
            case _:
                assert_never(observation)
        return []

    def _facts(self, context: DecisionContext, got: seen.FactsSeen) -> list[str]:
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


def _place_heard(context: DecisionContext, got: seen.PlaceHeard) -> None:
    """A file system that is silent is a warning until it answers."""
    warning_id = "f" + ids.digest(got.place)
    stands = warning_id in context.state.warnings
    if got.silence is None:
        if stands:
            context.draft.emit(events.WarningCleared(warning_id=warning_id))
    elif not stands:
        reason = why("place_silent", place=got.place, since=got.silence.since)
        context.draft.emit(events.WarningRaised(warning_id=warning_id, why=reason))
