"""One small campaign, written out: its ends do not depend on when who looks.

Drawn plans change whenever the drawing does. Here every way to end is there once: a
family that goes well but for one crash, and one whose first job fails for good. It runs
without faults, but for the kills that a test asks for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from autoexp_tui.actions.kinds import Notify, Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    Cooldown,
    FileExists,
    JobStateIs,
    MaxAttempts,
    MetadataIs,
)
from autoexp_tui.engine.loop import Engine
from autoexp_tui.model.commands import Order, Submit
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.testing.clock import ManualClock
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.inline_pool import InlinePool
from tests.support.memory_journal import Killed, MemoryJournal
from tests.support.sim_scripts import Scripts
from tests.support.sim_slurm import SlurmCluster
from tests.support.sim_world import House, first_events

DONE = "/out/{}/done.txt"
TICK_SECONDS = 2.0
"""How far the clock moves when nothing is left to do."""

SAVED = LogEvent(
    name="saved",
    pattern=r"saved checkpoint (?P<n>\d+)",
    pattern_type="regex",
    extract_groups={"checkpoint": "n"},
)
FATAL = LogEvent(name="fatal", pattern="FATAL", actions=(Notify(message="{line}"),))
AGAIN = Restart(
    reason="crashed",
    conditions=(MaxAttempts(max_attempts=2), Cooldown(cooldown_seconds=5.0)),
)


def over(name: str) -> JobStateIs:
    return JobStateIs(jobs=(name,), state="COMPLETED")


def make_plan(root: str) -> Plan:
    """Two families (train, cool down, evaluate: by a file and metadata, then by the
    state), and a report on the first; all paths are below `root`."""
    specs: list[JobSpec] = []

    def add(stage: str, number: int, after: str = "", **fields: Any) -> None:
        name = f"{stage}{number}" if stage != "report" else stage
        upstream = (after,) if after else ()
        places = {"output_dir": f"{root}/out/{name}", "log_dir": f"{root}/logs/{name}"}
        fields |= {"depends_on": upstream, "stage": stage, **places}
        specs.append(job(name, len(specs), **fields))

    for n in (0, 1):
        stable = f"stable{n}"
        done = FileExists(path=root + DONE.format(stable), writer=stable)
        saved = MetadataIs(key="checkpoint", job=stable, op=">=", value=80)
        failed = JobStateIs(jobs=(stable,), state="FAILED")
        start, cancel = (done, saved), (failed,)
        add("stable", n)
        add("cool", n, stable, start_conditions=start, cancel_conditions=cancel)
        add("eval", n, f"cool{n}", start_conditions=(over(f"cool{n}"),))
    last = (over("eval0"), Approval(prompt="go on?"))
    add("report", 0, "eval0", start_conditions=last)
    rules = Monitoring(
        log_events=(SAVED, FATAL),
        state_events=(StateEvent(name="crash", state="crash", actions=(AGAIN,)),),
        doomed_grace_seconds=10.0,
    )
    return plan(*specs, monitoring=rules)


def make_scripts(root: str) -> Scripts:
    """The first family goes well, once put back into the queue; the second does not."""
    saves = (
        _says(4.0, "iteration 50/100 | lm loss: 2.5\nsaved checkpoint 50"),
        _says(8.0, "iteration 80/100 | lm loss: 2.2\nsaved checkpoint 80"),
        Write(at=8.0, data=b"done", path=root + DONE.format("stable0")),
    )
    well = RunScript(seconds=6.0)
    crash = RunScript(seconds=3.0, exit_code=1, writes=(_says(2.0, "FATAL it broke"),))
    return {
        "stable0": [[RunScript(seconds=10.0, writes=saves)]],
        "cool0": [[RunScript(seconds=4.0, ends="requeue"), well]],
        "eval0": [[crash], [RunScript(seconds=5.0, record_lag=3.0)]],
        "stable1": [[crash], [crash]],
        "cool1": [[well]],
        "eval1": [[well]],
        "report": [[well]],
    }


def _says(at: float, text: str) -> Write:
    return Write(at=at, data=f"{text}\n".encode())


@dataclass
class Pinned:
    """The pinned campaign, from engine to engine, until it has ended."""

    house: House
    cluster: SlurmCluster
    plan: Plan
    clock: ManualClock
    kill_after_step: int = -1
    steps: int = 0
    """Outside, of all engines."""
    deaths: int = 0

    def begun(self) -> Counter[TaskId]:
        """How often each attempt was."""
        return Counter(task for task, _, _ in self.cluster.begun(0))

    def run(self) -> SessionState:
        """To the end; an engine that dies is followed by the next one."""
        self.house.inbox.orders["go"] = Order(command_id="go", command=Submit())
        while True:
            try:
                return self._live()
            except Killed:
                self.deaths += 1

    def _live(self) -> SessionState:
        lease = self.house.session.acquire(holder_is_dead=True)
        self.house.executor = self.cluster.executor(self.clock)
        pool = InlinePool()
        parts = self.house.parts(lease, pool)
        engine = Engine(self.house.session.load(), parts)
        assert isinstance(parts.journal, MemoryJournal)
        sha = parts.journal.add_plan(self.plan)
        engine.begin(first_events(engine.state, sha, parts.journal.seal))
        for _ in range(4000):
            while pool.step():
                self.steps += 1
                if self.steps == self.kill_after_step:
                    raise Killed("between two steps")
            engine.commit()
            jobs = engine.state.jobs.values()
            if jobs and all(job.ended for job in jobs) and not engine.state.pending:
                return engine.state
            if not pool.pending:
                self.clock.advance(TICK_SECONDS)
                self.cluster.settle()
        raise AssertionError("the campaign did not end")


Ends = dict[str, tuple[str, str, int]]


def ends(state: SessionState) -> Ends:
    """State, cause and attempts of every job."""
    return {
        name: (job.state.value, str(job.cause), len(job.attempts))
        for name, job in state.jobs.items()
    }


def check_ways(found: Ends) -> None:
    """The campaign has crashes, restarts, and dependants that end in every way."""
    states = {state for state, _, _ in found.values()}
    assert states == {"COMPLETED", "CANCELLED", "FAILED", "SKIPPED"}
    assert max(attempts for _, _, attempts in found.values()) == 2
