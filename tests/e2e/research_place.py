"""A small research over real processes: a program that runs for a second or some, and
an agent without a model that notes each of its calls, as the service behind it does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoexp_tui.model.commands import Command, Order
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.ids import digest
from autoexp_tui.model.state import SessionState
from autoexp_tui.research.state import Research, research_of
from autoexp_tui.storage.inbox import describe_sender, leave
from autoexp_tui.storage.journal import load_state, read_session
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import write_files

CONFIG = """
# @package _global_
defaults: [{/backend: command}, {/slurm: EXECUTOR}, _self_]
project: {name: run, base_output_dir: outputs}
lr: 1
seconds: 1
memory: 8
backend:
  command: [INTERPRETER, ./run.py, RUNS, "${lr}", "${seconds}", "${memory}"]
  env: {NO_CACHE: "1"}
slurm: CLIENT
monitoring: {result: {metric: loss}}
agents:
  isolation: none
  a: {backend: scripted, command: ["agent:answer"], env: {LEDGER: CALLS, PYTHONPATH: .}}
research:
  goal: Less loss.
  agent: a
  repository: .
  gpus: 0
  fixer: {agent: a, may_override: [memory]}
  min_interval_seconds: 1
  heartbeat_seconds: 4
"""
RUN = """
import os, sys, time
ledger, lr, seconds, memory = sys.argv[1], *map(float, sys.argv[2:])
with open(ledger, "a") as file:
    file.write(f"{os.environ['AUTOEXP_JOB']} {os.environ['AUTOEXP_ATTEMPT']}\\n")
if memory > 8:
    raise MemoryError("more than there is")
for step in range(1, 11):
    print(f"step: {step} loss: {lr + 1 / step}", flush=True)
    time.sleep(seconds / 10)
"""
AGENT = """
import json, os, random, re, secrets, time
from contextlib import suppress
from pathlib import Path
from autoexp_tui.demo.tuning.agent import read_state

def answer(role, prompt, directory):
    noted = f"{role} {directory.name} {secrets.token_hex(8)}"
    print(json.dumps({"type": "usage", "usage": {"input_tokens": 10}}))
    print("called", noted, flush=True)
    with suppress(OSError), open(os.environ["LEDGER"], "a") as file:
        file.write(noted + "\\n")
    time.sleep(float(os.environ.get("SECONDS") or random.uniform(0, 2.5)))
    made = repair() if role == "fixer" else decide(prompt, int(directory.name))
    Path("_research_output.json").write_text(json.dumps(made))

def repair():
    return {"fix_applied": "less memory", "overrides": ["memory=8"]}

def decide(prompt, call):
    state = read_state(prompt)
    kills = [r["run_id"] for r in state["runs"]
             if r["status"] == "running" and r["run_id"].endswith("long")]
    made = {"reflection": f"call {call}", "kill_runs": kills, "reasoning": "by rule"}
    if "finish now" in prompt:
        return {**made, "list_unchanged": True}
    listed = [{"id": one["id"]} for one in state["experiment_list"]]
    if len(listed) > 8:
        return {**made, "experiment_list": listed[call % 2:]}
    new = [
        {"id": f"r{call}a", "overrides": [f"lr={call % 7}"], "hypothesis": "h1"},
        {"id": f"r{call}b", "overrides": ["seconds=3"], "depends_on": [f"r{call}a"]},
        {"id": f"r{call}long", "overrides": ["seconds=15"],
         "kill_criteria": "loss > 1.3 after step 8"},
    ]
    if call % 3 == 0:
        new[0]["overrides"].append("memory=9")
    if call % 4 == 0:
        with open("run.py", "a") as file:
            file.write(f"# {call}\\n")
        new[0]["code_ref"] = "this"
    stated = {"id": "h1", "description": "less is better", "expects": "loss < 3"}
    return {**made, "hypotheses": [stated], "experiment_list": [*listed, *new]}
"""
FINISH = "finish now"
"""A note after which the agent adds nothing."""
CALLED = re.compile(r"^called (\w+ \w+ \w+)$", re.MULTILINE)


@dataclass
class Place:
    """A directory with a repository, its one session, and what was called and run."""

    root: Path
    words: Sequence[str] = ()
    """Overrides, of the command that begins it."""
    _orders: int = field(default=0, init=False)

    def make(self, agent: str = AGENT, executor: str = "local") -> None:
        client = f"{{client: {{slots: 3, slots_dir: {self.root / 'slots'}}}}}"
        config = CONFIG.replace("RUNS", str(self.root / "runs"))
        config = config.replace("CALLS", str(self.root / "calls"))
        config = config.replace("EXECUTOR", executor)
        config = config.replace("CLIENT", client if executor == "local" else "{}")
        config = config.replace("INTERPRETER", sys.executable)
        files = {"config/exp.yaml": config, "run.py": RUN, "agent.py": agent}
        write_files(self.top, {**files, ".gitignore": "outputs\n__pycache__\n"})
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
        for step in (("init", "-q"), ("add", "."), ("commit", "-qm", "root")):
            subprocess.run([*git, *step], cwd=self.top, check=True)

    @property
    def top(self) -> Path:
        return self.root / "repository"

    @property
    def state_dir(self) -> Path:
        return self.top / "outputs/.autoexp"

    @property
    def is_begun(self) -> bool:
        return bool([*self.state_dir.glob("*/research/calls")])

    @property
    def session(self) -> SessionDir:
        (found,) = self.state_dir.glob("*/research")
        return SessionDir(found.parent)

    @property
    def state_file(self) -> Any:
        path = self.session.path / "research/experiment_state.json"
        return json.loads(path.read_bytes())

    def count_engines(self) -> int:
        """That have written to the journal."""
        return len([*self.state_dir.glob("*/journal.*.jsonl")])

    def load(self) -> SessionState:
        return load_state(self.session, tail=1).state

    def find(self) -> Research:
        return research_of(self.load())

    def read_records(self) -> Iterator[Recorded]:
        return read_session(self.session)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """An engine: of a new session, or of the one that is there."""
        words = ["--config-ref", "exp", "--yes", *self.words]
        words = ["--session", self.session.path.name] if self.is_begun else words
        program = [sys.executable, "-m", "autoexp_tui.cli.research", "--quiet"]
        with (self.root / "errors").open("ab") as errors:
            return subprocess.Popen(
                [*program, *words, *more],
                cwd=self.top,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def read_errors(self) -> str:
        return (self.root / "errors").read_text()[-2000:]

    def order(self, command: Command) -> str:
        """Leave a person's order for the engine of now, or for the next; its id."""
        self._orders += 1
        name = digest(f"{os.getpid()} {self.root} {self._orders}", length=16)
        sender = describe_sender(self.state_dir)
        utc = 1.0 * self._orders  # as they were given
        leave(self.session, Order(command_id=name, command=command, sender=sender), utc)
        return name

    def read_calls(self) -> Counter[str]:
        """`ROLE NUMBER` of each call -> how often an agent was called for it."""
        found = set[str]()
        if (ledger := self.root / "calls").exists():
            found |= {*ledger.read_text().splitlines()}
        for path in self.session.path.glob("research/calls/**/transcript.log"):
            found |= {*CALLED.findall(path.read_text())}
        return Counter(one.rpartition(" ")[0] for one in found)

    def read_runs(self) -> Counter[str]:
        """`JOB ATTEMPT` -> how often it began, by its own word."""
        ledger = self.root / "runs"
        return Counter(ledger.read_text().splitlines() if ledger.exists() else ())
