"""What a search asks of the disk and of git. All of it blocks, may be called again
after a kill at any step, and raises AutoexpError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from autoexp_tui.model.states import Why
from autoexp_tui.tree.state import Evaluation, Idea, Judgement, Leftover, Node

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.tree.events import TreeOpened
    from autoexp_tui.tree.options import TreeOptions
    from autoexp_tui.tree.scores import Comparison
    from autoexp_tui.tree.state import Tree

ADAPTER: Final = "tree"
"""The name of `Trees` among what policies reach outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRequest:
    """What a call is told, of depths that are closed."""

    node: Node
    root_commit: str
    ancestors: tuple[Node, ...] = ()
    """Where ideas are wanted: from the node's parent to the root."""
    siblings: tuple[Evaluation, ...] = ()
    """Evaluations of the node's parent."""
    tried: tuple[Evaluation, ...] = ()
    """Those of the context's nodes."""
    ideas_dirs: tuple[str, ...] = ()
    """Below the search's directory: of the nodes of the context, from the root on."""
    comparison: Comparison | None = None
    """Of the node with the root; None: it is the root."""
    evaluation: Evaluation | None = None
    """None: ideas are wanted for the node."""
    known_diffs: Mapping[str, str] = field(default_factory=dict)
    """sha256 of a change -> the evaluation that made it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What a call is told: the sha256 of its text, and path and sha256 of each earlier
    idea in it; the jobs of `evaluate.config_ref`, where that measures."""

    sha256: str
    files: tuple[tuple[str, str], ...] = ()
    jobs: tuple[JobSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    """What an evaluation is judged by."""

    evaluation: Evaluation
    node: Node
    root: Node
    ending: Why | None = None
    """Why a step has no result; None: all steps completed."""
    standard_error: float | None = None
    """Of a gain in the primary metric; None: not measured."""
    jobs: Mapping[str, JobRecord] = field(default_factory=dict)
    """The evaluation's, where a plan of ours measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """What lies there for a node."""

    ideas: tuple[Idea, ...] = ()
    code: str = ""
    """Why its call did not do all, as the step told; empty: it did, or died."""
    problem: str = ""
    resume_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWork:
    """Nodes that are to be there, and what is to go."""

    nodes: tuple[Node, ...] = ()
    """Those that were promoted."""
    rejected: tuple[str, ...] = ()
    """Evaluations whose worktree and ref go, unless they are to be kept."""
    failed: tuple[str, ...] = ()
    """Evaluations without results, whose output goes, unless it is to be kept."""
    leftovers: tuple[Leftover, ...] = ()
    """To be tried again."""


class Trees(Protocol):
    """The disk and git, as a search uses them."""

    def open(self, run: str, options: TreeOptions) -> tuple[TreeOpened, Sequence[str]]:
        """Check the repository, and give the root its ref and its worktree; with it
        what merely differs in worktrees, for people."""

    def write_pack(self, request: PackRequest) -> Packed:
        """Write what a call reads."""

    def read_ideas(self, node: Node) -> Proposed:
        """The ideas of a node's round that lie there, by the names of their files."""

    def write_idea(self, node: str, text: str) -> Idea:
        """Write a person's idea to `node_ideas/<node>/`, under a name made of its text;
        refuses one that is empty or too long."""

    def collect(self, request: CollectRequest) -> Judgement:
        """Read, check and copy what an evaluation left; judge it."""

    def work(self, work: GitWork) -> Sequence[Leftover]:
        """Make refs and worktrees of nodes, remove those of candidates; what could not
        be removed."""

    def write_views(self, tree: Tree, engine: Mapping[str, Any]) -> None:
        """Write manifest.json and TREE_SUMMARY.md anew, each by rename; `engine`: who
        searches, for the manifest's `run`."""
