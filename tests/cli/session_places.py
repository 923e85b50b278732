"""Sessions of one small plan, as an engine that is gone left them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.sessions import main
from autoexp_tui.conditions.kinds import Approval, FileExists, JobStateIs, TimeReached
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events import events
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.storage.lease import find_highest_epoch
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.session_dir import SessionDir
from tests.storage.whole_session import WholeSession

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
        return code, *self.capsys.readouterr()

    def told(self, *argv: str, code: int = 0) -> str:
        """What it says on both streams; it must end with `code`."""
        found, out, err = self.say(*argv)
        assert found == code, out + err
        return out + err

    def json(self, *argv: str) -> Any:
        """What it prints for programs, in a line of strict JSON."""
        (line,) = self.say(*argv, "--json")[1].splitlines()
        return json.loads(line, parse_constant=_refuse)

    def plan(self) -> Plan:
        """train -> wait (three conditions) -> ask."""
        ended = JobStateIs(jobs=("train",), state="COMPLETED")
        never = FileExists(path=str(self.root / "never"))
        stop = FileExists(path=str(self.root / "stop"))
        waits = (ended, never, TimeReached(at=4e9))
        asks = (Approval(prompt="Go on?"),)
        jobs = (
            self._job("train", 0),
            self._job(
                *("wait", 1, ("train",)),
                start_conditions=waits,
                cancel_conditions=(stop,),
            ),
            self._job("asks", 2, start_conditions=asks),
        )
        return Plan(plan_id="p", name="small", state_dir=str(self.state_dir), jobs=jobs)

    def _job(
        self, name: str, index: int, depends_on: tuple[str, ...] = (), **fields: Any
    ) -> JobSpec:
        return JobSpec(
            name=name,
            index=index,
            stage=name,
            command=("true",),
            output_dir=str(self.root / "out" / name),
            log_dir=str(self.root / "logs" / name),
            depends_on=depends_on,
            **fields,
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
        made = WholeSession(self.state_dir / session_id, t, plan or self.plan())
        if happened:
            made.write(*happened, t=t, command_id=command_id)
        if released:
            made.leave()
        return made.session


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def all_ended() -> list[events.Event]:
    """Every job of the small plan, each in another way."""
    skipped = {"state": JobState.SKIPPED, "cause": Cause.UPSTREAM}
    return [
        events.JobsReleased(jobs=("train", "wait", "asks")),
        events.JobEnded(job="train", state=JobState.CANCELLED, cause=Cause.USER),
        events.JobEnded(job="wait", **skipped),  # type: ignore[arg-type]
        events.JobEnded(job="asks", **skipped),  # type: ignore[arg-type]
    ]


def ordered(number: int = 1) -> events.Event:
    """So many attempts of `train` are sent."""
    sent = SubmitTasks(token=f"t{number}", tasks=(("train", number),))
    return events.EffectOrdered(effect_id=f"e{number}", effect=sent)


def in_queue() -> list[events.Event]:
    """`train` was sent, and taken."""
    taken = events.SubmissionAccepted(
        token="t1", executor_ids=("7",), submitted_at=1001.0
    )
    return [events.JobsReleased(jobs=("train",)), ordered(), taken]


def held_elsewhere(session: SessionDir) -> None:
    """An engine on another host took the session."""
    held_by(session, host="cn17", machine="m2", boot="b2")


def held_by(session: SessionDir, **who: Any) -> None:
    """A process took the session; `who`: how it differs from this one."""
    epoch = find_highest_epoch(session) + 1
    holder = asdict(replace(Identity.get_own(), **who))
    record = {"epoch": epoch, "since": 1000.0, **holder}
    (session.lease / f"{epoch}.json").write_text(json.dumps(record))
