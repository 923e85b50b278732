"""The research of one session over a user's repository, call by call in this process;
what plans items makes one job of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoexp_tui.agents.call import hash_bytes
from autoexp_tui.config.planning import ChildPlanner
from autoexp_tui.consultation.call import main
from autoexp_tui.consultation.disk_laboratory import DiskLaboratory
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.isolation.kinds import Wanted
from autoexp_tui.model.agents import AgentSpec
from autoexp_tui.model.errors import AutoexpError, UsageError
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.research.events import ResearchOpened
from autoexp_tui.research.jobs import REQUEST
from autoexp_tui.research.options import read_options
from autoexp_tui.research.ports import CallResult, View
from autoexp_tui.research.state import Consultation, Research
from tests.worktrees.conftest import call_git, write_files

FILES = {"train.py": "rate = 1\n", "tests/test_train.py": "", "data.txt": "1\n"}


class OneJobPlanner(ChildPlanner):
    def plan_all(self, asked: Sequence[FurtherPlan]) -> Sequence[Plan | AutoexpError]:
        return [self._plan(one) for one in asked]

    def _plan(self, asked: FurtherPlan) -> Plan | AutoexpError:
        if "lr=wrong" in asked.further:
            return UsageError("wrong is no number", "overrides: lr=wrong")
        name = f"{asked.prefix}train"
        job = JobSpec(
            name=name,
            index=0,
            command=(sys.executable, "train.py", *asked.further),
            cwd=asked.base.cwd,
            output_dir=f"{asked.output_dir}/{name}",
            log_dir=f"{asked.base.cwd}/logs/{name}",
        )
        return replace(asked.base, plan_id=name, jobs=(job,))


@dataclass
class OneResearch:
    place: Path
    agent: AgentSpec
    isolation: Wanted = "none"
    options: dict[str, Any] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)

    @property
    def top(self) -> Path:
        return self.place / "user" / "repo"

    @property
    def directory(self) -> Path:
        return self.place / "s1" / "research"

    @property
    def laboratory(self) -> DiskLaboratory:
        """Made anew for each step, as after a kill."""
        return DiskLaboratory(
            directory=self.directory,
            state_dir=self.place,
            session="s1",
            plan=Plan(
                plan_id="p",
                name="s",
                config_ref="train",
                state_dir=str(self.place),
                base_output_dir=str(self.place / "outputs"),
                jobs=(),
                cwd=str(self.top),
                research=self.made,
                agents={"a": self.agent},
                isolation=self.isolation,
            ),
            planner=OneJobPlanner(),
        )

    @property
    def made(self) -> dict[str, Any]:
        given = {"goal": "Less loss.", "agent": ["a"], "fixer": {"agent": ["a"]}}
        return {**given, "repository": ".", **self.options}

    def make_repository(self) -> str:
        """The user's; its commit."""
        write_files(self.top, FILES)
        call_git(self.top, "init", "-q", "-b", "main")
        call_git(self.top, "add", "-A")
        call_git(self.top, "commit", "-q", "-m", "first")
        return call_git(self.top, "rev-parse", "HEAD").strip()

    def open(self) -> ResearchOpened:
        return self.laboratory.open(read_options(self.made))[0]

    def begin(self) -> Research:
        """A repository, and the research opened in it."""
        self.make_repository()
        opened = self.open()
        return Research(
            options=read_options(self.made),
            directory=opened.directory,
            python=opened.python,
            metric=opened.metric,
            mode=opened.mode,
            base_commit=opened.base_commit,
        )

    def view(self, research: Research) -> View:
        return View(research=research, jobs=self.jobs, t=1000.0, lived=1000.0)

    def call(self, research: Research, consultation: Consultation) -> CallResult:
        research.consultations[consultation.id] = consultation
        digest = self.laboratory.write_call(consultation, self.view(research))
        home = self.find_home(consultation)
        assert digest == hash_bytes((home / "prompt.md").read_bytes())
        main([str(home / REQUEST)])
        return self.laboratory.read_call(consultation, self.view(research))

    def find_home(self, consultation: Consultation) -> Path:
        return self.directory / "calls" / consultation.job
