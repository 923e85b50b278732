"""A small campaign on a throw-away cluster, run by our commands as sub-processes.

Its jobs leave a line in a ledger when they begin, so that whatever the engine, the
records and Slurm say can be held against what really ran. Nothing is judged here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autoexp_tui.conditions.kinds import Approval, JobStateIs
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import ExecutorSpec, JobSpec, Plan, Resources, Scalar
from autoexp_tui.storage.json_codec import encode_plan
from tests.slurm.cluster import Cluster

FULL = os.environ.get("AUTOEXP_SLURM_FULL") == "1"
"""Whether these tests take the time for their full numbers: minutes."""
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


def until(is_so: Callable[[], object], what: str, patience_s: float = 60.0) -> None:
    """Waits until something is so.

    Raises:
        AssertionError: It was not within `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s"
        time.sleep(0.1)


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


@dataclass(frozen=True, slots=True)
class SlurmCampaign:
    """Where a campaign's plan, state, logs and ledger lie, and on which cluster."""

    root: Path
    cluster: Cluster
    client: Mapping[str, Scalar] = field(default_factory=dict)
    """Settings of `slurm.client` other than `CLIENT`."""

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.txt"

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def manifest(self) -> Path:
        return self.root / "plan.json"

    # ---------------------------------------------------------------------- the plan
    def write(self, works: Sequence[Work]) -> None:
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
        return JobSpec(
            name=work.name,
            index=index,
            stage=work.stage or work.name,
            command=("bash", "-c", begins + work.script),
            env={"LEDGER": str(self.ledger)},
            cwd=str(out),
            output_dir=str(out),
            log_dir=str(self.root / "logs" / work.name),
            start_conditions=conditions,
            depends_on=work.after,
            resources=Resources(options={"mem": 10, **work.options}),
        )

    # ---------------------------------------------------------------------- commands
    def start(self, *arguments: str, command: str = "run") -> subprocess.Popen[str]:
        """Starts a command of ours over the campaign."""
        return self.popen(
            [sys.executable, "-m", f"autoexp_tui.cli.{command}"], arguments
        )

    def popen(
        self, command: Sequence[str], arguments: Sequence[str]
    ) -> subprocess.Popen[str]:
        """The same with another way to start it."""
        return subprocess.Popen(
            [*command, "--state-dir", str(self.state_dir), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            env=self.cluster.env,
        )

    def run(self) -> subprocess.Popen[str]:
        """`autoexp-run --json` from the manifest, or of the session there is."""
        session = self.session()
        what = ("--session", session) if session else ("--manifest", str(self.manifest))
        return self.start(*what, "--json")

    def told(self, *words: str) -> str:
        """What `autoexp-sessions` prints.

        Raises:
            AssertionError: It failed.
        """
        run = self.start(*words, command="sessions")
        out, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
        return out

    def shown(self) -> dict[str, dict[str, object]]:
        """The jobs as `autoexp-sessions show --json` tells them, by name."""
        return jobs_of(self.told("show", self.session(), "--json"))

    # ----------------------------------------------------------------------- looking
    def session(self) -> str:
        """The one session of the state directory; empty before there is one."""
        found = list(self.state_dir.glob("*/journal.*.jsonl"))
        found += self.state_dir.glob("*/journal.jsonl")
        return found[0].parent.name if found else ""

    def attempt(self, job: str, number: int = 1) -> Path:
        """The directory of an attempt's records."""
        return self.state_dir / self.session() / "attempts" / job / str(number)

    def records(self, job: str, kind: str) -> list[dict[str, object]]:
        """All `begin` or `exit` records of a job, by attempt and run."""
        found = sorted(self.attempt(job).parent.glob(f"*/{kind}.*.json"))
        return [json.loads(path.read_text()) for path in found]

    def begun(self) -> Counter[str]:
        """How often each job began, by its own word."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(line.split()[0] for line in lines)

    def queue(self) -> dict[str, tuple[str, str]]:
        """Slurm's id and state of each job that squeue shows, by our name."""
        words = ("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%j")
        rows = (
            line.split("|", 2)
            for line in self.cluster.run(*words, check=False).stdout.splitlines()
        )
        whole = (row for row in rows if len(row) == 3)
        return {name.rpartition("-")[0]: (id_, state) for id_, state, name in whole}

    def ids(self) -> set[str]:
        """Slurm's ids of our jobs that squeue shows."""
        known = self.queue()
        return {id_ for name, (id_, _) in known.items() if self._is_ours(name)}

    def _is_ours(self, name: str) -> bool:
        return bool(name) and (self.root / "out" / name).is_dir()

    def events(self, kind: str) -> int:
        """How many events of a type the session's journals hold."""
        parts = (self.state_dir / self.session()).glob("journal.[0-9]*.jsonl")
        return sum(part.read_text().count(f'"type":"{kind}"') for part in parts)

    def id_in(self, job: str, state: str, patience_s: float = 60.0) -> str:
        """Waits until Slurm has a job in a state; its id."""
        until(
            lambda: self.queue().get(job, ("", ""))[1] == state,
            f"{job} {state}",
            patience_s,
        )
        return self.queue()[job][0]

    def wait_for_line(self, job: str, times: int = 1, patience_s: float = 60.0) -> None:
        """Waits until a job has begun so many times."""
        until(lambda: self.begun()[job] >= times, f"run {times} of {job}", patience_s)


def jobs_of(output: str) -> dict[str, dict[str, object]]:
    """The jobs of `--json`'s line, by name."""
    last = output.strip().splitlines()[-1]
    return {job["name"]: job for job in json.loads(last)["jobs"]}


@contextmanager
def ended_after(run: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A process of ours, which is not left running; what it said, if all failed."""
    try:
        yield run
    except BaseException:
        run.kill()
        print("\n".join(run.communicate()), file=sys.stderr)
        raise
    run.kill()
    run.communicate()
