"""The closed subtrees of a config, checked, and turned into core specs.

`project`, `slurm`, `monitoring`, `tree`, `research`, `agents` and `ui` are ours: an
unknown key in them is an error. `backend`, `aux` and whatever the user adds at the top
are open.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from autoexp_tui.actions.kinds import QuarantineCheckpoint, Restart
from autoexp_tui.backends.base import Places
from autoexp_tui.backends.launch import Backends
from autoexp_tui.config.policy_sections import (
    RESEARCH,
    TREE,
    check_around,
    parse_agents,
    require_agents,
)
from autoexp_tui.config.spec_reader import Fields, Findings, Kind, require_one, to_plain
from autoexp_tui.config.specs import RULES, parse_condition
from autoexp_tui.executors.slurm.script import (
    parse_options,
    parse_seconds,
    read_template,
)
from autoexp_tui.model import rules as rule_kinds
from autoexp_tui.model import specs
from autoexp_tui.model.agents import AgentsSettings
from autoexp_tui.model.errors import Problem, UsageError
from autoexp_tui.model.masking import NO_RULES, MaskRules
from autoexp_tui.model.own_commands import OwnCommand
from autoexp_tui.model.specs import count_gpus
from autoexp_tui.planning import estimate
from autoexp_tui.planning.ports import Launch, SpecRefused
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR
from autoexp_tui.research.options import watch_for_research
from autoexp_tui.text.did_you_mean import find_slip

Scalar: TypeAlias = str | int | float | bool | None
Seconds: TypeAlias = Annotated[float, Field(gt=0)] | None
Count: TypeAlias = Annotated[int, Field(ge=1)] | None

TOP_LEVEL: Final = (
    "project", "backend", "slurm", "monitoring", "sweep", "agents", "tree", "research",
    "ui", "aux", "hydra", "defaults",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """`project`."""

    name: str = "autoexp"
    base_output_dir: str = "outputs"
    share: (
        Literal["private", "group"] | dict[Literal["group"], Literal["read", "write"]]
    ) = "private"
    """Who else may read, or write, what jobs leave."""
    mask: MaskRules = NO_RULES


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`slurm.client`: which executor, and how it behaves."""

    class_name: Literal[
        "LocalClient", "LocalCommandClient", "SlurmClient", "FakeSlurmClient"
    ] = "LocalClient"
    slots: Count = None
    """Local: jobs at a time on this host, whatever session they belong to."""
    beside_parallel: Count = None
    """On any executor: jobs at a time that policies run on the engine's host, beside
    the others and in no slot."""
    slots_dir: str | None = None
    """Local: where slots are kept; on this host's own disk, and nobody else's."""
    grace_seconds: Seconds = None
    """Between asking a job to end and killing it."""
    python: str | None = None
    """Slurm: the interpreter on compute nodes that starts jobs; 3.6 or newer."""
    poll_seconds: Annotated[float, Field(ge=1)] | None = None
    slowest_poll_seconds: Annotated[float, Field(ge=1)] | None = None
    ask_seconds: Seconds = None
    submit_seconds: Seconds = None
    """Slurm: how long sbatch may take before the job is in doubt."""
    settle_seconds: Seconds = None
    """Slurm: how long nothing must be heard of a job in doubt before it is resent."""
    patience_seconds: Seconds = None
    """Slurm: for what may yet follow its last word on a job."""
    record_patience_seconds: Seconds = None
    """Slurm: for which a job that ended holds its node to write its exit record."""
    lost_seconds: Seconds = None
    """Slurm: a job of which nobody says a word is lost after this."""
    array_size: Count = None
    """Slurm: the most jobs that are sent as one array; 1: no arrays."""
    array_throttle: Count = None


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """`slurm`: where jobs run, on Slurm or on this machine."""

    client: ClientSettings = ClientSettings()
    template_path: str | None = None
    script_dir: str | None = None
    log_dir: str = "outputs/logs"
    sbatch: dict[str, Scalar] = field(default_factory=dict)
    """Long options of sbatch, with `_` or `-`; `time` and GPUs count locally too."""
    launcher_cmd: str | list[str] = ""
    srun_opts: str | list[str] = ""
    max_parallel: Annotated[int, Field(ge=0)] = 0
    confirm: estimate.Bounds = field(default_factory=estimate.Bounds)


@dataclass(frozen=True, slots=True)
class FlatSettings:
    """`monitoring.warnings.flat`: the loss falls by less than so much."""

    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """In so much of the run's steps."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """In so many steps, whether the run's last one is known or not."""
    percent: Annotated[float, Field(gt=0)] = 1.0


@dataclass(frozen=True, slots=True)
class WarningSettings:
    """`monitoring.warnings`: what is warned of when it is asked for."""

    flat: FlatSettings | None = None


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """`monitoring.notify`."""

    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringSettings(rule_kinds.Monitoring):
    """`monitoring`."""

    class_name: str | None = None
    """Taken and not used: configs of the origin project name their monitor."""
    state_dir: str = DEFAULT_STATE_DIR
    start_condition_cmd: str | list[str] | None = None
    """A command that each start waits for; read by `planning.job_builder`."""
    warnings: WarningSettings = WarningSettings()
    notify: NotifySettings = NotifySettings()


@dataclass(frozen=True, slots=True)
class UiSettings:
    """`ui`: what belongs to the campaign; a person's own tastes are options."""

    first_run: str | None = None
    """What to say while nothing is submitted."""
    on_hangup: Literal["detach", "stop"] = "detach"
    commands: tuple[OwnCommand, ...] = ()
    """Commands on keys; only the cockpit that opened the config has them."""


def _read_client(fields: Fields, findings: Findings) -> None:
    name = fields.get("class_name")
    if isinstance(name, str) and not name.endswith("Client"):
        fields["class_name"] = f"{name}Client"


def _read_slurm(fields: Fields, findings: Findings) -> None:
    """Refuse words that do not split, and on Slurm a template that starts nothing."""
    for key in ("launcher_cmd", "srun_opts"):
        value = fields.get(key)
        if isinstance(value, list):
            fields[key] = shlex.join(map(str, value))
        elif isinstance(value, str):
            try:
                shlex.split(value)
            except ValueError as error:
                message = f"cannot be split into words: {error}"
                findings.add(message, key, "a list of words needs no quoting")
    client, path = fields.get("client"), fields.get("template_path")
    is_slurm = isinstance(client, ClientSettings) and client.class_name == "SlurmClient"
    if is_slurm and path and isinstance(path, str):
        try:
            read_template(path)
        except UsageError as error:
            problem = Problem(error.problem, error.where, hint=error.hint)
            findings.problems.append(problem)


def _read_anomalies(fields: Fields, findings: Findings) -> None:
    for key in ("nan", "divergence"):
        if fields.get(key) is False:  # YAML reads a bare `off` so
            fields[key] = "off"


def _read_flat(fields: Fields, findings: Findings) -> None:
    require_one(fields, findings, ("share", "steps"))


def _read_monitoring(fields: Fields, findings: Findings) -> None:
    most = rule_kinds.MOST_EVIDENCE_SECONDS
    seconds = fields.get("evidence_seconds")
    if isinstance(seconds, int | float) and seconds > most:
        findings.add(
            f"is {seconds}; it must not be more than {most}", "evidence_seconds"
        )
    for key in RULES:
        rules = fields.get(key, ())
        names = [getattr(rule, "name", "") or rule.path for rule in rules]
        for name in sorted({name for name in names if names.count(name) > 1}):
            findings.add(f"`{name}` is there more than once", key)
        checkpoints = fields.get("checkpoints")
        if key.endswith("_events") and not (checkpoints and checkpoints.glob):
            for place in _list_without_checkpoints(rules, key):
                hint = "monitoring.checkpoints.glob: checkpoints/iter_*"
                findings.add("does not know where checkpoints are", place, hint)


def _list_without_checkpoints(rules: Sequence[Any], key: str) -> Iterator[str]:
    """Actions on checkpoints that nobody has said the place of."""
    for at, rule in enumerate(rules):
        for number, action in enumerate(rule.actions):
            restart = isinstance(action, Restart) and action.quarantine_after
            move = isinstance(action, QuarantineCheckpoint) and not action.path
            if restart or move:
                yield f"{key}.{at}.actions.{number}"


_NO_KEYS: Final = (
    *("flat_share", "flat_steps", "plateau", "plateau_percent", "plateau_steps"),
)
"""Of `anomalies`: read in older plans, or set by `warnings`."""
SECTIONS: Final[Mapping[str, Kind]] = {
    "project": Kind(ProjectSettings, parts={"mask": Kind(MaskRules)}),
    "slurm": Kind(
        SlurmSettings,
        _read_slurm,
        parts={
            "client": Kind(ClientSettings, _read_client),
            "confirm": Kind(estimate.Bounds),
        },
    ),
    "monitoring": Kind(
        MonitoringSettings,
        _read_monitoring,
        hidden=("notify_command",),
        lists=RULES,
        parts={
            "result": Kind(rule_kinds.ResultSpec),
            "progress": Kind(rule_kinds.Progress),
            "anomalies": Kind(rule_kinds.Anomalies, _read_anomalies, hidden=_NO_KEYS),
            "warnings": Kind(
                WarningSettings, parts={"flat": Kind(FlatSettings, _read_flat)}
            ),
            "notify": Kind(NotifySettings),
            "checkpoints": Kind(rule_kinds.Checkpoints),
            "storm": Kind(rule_kinds.Storm),
        },
    ),
    "tree": TREE,
    "research": RESEARCH,
    "ui": Kind(UiSettings, lists={"commands": Kind(OwnCommand).parse}),
}


class HouseParser:
    """Our `planning.ports.SpecParser`: of whole configs, already resolved."""

    def __init__(
        self, cwd: str, *, state_dir: str = "", config_dirs: Sequence[str] = ()
    ) -> None:
        """As the `Places` of backends."""
        places = Places(cwd, state_dir, tuple(config_dirs))
        self.launch: Callable[[Mapping[str, object]], Launch] = Backends(places).launch
        """The command of one job, from `backend`."""

    condition = staticmethod(parse_condition)

    def monitoring(self, config: Mapping[str, object]) -> rule_kinds.Monitoring:
        """How the plan's jobs are watched."""
        found: MonitoringSettings = section(config, "monitoring")
        names = [one.name for one in fields(rule_kinds.Monitoring)]
        same: dict[str, Any] = {name: getattr(found, name) for name in names}
        if flat := found.warnings.flat:
            same["anomalies"] = replace(
                found.anomalies,
                flat_share=flat.share,
                flat_steps=flat.steps,
                plateau_percent=flat.percent,
            )
        same["notify_command"] = found.notify.command
        made = rule_kinds.Monitoring(**same)
        return made if config.get("research") is None else watch_for_research(made)

    def executor(self, config: Mapping[str, object]) -> specs.ExecutorSpec:
        """Where the plan's jobs run."""
        found: SlurmSettings = section(config, "slurm")
        keys = ("template_path", "script_dir", "log_dir", "launcher_cmd", "srun_opts")
        given = {key: getattr(found, key) or None for key in keys}
        given |= asdict(found.client) | {"class_name": None}
        settings: dict[str, Scalar] = {
            key: value for key, value in given.items() if value is not None
        }
        # Bounds of a submission that are not the usual ones.
        if found.confirm.gpu_hours != estimate.GPU_HOURS:
            settings[estimate.CONFIRM_GPU_HOURS] = found.confirm.gpu_hours
        if found.confirm.jobs != estimate.JOBS:
            settings[estimate.CONFIRM_JOBS] = found.confirm.jobs
        return specs.ExecutorSpec(
            class_name=found.client.class_name,
            max_parallel=found.max_parallel,
            settings=settings,
        )

    def resources(self, config: Mapping[str, object]) -> specs.Resources:
        """What one job asks for, from `slurm.sbatch`."""
        found: SlurmSettings = section(config, "slurm")
        if not found.sbatch:
            return specs.Resources()
        options, problems = parse_options(found.sbatch, "slurm.sbatch")
        if problems:
            raise SpecRefused(tuple(problems))
        return specs.Resources(
            time_limit_seconds=parse_seconds(options.get("time")),
            gpus=count_gpus(options),
            options=options,
        )

    def tree(self, config: Mapping[str, object]) -> Mapping[str, object]:
        """How code states are searched; empty: no search is asked for."""
        if config.get("tree") is None:
            return {}
        options = section(config, "tree")
        require_agents(options, self.agents(config).by_name)
        return to_plain(options)

    def research(self, config: Mapping[str, object]) -> Mapping[str, object]:
        """How the session researches; empty: it does not."""
        if config.get("research") is None:
            return {}
        options = RESEARCH.parse(config["research"], "research")
        executor = self.executor(config).class_name
        check_around(options, config, executor)
        require_agents(options, self.agents(config).by_name)
        return to_plain(options)

    def agents(self, config: Mapping[str, object]) -> AgentsSettings:
        """The agents by name, and how they are isolated."""
        return parse_agents(config)

    def check(self, config: Mapping[str, object]) -> Sequence[Problem]:
        """Everything wrong in the closed subtrees and in `backend`, all at once."""
        problems: list[Problem] = []
        for key, value in config.items():
            # All of ours hold keys: `pi: 3.14` is no slip of `ui`.
            is_theirs = key in TOP_LEVEL or not isinstance(value, Mapping)
            if is_theirs or not re.fullmatch(r"\w+", key):
                continue
            if near := find_slip(key, SECTIONS):
                hint = f"did you mean `{near}`?"
                problems.append(Problem("is no key of ours", where=key, hint=hint))
        for question in (
            lambda: section(config, "project"),
            lambda: self.monitoring(config),
            lambda: self.executor(config),
            lambda: self.resources(config),
            lambda: self.tree(config),
            lambda: self.research(config),
            lambda: parse_agents(config),
            lambda: section(config, "ui"),
            lambda: self.launch(config),
        ):
            try:
                question()
            except SpecRefused as error:
                problems += error.problems
        return tuple(dict.fromkeys(problems))


def section(config: Mapping[str, object], name: str) -> Any:
    """One closed subtree, checked; an absent or empty one has its defaults."""
    value, kind = config.get(name), SECTIONS[name]
    return kind.spec() if value in (None, {}) else kind.parse(value, name)


@cache
def list_closed_keys() -> frozenset[str]:
    """The dotted keys of the closed subtrees, sections left out."""
    found, kinds = set[str](), dict(SECTIONS)
    while kinds:
        place, kind = kinds.popitem()
        names = {name: f"{place}.{name}" for name in kind.list_fields()}
        kinds |= {names[name]: part for name, part in kind.parts.items()}
        found |= {key for name, key in names.items() if name not in kind.parts}
    return frozenset(found)
