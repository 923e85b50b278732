"""A sweep over rates and seeds, as the metrics pane gets it."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from autoexp_tui.model.snapshot import Curve, Live, Snapshot
from tests.cockpit.plans import opened, staged
from tests.planning.plans import plan

RATES = (1e-4, 3e-4, 1e-3, 3e-3)


def swept(rates: tuple[float, ...] = RATES, seeds: int = 3) -> Snapshot:
    """Runs that learn, the best at 1e-3, one of them with gaps, each third without an
    accuracy; curves of 256 points up to step 25,500."""
    dice = random.Random(11)
    points = [(rate, seed) for rate in rates for seed in range(seeds)]
    jobs = [
        staged(
            f"lr{rate:g}_s{seed}",
            at,
            "train",
            parameters={"optim.lr": rate, "data.seed": seed},
            family=f"f{at}",
        )
        for at, (rate, seed) in enumerate(points)
    ]
    shown = opened(plan(jobs))
    lives = tuple(_learn(dice, at, rate) for at, (rate, _) in enumerate(points))
    return replace(shown, live=lives)


def _learn(dice: random.Random, at: int, rate: float) -> Live:
    steps = tuple(range(0, 25_600, 100))
    floor = 2.0 + 0.5 * abs(math.log10(rate) + 3)
    losses = tuple(
        floor + 4 * math.exp(-step / 4000) + dice.gauss(0, 0.12) for step in steps
    )
    gaps = (9_050, 9_150) if at == 1 else ()
    curves = {
        "loss": Curve(steps, losses, gaps),
        "lr": Curve(steps, tuple(rate * (1 - step / 51_200) for step in steps)),
        "tokens": Curve(steps, tuple(1000.0 + dice.gauss(0, 9) for _ in steps)),
    }
    if at % 3 != 2:
        curves["val_acc"] = Curve(steps[::32], tuple(7 / one for one in losses[::32]))
    return Live(step=25_500, total=60_000, curves=curves)
