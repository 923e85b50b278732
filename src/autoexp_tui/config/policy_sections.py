"""How the sections of agents and of what calls them are read: `agents` (by name, beside
how they are isolated), `tree`, `research`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from autoexp_tui.config.spec_reader import (
    POSITIVE,
    Fields,
    Findings,
    Kind,
    read_mapping,
    refuse_text,
)
from autoexp_tui.model.agents import AgentSpec, AgentsSettings, Limits, Prices
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.research.options import (
    ROLES,
    Approvals,
    Budgets,
    Fixer,
    Objective,
    ResearchOptions,
    RoleBudget,
)
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.tree.options import (
    GateOptions,
    IdeaSource,
    Implementation,
    Measurement,
    Metric,
    Noise,
    TreeOptions,
)
from autoexp_tui.tree.results_csv import ID_COLUMN, STATUS_COLUMN

_MODELLESS: Final = ("command", "scripted")


def _refuse_negative(fields: Fields, findings: Findings) -> None:
    """Bounds of `Limits` and `Prices`, of which some must even be more than 0."""
    for name, value in fields.items():
        if isinstance(value, int | float) and value < 0 and name not in POSITIVE:
            findings.add(f"is {value}; it must not be less than 0", name)


def _read_agent(fields: Fields, findings: Findings) -> None:
    refuse_text(fields, findings, "command")
    if isinstance(fields.get("env"), Sequence) and not isinstance(fields["env"], str):
        fields["env"] = dict.fromkeys(map(str, fields["env"]))
    if fields.get("backend") in _MODELLESS:
        if not fields.get("command"):
            findings.add("is missing", "command", "command: [PROGRAM, ARGUMENT, ...]")
        elif fields["backend"] == "scripted" and len(fields["command"]) != 1:
            hint = "command: [module:function], or [a JSON file]"
            findings.add("is not the one script", "command", hint)
        if fields.get("model"):
            findings.add("is for codex and claude alone", "model", "leave it out")


_AGENT: Final = Kind(
    AgentSpec,
    _read_agent,
    parts={
        "limits": Kind(Limits, _refuse_negative),
        "prices": Kind(Prices, _refuse_negative),
    },
)


def parse_agents(config: Mapping[str, object]) -> AgentsSettings:
    """The section of a config; SpecRefused tells all that is wrong with it."""
    fields = read_mapping(config.get("agents") or {}, "agents")
    findings = Findings("agents")
    isolation = fields.pop("isolation", "prefer")
    if isolation not in ("require", "prefer", "none"):
        message = f"is {isolation!r}; it may be 'require', 'prefer' or 'none'"
        findings.add(message, "isolation")
    found = {
        name: findings.inherit(_AGENT.parse, value, name)
        for name, value in fields.items()
    }
    findings.settle()
    return AgentsSettings(isolation, found)


def read_roles(fields: Fields, *names: str) -> None:
    """An agent is named alone, or as one of a chain."""
    for name in names:
        if isinstance(fields.get(name), str):
            fields[name] = [fields[name]] if fields[name] else []


def require_agents(
    options: TreeOptions | ResearchOptions, known: Collection[str]
) -> None:
    """Refuse roles with an agent that is not `known`; raises SpecRefused."""
    if isinstance(options, TreeOptions):
        implement = options.implement
        roles = {
            "tree.ideas.agent": options.ideas.agent,
            "tree.implement.agent": implement.agent,
            "tree.implement.review_agent": implement.review_agent,
        }
    else:
        roles = {
            "research.agent": options.agent,
            "research.fixer.agent": options.fixer.agent,
        }
    for where, names in roles.items():
        findings = Findings(where)
        for at, name in enumerate(names):
            if name not in known:
                hint = did_you_mean(name, known, "agents")
                field = str(at) if len(names) > 1 else ""
                findings.add(f"there is no agent `{name}`", field, hint)
        findings.settle()


_MOST_HEARTBEAT: Final = 30


def parse_metric(value: object, where: str) -> Metric:
    """A metric: a mapping, or its name alone; raises SpecRefused."""
    fields = {"name": value} if isinstance(value, str) else value
    made: Metric = _METRIC.parse(fields, where)
    return made


def _read_metric(fields: Fields, findings: Findings) -> None:
    if fields.get("name") in (ID_COLUMN, STATUS_COLUMN):
        findings.add(f"`{fields['name']}` is no metric of the results", "name")
    bounds = fields.get("bounds")
    given = bounds if isinstance(bounds, list) else []
    numbers = [one for one in given if isinstance(one, int | float)]
    if not all(map(math.isfinite, numbers)):
        findings.add(f"is {bounds}", "bounds", "null where it has no bound: [0, null]")
    elif numbers != sorted(numbers):
        findings.add(f"is {bounds}, which does not rise", "bounds")


def _refuse_pair(fields: Fields, findings: Findings, *names: str) -> None:
    given = [name for name in names if fields.get(name)]
    if len(given) > 1:
        message = f"{' and '.join(f'`{name}`' for name in given)} are both given"
        findings.add(message, hint="keep one of them")


def _read_ideas(fields: Fields, findings: Findings) -> None:
    read_roles(fields, "agent")
    refuse_text(fields, findings, "command")
    _refuse_pair(fields, findings, "agent", "command", "dir")


def _read_evaluate(fields: Fields, findings: Findings) -> None:
    refuse_text(fields, findings, "command", "score_command")
    _refuse_pair(fields, findings, "command", "config_ref")
    _refuse_pair(fields, findings, "score_command", "config_ref")
    if fields.get("stage") and not fields.get("config_ref"):
        findings.add("is a stage of no plan", "stage", "set `config_ref` too")


def _read_gate(fields: Fields, findings: Findings) -> None:
    """Grades in their order, shares within 0 and 1."""
    default = GateOptions()
    names = ("mixed", "promising", "strong")
    given = [fields.get(name, getattr(default, name)) for name in names]
    if all(isinstance(one, int | float) for one in given) and given != sorted(given):
        findings.add("`mixed`, `promising` and `strong` must rise in this order")
    rate = fields.get("min_ok_rate")
    if isinstance(rate, int | float) and not 0 <= rate <= 1:
        findings.add(f"is {rate}; it must be between 0 and 1", "min_ok_rate")


def _read_noise(fields: Fields, findings: Findings) -> None:
    if fields.get("repeats") == 1:
        message = "is 1: one measurement does not tell how much it varies"
        findings.add(message, "repeats", "0 (off), or at least 2")


def _read_tree(fields: Fields, findings: Findings) -> None:
    metrics = fields.get("metrics")
    if metrics == () and not findings.problems:
        hint = "leave it out for the default, or name the primary metric"
        findings.add("is empty: nothing would be compared", "metrics", hint)
    names = [one.name for one in metrics or ()]
    for name in sorted({name for name in names if names.count(name) > 1}):
        findings.add(f"`{name}` is there more than once", "metrics")
    if metrics and not any(one.weight for one in metrics):
        findings.add("have no weight: there would be no score", "metrics")
    beat = fields.get("heartbeat_seconds")
    if isinstance(beat, int | float) and beat > _MOST_HEARTBEAT:
        message = f"is {beat}; it must not be more than {_MOST_HEARTBEAT}"
        findings.add(message, "heartbeat_seconds")


def _read_implement(fields: Fields, findings: Findings) -> None:
    read_roles(fields, "agent", "review_agent")
    refuse_text(fields, findings, "test_command")


_METRIC: Final = Kind(Metric, _read_metric)
TREE: Final = Kind(
    TreeOptions,
    _read_tree,
    lists={"metrics": parse_metric},
    parts={
        "ideas": Kind(IdeaSource, _read_ideas),
        "implement": Kind(Implementation, _read_implement),
        "evaluate": Kind(Measurement, _read_evaluate),
        "gate": Kind(GateOptions, _read_gate),
        "noise": Kind(Noise, _read_noise),
    },
)


_SLURM: Final = ("SlurmClient", "FakeSlurmClient")
_OF_CODE: Final = ("editable", "protected_paths", "link_paths")


def _read_research(fields: Fields, findings: Findings) -> None:
    read_roles(fields, "agent")
    hints = {"goal": "goal: what is to be found out, in words", "agent": "agent: NAME"}
    for name, hint in hints.items():
        if not fields.get(name):
            findings.add("is missing", name, hint)
            fields.pop(name, None)
    for name in _OF_CODE:
        if fields.get(name) and not fields.get("repository"):
            hint = "set `repository` too, or leave it out"
            findings.add("is of no repository", name, hint)
    goal, most = fields.get("goal"), fields.get("context_bytes")
    most = most if isinstance(most, int) else ResearchOptions().context_bytes
    if isinstance(goal, str) and (size := len(goal.encode())) > most // 2:
        message = f"has {size} bytes; it must not have more than half a context"
        findings.add(message, "goal", f"at most {most // 2}, or more `context_bytes`")


def check_around(
    options: ResearchOptions, config: Mapping[str, object], executor: str
) -> None:
    """Refuse what does not go with the rest of a config; raises SpecRefused."""
    problems = list[Problem]()
    if config.get("tree") is not None:
        message = "`research` and `tree` are both given: a session has one of them"
        hint = "remove one section: tree=null, or research=null"
        problems.append(Problem(message, "research", hint=hint))
    if executor in _SLURM and options.gpus is None:
        message = "is missing: on Slurm nobody can count the GPUs that items may share"
        hint = "gpus: as many as may be in use at a time (0: they are not counted)"
        problems.append(Problem(message, "research.gpus", hint=hint))
    if problems:
        raise SpecRefused(tuple(problems))


_BUDGETS: Final = Kind(Budgets, parts=dict.fromkeys(ROLES, Kind(RoleBudget)))
RESEARCH: Final = Kind(
    ResearchOptions,
    _read_research,
    parts={
        "objective": Kind(Objective),
        "approve": Kind(Approvals),
        "budgets": _BUDGETS,
        "fixer": Kind(Fixer, lambda fields, _: read_roles(fields, "agent")),
    },
)
