"""How much the baseline differs from itself: it is measured `noise.repeats` times more,
as evaluations `e0_1`, `e0_2` ... of the root, before any idea is tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autoexp_tui.tree.scores import measure_noise
from autoexp_tui.tree.state import BASELINE

if TYPE_CHECKING:
    from autoexp_tui.tree.options import TreeOptions
    from autoexp_tui.tree.state import Tree


def list_repeats(options: TreeOptions) -> Sequence[str]:
    """The ids of the evaluations that measure the baseline again."""
    return [f"{BASELINE}_{at}" for at in range(1, options.noise.repeats + 1)]


def list_means(tree: Tree) -> Sequence[float]:
    """The primary metric of each of them that has results."""
    known = (tree.evaluations.get(name) for name in list_repeats(tree.options))
    judged = [one.judgement for one in known if one and one.judgement]
    return [one.primary for one in judged if one.primary is not None]


def measure_error(tree: Tree) -> float | None:
    """The standard error of a gain; None: nobody measured it, or too few."""
    return measure_noise(list_means(tree))
