"""Made-up sessions as the screens see them, and their jobs by how they look."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from autoexp_tui.cockpit.spans import Line, plain
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import JobView, Look, SessionView, build_session
from autoexp_tui.effects import effects
from autoexp_tui.engine.replay import ReplayBuffer, ReplayHandle
from autoexp_tui.events import events
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.snapshot import Live, SessionBrief, Snapshot
from autoexp_tui.model.state import Ask, ConditionStatus
from autoexp_tui.model.states import Cause, JobState, Result, Why, why
from autoexp_tui.testing.clock import ManualClock
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_events, with_job
from tests.support.week import SHA, Week, week

SESSION = build_session(campaign(125))
WORDS = PlanWords(SESSION.snapshot.plan)


def looking(look: Look, session: SessionView = SESSION) -> tuple[JobView, ...]:
    return tuple(job for job in session.jobs if job.look is look)


def failed_by(cause: Cause) -> tuple[JobView, ...]:
    return tuple(job for job in SESSION.jobs if job.record.cause is cause)


def changed(
    job: JobView, live: Live | None = None, **changes: Any
) -> tuple[JobView, SessionView]:
    """A job of the session, changed, in its session."""
    snapshot = with_job(SESSION.snapshot, job.name, **changes)
    lives = list(snapshot.live)
    lives[job.index] = live or lives[job.index]
    session = build_session(replace(snapshot, live=tuple(lives)), SESSION)
    return session.jobs[job.index], session


def status(
    result: Result, told: Why | None = None, since: float = T0, **more: Any
) -> ConditionStatus:
    return ConditionStatus(result=result, why=told or why("ok"), since=since, **more)


def text(*lines: Line) -> str:
    return "\n".join(map(plain, lines))


def eventful() -> Snapshot:
    """A submission was ordered and made, and a message logged."""
    submit = effects.SubmitTasks(token="t", tasks=(("a", 1),))
    told = [
        events.EffectOrdered(effect_id="e1", effect=submit),
        events.EffectSettled(effect_id="e1", outcome="ok", detail="sbatch me\n481"),
        events.MessageLogged(text="newest"),
    ]
    return with_events(campaign(31), told)


def brief(**fields: Any) -> SessionBrief:
    usual: dict[str, Any] = {
        "id": "k7f2",
        "name": "dense300m",
        "counts": {JobState.COMPLETED: 3, JobState.PLANNED: 2},
        "last_event_at": T0 - 7200,
        "owner": "yes",
        "host": "login1",
    }
    return SessionBrief(**{**usual, **fields})


@cache
def replayed_week() -> Week:
    return week(31, note_seconds=1800, slots=4)


def replay(clock: ManualClock, *, playing: bool = False) -> ReplayHandle:
    shown = replayed_week()
    buffer = ReplayBuffer(shown.records, {SHA: shown.plan})
    buffer.read(len(shown.records) + 1)
    return ReplayHandle(buffer, clock, playing=playing)


TITLE, LINES = "Promote two?", ("keep e3", "drop \x1b[2Je5", "keep e7")


def questioned(
    title: str = TITLE, base: Snapshot | None = None, **fields: Any
) -> Snapshot:
    """A campaign, and a question of a policy."""
    seal = digest_question("beam", title, LINES)
    given = {"digest": seal, "prompt": title, "lines": LINES, **fields}
    ask = Ask(asked_at=T0 - 60, asked_lived=0.0, **given)
    return replace(base or campaign(31), asks={"beam": ask})
