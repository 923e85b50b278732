"""Which candidates of a depth become nodes: one order over all of them, with a reason
for each.

The order compares with the root, so that children of different parents can be compared.
It does not depend on the order in which evaluations ended: the last key is their id.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.states import Why, why
from autoexp_tui.tree.options import Frontier, TreeOptions

RankBasis: TypeAlias = Literal["score", "primary_delta"]
_PROMOTED: Final = ("promoted", "promoted_by_hand")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a person said of a candidate: it wins over gate and beam."""

    choice: Literal["promote", "reject"]
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An evaluation that ended; score and delta are those beside the root."""

    eval_id: int
    parent: int
    """Its node's id."""
    gate: Why
    """What the gate said."""
    passed_gate: bool
    can_be_node: bool = True
    """Whether it has a commit and results, without which nobody can promote it."""
    score: float | None = None
    primary_delta: float | None = None
    risk_flags: int = 0
    changed_files: int = 0
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """`rank` counts from 1; None: it is not in the ranking."""

    eval_id: int
    parent: int
    rank: int | None
    rank_score: float | None
    basis: RankBasis | None
    """What `rank_score` is."""
    promoted: bool
    why: Why


def rank_candidates(
    candidates: Sequence[Candidate], options: TreeOptions
) -> tuple[Ranked, ...]:
    """All candidates of a depth: those in the ranking by rank, then the others by id.
    One that a person promotes stands first and takes its place in the frontier whatever
    the width; one that a person rejects is out."""
    refusals = {one.eval_id: _find_refusal(one) for one in candidates}
    eligible = [one for one in candidates if refusals[one.eval_id] is None]
    eligible.sort(key=_sort_key)
    chosen = _choose_frontier(eligible, options)
    ranked = [
        _make_ranked(one, rank, _explain_rank(one, rank, chosen, options.beam_width))
        for rank, one in enumerate(eligible, 1)
    ]
    others = sorted(candidates, key=lambda one: one.eval_id)
    ranked += [
        _make_ranked(one, None, reason)
        for one in others
        if (reason := refusals[one.eval_id]) is not None
    ]
    return tuple(ranked)


def find_rank_score(candidate: Candidate) -> tuple[float | None, RankBasis | None]:
    """The score beside the root, else the primary delta, and which of them it is."""
    if _is_number(candidate.score):
        return candidate.score, "score"
    if _is_number(candidate.primary_delta):
        return candidate.primary_delta, "primary_delta"
    return None, None


def _sort_key(one: Candidate) -> tuple[object, ...]:
    """Best first; whatever is not known is worst."""
    score, _ = find_rank_score(one)
    delta = one.primary_delta if _is_number(one.primary_delta) else None
    return (
        one.mark is None,
        *(math.inf if value is None else -value for value in (score, delta)),
        one.risk_flags,
        one.changed_files,
        one.eval_id,
    )


def _find_refusal(one: Candidate) -> Why | None:
    """Why it is not in the ranking."""
    if one.mark is not None and one.mark.choice == "reject":
        return why("rejected_by_hand", by=one.mark.by, reason=one.mark.reason)
    if one.mark is not None:
        return None if one.can_be_node else why("cannot_be_node", gate=one.gate.code)
    if not one.passed_gate:
        return one.gate
    return why("no_rank") if find_rank_score(one)[1] is None else None


FRONTIERS: Final[Mapping[Frontier, Callable[[Candidate], int]]] = {
    "global": lambda one: 0,
    "per_parent": lambda one: one.parent,
}
"""Among whom a candidate must be one of the best `beam_width`."""


def _choose_frontier(eligible: Sequence[Candidate], options: TreeOptions) -> set[int]:
    """The ids of the best of each group, and of all that a person promotes."""
    find_group, taken = FRONTIERS[options.frontier], Counter[int]()
    chosen = set[int]()
    for one in eligible:
        group = find_group(one)
        if one.mark is not None or taken[group] < options.beam_width:
            taken[group] += 1
            chosen.add(one.eval_id)
    return chosen


def _explain_rank(one: Candidate, rank: int, chosen: Set[int], width: int) -> Why:
    if one.mark is not None:
        return why("promoted_by_hand", by=one.mark.by, reason=one.mark.reason)
    if one.eval_id in chosen:
        return why("promoted", rank=rank, width=width)
    return why("beyond_beam", rank=rank, width=width)


def _make_ranked(one: Candidate, rank: int | None, reason: Why) -> Ranked:
    score, basis = find_rank_score(one)
    promoted = reason.code in _PROMOTED
    return Ranked(one.eval_id, one.parent, rank, score, basis, promoted, reason)


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
