"""Real engines whose wall clock is set under a cooldown and a time-out, over a restart.

Only the engines' own clock is set: a module that Python reads at its start adds the
number in a file to what `time.time` says.
"""

from __future__ import annotations

import subprocess

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import Cooldown, FileExists, MaxAttempts
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.states import JobState
from tests.e2e.campaign import Campaign, build_job, save_plan

HOUR = 3600.0
YEAR = 365.25 * 24 * HOUR
CLOCK = """
import time
_real, _path = time.time, "{offset}"

def _shown():
    with open(_path) as file:
        return _real() + float(file.read())

time.time = _shown
"""


@pytest.mark.parametrize("step", [-HOUR, YEAR])
def test_real_engines_hold_nothing_up_when_their_clock_is_set(
    campaign: Campaign, step: float
) -> None:
    root, offset = campaign.root, campaign.root / "offset"
    (root / "sitecustomize.py").write_text(CLOCK.format(offset=offset))
    offset.write_text("0")
    limits = (MaxAttempts(max_attempts=3), Cooldown(cooldown_seconds=6.0))
    never = FileExists(path="/never", timeout_seconds=20.0)
    jobs = (
        build_job(root, "crashes", 0, "sh", "-c", "exit 1"),
        build_job(root, "waits", 1, "true", start_conditions=(never,)),
    )
    again = (Restart(conditions=limits),)
    rule = StateEvent(name="again", state="crash", actions=again)
    save_plan(root, jobs, Monitoring(poll_seconds=0.3, state_events=(rule,)), slots=4)

    def start(command: str, *words: str) -> subprocess.Popen[str]:
        env = {"PYTHONPATH": str(root)}
        return campaign.start(*words, command=command, out=subprocess.DEVNULL, **env)

    engine = start("run", "--manifest", "plan.json", "--yes")
    retries = (JobState.RETRYING, 2)
    campaign.until(
        lambda state: (
            retries in {(job.state, len(job.attempts)) for job in state.jobs.values()}
        )
    )
    ahead = root / "offset.new"
    ahead.write_text(str(step))
    ahead.replace(offset)
    campaign.until(lambda state: "clock" in state.warnings, 30)
    engine.kill()
    engine.wait()
    start("monitor", "--session", campaign.session())
    campaign.until(lambda state: all(job.ended for job in state.jobs.values()), 90)
    state = campaign.state()
    assert len(state.jobs["crashes"].attempts) == 3
    assert state.jobs["waits"].state is JobState.SKIPPED
    assert state.lived < 180
