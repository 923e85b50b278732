"""A disk and a git in memory, as a search uses them: what each idea comes to is told by
its title, `0.9` a gain or `fails`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.states import why
from autoexp_tui.tree.events import TreeOpened
from autoexp_tui.tree.gate import GateFacts, judge_gate
from autoexp_tui.tree.options import TreeOptions
from autoexp_tui.tree.ports import (
    CollectRequest,
    GitWork,
    Packed,
    PackRequest,
    Proposed,
)
from autoexp_tui.tree.results_csv import RowCounts, parse_results
from autoexp_tui.tree.scores import compare_results
from autoexp_tui.tree.state import Artifact, Idea, Judgement, Leftover, Node, Tree

Propose = Callable[[str], Sequence[str]]
"""Titles of a node's ideas."""


@dataclass
class FakeTrees:
    """`values`: results by evaluation, or by title where none is there."""

    propose: Propose
    has_baseline: bool = True
    refuses: str = ""
    stuck: dict[str, int] = field(default_factory=dict)
    """Evaluations whose worktree cannot be removed, so many times."""
    faults: dict[str, list[tuple[str, float | None]]] = field(default_factory=dict)
    """What the agent's calls of an evaluation or a node meet: code, when it is over."""
    measured: dict[str, float] = field(default_factory=dict)
    """What measurements of the root come to, where that is not 1."""
    calls: list[str] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)
    views: list[Tree] = field(default_factory=list)
    emptied: set[str] = field(default_factory=set)
    """Evaluations whose output went."""
    results: dict[str, float] = field(default_factory=dict)
    """By path of an artifact."""
    options: TreeOptions = field(default_factory=TreeOptions)

    def open(self, run: str, options: TreeOptions) -> tuple[TreeOpened, Sequence[str]]:
        self.calls.append("open")
        self.options = options
        if self.refuses:
            raise EnvironmentFailed(self.refuses, "repo")
        self.refs[f"tree/{run}/n0"] = "root"
        baseline = self._keep("artifacts/root.csv", 1.0) if self.has_baseline else None
        opened = TreeOpened(
            root_commit="root", directory="/tree", python="python", baseline=baseline
        )
        return opened, ()

    def _keep(self, path: str, value: float) -> Artifact:
        self.results[path] = value
        return Artifact(path=path, sha256=f"sha of {path}")

    def write_pack(self, request: PackRequest) -> Packed:
        name = request.evaluation.id if request.evaluation else request.node.id
        self.calls.append(f"pack {name}")
        return Packed(f"sha of {name}", (("node_ideas/n0/0.md", "sha"),))

    def read_ideas(self, node: Node) -> Proposed:
        if faults := self.faults.get(node.id):
            code, resume_at = faults.pop(0)
            return Proposed(code=code, problem="told", resume_at=resume_at)
        titles = self.propose(node.ideas_places[-1])
        again = f"r{node.round}/" if node.round > 1 else ""
        return Proposed(
            ideas=tuple(
                Idea(
                    node=node.id,
                    file=f"{again}{at}.md",
                    title=title,
                    sha256=f"sha {title}",
                )
                for at, title in enumerate(titles)
            )
        )

    def write_idea(self, node: str, text: str) -> Idea:
        title = text.lstrip("# ").split("\n")[0]
        return Idea(node=node, file="own.md", title=title, sha256=f"sha {title}")

    def collect(self, request: CollectRequest) -> Judgement:
        one, options = request.evaluation, self.options
        self.calls.append(f"collect {one.id}")
        if request.ending is not None and (faults := self.faults.get(one.id)):
            code, resume_at = faults.pop(0)
            reason = why("candidate_failed", code=code, problem="told")
            return Judgement(outcome="failed", why=reason, resume_at=resume_at)
        if request.ending is not None:
            return Judgement(outcome="failed", why=request.ending)
        base = request.node.baseline
        before = self.results[base.path] if base else 0.0
        gain = float(one.idea.title.split()[0]) if one.idea else 1.0
        value = before + gain if one.idea else self.measured.get(one.id, 1.0)
        kept = self._keep(f"artifacts/{one.id}.csv", value)
        if one.idea is None:
            return Judgement(
                outcome="scored", artifact=kept, commit="root", primary=value
            )
        assert base is not None
        assert request.root.baseline is not None
        ours, parents, roots = (
            parse_results(f"config_id,status,m\n0,ok,{v}\n".encode(), ["m"], "csv")
            for v in (value, before, self.results[request.root.baseline.path])
        )
        commit = self.refs[one.id] = f"commit {one.id}"
        judged = Judgement(
            outcome="scored",
            commit=commit,
            files=1,
            artifact=kept,
            counts=RowCounts(1, 1, 1),
            parent=compare_results(parents, ours, options),
            root=compare_results(roots, ours, options),
        )
        facts = GateFacts(
            judged=judged,
            baseline=base,
            hashes={file.path: file.sha256 for file in (kept, base)},
            standard_error=request.standard_error,
        )
        return replace(judged, gate=judge_gate(facts, options))

    def work(self, work: GitWork) -> Sequence[Leftover]:
        self.emptied |= {*work.failed}
        self.calls.append(f"work {','.join(node.id for node in work.nodes)}")
        self.refs |= {node.id: node.commit for node in work.nodes}
        gone = (*work.rejected, *(one.path for one in work.leftovers))
        left = [name for name in gone if self.stuck.get(name, 0) > 0]
        self.stuck |= {name: self.stuck[name] - 1 for name in left}
        return [
            Leftover(path=name, kind="worktree", reason="it is busy") for name in left
        ]

    def write_views(self, tree: Tree, engine: Mapping[str, Any]) -> None:
        self.views.append(tree)
