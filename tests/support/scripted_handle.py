"""A handle without an engine: shows what it is given, remembers what it is sent.

For tests of front ends, and for looking at them. `moved` lets a session go on by some
seconds, as far as a screen can tell.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoexp_tui.engine.handle import EngineHandle
from autoexp_tui.model.commands import Command
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import Curve, Live, Role, Snapshot
from autoexp_tui.model.state import JobRecord, Warned
from autoexp_tui.model.states import JobState


@dataclass(frozen=True, slots=True)
class Sent:
    """A command as it was sent."""

    command_id: str
    command: Command
    by: str
    expected: Mapping[str, int]


class ScriptedHandle(EngineHandle):
    """An `EngineHandle` over snapshots made by hand; `push` makes it publish one."""

    role: Role = "plan"
    read_only = False
    is_unanswered = False

    def __init__(self, snapshot: Snapshot, *, read_only: bool = False) -> None:
        super().__init__(lambda _, seq, count: self._find_records(seq, count))
        self.role = snapshot.engine.role
        self.read_only = read_only
        self.journal: Sequence[Recorded] = ()
        """All records there are, for `earlier`."""
        self.sent: list[Sent] = []
        self.closed = False
        self._snapshot: Snapshot = snapshot
        self.push = self.publish

    def _find_records(self, seq: int, count: int) -> Sequence[Recorded]:
        return [one for one in self.journal if one.seq < seq][-count:]

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        command_id = f"c{len(self.sent) + 1}"
        self.sent.append(Sent(command_id, command, by, dict(expected or {})))
        return command_id

    def close(self, *, hand_over: bool = False) -> None:
        del hand_over  # it runs no engine
        self.closed = True

    @property
    def commands(self) -> list[Command]:
        return [sent.command for sent in self.sent]


def moved(snapshot: Snapshot, seconds: float, seed: int = 0) -> Snapshot:
    """The session `seconds` later: running jobs went on, nothing else changed."""
    now = snapshot.t + seconds
    rng = random.Random(snapshot.seq * 31 + seed)
    live = tuple(
        _went_on(record, one, seconds, now, rng)
        for record, one in zip(snapshot.jobs, snapshot.live, strict=True)
    )
    answered = now - (now % 30)
    engine = replace(snapshot.engine, committed_at=now, executor_answered_at=answered)
    return replace(snapshot, seq=snapshot.seq + 1, t=now, live=live, engine=engine)


def _went_on(
    record: JobRecord, live: Live | None, seconds: float, now: float, rng: random.Random
) -> Live | None:
    if live is None or record.state is not JobState.RUNNING or not live.rate:
        return live
    went = int(live.rate * now) - int(live.rate * (now - seconds))
    step = min((live.step or 0) + went, live.total or 10**9)
    loss = live.metrics.get("loss", 3.0) + rng.gauss(-0.002, 0.01)
    old = live.curves.get("loss", Curve())
    curve = Curve((*old.steps, step)[-512:], (*old.values, loss)[-512:])
    return replace(
        live,
        step=step,
        metrics={**live.metrics, "loss": loss},
        curves={**live.curves, "loss": curve},
        trend=curve.values[-8:],
        last_step_at=now,
    )


def with_job(snapshot: Snapshot, name: str, **changes: object) -> Snapshot:
    """The snapshot with one job's record changed."""
    jobs = tuple(
        replace(record, **changes) if record.name == name else record  # type: ignore[arg-type]
        for record in snapshot.jobs
    )
    return replace(snapshot, seq=snapshot.seq + 1, jobs=jobs)


def with_events(snapshot: Snapshot, events: Iterable[Event]) -> Snapshot:
    """The snapshot with these as its newest events, a second apart."""
    told = list(events)
    recorded = tuple(
        Recorded(
            seq=snapshot.seq + place,
            epoch=1,
            t=snapshot.t - (len(told) - place),
            event_id=f"{snapshot.session}-1-{snapshot.seq + place}",
            event=event,
        )
        for place, event in enumerate(told, 1)
    )
    return replace(
        snapshot, seq=snapshot.seq + len(recorded), events=snapshot.events + recorded
    )


def with_warnings(snapshot: Snapshot, *warnings: Warned) -> Snapshot:
    """The snapshot with further warnings standing."""
    return replace(
        snapshot, seq=snapshot.seq + 1, warnings=(*snapshot.warnings, *warnings)
    )


HOSTILE: tuple[str, ...] = (
    "x[/red]",
    "run[lr=0.1]",
    "[/",
    "a\x1b]52;c;ZXZpbA==\x07b",
    "c\x1b[2Jd",
    "t\x1b]0;owned\x07u",
    "\x9b31mred",
    "e\u202evil",
    "wide漢字é",
    "nl\nnl\r\ttab",
    "{braces} %s \\ $HOME",
)
"""Names that try to draw, to paste, to break markup, or to hide."""
