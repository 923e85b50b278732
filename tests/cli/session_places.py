"""Sessions of one small plan, as an engine that is gone left them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.sessions import main
from autoexp_tui.conditions.kinds import Approval, FileExists, JobStateIs, TimeReached
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.facts import Moment
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import find_highest_epoch, take_lease
from autoexp_tui.storage.processes import Identity, read_start
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import create_session
from autoexp_tui.testing.clock import ManualClock

Said = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """A state directory, and autoexp-sessions over it."""

    root: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    def say(self, *argv: str) -> Said:
        """What a command says: its exit code, stdout, stderr."""
        code = run_guarded(main, [*argv, "--state-dir", str(self.state_dir)])
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err

    def plan(self) -> Plan:
        """train -> wait (three conditions) -> ask."""
        train = self._job("train", 0)
        wait = self._job(
            "wait",
            1,
            start_conditions=(
                JobStateIs(jobs=("train",), state="COMPLETED"),
                FileExists(path=str(self.root / "never")),
                TimeReached(at=4e9),
            ),
            cancel_conditions=(FileExists(path=str(self.root / "stop")),),
            depends_on=("train",),
        )
        asks = self._job("asks", 2, start_conditions=(Approval(prompt="Go on?"),))
        return Plan(
            plan_id="p",
            name="small",
            state_dir=str(self.state_dir),
            jobs=(train, wait, asks),
        )

    def _job(self, name: str, index: int, **fields: object) -> JobSpec:
        return JobSpec(
            name=name,
            index=index,
            stage=name,
            command=("true",),
            output_dir=str(self.root / "out" / name),
            log_dir=str(self.root / "logs" / name),
            **fields,  # type: ignore[arg-type]
        )

    def session(
        self,
        session_id: str,
        *happened: events.Event,
        t: float = 1000.0,
        plan: Plan | None = None,
        released: bool = True,
        command_id: str = "",
    ) -> SessionDir:
        """A session in which this happened, at `t`, because of a command."""
        session = create_session(self.state_dir, lambda _length: session_id)
        lease = take_lease(session, ManualClock())
        journal = FileJournal(session, lease)
        sha = journal.add_plan(plan or self.plan())
        state = SessionState(plans={sha: plan or self.plan()})
        draft = Draft(state, Moment(t, t, t), lease.epoch)
        draft.emit(
            events.SessionStarted(
                session=session_id,
                name="small",
                engine_version="1",
                wrapper_version="1",
                plan_sha=sha,
            )
        )
        draft.emit(events.EngineStarted(host="here", pid=1))
        draft.emit(events.PlanAdded(sha=sha))
        draft.note_cause(command_id=command_id)
        for event in happened:
            draft.emit(event)
        journal.append(draft.records)
        journal.close()
        if released:
            lease.release()
        return session


def all_ended() -> list[events.Event]:
    """Every job of the small plan, each in another way."""
    from autoexp_tui.model.states import Cause, JobState

    return [
        events.JobsReleased(jobs=("train", "wait", "asks")),
        events.JobEnded(job="train", state=JobState.CANCELLED, cause=Cause.USER),
        events.JobEnded(job="wait", state=JobState.SKIPPED, cause=Cause.UPSTREAM),
        events.JobEnded(job="asks", state=JobState.SKIPPED, cause=Cause.UPSTREAM),
    ]


def held_elsewhere(session: SessionDir) -> None:
    """An engine on another host took the session."""
    me = Identity.get_own()
    _take(session, replace(me, host="cn17", machine="m2", boot="b2"))


def held_by_the_dead(session: SessionDir) -> None:
    """A process of this host that is gone took the session."""
    _take(session, replace(Identity.get_own(), started="1"))


def held_by(session: SessionDir, pid: int) -> None:
    """A process of this host took the session."""
    me = Identity.get_own()
    _take(session, replace(me, pid=pid, started=read_start(pid) or ""))


def _take(session: SessionDir, holder: Identity) -> None:
    epoch = find_highest_epoch(session) + 1
    record = {"epoch": epoch, "since": 1000.0, **asdict(holder)}
    (session.lease / f"{epoch}.json").write_text(json.dumps(record))
