"""One evaluation over a small repository of a user's, step by step in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoexp_tui.config.planning import ChildPlanner
from autoexp_tui.evaluation.disk_trees import DiskTrees
from autoexp_tui.evaluation.ideas import propose
from autoexp_tui.evaluation.implement import implement
from autoexp_tui.evaluation.requests import IMPLEMENTED, SWEPT
from autoexp_tui.evaluation.steps import run_step
from autoexp_tui.evaluation.sweep import sweep
from autoexp_tui.isolation.kinds import Wanted
from autoexp_tui.model.agents import AgentSpec
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import why
from autoexp_tui.tree.events import TreeOpened
from autoexp_tui.tree.options import TreeOptions, read_options
from autoexp_tui.tree.ports import CollectRequest, Packed, PackRequest, Proposed
from autoexp_tui.tree.state import Evaluation, Idea, Judgement, Node
from tests.worktrees.conftest import call_git, write_files

MEASURE = """
import os
path = os.environ["AGENTIC_RESULTS_CSV"]
text = "config_id,status,m\\n0,ok,1.0\\n1,ok,1.1\\n2,ok,1.2\\n"
exec(open("solver.py").read())
if text:
    open(path, "w").write(text)
"""
FILES = {
    "solver.py": "pass\n",
    "measure.py": MEASURE,
    "tests/test_solver.py": "",
    "base.csv": "config_id,status,m\n0,ok,1.0\n1,ok,1.1\n2,ok,1.2\n",
}
OPTIONS: dict[str, Any] = {
    "metrics": [{"name": "m"}],
    "root_baseline_csv": "base.csv",
    "sweep_config_limit": 3,
    "commit_epoch": 1_700_000_000,
    "implement": {"agent": ["a"], "review_rounds": 0, "protected_paths": ["tests"]},
    "evaluate": {"command": [sys.executable, "measure.py"]},
}
GAIN = "text = text.replace(',1.', ',2.')"
"""A solver that is better."""


@dataclass
class OneEvaluation:
    """`agent`: what the agent runs in the worktree, in Python."""

    place: Path
    agent: str = ""
    isolation: Wanted = "none"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def top(self) -> Path:
        return self.place / "user" / "repo"

    @property
    def directory(self) -> Path:
        return self.place / "session" / "tree"

    @property
    def home(self) -> Path:
        return self.directory / "eval" / "e1"

    @property
    def made(self) -> TreeOptions:
        return read_options({**OPTIONS, **self.options})

    @property
    def trees(self) -> DiskTrees:
        command = (sys.executable, "-c", self.agent)
        return DiskTrees(
            directory=self.directory,
            state_dir=self.place / "state",
            plan=Plan(
                plan_id="p",
                name="r",
                state_dir="",
                jobs=(),
                cwd=str(self.top),
                tree={**OPTIONS, **self.options},
                agents={"a": AgentSpec(backend="command", command=command)},
                isolation=self.isolation,
            ),
            planner=ChildPlanner(),
        )

    def begin(self) -> TreeOpened:
        """A repository, and the search opened in it."""
        self.make_repository()
        return self.open()

    def make_repository(self) -> None:
        write_files(self.top, FILES)
        call_git(self.top, "init", "-q", "-b", "main")
        call_git(self.top, "add", "-A")
        call_git(self.top, "commit", "-q", "-m", "first")

    def open(self) -> TreeOpened:
        return self.trees.open("r", self.made)[0]

    def pack(
        self, opened: TreeOpened, evaluation: Evaluation | None = None
    ) -> tuple[Node, Packed]:
        node = Node(
            id="n0", depth=0, commit=opened.root_commit, baseline=opened.baseline
        )
        request = PackRequest(
            root_commit=opened.root_commit,
            node=node,
            ideas_dirs=("node_ideas/n0",),
            evaluation=evaluation,
        )
        return node, self.trees.write_pack(request)

    def prepare(self, opened: TreeOpened) -> tuple[Node, Evaluation]:
        """An idea is opened, and its requests are written."""
        write_files(self.directory / "node_ideas" / "n0", {"1.md": "# An idea\n"})
        idea = Idea(node="n0", file="1.md", title="An idea", sha256="x")
        evaluation = Evaluation(id="e1", node="n0", depth=0, idea=idea)
        return self.pack(opened, evaluation)[0], evaluation

    def evaluate(
        self, opened: TreeOpened, meanwhile: Callable[[], object] = bool
    ) -> Judgement:
        """Run both steps, the second where the first went well, and judge."""
        node, evaluation = self.prepare(opened)
        meanwhile()
        ending = None
        for step, record in ((implement, IMPLEMENTED), (sweep, SWEPT)):
            name = step.__name__
            if run_step([str(self.home / f"{name}.json")], record, step):
                ending = why("step_failed", step=name, problem="it failed")
                break
        request = CollectRequest(
            evaluation=evaluation, node=node, root=node, ending=ending
        )
        return self.trees.collect(request)

    def propose(self, opened: TreeOpened) -> tuple[int, Proposed]:
        """Run the step that proposes ideas; its exit status, and what is there."""
        self.pack(opened)
        request = self.directory / "calls" / "n0_ideas" / "ideas.json"
        status = run_step([str(request)], IMPLEMENTED, propose)
        node = Node(id="n0", depth=0, commit="")
        return status, self.trees.read_ideas(node)


def write_solver(text: str, *before: str) -> str:
    """An agent that does some things, then writes the solver."""
    return "\n".join([*before, f"open('solver.py', 'w').write({text!r})"])


def list_codes(judged: Judgement) -> Sequence[str]:
    """Why it is where it is: code of the end or the gate, then the step's own."""
    reason = judged.reason
    assert reason is not None
    step = dict(reason.args).get("code", "")
    return [reason.code, str(step)] if step else [reason.code]
