"""What a simulated campaign is to do, from one seed: its plan and its rules.

Families of stages with every kind of wait and cancel, jobs that want the same and may
go as one array, and rules that react to every class of end. What the runs then do is
`sim_scripts`' affair. Nothing is run here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from autoexp_tui.actions.kinds import (
    AppendToFile,
    Cancel,
    Finish,
    Log,
    NewJob,
    Notify,
    QuarantineCheckpoint,
    Restart,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Composite,
    Cooldown,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    Not,
    TimeReached,
)
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import (
    Action,
    Anomalies,
    LogEvent,
    Monitoring,
    StateClass,
    StateEvent,
    Storm,
)
from autoexp_tui.model.specs import Edge, JobSpec, Plan, Resources, Scalar

Conditions = tuple[Condition, ...]

BESIDE, TRIALS = 0.2, 0.2
"""Shares of the jobs that run beside, and that may fail without harm."""
MOST_ATTEMPTS = 4
"""No rule of these plans allows a job more."""
LEDGER = "/ledger.txt"
"""Each attempt that succeeded adds a line to it."""
DONE_FILE = "done_80.txt"
"""What a run leaves in its output directory when it is four fifths through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a plan is, and where its jobs live."""

    families: int = 3
    root: str = ""
    """Before every path."""
    pace: float = 1.0
    """By how much longer than a minute a usual run is."""
    partitions: tuple[str, ...] = ()
    """Of a cluster, to be asked for; empty: jobs ask for nothing."""
    series: str = ""
    """At the end of every name: plans of one session have different ones."""
    first_index: int = 0
    reacts: bool = False
    """Whether rules let jobs join, and do what is done outside."""


def make_plan(rng: random.Random, shape: Shape) -> Plan:
    """Families of stages with every kind of wait, and a fan-in at the end."""
    maker = _Maker(rng, shape)
    for family in range(shape.families):
        maker.add_family(family)
    maker.add_report()
    rules = _rules(rng, shape)
    node = _on("node_fail", _restart(2, 5.0))  # no second attempt, but for lost nodes
    strict = Monitoring(
        state_events=(node,), stall_after_seconds=rules.stall_after_seconds
    )
    return Plan(
        plan_id=f"sim{shape.series}",
        name="sim",
        state_dir="/state",
        jobs=tuple(maker.specs),
        edges=tuple(maker.edges),
        monitoring=_reacting(rules) if shape.reacts else rules,
        rule_sets={"strict": strict},
    )


def _rules(rng: random.Random, shape: Shape) -> Monitoring:
    return Monitoring(
        poll_seconds=rng.choice([1.0, 3.0, 7.0]),
        log_events=_log_events(rng),
        state_events=tuple(_state_events(rng)),
        anomalies=Anomalies(nan=rng.choice(["kill", "kill", "warn"])),
        stall_after_seconds=60.0 * shape.pace,
        doomed="hold" if rng.random() < 0.1 else "skip",
        doomed_grace_seconds=10.0,
        notify_command=("tell",) if rng.random() < 0.3 else (),
        storm=Storm(failures=rng.choice([0, 0, 3, 6])),
    )


def _restart(most: int, cooldown: float, **fields: Any) -> Restart:
    limits = MaxAttempts(max_attempts=most), Cooldown(cooldown_seconds=cooldown)
    return Restart(reason="again", conditions=limits, **fields)


def _says(name: str, pattern: str, *actions: Action, **fields: Any) -> LogEvent:
    return LogEvent(name=name, pattern=pattern, actions=actions, **fields)


def _on(state: StateClass, *actions: Action, name: str = "", **more: Any) -> StateEvent:
    return StateEvent(name=name or state, state=state, actions=actions, **more)


def _log_events(rng: random.Random) -> tuple[LogEvent, ...]:
    hang = _restart(MOST_ATTEMPTS - 1, rng.choice([1.0, 30.0]))
    hopeless = Cancel(reason="it said so", cause="kill_criterion")
    number = {"checkpoint_iteration": "n"}
    silent = Notify(message="{name} says nothing")
    saved = r"saved checkpoint (?P<n>\d+)"
    return (
        _says("saved", saved, pattern_type="regex", extract_groups=number),
        _says("fatal", "FATAL", Notify(message="{name}: {line}"), match_once=True),
        _says("hang", "collective timed out", hang),
        _says("enough", "loss is low enough", Finish(reason="it is good enough")),
        _says("silent", "", silent, pattern_type="inactivity", after_seconds=40.0),
        _says("hopeless", "cannot go on", hopeless),
    )


def _state_events(rng: random.Random) -> list[StateEvent]:
    """Most classes of ends are answered by a restart, some by a word; success of some
    stages plans further jobs."""
    line = AppendToFile(path=LEDGER, text="{name} {attempt}")
    after = NewJob(command=("after", "{name}"), name="{name}_after")
    moved = StateEvent(
        name="failed",
        transition=("RUNNING", "FAILED"),
        actions=(
            Notify(message="{name} failed"),
            RunCommand(command=("after", "{name}", "{attempt}")),
            QuarantineCheckpoint(keep=1),
        ),
    )
    found = [
        _on("crash", _restart(rng.randint(2, 3), rng.choice([1.0, 20.0]))),
        _on("oom", _restart(2, 1.0, exclude_node=True, quarantine_after=1)),
        _on("node_fail", _restart(MOST_ATTEMPTS, 1.0)),
        _on("preempted", _restart(MOST_ATTEMPTS, 5.0)),
        _on("timeout", _restart(3, 1.0, overrides=("train.steps=100",))),
        _on("success", Log(message="{name} is done"), line),
    ]
    if rng.random() < 0.7:
        found.append(_on("stall", _restart(2, 1.0, from_checkpoint=False)))
    return [
        *found,
        _on("success", after, name="after", stages=("lone",)),
        _on("success", _further("{name}_more"), name="more", stages=("seeker",)),
        moved,
    ]


def _further(name: str) -> RunAutoexp:
    overrides = (f"project.name={name}",)
    return RunAutoexp(config_ref="further", overrides=overrides, mode="now")


_RECOVER = RunAutoexp(
    config_ref="recover",
    overrides=("project.name={name}_r", "after={name}"),
    conditions=(MaxAttempts(max_attempts=2), Cooldown(cooldown_seconds=5.0)),
)
_WHEN_SAVED = Restart(
    conditions=(
        MaxAttempts(max_attempts=4),
        FileExists(path="{output_dir}/done_80.txt", timeout_seconds=30.0),
    )
)
_FOLLOW = NewJob(
    command=("list", "{name}"),
    start_conditions=(JobStateIs(jobs=("{name}",), state="COMPLETED"),),
)


def _reacting(rules: Monitoring) -> Monitoring:
    """`rules`, and those that let jobs join, under the same rules, by what logs and
    ends say: an action must not feed itself."""
    bring, saved = _further("{name}_{attempt}_b"), "saved checkpoint 80"
    trained, probed = ("train", "source", "further"), ("probe", "seeker")
    followed, kept = ("eval", "lone", "recover"), ("train", "source", "stable")
    again = ("side", "lone", "reader", "recover")
    return replace(
        rules,
        log_events=(
            *rules.log_events,
            _says("bring", saved, bring, stages=trained),
            _says("early", saved, Finish(reason="enough"), stages=probed),
        ),
        state_events=(
            *rules.state_events,
            _on("success", _FOLLOW, name="follow", stages=followed),
            _on("crash", _WHEN_SAVED, name="kept", stages=kept),
            _on("crash", _RECOVER, name="recover", stages=again),
        ),
    )


@dataclass(slots=True)
class _Maker:
    """Makes the jobs of one plan."""

    rng: random.Random
    shape: Shape
    specs: list[JobSpec] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """The last job of each family."""
    places: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.places = random.Random()
        self.places.setstate(self.rng.getstate())
        self.places.seed(f"places {self.places.random()}")

    def add_family(self, number: int) -> None:
        kinds = (self._staged, self._staged, self._measured, self._sought, self._alone)
        self.ends.append(self.rng.choice(kinds)(number))

    def add_report(self) -> None:
        last = tuple(self.ends[:8])
        over = JobStateIs(jobs=last, state="COMPLETED")
        self._job("report", 0, last, start=(over, Approval(prompt="go on?")))

    def _staged(self, family: int) -> str:
        """Train, cool down, evaluate: by a file, by metadata, by the state."""
        stable = self._job("stable", family, strict=True)
        name = stable.name
        done = FileExists(path=f"{stable.output_dir}/{DONE_FILE}", writer=name)
        logged = MetadataIs(key="checkpoint_iteration", job=name, op=">=", value=80)
        failed = JobStateIs(jobs=(name,), state="FAILED")
        log = stable.log_path_current
        fatal = LogPattern(log_path=log, pattern="FATAL", writer=name)
        start = (done, logged) if self.rng.random() < 0.8 else (done,)
        cool = self._job("cool", family, (name,), start=start, cancel=(failed, fatal))
        over = JobStateIs(jobs=(cool.name,), state="COMPLETED", timeout_seconds=3000.0)
        return self._job("eval", family, (cool.name,), start=(over,)).name

    def _measured(self, family: int) -> str:
        """A probe that starts once a loss is low enough, or enough time has passed."""
        train = self._job("train", family)
        low = MetricIs(name="loss", job=train.name, op="<", value=2.6, after_step=40)
        start: Conditions = (low,)
        if self.rng.random() < 0.5:
            late = TimeReached(after_seconds=self.rng.uniform(30.0, 400.0))
            start = (Composite(mode="any", conditions=(low, late)),)
        return self._job("probe", family, (train.name,), start=start).name

    def _sought(self, family: int) -> str:
        """Two that wait for what the first one writes, each by other means."""
        source = self._job("source", family)
        done = f"{source.output_dir}/{DONE_FILE}"
        text = FileContent(path=done, pattern="done", writer=source.name)
        pattern = f"{source.output_dir}/done_*.txt"
        match = FileExists(path=pattern, glob=True, min_size=2, writer=source.name)
        lost = JobStateIs(jobs=(source.name,), state="LOST")
        ready = CommandPasses(command=("is-ready", str(family)))
        self._job("reader", family, (source.name,), start=(text, ready))
        start: Conditions = (match, Not(condition=lost))
        return self._job("seeker", family, (source.name,), start=start).name

    def _alone(self, family: int) -> str:
        asked: Conditions = (Approval(prompt="this one too?"),)
        self._job("side", family, start=asked if self.rng.random() < 0.2 else ())
        return self._job("lone", family).name

    def _job(
        self,
        stage: str,
        family: int,
        upstream: tuple[str, ...] = (),
        *,
        start: Conditions = (),
        cancel: Conditions = (),
        strict: bool = False,
    ) -> JobSpec:
        name = f"{stage}{family}{self.shape.series}"
        own_rules = strict and self.rng.random() < 0.1
        made = JobSpec(
            name=name,
            index=self.shape.first_index + len(self.specs),
            stage=stage,
            family=f"f{family}",
            depends_on=upstream,
            command=("train", name),
            fingerprint=name,
            output_dir=f"{self.shape.root}/out/{name}",
            log_dir=f"{self.shape.root}/logs/{name}",
            start_conditions=start,
            cancel_conditions=cancel,
            resources=self._resources(),
            place="beside" if self.places.random() < BESIDE else "main",
            trial=self.places.random() < TRIALS,
            rules="strict" if own_rules else "",
        )
        self.specs.append(made)
        self.edges += [Edge(before=one, after=name, mode="waits") for one in upstream]
        return made

    def _resources(self) -> Resources:
        if not self.shape.partitions:
            return Resources()
        minutes = max(2, round(4 * self.shape.pace))
        partition = self.rng.choice(self.shape.partitions)
        options: dict[str, Scalar] = {"partition": partition, "time": minutes}
        if self.rng.random() < 0.3:
            options["no-requeue"] = True
        return Resources(time_limit_seconds=60.0 * minutes, options=options)
