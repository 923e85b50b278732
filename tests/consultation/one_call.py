"""One call of an agent for research, over a small repository of a user's or none."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoexp_tui.agents.call import hash_bytes
from autoexp_tui.consultation.call import main
from autoexp_tui.consultation.requests import CALLED, Called, CallRequest
from autoexp_tui.evaluation.requests import write_record
from autoexp_tui.isolation.kinds import Wanted
from autoexp_tui.model.agents import AgentSpec, Limits
from autoexp_tui.research.answer import SCHEMAS
from autoexp_tui.research.instructions import OUTPUT
from autoexp_tui.research.jobs import REQUEST
from autoexp_tui.storage.json_codec import decode
from autoexp_tui.worktrees.readiness import open_repository
from autoexp_tui.worktrees.tree_repository import Git
from tests.agents.test_runner import QUICK, STAND_IN
from tests.worktrees.conftest import call_git, write_files

ANSWER: dict[str, Any] = {
    "reflection": "Smaller steps.",
    "hypotheses": [],
    "experiment_list": [{"id": "run_2", "overrides": ["lr=0.1"]}],
    "kill_runs": [],
    "reasoning": "Why not.",
}
FILES = {"train.py": "rate = 1\n", "tests/test_train.py": "", "data.txt": "1\n"}


@dataclass
class OneCall:
    place: Path
    isolation: Wanted = "none"

    @property
    def top(self) -> Path:
        return self.place / "user" / "repo"

    @property
    def directory(self) -> Path:
        return self.place / "s1" / "research"

    @property
    def home(self) -> Path:
        return self.directory / "calls" / "c1_research"

    def make_repository(self) -> str:
        """The user's; its commit."""
        write_files(self.top, FILES)
        call_git(self.top, "init", "-q", "-b", "main")
        call_git(self.top, "add", "-A")
        call_git(self.top, "commit", "-q", "-m", "first")
        return call_git(self.top, "rev-parse", "HEAD").strip()

    def build_request(self, *agents: AgentSpec, **changes: Any) -> CallRequest:
        prompt: bytes = changes.pop("prompt", b"Find three ideas.\n")
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "prompt.md").write_bytes(prompt)
        made = CallRequest(
            directory=str(self.directory),
            job="c1_research",
            consultation="c1",
            role="research",
            prompt_sha256=hash_bytes(prompt),
            chain=tuple(f"a{number}" for number in range(len(agents))),
            agents={f"a{number}": agent for number, agent in enumerate(agents)},
            isolation=self.isolation,
            answer_file=OUTPUT,
            schema=SCHEMAS["research"],
            session="s1",
            readable=(str(STAND_IN.parent),),
        )
        return replace(made, **changes)

    def build_code_request(self, agent: AgentSpec, **research: Any) -> CallRequest:
        base = self.make_repository()
        repository = open_repository(
            self.top, "s1", self.directory, (), section="research"
        )
        assert Git(repository).resolve("HEAD") == base
        return self.build_request(
            agent,
            top=str(self.top),
            git_dir=str(repository.git_dir),
            code_base=base,
            epoch=1_700_000_000,
            research={"repository": ".", **research},
        )

    def call(self, request: CallRequest) -> Called:
        """Made in this process."""
        write_record(self.home / REQUEST, request)
        main([str(self.home / REQUEST)])
        return self.load()

    def load(self) -> Called:
        data = (self.home / CALLED).read_bytes()
        return decode(Called, data, CALLED)


def stand_in(
    case: str, limits: dict[str, Any] | None = None, answer: dict[str, Any] = ANSWER
) -> AgentSpec:
    """An agent that behaves as `tests.agents.stand_in` has it."""
    return AgentSpec(
        backend="codex",
        command=(sys.executable, "-I", "-S", str(STAND_IN), case),
        limits=replace(QUICK, **(limits or {})),
        env={"ANSWER_TEXT": json.dumps(answer)},
    )


def write_agent(*lines: str, answer: dict[str, Any] = ANSWER) -> AgentSpec:
    """An agent that does some things in Python, then answers."""
    text = json.dumps(answer)
    last = f"open(os.environ['AUTOEXP_ANSWER_FILE'], 'w').write({text!r})"
    code = "\n".join(("import os", *lines, last))
    command = (sys.executable, "-c", code)
    return AgentSpec(backend="command", command=command, limits=Limits(wall_seconds=20))
