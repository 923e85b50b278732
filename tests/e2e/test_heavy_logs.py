"""A real engine over logs that are made to be slow to search."""

from __future__ import annotations

import signal
import sys
import time

from autoexp_tui.conditions.kinds import LogPattern
from autoexp_tui.engine.handle import make_command_id
from autoexp_tui.model.commands import Command, Kill, Order, Pause
from autoexp_tui.model.rules import LogEvent, Monitoring
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.inbox import leave
from tests.e2e.campaign import Campaign, build_job, save_plan, wait_until

EXPLODING = "[ab]*a[ab]{300}#"
"""Has RE2 forget what it learned of it, all the time."""
UNTIL_STOPPED = """
import os, random, sys, time
line = bytes(random.Random(1).choices(b"ab", k=60_000)) + b"\\n"
if sys.argv[2] == "endless":
    for _ in range(500):
        sys.stdout.buffer.write(b"ab" * (1 << 19))
while not os.path.exists(sys.argv[1]):
    sys.stdout.buffer.write(line * 8)
    sys.stdout.buffer.flush()
    time.sleep(0.1)
"""
NAMES = ("slow", "endless")


def test_commands_count_all_the_same_and_a_signal_or_a_kill_ends_it(
    campaign: Campaign,
) -> None:
    def give(command: Command) -> None:
        """Leave a command in the inbox."""
        order = Order(command_id=make_command_id(), command=command, by="script")
        leave(campaign.session_dir, order, time.time())

    root, stop = campaign.root, campaign.root / "stop"
    words = (sys.executable, "-c", UNTIL_STOPPED, str(stop))
    jobs = [build_job(root, name, n, *words, name) for n, name in enumerate(NAMES)]
    log = root / "logs" / "slow" / "current.log"
    waits = (LogPattern(log_path=str(log), pattern=EXPLODING),)
    jobs.append(build_job(root, "waits", 2, "true", start_conditions=waits))
    rule = LogEvent(name="slow", pattern=EXPLODING, pattern_type="regex")
    save_plan(root, jobs, Monitoring(poll_seconds=0.5, log_events=(rule,)))
    try:
        engine = campaign.run()
        running = [JobState.RUNNING] * 2
        campaign.until(
            lambda now: [job.state for job in now.jobs.values()][:2] == running, 90
        )
        wait_until(lambda: log.stat().st_size > 20_000_000)
        give(Pause())
        campaign.until(lambda now: now.paused is not None, 20)
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(20) == 130
        engine = campaign.run()
        campaign.until(lambda now: now.epoch == 2)
        give(Kill(jobs=(*NAMES, "waits")))
        campaign.until(lambda now: all(job.ended for job in now.jobs.values()), 120)
        assert engine.wait(60) == 1
    finally:
        stop.touch()  # whatever became of the engine
