"""Runs that stand still or fall silent: warned of, and handed to the rules.

Judged at most every few seconds, and only by what looks at logs have shown. After a
jump of the clock (a suspended machine, a stopped process) all clocks begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from autoexp_tui.actions.orders import order_end
from autoexp_tui.actions.reactions import log_matched
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import Desk
from autoexp_tui.model.rules import Monitoring, applies_to_stage
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.verdicts import why
from autoexp_tui.telemetry.inactivity import RunWatch, Still

LOOK_SECONDS: Final = 10.0
"""The longest time between two judgements."""
SHARES: Final = 4
"""A rule is judged about so often in the time that it waits."""
JUMP_SECONDS: Final = 20.0
"""Between two commits that decide something, of which there is one a second: more is
a jump of the clock, or an engine that did not live meanwhile."""


class Watched(Protocol):
    """A run as it is judged here."""

    rules: Monitoring
    attempt: int
    run: int
    step: int | None
    watch: RunWatch


class Standstills:
    """When to judge, and what came of it."""

    def __init__(self) -> None:
        self._due = 0.0
        self._judged_at: float | None = None

    def look_soon(self) -> None:
        """A run began whose rules may wait for less than those before."""
        self._due = 0.0

    def judge(self, desk: Desk, tracks: Mapping[str, Watched]) -> None:
        """Warn of stalls and carry out rules over what does not happen."""
        self._mind_jumps(desk.now.lived, tracks)
        if desk.now.lived < self._due:
            return
        wait = LOOK_SECONDS
        for name in sorted(desk.roster.active):
            track = tracks.get(name)
            if track is not None and _is_current(desk.job(name), track):
                _judge(desk, name, track)
                wait = min(wait, track.watch.shortest / SHARES)
        self._due = desk.now.lived + wait

    def _mind_jumps(self, lived: float, tracks: Mapping[str, Watched]) -> None:
        last, self._judged_at = self._judged_at, lived
        if last is not None and lived - last > JUMP_SECONDS:
            for track in tracks.values():
                track.watch.blind()


def _is_current(job: JobRecord, track: Watched) -> bool:
    """Whether the newest run lives and is the one that is watched."""
    attempt = job.attempt
    return (
        job.state is JobState.RUNNING
        and attempt is not None
        and (attempt.number, attempt.run) == (track.attempt, track.run)
    )


def _judge(desk: Desk, name: str, track: Watched) -> None:
    _judge_stall(desk, desk.job(name), track)
    for still in track.watch.due():
        log_matched(desk, _matched(name, track, still), still.rule)


def _matched(name: str, track: Watched, still: Still) -> events.LogMatched:
    key = 0 if still.rule.match_once else still.key
    return events.LogMatched(
        match_id=ids.match_id(name, track.attempt, track.run, still.rule.name, key),
        job=name,
        attempt=track.attempt,
        run=track.run,
        rule=still.rule.name,
        offset=still.offset,
        line=still.line,
    )


def _judge_stall(desk: Desk, job: JobRecord, track: Watched) -> None:
    warning_id = "a" + ids.digest(job.name, track.attempt, "stall")
    warned = warning_id in desk.state.warnings
    stalled = track.watch.stalled(track.rules.stall_after_seconds)
    if warned and not stalled:
        desk.draft.emit(events.WarningCleared(warning_id=warning_id))
    if warned or not stalled:
        return
    reason = why("stall", job=job.name, step=track.step or 0, seconds=track.watch.stood)
    desk.draft.emit(
        events.WarningRaised(warning_id=warning_id, why=reason, job=job.name)
    )
    if _is_to_end(job, track.rules):
        order_end(desk, job, reason, Cause.STALL, "stall")


def _is_to_end(job: JobRecord, rules: Monitoring) -> bool:
    """Whether a rule says what is to follow on a stall of this job."""
    return any(
        rule.state == "stall" and applies_to_stage(rule, job.spec.stage)
        for rule in rules.state_events
    )
