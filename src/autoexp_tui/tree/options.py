"""What `tree` may say, with its defaults. `config.settings` reads and checks it, a plan
carries it as plain values (`Plan.tree`), and `read_options` makes it of those again.

The sentence below a field is its row in docs/tree.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from autoexp_tui.model.plain_values import build_record

Direction: TypeAlias = Literal["max", "min"]
Frontier: TypeAlias = Literal["global", "per_parent"]
Scope: TypeAlias = Literal["node", "node_plus_ancestors", "global"]
ArtifactPolicy: TypeAlias = Literal["copy_to_run_root", "external_paths"]
ContextStrategy: TypeAlias = Literal[
    "node_plus_ancestors", "node_only", "global_prior_ideas"
]
DEFAULT_METRIC: Final = "mean_topN_avg_return_per_trade_pct_oos"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A column of the results; the first of `tree.metrics` is the primary one."""

    name: str
    """The column of the results."""
    direction: Direction = "max"
    """Whether more (`max`) or less (`min`) is better."""
    weight: float = 1.0
    """Its share of the score; 0: shown, not scored."""
    risk: bool = False
    """Whether a loss of more than `gate.max_risk_loss` forbids exploring."""
    bounds: tuple[float | None, float | None] | None = None
    """Least and greatest value of a row; outside is suspicious. null: no bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaSource:
    """Where ideas come from: one of `agent`, `command` and `dir`."""

    agent: tuple[str, ...] = ()
    """The agent that writes ideas as markdown files; or a chain of agents."""
    command: tuple[str, ...] = ()
    """A command that writes them."""
    dir: str = ""
    """A directory that holds them; each node gets the next ones, by name."""
    context_dirs: tuple[str, ...] = ()
    """Further directories of earlier ideas that the context may show."""
    notes: tuple[str, ...] = ()
    """What a person tells whoever writes ideas; the context begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """How an idea becomes a change, and what that may touch."""

    agent: tuple[str, ...] = ()
    """The agent that edits the worktree; or a chain of agents."""
    review_agent: tuple[str, ...] = ()
    """The agent that reviews, or a chain; empty: the tests alone send it back."""
    test_command: tuple[str, ...] = ()
    """Run in the worktree before each review; it must end with 0."""
    review_rounds: int = 2
    """Reviews of one implementation at most; 0: none."""
    editable: tuple[str, ...] = ()
    """Patterns of paths that may change; empty: all that are not protected."""
    protected_paths: tuple[str, ...] = ()
    """Patterns of paths that must not change; the sweep has those of the root."""
    max_file_bytes: int = 1_048_576
    """Of a file that an implementation may add or change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How a candidate is measured: `command` or `config_ref`."""

    command: tuple[str, ...] = ()
    """Run in the worktree; writes the CSV, or what `score_command` reads."""
    score_command: tuple[str, ...] = ()
    """Run from the root commit after the sweep; writes the CSV."""
    config_ref: str = ""
    """A plan of ours that is the sweep; its jobs become the rows."""
    stage: str = ""
    """Of `config_ref`: the stage whose jobs are the rows; empty: the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What a candidate must reach to be promoted."""

    tolerance: float = 1e-6
    """How far the primary metric may fall below its parent's."""
    min_rows: int = 100
    """Rows needed without `sweep_config_limit`."""
    min_ok_rate: float = 0.98
    """Share of rows that must be ok without `sweep_config_limit`."""
    strong: float = 0.10
    """Least score of the grade."""
    promising: float = 0.03
    """Least score of the grade, and of what is worth exploring."""
    mixed: float = -0.02
    """Least score of the grade; below it: weak."""
    max_primary_loss: float = 0.05
    """Relative loss of the primary metric that exploring allows."""
    max_risk_loss: float = 0.10
    """Relative loss of a risk metric that exploring allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Whether a gain may be chance."""

    repeats: int = 0
    """Measurements of the baseline that tell the noise; 0: it is not asked."""
    k: float = 2.0
    """Standard errors that a gain must reach; below: indecisive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """The section `tree`."""

    run: str = ""
    """The name of the search in refs and reports; empty: the config's."""
    repository: str = ""
    """The git repository; empty: that of the working directory."""
    root: str = "HEAD"
    """The commit where the search starts; resolved once."""
    ideas: IdeaSource = field(default_factory=IdeaSource)
    implement: Implementation = field(default_factory=Implementation)
    evaluate: Measurement = field(default_factory=Measurement)
    metrics: tuple[Metric, ...] = (Metric(name=DEFAULT_METRIC),)
    """What is compared; the first is the primary metric."""
    gate: GateOptions = field(default_factory=GateOptions)
    noise: Noise = field(default_factory=Noise)
    approve: Literal["none", "beam"] = "none"
    """`beam`: a person approves each frontier before it is expanded."""
    frontier: Frontier = "global"
    """The best `beam_width` of a depth, or of each parent (`per_parent`)."""
    beam_width: int = 1
    """Nodes that the next depth expands."""
    max_depth: int = 3
    """Depths that are expanded at most."""
    ideas_per_node: int = 7
    """Ideas that are asked for at each node."""
    max_total_idea_evals: int | None = None
    """Evaluations of the whole search; null: no limit."""
    sweep_config_limit: int | None = None
    """Rows with `config_id` below it count, and all must be ok; null: all rows."""
    max_parallel_evals: int = 1
    """Evaluations that are open at a time."""
    eval_timeout_seconds: float | None = None
    """Over all steps of an evaluation; null: no limit."""
    eval_retries: int = 1
    """Further attempts after a lost node, a preemption or the like."""
    strict_fail_depth: bool = False
    """Pause at the first evaluation of a depth that fails."""
    stop_on_empty_frontier: bool = True
    """End when nothing is promoted; else the frontier is expanded again."""
    artifact_policy: ArtifactPolicy = "copy_to_run_root"
    """Results are copied and checked by sha256, or stay at `external_paths`."""
    ideas_context_strategy: ContextStrategy = "node_plus_ancestors"
    """Whose ideas the context for new ideas shows."""
    dedupe: Scope = "node_plus_ancestors"
    """Among which ideas a repeat is skipped."""
    force_regenerate_ideas: bool = False
    """Write ideas anew where a node has some."""
    keep_rejected_worktrees: bool = False
    """Keep the worktrees and refs of candidates that are not promoted."""
    keep_failed_artifacts: bool = False
    """Keep all that a failed evaluation left; its log and reason always stay."""
    root_baseline_csv: str = ""
    """Results of the root; empty: it is measured as evaluation e0."""
    worktree_root: str = ""
    """Where worktrees lie; empty: in the session's directory."""
    link_paths: tuple[str, ...] = ()
    """Untracked inputs that each worktree gets as links."""
    max_disk_bytes: int = 16 << 30
    """Of each file that a program of a step writes, and of all in its directories."""
    commit_epoch: int | None = None
    """Date of each commit, in seconds since 1970, so that ids repeat; null: now."""
    llm_max_inflight: int | None = None
    """Calls of agents at a time; null: as many as evaluations."""
    llm_rate_limit: int | None = None
    """Calls of agents a minute; null: no limit."""
    sweep_max_parallel: int | None = None
    """Jobs of sweeps at a time; null: as the executor."""
    lock_stale_seconds: float | None = None
    """When an owner without a heartbeat is dead; null: as `monitoring` says (600)."""
    heartbeat_seconds: float = 30.0
    """Between heartbeats of the owner; at most 30."""

    @property
    def primary(self) -> Metric:
        return self.metrics[0]

    def list_metrics(self) -> list[str]:
        return [metric.name for metric in self.metrics]


def read_options(tree: Mapping[str, Any]) -> TreeOptions:
    """The options of `Plan.tree`; raises TypeError for a key of a later version."""
    return build_record(TreeOptions, tree)
