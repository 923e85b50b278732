"""The closed subtrees of a config, checked, and turned into core specs.

`project`, `slurm`, `monitoring` and `ui` are ours: an unknown key in them is an error.
`tree` and `research` are ours too, and refused while nothing runs them. `backend`,
`aux` and whatever the user adds at the top are open.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from autoexp_tui.actions.restart import QuarantineCheckpoint, Restart
from autoexp_tui.backends.base import Places
from autoexp_tui.backends.launch import Backends
from autoexp_tui.config.spec_reader import Findings, describe_errors, parse_list
from autoexp_tui.config.specs import RULES, parse_action, parse_condition
from autoexp_tui.executors.slurm.script import (
    parse_options,
    parse_seconds,
    read_template,
)
from autoexp_tui.model import rules as rule_kinds
from autoexp_tui.model import specs
from autoexp_tui.model.errors import Problem, UsageError
from autoexp_tui.model.specs import count_gpus
from autoexp_tui.planning import estimate
from autoexp_tui.planning.ports import Launch, SpecRefused
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR
from autoexp_tui.text.did_you_mean import find_slip

Scalar = str | int | float | bool | None
Section = TypeVar("Section", bound=BaseModel)

TOP_LEVEL: Final = (
    "project", "backend", "slurm", "monitoring", "sweep", "tree", "research", "ui",
    "aux", "hydra", "defaults",
)  # fmt: skip
_UNAVAILABLE: Final = {"tree": "Tree search", "research": "The research loop"}
"""Sections of ours that nothing runs yet, and what they would configure."""


class Closed(BaseModel):
    """A subtree that takes the keys below and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupShare(Closed):
    """`project.share` as `{group: read | write}`."""

    group: Literal["read", "write"] = "read"


class MaskSettings(Closed):
    """`project.mask`: keys whose values are masked besides, and which are not."""

    add: list[str] = Field(default_factory=list)
    keep: list[str] = Field(default_factory=list)


class ProjectSettings(Closed):
    """`project`."""

    name: str = "autoexp"
    base_output_dir: str = "outputs"
    share: Literal["private", "group"] | GroupShare = "private"
    """Who else may read, or write, what jobs leave."""
    mask: MaskSettings = Field(default_factory=lambda: MaskSettings())


class ClientSettings(Closed):
    """`slurm.client`: which executor, and how it behaves."""

    class_name: Literal[
        "LocalClient", "LocalCommandClient", "SlurmClient", "FakeSlurmClient"
    ] = "LocalClient"
    slots: int | None = Field(default=None, ge=1)
    """Local: jobs at a time on this host, whatever session they belong to."""
    slots_dir: str | None = None
    """Local: where slots are kept; on this host's own disk, and nobody else's."""
    grace_seconds: float | None = Field(default=None, gt=0)
    """Between asking a job to end and killing it."""
    python: str | None = None
    """Slurm: the interpreter on compute nodes that starts jobs; 3.6 or newer."""
    poll_seconds: float | None = Field(default=None, ge=1)
    slowest_poll_seconds: float | None = Field(default=None, ge=1)
    ask_seconds: float | None = Field(default=None, gt=0)
    submit_seconds: float | None = Field(default=None, gt=0)
    """Slurm: how long sbatch may take before the job is in doubt."""
    settle_seconds: float | None = Field(default=None, gt=0)
    """Slurm: how long nothing must be heard of a job in doubt before it is resent."""
    patience_seconds: float | None = Field(default=None, gt=0)
    """Slurm: for what may yet follow its last word on a job."""
    record_patience_seconds: float | None = Field(default=None, gt=0)
    """Slurm: for which a job that ended holds its node to write its exit record."""
    lost_seconds: float | None = Field(default=None, gt=0)
    """Slurm: a job of which nobody says a word is lost after this."""
    array_size: int | None = Field(default=None, ge=1)
    """Slurm: the most jobs that are sent as one array; 1: no arrays."""
    array_throttle: int | None = Field(default=None, ge=1)

    @field_validator("class_name", mode="before")
    @classmethod
    def _add_suffix(cls, value: object) -> object:
        is_short = isinstance(value, str) and not value.endswith("Client")
        return f"{value}Client" if is_short else value


class ConfirmSettings(Closed):
    """`slurm.confirm`: above what a submission needs a yes; null: never for that."""

    gpu_hours: float | None = Field(default=estimate.GPU_HOURS, gt=0)
    jobs: int | None = Field(default=estimate.JOBS, ge=1)


class SlurmSettings(Closed):
    """`slurm`: where jobs run, on Slurm or on this machine."""

    client: ClientSettings = ClientSettings()
    template_path: str | None = None
    script_dir: str | None = None
    log_dir: str = "outputs/logs"
    sbatch: dict[str, Scalar] = Field(default_factory=dict)
    """Long options of sbatch, with `_` or `-`; `time` and GPUs count locally too."""
    launcher_cmd: str | list[str] = ""
    srun_opts: str | list[str] = ""
    max_parallel: int = Field(default=0, ge=0)
    confirm: ConfirmSettings = ConfirmSettings()

    @field_validator("launcher_cmd", "srun_opts")
    @classmethod
    def _as_text(cls, value: str | list[str]) -> str:
        return value if isinstance(value, str) else shlex.join(value)


class AnomalySettings(Closed):
    """`monitoring.anomalies`."""

    nan: Literal["kill", "warn", "off"] = "kill"
    divergence: Literal["warn", "off"] = "warn"
    divergence_percent: float = Field(default=50.0, gt=0)
    min_points: int = Field(default=20, ge=2)

    @field_validator("nan", "divergence", mode="before")
    @classmethod
    def _read_off(cls, value: object) -> object:
        # YAML reads a bare `off` as false.
        return "off" if value is False else value


class FlatSettings(Closed):
    """`monitoring.warnings.flat`: the loss falls by less than so much."""

    share: float = Field(gt=0, le=1)
    """Of the run's steps."""
    percent: float = Field(default=1.0, gt=0)


class WarningSettings(Closed):
    """`monitoring.warnings`: what is warned of when it is asked for."""

    flat: FlatSettings | None = None


class StormSettings(Closed):
    """`monitoring.storm`."""

    failures: int = Field(default=5, ge=0)
    quick_seconds: float = Field(default=120.0, gt=0)
    per: tuple[Literal["session", "stage", "node"], ...] = Field(
        default=("session", "stage", "node"), min_length=1
    )
    action: Literal["pause", "exclude_node"] = "pause"


class NotifySettings(Closed):
    """`monitoring.notify`."""

    command: list[str] = Field(default_factory=list)


class MonitoringSettings(Closed):
    """`monitoring`; the rules inside are parsed by `specs`."""

    class_name: str | None = None
    """Taken and not used: configs of the origin project name their monitor."""
    state_dir: str = DEFAULT_STATE_DIR
    poll_seconds: float = Field(default=1.0, gt=0)
    start_condition_cmd: str | list[str] | None = None
    """A command that each start waits for; read by `planning.job_builder`."""
    log_events: list[Any] = Field(default_factory=list)
    state_events: list[Any] = Field(default_factory=list)
    metrics: list[Any] = Field(default_factory=list)
    metrics_files: list[Any] = Field(default_factory=list)
    loss: str = "loss"
    result: rule_kinds.ResultSpec = rule_kinds.ResultSpec()
    progress: rule_kinds.Progress = rule_kinds.Progress()
    anomalies: AnomalySettings = AnomalySettings()
    warnings: WarningSettings = WarningSettings()
    stall_after_seconds: float = Field(default=1800.0, gt=0)
    evidence_seconds: float = Field(
        default=rule_kinds.MOST_EVIDENCE_SECONDS,
        ge=0,
        le=rule_kinds.MOST_EVIDENCE_SECONDS,
    )
    doomed: Literal["skip", "hold"] = "skip"
    doomed_grace_seconds: float = Field(default=60.0, ge=0)
    notify: NotifySettings = NotifySettings()
    checkpoints: rule_kinds.Checkpoints = rule_kinds.Checkpoints()
    storm: StormSettings = StormSettings()
    lock_stale_seconds: float = Field(
        default=rule_kinds.LOCK_STALE_SECONDS, ge=rule_kinds.SHORTEST_LOCK_STALE_SECONDS
    )


class UiSettings(Closed):
    """`ui`: what belongs to the campaign; a person's own tastes are options."""

    first_run: str | None = None
    """What to say while nothing is submitted."""
    on_hangup: Literal["detach", "stop"] = "detach"


SECTIONS: Final[Mapping[str, type[BaseModel]]] = {
    "project": ProjectSettings,
    "slurm": SlurmSettings,
    "monitoring": MonitoringSettings,
    "ui": UiSettings,
}


class HouseParser:
    """Our `planning.ports.SpecParser`: of whole configs, already resolved."""

    def __init__(
        self, cwd: str, *, state_dir: str = "", config_dirs: Sequence[str] = ()
    ) -> None:
        """`cwd`: where commands run unless their backend says otherwise; absolute.

        `state_dir`: of the session, where it is known; `config_dirs`: roots of configs,
        in which schemas are looked for.
        """
        places = Places(cwd, state_dir, tuple(config_dirs))
        self._backends = Backends(places)

    condition = staticmethod(parse_condition)
    action = staticmethod(parse_action)

    def monitoring(self, config: Mapping[str, object]) -> rule_kinds.Monitoring:
        """How the plan's jobs are watched."""
        found = section(config, "monitoring", MonitoringSettings)
        same: dict[str, Any] = {
            one.name: getattr(found, one.name, None)
            for one in dataclasses.fields(rule_kinds.Monitoring)
        }
        same |= _parse_rules(found)
        flat, anomalies = found.warnings.flat, found.anomalies.model_dump()
        if flat is not None:
            anomalies |= {"flat_share": flat.share, "plateau_percent": flat.percent}
        same["anomalies"] = rule_kinds.Anomalies(**anomalies)
        same["notify_command"] = tuple(found.notify.command)
        same["storm"] = rule_kinds.Storm(**found.storm.model_dump())
        return rule_kinds.Monitoring(**same)

    def executor(self, config: Mapping[str, object]) -> specs.ExecutorSpec:
        """Where the plan's jobs run."""
        found = section(config, "slurm", SlurmSettings)
        _check_launching(found)
        keys = ("template_path", "script_dir", "log_dir", "launcher_cmd", "srun_opts")
        texts = {key: str(text) for key in keys if (text := getattr(found, key))}
        client = found.client.model_dump(exclude={"class_name"}, exclude_none=True)
        settings: dict[str, Scalar] = texts | client
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
        found = section(config, "slurm", SlurmSettings)
        options, problems = parse_options(found.sbatch, "slurm.sbatch")
        if problems:
            raise SpecRefused(tuple(problems))
        return specs.Resources(
            time_limit_seconds=parse_seconds(options.get("time")),
            gpus=count_gpus(options),
            options=options,
        )

    def launch(self, config: Mapping[str, object]) -> Launch:
        """The command of one job, from `backend`."""
        return self._backends.launch(config)

    def ui(self, config: Mapping[str, object]) -> Mapping[str, object]:
        """What `ui` sets, defaults filled in."""
        return section(config, "ui", UiSettings).model_dump(exclude_none=True)

    def check(self, config: Mapping[str, object]) -> Sequence[Problem]:
        """Everything wrong in the closed subtrees and in `backend`, all at once."""
        problems: list[Problem] = []
        for key, value in config.items():
            # All of ours hold keys: `pi: 3.14` is no slip of `ui`.
            may_be_ours = isinstance(value, Mapping) and re.fullmatch(r"\w+", key)
            near = find_slip(key, SECTIONS) if may_be_ours else None
            if near is not None and key not in TOP_LEVEL:
                hint = f"did you mean `{near}`?"
                problems.append(Problem("is no key of ours", where=key, hint=hint))
        for key, what in _UNAVAILABLE.items():
            # A sweep would run where a search was meant.
            if config.get(key) is not None:
                message = f"{what} is not available in this version"
                hint = f"remove the section `{key}`; without it the sweep runs as it is"
                problems.append(Problem(message, where=key, hint=hint))
        for question in (
            lambda: section(config, "project", ProjectSettings),
            lambda: self.monitoring(config),
            lambda: self.executor(config),
            lambda: self.resources(config),
            lambda: self.ui(config),
            lambda: self.launch(config),
        ):
            try:
                question()
            except SpecRefused as error:
                problems += error.problems
        return tuple(dict.fromkeys(problems))


def section(config: Mapping[str, object], name: str, model: type[Section]) -> Section:
    """One closed subtree, checked; an absent or empty one has its defaults."""
    value = config.get(name)
    try:
        return model.model_validate({} if value is None else value)
    except ValidationError as error:
        known = _list_known_keys(model)
        raise SpecRefused(tuple(describe_errors(error, name, known))) from None


@cache
def _list_known_keys(model: Any) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The keys of a model and of the models inside it, by their place."""
    kinds = get_type_hints(model)
    is_model = issubclass(model, BaseModel)
    fields = model.model_fields if is_model else model.__dataclass_fields__
    known: dict[tuple[str, ...], tuple[str, ...]] = {(): tuple(fields)}
    for name in fields:
        inner = kinds[name]
        if isinstance(inner, type) and (
            issubclass(inner, BaseModel) or dataclasses.is_dataclass(inner)
        ):
            nested = _list_known_keys(inner)
            known |= {(name, *at): keys for at, keys in nested.items()}
    return known


@cache
def list_closed_keys() -> frozenset[str]:
    """The dotted keys of the closed subtrees, sections left out."""
    found: set[str] = set()
    for name, model in SECTIONS.items():
        known = _list_known_keys(model)
        for place, keys in known.items():
            leaves = (key for key in keys if (*place, key) not in known)
            found |= {".".join((name, *place, key)) for key in leaves}
    return frozenset(found)


def _parse_rules(found: MonitoringSettings) -> dict[str, tuple[Any, ...]]:
    """The parsed lists of rules, by key; every finding of all of them at once."""
    findings = Findings("monitoring")
    rules: dict[str, tuple[Any, ...]] = {}
    for key, parse in RULES.items():
        built = parse_list(getattr(found, key), findings, key, parse)
        names = [getattr(rule, "name", "") or rule.path for rule in built]
        for name in sorted({name for name in names if names.count(name) > 1}):
            findings.add(f"`{name}` is there more than once", key)
        if key.endswith("_events") and not found.checkpoints.glob:
            findings.problems += _find_without_checkpoints(built, key)
        rules[key] = built
    findings.settle()
    return rules


def _find_without_checkpoints(rules: Sequence[Any], key: str) -> Iterator[Problem]:
    """Actions on checkpoints that nobody has said the place of."""
    for at, rule in enumerate(rules):
        for number, action in enumerate(rule.actions):
            restart = isinstance(action, Restart) and action.quarantine_after
            move = isinstance(action, QuarantineCheckpoint) and not action.path
            if restart or move:
                where = f"monitoring.{key}.{at}.actions.{number}"
                hint = "monitoring.checkpoints.glob: checkpoints/iter_*"
                yield Problem("does not know where checkpoints are", where, hint=hint)


def _check_launching(found: SlurmSettings) -> None:
    """Refuse words that do not split, and on Slurm a template that starts nothing."""
    findings = Findings("slurm")
    for key in ("launcher_cmd", "srun_opts"):
        try:
            shlex.split(str(getattr(found, key)))
        except ValueError as error:
            message = f"cannot be split into words: {error}"
            findings.add(message, key, "a list of words needs no quoting")
    if found.client.class_name == "SlurmClient" and found.template_path:
        try:
            read_template(found.template_path)
        except UsageError as error:
            problem = Problem(error.problem, error.where, hint=error.hint)
            findings.problems.append(problem)
    findings.settle()
