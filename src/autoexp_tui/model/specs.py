"""What a plan holds: its jobs, what they ask of the executor, how they hang together.
What is known only at run time stays as `{runtime.JOB.KEY}` text until it is
evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.agents import AgentSpec
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.masking import NO_RULES, MaskRules, Share
from autoexp_tui.model.rules import RARE, Monitoring

Scalar: TypeAlias = str | int | float | bool | None
"""A leaf of a config, which conditions compare and executors take as options."""
Place: TypeAlias = Literal["main", "beside"]
"""Where a job runs: on the session's executor, or on the engine's host beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    time_limit_seconds: float | None = None
    gpus: int = 0
    options: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def key(self) -> str:
        options = sorted(self.options.items())
        return repr((self.time_limit_seconds, self.gpus, options))

    def exclude(self, nodes: tuple[str, ...]) -> Resources:
        """The same, on none of `nodes` beside those avoided already."""
        avoided = str(self.options.get("exclude") or "").split(",")
        names = dict.fromkeys(name for name in (*avoided, *nodes) if name)
        return replace(self, options={**self.options, "exclude": ",".join(names)})


# What a job with certain sbatch options holds: upper bounds of a range; what only the
# cluster knows counts as the least that it can be.
_COUNT: Final = re.compile(r"(?:[A-Za-z_][\w.]*[:=/])*(?:\d+-)?(\d+)([kKmM]?)")
_SCALES: Final = {"": 1, "k": 1024, "m": 1024 * 1024}


def count_gpus(options: Mapping[str, Scalar]) -> int:
    nodes, tasks = count_nodes(options), count_tasks(options)
    sockets = nodes * (count_of(options.get("sockets-per-node")) or 1)
    times = {"": 1, "-per-node": nodes, "-per-task": tasks, "-per-socket": sockets}
    for per in times:
        if f"gpus{per}" in options:
            return count_of(options[f"gpus{per}"]) * times[per]
    per_task = _count_gpus_among(options.get("tres-per-task"))
    return per_task * tasks or _count_gpus_among(options.get("gres")) * nodes


def count_nodes(options: Mapping[str, Scalar]) -> int:
    asked = count_of(options.get("nodes"))
    if asked:
        return asked
    per_node = count_of(options.get("ntasks-per-node"))
    tasks = count_of(options.get("ntasks"))
    return -(-tasks // per_node) if tasks and per_node else 1


def count_tasks(options: Mapping[str, Scalar]) -> int:
    if "ntasks" in options:
        return count_of(options["ntasks"]) or 1
    return (count_of(options.get("ntasks-per-node")) or 1) * count_nodes(options)


def count_cpus(options: Mapping[str, Scalar]) -> int:
    per_task = count_of(options.get("cpus-per-task")) or 1
    per_gpu = count_of(options.get("cpus-per-gpu"))
    return max(count_tasks(options) * per_task, per_gpu * count_gpus(options))


def count_of(value: Scalar) -> int:
    """The number in `4`, `2-4` (the most), `gpu:a100:4`, `1k`, the sum of
    `a100:2,v100:1`; a name is 1, what is no count 0."""
    total = 0
    for part in str("" if value is None else value).split(","):
        text = part.partition("(")[0].strip()
        if found := _COUNT.fullmatch(text):
            total += int(found[1]) * _SCALES[found[2].lower()]
        elif text.isidentifier():
            total += 1
    return total


def _count_gpus_among(value: Scalar) -> int:
    """GPUs in a list such as `gpu:a100:2,shard:1` or `cpu:4,gres/gpu:2`."""
    kinds = (part.strip().removeprefix("gres/") for part in str(value or "").split(","))
    return sum(count_of(part) for part in kinds if re.match(r"gpu\b", part))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSpec:
    class_name: str = "LocalClient"
    max_parallel: int = 0
    """Tasks at a time; 0: the executor's own number (local: the CPU cores)."""
    settings: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    name: str
    index: int
    stage: str = ""
    family: str = ""
    """Jobs at the same coordinates, stage apart, share it: `f0`, `f1` ..."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """As written in the sweep; of a job that was planned anew, its own values."""
    planned: Mapping[str, object] | None = None
    """What its own values replace, and the others; None: it has the plan's."""
    config_record: str = ""
    """The file of the record that holds its config; empty: the plan's."""
    overrides: tuple[str, ...] = ()
    runtime_overrides: tuple[str, ...] = ()
    """Overrides with `{runtime.JOB.KEY}` in them: composed with when the job starts."""
    runtime_sources: tuple[tuple[str, int], ...] = ()
    """The attempts, as (job, number), whose metadata it was composed with."""
    command: tuple[str, ...]
    """What runs; never passes through a shell."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    output_dir: str
    log_dir: str
    """Of this job: holds `slurm-%j.out` and `current.log`."""
    fingerprint: str = ""
    start_conditions: tuple[Condition, ...] = ()
    cancel_conditions: tuple[Condition, ...] = ()
    depends_on: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    progress_total: int | None = None
    rules: str = ""
    """Key in the plan's `rule_sets`; empty: the plan's own `monitoring`."""
    own_rules: Monitoring | None = None
    """Of a job that was planned anew with other rules: they win over `rules`."""
    notes: Mapping[str, object] = field(default_factory=dict)
    place: Place = field(default="main", metadata=RARE)
    """Policies set it; no config does. Beside, it takes no slot of the others."""
    trial: bool = field(default=False, metadata=RARE)
    """It may fail without harm: its policy judges its end, and nobody else does."""

    @property
    def wants(self) -> tuple[Place, str]:
        """Equal for jobs that ask the same executor for the same."""
        return self.place, self.resources.key

    @property
    def own_values(self) -> Mapping[str, object]:
        if self.planned is None:
            return {}
        return {
            key: value
            for key, value in self.parameters.items()
            if key not in self.planned or self.planned[key] != value
        }

    @property
    def log_path_current(self) -> str:
        return f"{self.log_dir}/current.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    before: str
    after: str
    mode: Literal["waits", "reads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A combination of the sweep that a filter took away: it has no job."""

    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    """What the filter saw of it: of a node's own filter, the values of that node."""
    stage: str = ""
    filter: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a session runs: the content of a manifest."""

    version: int = 1
    plan_id: str
    name: str
    config_ref: str = ""
    config_dir: str = ""
    overrides: tuple[str, ...] = ()
    cwd: str = ""
    """Where it was composed, and its relative paths start; empty: not known."""
    search_dirs: tuple[str, ...] = ()
    created_at: float = 0.0
    state_dir: str
    own_state_dir: str = ""
    """What its config says of it, whichever counts; empty: made by an older program."""
    base_output_dir: str = ""
    share: Share = "private"
    mask: MaskRules = NO_RULES
    jobs: tuple[JobSpec, ...]
    edges: tuple[Edge, ...] = ()
    monitoring: Monitoring = field(default_factory=Monitoring)
    rule_sets: Mapping[str, Monitoring] = field(default_factory=dict)
    """What jobs with rules of their own refer to; equal sets are there once."""
    executor: ExecutorSpec = field(default_factory=ExecutorSpec)
    ui: Mapping[str, object] = field(default_factory=dict)
    tree: Mapping[str, object] = field(default_factory=dict)
    """The options of `tree.options`, as plain values; empty: no search."""
    research: Mapping[str, object] = field(default_factory=dict, metadata=RARE)
    """The options of `research.options`, as plain values; empty: no research."""
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    isolation: Literal["require", "prefer", "none"] = "prefer"
    """Whether agents and candidates run only where they can be fenced in."""
    warnings: tuple[Problem, ...] = ()
    holes: tuple[Hole, ...] = ()
    holes_more: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)

    def rules_of(self, job: JobSpec) -> Monitoring:
        """How a job is watched; by the plan's own rules when it names none known."""
        return job.own_rules or self.rule_sets.get(job.rules, self.monitoring)

    def blank(self) -> Plan:
        """Its settings alone: no jobs, and no word of how they came to be."""
        return replace(
            self,
            config_ref="",
            overrides=(),
            jobs=(),
            edges=(),
            rule_sets={},
            warnings=(),
            holes=(),
            holes_more=0,
            environment={},
        )
