"""A search as its events have made it: nodes are commits, an evaluation is one idea on
one node. Records are frozen; a tree is forked as the session's state is, so that one
event costs the same whether ten evaluations are there or ten thousand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

# What fields of records are made of: a journal is read by these names.
from autoexp_tui.model.state import Growing, PolicyPart
from autoexp_tui.model.states import Why
from autoexp_tui.tree.options import TreeOptions
from autoexp_tui.tree.results_csv import RowCounts
from autoexp_tui.tree.scores import Comparison, measure_noise

if TYPE_CHECKING:
    from autoexp_tui.model.state import SessionState

PART: Final = "tree"
"""Of the session's state that is this policy's."""
BASELINE: Final = "e0"
"""The evaluation that measures the root where no file does."""
ROOT: Final = "n0"
MOST_CLEANUPS: Final = 5
"""Tries to remove what cannot be removed; then it stays, and is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file that decisions rest on, kept where nobody writes any more."""

    path: str
    """Below the search's directory, or absolute with `external_paths`."""
    sha256: str
    source: str = ""
    """Where it was copied from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """An idea as it was proposed for a node."""

    node: str
    file: str
    """Name in `node_ideas/<node>/`."""
    title: str
    sha256: str
    """Of its normalised text."""
    by: str = ""
    """The person who added it; empty: it was generated."""

    @property
    def id(self) -> str:
        return f"{self.node}/{self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedIdea:
    """An idea that is not tried, for it was tried before."""

    idea: Idea
    same_as: str
    """The id of the idea that it repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A code state of the beam."""

    id: str
    depth: int
    commit: str
    parent: str = ""
    evaluation: str = ""
    """What it was promoted from; empty: it is the root."""
    baseline: Artifact | None = None
    """Its own results: what its children are compared with."""
    chain: tuple[Idea, ...] = ()
    """The ideas from the root to it."""
    ready: bool = False
    """Whether its ref and its worktree are there."""
    ideas: tuple[Idea, ...] | None = None
    """None: nobody has proposed any yet."""
    ideas_problem: str = ""
    """Why there are none, or fewer."""
    round: int = 1
    """Above 1: it is expanded again, for nothing was promoted."""
    earlier: tuple[Idea, ...] = ()
    """Its ideas of earlier rounds."""
    created_at: float = 0.0
    context_sha256: str = ""
    """Of what whoever proposed its ideas was told; empty: nobody was."""
    context: tuple[tuple[str, str], ...] = ()
    """Path and sha256 of each idea in it."""

    @property
    def ideas_places(self) -> tuple[str, ...]:
        """Where those of each round lie, in `node_ideas/`."""
        return (self.id, *(f"{self.id}/r{at}" for at in range(2, self.round + 1)))

    @property
    def asker(self) -> str:
        """On whose account the call for ideas joins: once for each round."""
        return f"node {self.id}{_name_round(self)}"

    @property
    def ideas_job(self) -> str:
        """The call for ideas: the job, and its directory."""
        return f"{self.id}_ideas{_find_suffix(self)}"

    def list_ideas(self) -> tuple[Idea, ...]:
        """Of all rounds."""
        return (*self.earlier, *(self.ideas or ()))


def _name_round(one: Node | Evaluation) -> str:
    return f", round {one.round}" if one.round > 1 else ""


def _find_suffix(one: Node | Evaluation) -> str:
    return f"_r{one.round}" if one.round > 1 else ""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    why: Why
    """The first refusal, or with what it passed."""
    refusals: tuple[Why, ...] = ()

    @property
    def has_passed(self) -> bool:
        return not self.refusals

    @property
    def primary_regressed(self) -> bool:
        return any(one.code == "primary_regressed" for one in self.refusals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a person said of a candidate: it wins over gate and beam."""

    choice: Literal["promote", "reject"]
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """`rank` counts from 1; None: it is not in the ranking."""

    eval_id: int
    parent: int
    rank: int | None
    rank_score: float | None
    basis: Literal["score", "primary_delta"] | None
    """What `rank_score` is."""
    promoted: bool
    why: Why

    @property
    def name(self) -> str:
        return f"e{self.eval_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What became of an evaluation."""

    outcome: Literal["scored", "failed", "ended"]
    """Scored: it has results, whatever they are."""
    why: Why | None = None
    """Why it has no results; None: it has."""
    commit: str = ""
    diff_sha256: str = ""
    """Of its change as such, whatever lines it stands on."""
    files: int = 0
    """How many it changes."""
    artifact: Artifact | None = None
    counts: RowCounts | None = None
    parent: Comparison | None = None
    root: Comparison | None = None
    gate: GateOutcome | None = None
    measured_itself: bool = False
    """No scorer of ours read its raw results."""
    doubts: tuple[Why, ...] = ()
    primary: float | None = None
    """Of the root: the mean of its primary metric."""
    resume_at: float | None = None
    """When the agents may be called again, in seconds of Unix time, where told."""

    @property
    def reason(self) -> Why | None:
        """What the gate said, else why it has no results."""
        return self.gate.why if self.gate else self.why

    @property
    def has_passed(self) -> bool:
        return self.gate is not None and self.gate.has_passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One idea on one node."""

    id: str
    node: str
    depth: int
    idea: Idea | None
    """None: it measures the root."""
    opened_lived: float = 0.0
    opened_at: float = 0.0
    round: int = 1
    """How often it was opened."""
    retries: int = 0
    """Further attempts at its jobs, for ends that were not its own."""
    ending: Why | None = None
    """Why its jobs were ended, until it is judged."""
    judgement: Judgement | None = None
    mark: Mark | None = None

    @property
    def number(self) -> int:
        """Of repeats of the baseline: that of the baseline."""
        return int(self.id[1:].partition("_")[0])

    @property
    def suffix(self) -> str:
        """Of its jobs' names and outputs, from the second round on."""
        return _find_suffix(self)

    @property
    def asker(self) -> str:
        """On whose account its jobs join: once for each round."""
        return f"evaluation {self.id}{_name_round(self)}"

    @property
    def idea_order(self) -> tuple[int, str]:
        """By node and file."""
        return int(self.node[1:]), self.idea.id if self.idea else ""

    def name_job(self, step: str) -> str:
        return f"{self.id}_{step}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRecord:
    """A depth that is closed."""

    depth: int
    expanded: tuple[str, ...]
    """The nodes whose ideas were evaluated."""
    ranking: tuple[Ranked, ...]
    nodes: tuple[str, ...]
    """Those that were promoted, in the ranking's order."""

    def list_promoted(self) -> Iterator[tuple[str, str]]:
        """(evaluation, node)"""
        promoted = (one.name for one in self.ranking if one.promoted)
        yield from zip(promoted, self.nodes, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What could not be removed yet."""

    path: str
    kind: Literal["worktree", "branch", "dir"]
    reason: str
    commit: str = ""
    """Of a branch: where it must still be to be deleted."""
    attempts: int = 1
    next_retry_at: float = 0.0

    @property
    def is_given_up(self) -> bool:
        return self.attempts >= MOST_CLEANUPS


@dataclass(slots=True)
class Tree(PolicyPart):
    """The search of a session."""

    growing: ClassVar[tuple[str, ...]] = ("nodes", "evaluations", "changes", "tried")
    short: ClassVar[tuple[str, ...]] = ("leftovers",)
    run: str
    options: TreeOptions
    directory: str = ""
    """Absolute; empty until the repository was opened."""
    root_commit: str = ""
    python: str = ""
    sweep: tuple[str, ...] = ()
    """The jobs of `evaluate.config_ref`; empty: a command measures."""
    nodes: Growing[str, Node] = field(default_factory=dict)
    evaluations: Growing[str, Evaluation] = field(default_factory=dict)
    depth: int = 0
    """The one that is evaluated, from 0: its nodes are of this depth."""
    frontier: tuple[str, ...] = ()
    waiting: tuple[Idea, ...] = ()
    """Ideas of this depth that are not opened yet, in order."""
    added: tuple[Idea, ...] = ()
    """What a person added before the ideas of this depth were known."""
    is_listed: bool = False
    """Whether the ideas of all nodes of this depth are known."""
    open: tuple[str, ...] = ()
    """Evaluations under way."""
    here: tuple[str, ...] = ()
    """All evaluations of this depth."""
    skipped: tuple[SkippedIdea, ...] = ()
    closed: tuple[DepthRecord, ...] = ()
    pruned: int = 0
    """How many closed depths are real in git: nodes made, the rest removed."""
    leftovers: dict[str, Leftover] = field(default_factory=dict)
    """By path, or name of a ref."""
    next_node: int = 1
    next_evaluation: int = 1
    opened: int = 0
    """How many evaluations of ideas, for the budget."""
    stopped: Why | None = None
    """Why nothing more is opened; None: it goes on."""
    held: Why | None = None
    """Why a person is asked whether the depth goes on; nothing is opened until then."""
    excused: int = -1
    """The depth that a person let go on whatever fails."""
    changes: Growing[str, Mapping[str, str]] = field(default_factory=dict)
    """Node -> sha256 of a change -> the first evaluation on it that made it, of closed
    depths."""
    tried: Growing[str, tuple[str, ...]] = field(default_factory=dict)
    """Node -> the evaluations of its ideas, of closed depths."""
    agents_wait: Why | None = None
    """Why no agent is called for now."""
    resume_at: float = 0.0
    """When they are again, in seconds of Unix time."""
    blocked: tuple[str, ...] = ()
    """Evaluations, and nodes that want ideas, whose calls are tried again then."""
    shown: tuple[int, ...] = ()
    """`stamp` as it was when the files were written."""
    shown_lived: float = 0.0
    """When that was, in seconds that engines lived."""
    _made: tuple[str, int, Mapping[str, str]] = field(
        default=("", -1, {}), compare=False, repr=False
    )
    """What `list_made_changes` said last: of which node, after how many depths."""

    def list_ancestors(self, node: str) -> Iterator[Node]:
        """A node, its parent, and so on up to the root."""
        found = self.nodes.get(node)
        while found is not None:
            yield found
            found = self.nodes.get(found.parent)

    def list_made_changes(self, node: str) -> Mapping[str, str]:
        """sha256 of a change -> the evaluation of a closed depth that made it, for
        evaluations on a node: as far as repeats are looked for."""
        if self._made[:2] != (node, len(self.closed)):
            found, names = dict[str, str](), reversed(self.changes)
            if self.options.dedupe != "global":
                names = reversed([one.id for one in self.list_ancestors(node)])
            for name in names:
                found |= self.changes.get(name, {})
            self._made = node, len(self.closed), found
        return self._made[2]

    def list_scope(self, node: Node) -> list[Node]:
        """The nodes of closed depths whose ideas one of this node may repeat, and it
        itself."""
        if self.options.dedupe == "node":
            return [node]
        if self.options.dedupe == "global":
            return [n for n in self.nodes.values() if n.depth < self.depth or n is node]
        return [*self.list_ancestors(node.id)]

    def list_context(self, node: str) -> list[Node]:
        """The nodes whose ideas the context for a node's shows, from the root on."""
        strategy = self.options.ideas_context_strategy
        if strategy == "node_only":
            return [self.nodes[node]]
        if strategy == "global_prior_ideas":
            depth = self.nodes[node].depth
            return [one for one in self.nodes.values() if one.depth <= depth]
        return [*self.list_ancestors(node)][::-1]

    @property
    def stamp(self) -> tuple[int, ...]:
        """Other numbers whenever something else is to be shown in files; the first two
        change at the end of a depth and of the search."""
        is_stopped = int(self.stopped is not None)
        counts = (len(self.open), self.opened, self.pruned, len(self.leftovers))
        return (len(self.closed), is_stopped, len(self.nodes), *counts)

    @property
    def is_broken(self) -> bool:
        """Whether git refused what the search cannot do without."""
        return self.stopped is not None and self.stopped.code == "tree_broken"

    @property
    def is_cleaning(self) -> bool:
        """Whether something is still to be removed."""
        if self.is_broken:
            return False
        is_behind = self.pruned < len(self.closed)
        return is_behind or not all(one.is_given_up for one in self.leftovers.values())

    def has_failed(self, evaluation: str) -> bool:
        """Whether it ended without results."""
        judged = self.evaluations[evaluation].judgement
        return judged is not None and judged.outcome != "scored"

    def list_here(self) -> list[Evaluation]:
        return [self.evaluations[one] for one in self.here]

    @property
    def repeats(self) -> Sequence[str]:
        """The evaluations that measure the root again, before any idea is tried."""
        return [f"{BASELINE}_{at}" for at in range(1, self.options.noise.repeats + 1)]

    def list_means(self) -> Sequence[float]:
        """The primary metric of each of them that has results."""
        known = (self.evaluations.get(name) for name in self.repeats)
        judged = [one.judgement for one in known if one and one.judgement]
        return [one.primary for one in judged if one.primary is not None]

    def measure_error(self) -> float | None:
        """The standard error of a gain; None: nobody measured it, or too few."""
        return measure_noise(self.list_means())

    def find_root_primary(self) -> float | None:
        """The primary metric of the root; of a file of results it is known once an
        evaluation was compared with it."""
        one = self.evaluations.get(BASELINE)
        if one is not None:
            return one.judgement.primary if one.judgement else None
        judged = (one.judgement for one in self.evaluations.values())
        known = (one.root.deltas[0].baseline for one in judged if one and one.root)
        return next(known, None)

    def find_best(self) -> Node | None:
        """None before there is a root."""

        def key(node: Node) -> tuple[float, float, int]:
            if not node.evaluation:
                return rank_node(node.id, 0.0, 0.0)
            judged = self.evaluations[node.evaluation].judgement
            root = judged.root if judged else None
            delta = root.primary_delta if root else None
            score = root.recommendation.score if root else None
            return rank_node(node.id, delta if score is None else score, delta)

        return max(self.nodes.values(), key=key, default=None)


def rank_node(
    node: str, score: float | None, delta: float | None
) -> tuple[float, float, int]:
    """The key of the best node: by rank score against the root, which has 0, then by
    the gain of the primary metric, then the first."""
    lowest = float("-inf")
    first, second = (lowest if one is None else one for one in (score, delta))
    return first, second, -int(node[1:])


def find_tree(state: SessionState) -> Tree | None:
    """The search of a session; None: it has none."""
    found: Any = state.parts.get(PART)
    return found if isinstance(found, Tree) else None


def tree_of(state: SessionState) -> Tree:
    """The same, where there has to be one; raises KeyError."""
    found: Tree = state.parts[PART]
    return found
