"""A session on disk as an engine leaves it: leases, parts, a plan, a job that ran."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events.events import (
    AttemptEnded,
    EffectOrdered,
    EffectSettled,
    EngineStarted,
    JobEnded,
    JobsReleased,
    MessageLogged,
    PlanAdded,
    RunBegan,
    SessionStarted,
    SubmissionAccepted,
)
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import JobState, Outcome
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.output_dir_lock import Owner, take_ownership
from autoexp_tui.storage.processes import Identity
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import at
from tests.support.journal_contract import PLAN

ME = asdict(Identity.get_own())


class WholeSession:
    """One session, and the engine that has it just now."""

    def __init__(self, path: Path, t: float = 100.0, plan: Plan | None = None) -> None:
        """`t`: when it began."""
        self.output, self.began = path.parent / "out", t
        out = str(self.output)
        spec = replace(PLAN.jobs[0], output_dir=out, log_dir=f"{out}/log")
        self.plan = plan or replace(PLAN, jobs=(spec,))
        self.session = SessionDir(path)
        self.session.make()
        self.records: list[Recorded] = []
        self.enter()

    def enter(self) -> None:
        """An engine comes."""
        self.lease = take_lease(self.session, ManualClock())
        self.journal = FileJournal(self.session, self.lease)
        self.state = self.journal.load().state
        seal = self.journal.seal
        started = EngineStarted(
            host="h", pid=1, sealed_part=seal.part, sealed_bytes=seal.bytes
        )
        if seal.part:
            self.write(started)
            return
        sha = self.journal.add_plan(self.plan)
        self.state = replace(self.state, plans={sha: self.plan})
        words = {"session": self.session.id, "name": self.plan.name, "plan_sha": sha}
        opened = SessionStarted(**words, engine_version="1", wrapper_version="1")
        self.write(opened, started, PlanAdded(sha=sha))

    def leave(self) -> None:
        """The engine gives the session back."""
        self.journal.close()
        self.lease.release()

    def write(
        self, *happened: Event, t: float | None = None, command_id: str = ""
    ) -> None:
        """One commit, at `t` or a second a record after the beginning."""
        moment = at(self.began + self.state.seq if t is None else t)
        draft = Draft(self.state, moment, self.lease.epoch)
        draft.command_id = command_id
        for event in happened:
            draft.emit(event)
        records = draft.commit()
        self.journal.append(records)
        self.records += records
        self.state = load_state(self.session).state

    # -------------------------------------------------------------------- the job
    def submit(self) -> None:
        """The job is ordered and taken."""
        mine = Owner(session=self.session.id, state_dir="/state", job="a")
        take_ownership(self.output, mine)
        submit = SubmitTasks(token="t1", tasks=(("a", 1),))
        self.write(
            JobsReleased(jobs=("a",)), EffectOrdered(effect_id="e1", effect=submit)
        )
        self.write(
            SubmissionAccepted(token="t1", executor_ids=("7",), submitted_at=1.0),
            EffectSettled(effect_id="e1", outcome="ok"),
        )

    def begin(self) -> None:
        """The job runs, and the journal knows it."""
        begun = {"began_at": 2.0, "executor_id": "7", "log_path": "x", "process": ME}
        self._record("begin.0.json", run=0, **begun)
        self.write(RunBegan(job="a", attempt=1, run=0, began_at=2.0, pid=1))

    def end(self) -> None:
        """The job completes, and the journal knows it."""
        self._record("exit.0.json", ended_at=3.0, exit_code=0)
        self.write(
            AttemptEnded(
                job="a", attempt=1, outcome=Outcome.COMPLETED, exit_code=0, ended_at=3.0
            ),
            JobEnded(job="a", state=JobState.COMPLETED),
        )

    def _record(self, name: str, **fields: object) -> None:
        """What the wrapper leaves."""
        place = self.session.get_attempt("a", 1)
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(json.dumps(fields))


def whole(path: Path) -> WholeSession:
    """A session of two engines whose job completed, without an engine now."""
    made = WholeSession(path)
    made.submit()
    made.begin()
    made.leave()
    made.enter()
    made.end()
    made.write(MessageLogged(text="loss 2.5"), MessageLogged(text="bye"))
    made.leave()
    return made
