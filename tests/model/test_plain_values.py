from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from autoexp_tui.evaluation.requests import Request
from autoexp_tui.model.agents import AgentSpec, Limits, Prices
from autoexp_tui.model.plain_values import build_record
from autoexp_tui.tree.options import Metric, TreeOptions


def test_a_record_is_what_was_written_records_and_lists_of_them_in_it_too() -> None:
    agent = AgentSpec(
        backend="claude",
        command=("claude", "-x"),
        env={"KEY": None},
        limits=Limits(steps=3),
        prices=Prices(input=1.5),
    )
    names = "directory git_dir top worktree_root run root_commit node commit"
    texts: dict[str, Any] = dict.fromkeys(names.split(), "x")
    request = Request(
        **texts,
        agents={"a": agent, "b": AgentSpec(backend="codex")},
        context_dirs=("x", "y"),
    )
    metrics = (Metric(name="loss", bounds=(0.0, None)), Metric(name="acc"))
    for made in (request, TreeOptions(metrics=metrics)):
        plain = json.loads(json.dumps(asdict(made)))
        assert build_record(type(made), plain) == made
    with pytest.raises(TypeError, match="later"):
        build_record(Metric, {"name": "x", "later": 1})
