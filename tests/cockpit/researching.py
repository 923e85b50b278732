"""A session with a research loop in the middle of its work, where a person is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoexp_tui.model.agents import AgentSpec
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.state import VOID, Ask, JobRecord
from autoexp_tui.model.states import JobState
from autoexp_tui.research.jobs import build_call_job
from autoexp_tui.research.ports import View
from tests.model.builders import plan
from tests.research.fixtures import LIVE, NOW, make_view
from tests.support.campaigns import T0

LINES = ("kills: end r5, it is slow", f"{VOID}kills: end r1 (it has ended)")
DECISION = "decision/c1"
ASK = Ask(
    digest="d",
    prompt="What c1 proposes",
    asked_at=NOW - 300,
    asked_lived=0.0,
    lines=LINES,
)


def researching(**changes: Any) -> Snapshot:
    """`changes`: of the research."""
    return make_snapshot(make_view(**changes), LIVE)


def make_snapshot(view: View, live: Mapping[str, Live]) -> Snapshot:
    research = view.research
    call = JobRecord(
        spec=build_call_job(research, research.consultations["c3"]),
        state=JobState.RUNNING,
        policy="research",
        asked_by="consultation c3_research",
    )
    runs = (
        replace(job, policy="research", asked_by=f"item {name}")
        for name, job in view.jobs.items()
    )
    jobs = (*runs, call)
    agents = {"rules": AgentSpec(backend="scripted")}
    return Snapshot(
        seq=1,
        t=NOW,
        session="s1",
        name="lm",
        plan=replace(plan(), jobs=(), research={"goal": "less"}, agents=agents),
        engine=EngineView(role="live", executor="local", slots=8, committed_at=NOW),
        jobs=jobs,
        live=tuple(live.get(job.spec.name) for job in jobs),
        parts={"research": research},
        asks={DECISION: ASK},
        wall_ahead=T0 - NOW,
    )
