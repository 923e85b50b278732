"""A restart away from the node that failed, on a cluster and on one machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.conditions.kinds import MaxAttempts
from autoexp_tui.events import events
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.states import JobState
from tests.spec.campaign import Campaign, plan_of
from tests.support.fake_script import RunScript

AWAY = Restart(exclude_node=True, conditions=(MaxAttempts(max_attempts=3),))
CRASH = [RunScript(seconds=4.0, exit_code=1)]
NAME = "test_lr1e-4_stable"


def crashing(root: Path) -> Campaign:
    """One job that crashes twice before it comes to its end."""
    plan = plan_of("multi_stage_basic", root)
    rule = StateEvent(name="away", state="crash", actions=(AWAY,))
    only = tuple(job for job in plan.jobs if job.name == NAME)
    made = replace(
        plan, jobs=only, edges=(), monitoring=Monitoring(state_events=(rule,))
    )
    scripts = {NAME: [CRASH, CRASH, [RunScript(seconds=4.0)]]}
    return Campaign(root, made, scripts)


def sent(campaign: Campaign) -> list[str]:
    """Every sbatch as it was sent."""
    happened = (record.event for record in campaign.session.records)
    return [
        event.detail
        for event in happened
        if isinstance(event, events.EffectSettled) and "sbatch" in event.detail
    ]


def test_each_further_attempt_leaves_out_the_nodes_of_those_before(
    tmp_path: Path,
) -> None:
    campaign = crashing(tmp_path)
    campaign.until(campaign.is_(NAME, JobState.COMPLETED))
    first, second, _ = campaign.job(NAME).attempts
    nodes = list(dict.fromkeys((first.node, second.node)))
    one, two, three = sent(campaign)
    assert "--exclude" not in one
    assert f"--exclude={first.node}" in two
    assert f"--exclude={','.join(nodes)}" in three
