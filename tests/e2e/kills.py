"""autoexp-run killed by SIGKILL at random moments, over and over, on real processes.

Nothing may be lost, and no attempt may begin twice: that is judged by a ledger that the
jobs themselves write, by the wrapper's records, and by the processes that are left.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.e2e.campaign import Campaign, result_of

LAST_SECONDS = 180.0


@dataclass(slots=True)
class Score:
    """What the kills came to: kills, engines, jobs, attempts; and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        return f"{counts}; problems:" + ("\n  ".join(["", *self.problems]) or " none")


def kill_through(
    campaign: Campaign, rng: random.Random, kills: int, longest: float = 1.2
) -> Score:
    """Kill a campaign's engine so many times, then let it end; what was seen."""
    score = Score(Counter(campaigns=1))
    for _ in range(kills):
        run = campaign.run()
        time.sleep(rng.uniform(0.05, longest))
        score.counts["kills"] += run.poll() is None
        run.kill()
        run.communicate()
    run = campaign.run()
    out, err = run.communicate(timeout=LAST_SECONDS)
    if run.returncode == 0:
        _judge(campaign, out, score)
    else:
        score.problems.append(f"exit status {run.returncode}: {err[-2000:]}")
    return score


def _judge(campaign: Campaign, out: str, score: Score) -> None:
    jobs, begun = result_of(out), campaign.begun()
    session = campaign.session_dir.path
    attempts = sum(job["attempts"] for job in jobs.values())
    records = len(list(session.glob("attempts/*/*/begin.*.json")))
    engines = len(list((session / "lease").glob("*.json")))
    score.counts.update(engines=engines, jobs=len(jobs), attempts=attempts)
    twice = session.glob("attempts/*/*/duplicate*")
    score.problems += [
        *(f"{n} is {j['state']}" for n, j in jobs.items() if j["state"] != "COMPLETED"),
        *(f"attempt {name} began {n} times" for name, n in begun.items() if n > 1),
        *(f"left over: process {pid}" for pid in campaign.living()),
        *(f"duplicate start: {path}" for path in twice),
    ]
    if len(begun) != attempts or records != attempts:
        seen = f"{len(begun)} attempts began, {records} begin records"
        score.problems.append(f"{seen}, not {attempts}")
