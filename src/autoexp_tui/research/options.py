"""What `research` may say, with its defaults. `config.settings` reads and checks it, a
plan carries it as plain values (`Plan.research`), and `read_options` makes it of those
again.

The sentence below a field is its row in docs/research.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from autoexp_tui.model.plain_values import build_record
from autoexp_tui.model.rules import Monitoring

Approval: TypeAlias = Literal["auto", "ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is sought."""

    metric: str = ""
    """Empty: the metric of `monitoring.result`."""
    mode: Literal["min", "max", ""] = ""
    """Whether less or more is better; empty: as `monitoring.result` says."""
    min_delta: float = 0.0
    """What a run must gain over the best to count as better."""
    target: float | None = None
    """The session ends when a run reaches it; null: never by that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """Per kind of line: applied at once (`auto`), or once a person said so (`ask`)."""

    experiments: Approval = "auto"
    """Items that enter the list."""
    kills: Approval = "ask"
    """Ends of running runs."""
    code: Approval = "ask"
    """Changes of code, and fixes beyond `fixer.may_override`."""
    budget: Approval = "auto"
    """Items that are estimated to need more than what remains of a budget."""
    end: Approval = "auto"
    """The end, when nothing is left to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleBudget:
    """What the calls of one role may use."""

    calls: int | None = None
    """null: no limit of its own."""
    tokens: int | None = None
    """null: no limit of its own."""
    money: float | None = None
    """null: no limit of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What the session may use. When time or GPU hours are used up nothing more begins;
    when calls, tokens or money are, no agent is called any more."""

    wall_seconds: float | None = None
    """For which engines of the session have lived; null: no limit."""
    gpu_hours: float | None = None
    """Of all attempts of its jobs; null: no limit."""
    calls: int | None = None
    """Of agents; null: no limit."""
    tokens: int | None = None
    """Read and written by agents; null: no limit."""
    money: float | None = None
    """By `agents.NAME.prices`, or as an agent told; null: no limit."""
    research: RoleBudget = field(default_factory=RoleBudget)
    """Of calls of the research agent alone."""
    fixer: RoleBudget = field(default_factory=RoleBudget)
    """Of calls of the fixer alone."""
    on_reached: Literal["finish", "kill"] = "finish"
    """What runs then: it may `finish`, or is ended (`kill`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixer:
    """Who repairs runs that ended by a mechanical failure."""

    agent: tuple[str, ...] = ()
    """The agent, or a chain; empty: failures go to the research agent."""
    may_override: tuple[str, ...] = ()
    """Patterns of keys that a fix may set without a person."""
    steps: int = 15
    """Uses of tools of one call."""
    attempts: int = 3
    """Fixes in a row for one cause; then the research agent decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchOptions:
    """The section `research`."""

    goal: str = ""
    """What is to be found out, in words; each context begins with it."""
    objective: Objective = field(default_factory=Objective)
    agent: tuple[str, ...] = ()
    """The research agent, or a chain of agents."""
    approve: Approvals = field(default_factory=Approvals)
    budgets: Budgets = field(default_factory=Budgets)
    fixer: Fixer = field(default_factory=Fixer)
    gpus: int | None = None
    """GPUs that items share; null: those of this machine; on Slurm it is required."""
    starve_after: int = 3
    """Items that may overtake one that does not fit; then room is kept for it."""
    max_items: int = 100
    """Of the list; what an answer names beyond it is left out, and told."""
    refill_below: int = 2
    """Items; when the list falls below it the agent is consulted."""
    min_interval_seconds: float = 60.0
    """Between two calls of the research agent."""
    heartbeat_seconds: float = 900.0
    """After the last call, when nothing else led to one."""
    falsified_after: int = 3
    """Failures of a hypothesis in a row that are a warning."""
    rounds_without_gain: int = 3
    """Rounds without a better result that are a warning."""
    no_metric_seconds: float = 600.0
    """After which a run without any metric is a warning."""
    context_bytes: int = 65_536
    """Of a context at most."""
    breaker_failures: int = 3
    """Calls in a row that failed; then none is made for `breaker_seconds`."""
    breaker_seconds: float = 600.0
    """Then one call is tried."""
    repository: str = ""
    """The git repository whose code the agent may change; empty: no code changes."""
    editable: tuple[str, ...] = ()
    """Patterns of paths that may change; empty: all that are not protected."""
    protected_paths: tuple[str, ...] = ()
    """Patterns of paths that must not change."""
    max_file_bytes: int = 1_048_576
    """Of a file that the agent may add or change."""
    link_paths: tuple[str, ...] = ()
    """Untracked inputs that each worktree gets as links."""
    max_disk_bytes: int = 16 << 30
    """Of each file that a call writes, and of all in its directories."""


ROLES: Final[tuple[Literal["research", "fixer"], ...]] = ("research", "fixer")
_FLAT_STEPS: Final = 500


def read_options(research: Mapping[str, Any]) -> ResearchOptions:
    """The options of `Plan.research`; raises TypeError for a key of a later version."""
    return build_record(ResearchOptions, research)


def watch_for_research(watched: Monitoring) -> Monitoring:
    """How runs of a research session are watched: a flat loss is told even where the
    config asks for no such warning."""
    anomalies = watched.anomalies
    if (anomalies.flat_share, anomalies.flat_steps) != (None, None):
        return watched
    return replace(watched, anomalies=replace(anomalies, flat_steps=_FLAT_STEPS))
