"""How the section `research` of a config is read and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from autoexp_tui.config.agents import read_roles, require_known
from autoexp_tui.config.spec_reader import Fields, Findings, Kind
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


def require_agents(options: ResearchOptions, known: Collection[str]) -> None:
    """Refuse roles whose agents nobody knows; raises SpecRefused."""
    require_known(options.agent, "research.agent", known)
    require_known(options.fixer.agent, "research.fixer.agent", known)


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
