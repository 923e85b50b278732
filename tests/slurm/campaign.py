"""A small campaign on a throw-away cluster, run by our commands as sub-processes.

Its jobs leave a line in a ledger when they begin, so that whatever the engine, the
records and Slurm say can be held against what really ran. Nothing is judged here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoexp_tui.conditions.kinds import Approval, JobStateIs
from autoexp_tui.model import specs
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan, Resources, Scalar
from autoexp_tui.storage.json_codec import encode_plan
from tests.e2e.campaign import Jobs, Place, build_job, result_of, wait_until
from tests.slurm.cluster import Cluster

FULL = os.environ.get("AUTOEXP_SLURM_FULL") == "1"
"""Whether these tests take the time for their full numbers: minutes."""
SLEEPS = "exec sleep 300"
CLIENT: Mapping[str, Scalar] = {
    "poll_seconds": 1.0,
    "slowest_poll_seconds": 2.0,
    "ask_seconds": 20.0,
    "submit_seconds": 20.0,
    "settle_seconds": 3.0,
    "patience_seconds": 12.0,
    "lost_seconds": 8.0,
    "grace_seconds": 2.0,
    "array_size": 1,
}
"""Everything soon: the clusters of these tests forget soon, too."""


@dataclass(frozen=True, slots=True)
class Work:
    """One job: a shell script, and what it asks of Slurm."""

    name: str
    script: str = "exit 0"
    options: Mapping[str, Scalar] = field(default_factory=dict)
    stage: str = ""
    after: tuple[str, ...] = ()
    """Jobs that must have completed before it starts."""
    asks: str = ""
    """What a person has to approve before it starts."""
    place: specs.Place = "main"
    trial: bool = False


@dataclass
class Run:
    """`autoexp-run --json` over a campaign; its jobs are told at its end."""

    campaign: SlurmCampaign
    process: subprocess.Popen[str]
    jobs: Jobs = field(default_factory=dict)
    err: str = ""

    def finish(self, patience_s: float = 120.0) -> Jobs:
        """Waits for the end; what became of the jobs."""
        out, self.err = self.process.communicate(timeout=patience_s)
        self.jobs = result_of(out)
        return self.jobs


def end_of(job: Mapping[str, Any]) -> tuple[str, str | None]:
    return job["state"], job["cause"]


@dataclass(frozen=True)
class SlurmCampaign(Place):
    """Where a campaign's plan, state, logs and ledger lie, and on which cluster."""

    cluster: Cluster
    client: Mapping[str, Scalar] = field(default_factory=dict)
    """Settings of `slurm.client` other than `CLIENT`."""

    @property
    def env(self) -> Mapping[str, str]:
        return self.cluster.env

    # ---------------------------------------------------------------------- the plan
    def write(self, *works: Work) -> None:
        """Writes the manifest."""
        settings = {**CLIENT, **self.client, "log_dir": str(self.root / "logs")}
        plan = Plan(
            plan_id="slurm",
            name="slurm",
            state_dir=str(self.state_dir),
            jobs=tuple(self._job(work, n) for n, work in enumerate(works)),
            executor=ExecutorSpec(class_name="SlurmClient", settings=settings),
            monitoring=Monitoring(poll_seconds=0.5, doomed_grace_seconds=1.0),
        )
        self.manifest.write_bytes(encode_plan(plan))

    def _job(self, work: Work, index: int) -> JobSpec:
        out = self.root / "out" / work.name
        out.mkdir(parents=True, exist_ok=True)
        begins = f'echo "{work.name} $AUTOEXP_ATTEMPT" >> "$LEDGER"; '
        conditions: tuple[Condition, ...] = ()
        if work.after:
            conditions = (JobStateIs(jobs=work.after, state="COMPLETED"),)
        if work.asks:
            conditions = (*conditions, Approval(prompt=work.asks))
        return build_job(
            self.root,
            work.name,
            index,
            *("bash", "-c", begins + work.script),
            stage=work.stage or work.name,
            env={"LEDGER": str(self.ledger)},
            cwd=str(out),
            start_conditions=conditions,
            depends_on=work.after,
            place=work.place,
            trial=work.trial,
            resources=Resources(options={"mem": 10, **work.options}),
        )

    # ---------------------------------------------------------------------- commands
    @contextmanager
    def running(self) -> Iterator[Run]:
        """An engine, which is not left running; what it said is for tests that fail."""
        run = Run(self, self.run())
        try:
            yield run
        finally:
            run.process.kill()
            print(*run.process.communicate(), sep="\n", file=sys.stderr)

    def finish(self, patience_s: float = 120.0) -> Run:
        """An engine's work, to its end."""
        with self.running() as run:
            run.finish(patience_s)
        return run

    def told(self, *words: str) -> str:
        """What `autoexp-sessions` prints; raises AssertionError where it failed."""
        run = self.start(*words, command="sessions")
        out, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
        return out

    def shown(self) -> Jobs:
        """The jobs as `autoexp-sessions show --json` tells them; none yet, none."""
        session = self.session()
        return result_of(self.told("show", session, "--json")) if session else {}

    # ----------------------------------------------------------------------- looking
    def attempt(self, job: str) -> Path:
        """The directory of the first attempt's records."""
        return self.state_dir / self.session() / "attempts" / job / "1"

    def records(self, job: str, kind: str) -> list[dict[str, Any]]:
        """All `begin` or `exit` records of a job, by attempt and run."""
        found = sorted(self.attempt(job).parent.glob(f"*/{kind}.*.json"))
        return [json.loads(path.read_text()) for path in found]

    def begun(self) -> Counter[str]:
        """How often each job began, by its own word."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(line.split()[0] for line in lines)

    def queue(self) -> dict[str, tuple[str, str]]:
        """Slurm's id and state of each of our jobs that squeue shows, by name."""
        words = ("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%j")
        shown = self.cluster.run(*words, check=False).stdout
        rows = [line.split("|", 2) for line in shown.splitlines()]
        known = {row[2].rpartition("-")[0]: row[:2] for row in rows if len(row) == 3}
        ours = {path.name for path in (self.root / "out").iterdir()}
        return {name: (id_, at) for name, (id_, at) in known.items() if name in ours}

    def events(self, kind: str) -> int:
        """How many events of a type the session's journals hold."""
        parts = (self.state_dir / self.session()).glob("journal.[0-9]*.jsonl")
        return sum(part.read_text().count(f'"type":"{kind}"') for part in parts)

    def id_in(self, job: str, state: str) -> str:
        """Waits until Slurm has a job in a state; its id."""
        wait_until(
            lambda: self.queue().get(job, ("", ""))[1] == state, f"{job} {state}"
        )
        return self.queue()[job][0]

    def cancel(self, job: str, state: str = "RUNNING") -> None:
        """As somebody else does, once Slurm has the job in a state."""
        self.cluster.run("scancel", self.id_in(job, state))

    def wait_for_line(self, job: str, times: int = 1) -> None:
        """Waits until a job has begun so many times."""
        wait_until(lambda: self.begun()[job] >= times, f"run {times} of {job}")

    def wait_for(self, job: str, *states: str, seconds: float = 60.0) -> None:
        """Waits until the session shows a job in one of `states`."""
        wait_until(lambda: self.state_of(job) in states, f"{job} {states}", seconds)

    def state_of(self, job: str) -> str:
        """As the session shows it; empty for what there is not."""
        return str(self.shown().get(job, {"state": ""})["state"])
