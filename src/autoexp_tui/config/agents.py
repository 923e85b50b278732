"""`agents`: a closed section of agents by name, beside how they are isolated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from autoexp_tui.config.spec_reader import (
    POSITIVE,
    Fields,
    Findings,
    Kind,
    read_mapping,
)
from autoexp_tui.model.agents import AgentSpec, AgentsSettings, Limits, Prices
from autoexp_tui.text.did_you_mean import did_you_mean

_MODELLESS: Final = ("command", "scripted")


def _refuse_negative(fields: Fields, findings: Findings) -> None:
    """Bounds of `Limits` and `Prices`, of which some must even be more than 0."""
    for name, value in fields.items():
        if isinstance(value, int | float) and value < 0 and name not in POSITIVE:
            findings.add(f"is {value}; it must not be less than 0", name)


def _read_agent(fields: Fields, findings: Findings) -> None:
    if isinstance(fields.get("command"), str):
        hint = 'write its words as a list: ["codex", "--flag"]; no shell is used'
        findings.add("is text, not a list", "command", hint)
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


def require_known(names: Sequence[str], where: str, known: Collection[str]) -> None:
    """Refuse a role's agents of which one is not `known`; raises SpecRefused."""
    findings = Findings(where)
    for at, name in enumerate(names):
        if name not in known:
            hint = did_you_mean(name, known, "agents")
            field = str(at) if len(names) > 1 else ""
            findings.add(f"there is no agent `{name}`", field, hint)
    findings.settle()
