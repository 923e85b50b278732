"""The section `agents` of a config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoexp_tui.config.policy_sections import parse_agents
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.agents import AgentSpec, Limits, Prices
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.tree.options import read_options
from tests.planning.composed import planned


def test_agents_have_names_beside_how_they_are_isolated() -> None:
    written = {
        "isolation": "require",
        "strong": {
            "backend": "codex",
            "model": "m1",
            "limits": {"wall_seconds": 60, "steps": 15},
            "env": ["OPENAI_API_KEY"],
            "prices": {"input": 1.25, "output": 10},
            "files": ["~/.codex/auth.json"],
        },
        "own": {"backend": "command", "command": ["./agent", "--x"], "env": {"A": "1"}},
    }
    found = parse_agents({"agents": written})
    assert found.isolation == "require"
    assert found.by_name == {
        "strong": AgentSpec(
            backend="codex",
            model="m1",
            limits=Limits(wall_seconds=60, steps=15),
            env={"OPENAI_API_KEY": None},
            prices=Prices(input=1.25, output=10),
            files=("~/.codex/auth.json",),
        ),
        "own": AgentSpec(backend="command", command=("./agent", "--x"), env={"A": "1"}),
    }
    assert parse_agents({}).isolation == "prefer"


def find_mistakes(parse: Callable[[], object]) -> list[str]:
    with pytest.raises(SpecRefused) as refused:
        parse()
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("agent", "mistake"),
    [
        ({"backend": "codx"}, "agents.a.backend: is 'codx'; it may be 'scripted', "),
        ({"backend": "codex", "modle": "m"}, "agents.a.modle: is no key here"),
        ({}, "agents.a.backend: is missing"),
        ({"backend": "command"}, "agents.a.command: is missing"),
        ({"backend": "command", "command": "x y"}, "agents.a.command: is text, not "),
        (
            {"backend": "scripted", "command": ["a", "b"]},
            "agents.a.command: is not the one script",
        ),
        (
            {"backend": "command", "command": ["a"], "model": "m"},
            "agents.a.model: is for codex and claude alone",
        ),
        (
            {"backend": "codex", "limits": {"steps": 0}},
            "agents.a.limits.steps: is 0; it must be more than 0",
        ),
        (
            {"backend": "codex", "prices": {"input": -1}},
            "agents.a.prices.input: is -1; it must not be less than 0",
        ),
        ({"backend": "codex", "env": 3}, "agents.a.env: is 3"),
    ],
)
def test_a_mistake_is_told_at_its_place(agent: dict[str, Any], mistake: str) -> None:
    [told] = find_mistakes(lambda: parse_agents({"agents": {"a": agent}}))
    assert told.startswith(mistake)


@pytest.mark.parametrize(
    ("role", "mistake"),
    [
        ("a", ""),
        (["a", "strong"], ""),
        ("strnog", "tree.ideas.agent: there is no agent `strnog`\n    did you mean"),
        (["a", "b"], "tree.ideas.agent.1: there is no agent `b`\n    agents: a, str"),
    ],
)
def test_a_role_takes_agents_that_there_are(role: object, mistake: str) -> None:
    agents = {"a": {"backend": "codex"}, "strong": {"backend": "claude"}}
    config = {"agents": agents, "tree": {"ideas": {"agent": role}}}
    if mistake:
        [told] = find_mistakes(lambda: HouseParser("/cwd").tree(config))
        assert told.startswith(mistake)
    else:
        options = read_options(HouseParser("/cwd").tree(config))
        names = [role] if isinstance(role, str) else role
        assert list(options.ideas.agent) == names


def test_a_plan_carries_its_agents_and_its_jobs_do_not() -> None:
    sweep = {"configs": [{"stage": "a"}]}
    given = {"isolation": "none", "a": {"backend": "codex", "env": {"KEY": None}}}
    plain, plan = planned(sweep), planned(sweep, agents=given)
    read = parse_agents({"agents": given})
    assert (plan.agents, plan.isolation) == (read.by_name, "none")
    assert [job.fingerprint for job in plan.jobs] == [
        job.fingerprint for job in plain.jobs
    ]
    assert decode_plan(encode_plan(plan)) == plan
