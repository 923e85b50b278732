"""How the section `tree` of a config is read and checked."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from autoexp_tui.config.agents import read_roles, require_known
from autoexp_tui.config.spec_reader import Fields, Findings, Kind
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


def _read_words(fields: Fields, findings: Findings, *names: str) -> None:
    """Commands are lists of words: a text would ask for a shell."""
    for name in names:
        if isinstance(fields.get(name), str):
            hint = 'write its words as a list: ["pytest", "-q"]; no shell is used'
            findings.add("is text, not a list", name, hint)
            del fields[name]


def _refuse_pair(fields: Fields, findings: Findings, *names: str) -> None:
    given = [name for name in names if fields.get(name)]
    if len(given) > 1:
        message = f"{' and '.join(f'`{name}`' for name in given)} are both given"
        findings.add(message, hint="keep one of them")


def require_agents(options: TreeOptions, known: Collection[str]) -> None:
    """Refuse roles whose agents nobody knows; raises SpecRefused."""
    ideas, implement = options.ideas, options.implement
    require_known(ideas.agent, "tree.ideas.agent", known)
    require_known(implement.agent, "tree.implement.agent", known)
    require_known(implement.review_agent, "tree.implement.review_agent", known)


def _read_ideas(fields: Fields, findings: Findings) -> None:
    read_roles(fields, "agent")
    _read_words(fields, findings, "command")
    _refuse_pair(fields, findings, "agent", "command", "dir")


def _read_evaluate(fields: Fields, findings: Findings) -> None:
    _read_words(fields, findings, "command", "score_command")
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
    _read_words(fields, findings, "test_command")


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
