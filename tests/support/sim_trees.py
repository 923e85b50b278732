"""What a simulated search reaches outside: its disk and git, and agents that are
scripted.

What a call comes to follows from the seed and its name alone, how long it takes also
from the speed: a search that is run again at another speed must decide the same. Agents
answer late, wrongly, twice, or never; their services are away; their nodes are lost.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.model.states import Cause, why
from autoexp_tui.testing.clock import ManualClock
from autoexp_tui.tree.events import TreeOpened
from autoexp_tui.tree.options import TreeOptions
from autoexp_tui.tree.ports import (
    CollectRequest,
    GitWork,
    Packed,
    PackRequest,
    Proposed,
)
from autoexp_tui.tree.state import Artifact, Judgement, Leftover, Node, Tree
from autoexp_tui.tree.views import list_search
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.promotion import list_cleanup, promote, retry_cleanup
from autoexp_tui.worktrees.tree_repository import Place, list_refs, update_ref
from tests.support.fake_script import AGENT, SOUND, RunScript, Write, script_call
from tests.support.sim_git import MemoryGit
from tests.tree.fake_trees import FakeTrees

TIMEOUT: Final = 900.0
"""Above what all steps of an evaluation take, tried again or not."""
_FATES: Final = {
    "implement": "broken never twice lost lost_always limited away refused_login",
    "sweep": "broken never lost lost_always silent",
    "ideas": "lost limited broken twice",
}
"""What may become of a step, each for a hundredth of them and a half."""


@dataclass
class Told:
    """What the newest attempt at a step wrote of itself."""

    code: str = ""
    resume_at: float | None = None


@dataclass(kw_only=True)
class SimTrees(FakeTrees):
    """Implements `tree.ports.Trees`, and acts for the agents of a campaign."""

    git: MemoryGit
    clock: ManualClock
    seed: int
    speed: int = 0
    """Of two searches of one seed that differ in nothing else."""
    is_free: bool = False
    """Also what ends a search by when it comes."""
    packs: dict[str, PackRequest] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    made: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Evaluation -> commit and change."""
    swept: set[str] = field(default_factory=set)
    """Evaluations that have results."""
    told: dict[str, Told] = field(default_factory=dict)
    answered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Node -> titles of its ideas."""
    search: dict[str, Any] = field(default_factory=dict)
    """Of the newest manifest.json."""
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.propose = lambda node: self.answered.get(node, ())

    # ------------------------------------------------------------------- the agents
    def find_fate(self, job: str) -> str:
        """What becomes of the attempts at a job, in a word."""
        step = job.split("_")[-1] if "_r" not in job else job.split("_")[-2]
        draw = random.Random(f"{self.seed} fate {job}").random()
        fates = _FATES[step].split()
        at = int(draw / (0.01 if job.startswith("e0") else 0.015))
        fate = fates[at] if at < len(fates) else SOUND
        return SOUND if fate == "refused_login" and not self.is_free else fate

    def script(self, task: Task) -> Sequence[RunScript]:
        """What an attempt at a job does."""
        rng = random.Random(f"{self.seed} {self.speed} {task.id}")
        seconds = rng.choice([0.2, 3.0, 10.0, 40.0]) * rng.uniform(0.5, 1.5)
        fate, is_first = self.find_fate(task.job), task.attempt == 1
        if fate == SOUND and self._find_repeated(task.job):
            fate = "repeats"
        delay = rng.choice([0.0, 0.0, 8.0])
        causes = [Cause.NODE_FAIL, Cause.PREEMPTED]
        cause = random.Random(f"{self.seed} {task.id}").choice(causes)
        run = replace(script_call(task, fate, seconds, cause), begin_delay=delay)
        match fate:
            case "limited" | "away" if is_first:
                run = replace(run, exit_code=1)
            case "broken" | "refused_login" | "repeats":
                run = replace(run, exit_code=1)
            case "limited" | "away":
                at = Write(at=0.9 * seconds, data=b"sound", path=f"{AGENT}{task.job}")
                run = replace(run, writes=(run.writes[0], at))
        return (run,)

    def act(self, path: str, data: bytes) -> None:
        """A step of a job that writes to a path of ours."""
        if not path.startswith(AGENT):
            return
        job, fate = path.removeprefix(AGENT), data.decode()
        name, step = job.split("_r")[0].rsplit("_", 1)
        told = self.told[name] = Told()
        if fate == "begins":
            return
        if same := self._find_repeated(job) if fate == "repeats" else "":
            self.told[name] = Told(code=f"repeated_change {same}")
        elif code := _CODES.get(fate):
            now = self.clock.utc()
            resume_at = random.Random(job).choice([None, now + 60.0, now + 1200.0])
            self.told[name] = replace(told, code=code, resume_at=resume_at)
        elif step == "ideas":
            titles = self.propose_ideas(name)
            self.answered[name] = titles[: len(titles) // 2 if fate == "broken" else 99]
        elif step == "sweep":
            self.swept |= {name} if fate != "silent" else set()
        elif fate != "broken":
            with self.git.as_agent():
                self._implement(name)

    def propose_ideas(self, node: str) -> tuple[str, ...]:
        """Titles that say what they gain; some repeat others."""
        rng = random.Random(f"{self.seed} ideas {node}")
        titles = []
        for number in range(rng.choice([0, 3, 4, 4, 5, 5, 5, 5])):
            gain = rng.choice([-0.4, 0.0, 0.05, 0.1, 0.1, 0.2, 0.3, 0.4, 0.5])
            whose = "all" if rng.random() < 0.2 else f"{node} {number}"
            titles.append(f"{gain} of {whose}")
        return tuple(titles)

    def _find_change(self, name: str) -> str:
        evaluation = self.packs[name].evaluation
        assert evaluation is not None
        return evaluation.idea.title.split()[0] if evaluation.idea else ""

    def _find_repeated(self, job: str) -> str:
        """The evaluation of a closed depth that made the same change."""
        name = job.partition("_")[0]
        if "_implement" not in job:
            return ""
        return self.packs[name].known_diffs.get(self._find_change(name), "")

    def _implement(self, name: str) -> None:
        change = self._find_change(name)
        commit = self.git.commit(name, self.packs[name].node.commit, change)
        self.made[name] = (commit, change)

    # ------------------------------------------------------------- the search's port
    def open(self, run: str, options: TreeOptions) -> tuple[TreeOpened, Sequence[str]]:
        opened = super().open(run, options)
        update_ref(self.git, self.git.tree.get_ref(Place("wt", "0")), new="root")
        add_worktree(self.git, Place("wt", "0"), "root")
        return opened

    def write_pack(self, request: PackRequest) -> Packed:
        name = request.evaluation.id if request.evaluation else request.node.id
        one = request.evaluation
        prior = [(tried.idea, tried.judgement) for tried in request.tried]
        about = (one.node, one.idea) if one else [node.id for node in request.ancestors]
        prompt = repr((about, prior, sorted(request.known_diffs.items())))
        known = self.prompts.setdefault(f"{name} {one.round if one else 0}", prompt)
        if known != prompt:
            self.problems.append(f"{name} was told {prompt}, and before {known}")
        self.packs[name] = request
        return super().write_pack(request)

    def read_ideas(self, node: Node) -> Proposed:
        told = self.told.get(node.id) or Told()
        found = super().read_ideas(node)
        return replace(found, code=told.code, problem="told", resume_at=told.resume_at)

    def _keep(self, path: str, value: float) -> Artifact:
        if self.results.get(path, value) != value:
            self.problems.append(f"{path} holds {value}, and held another value before")
        return super()._keep(path, value)

    def collect(self, request: CollectRequest) -> Judgement:
        one, told = request.evaluation, self.told.get(request.evaluation.id) or Told()
        if request.ending is not None and request.ending.code != "step_failed":
            return Judgement(outcome="failed", why=request.ending)
        if told.code:
            code, _, same = told.code.partition(" ")
            reason = why("candidate_failed", code=code, problem="told")
            reason = why(code, evaluation=same) if same else reason
            return Judgement(outcome="failed", why=reason, resume_at=told.resume_at)
        if request.ending is None and one.id not in self.swept:
            reason = why("not_collected", problem="no results")
            return Judgement(outcome="failed", why=reason)
        judged = super().collect(request)
        if one.idea is None or judged.outcome != "scored":
            return judged
        commit, change = self.made[one.id]
        return replace(judged, commit=commit, diff_sha256=change)

    def work(self, work: GitWork) -> Sequence[Leftover]:
        """As `DiskTrees.work`, but that some worktrees cannot be removed at first."""
        tree, left = self.git.tree, list[Leftover]()
        found = list_refs(self.git)
        for node in work.nodes:
            names = {"evaluation": node.evaluation[1:], "node": node.id[1:]}
            left += promote(self.git, commit=node.commit, **names)
        for name in work.rejected:
            place = Place("cand", name[1:])
            cleanup = list_cleanup(tree, place, found.get(tree.get_ref(place), ""))
            if random.Random(f"{self.seed} stuck {name}").random() < 0.05:
                left.append(replace(cleanup[0], reason="it is busy"))
                cleanup = cleanup[1:]
            left += retry_cleanup(self.git, cleanup)
        return [*left, *retry_cleanup(self.git, work.leftovers)]

    def write_views(self, tree: Tree, engine: Mapping[str, Any]) -> None:
        self.search = list_search(tree, tree.options)


_CODES: Final = {
    "limited": "agent_rate_limit",
    "away": "agent_unavailable",
    "refused_login": "agent_auth_error",
}
