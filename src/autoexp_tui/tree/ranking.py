"""Which evaluations of a depth become nodes: one order over all of them, with a reason
for each.

The order compares with the root, so that children of different parents can be compared.
It does not depend on the order in which evaluations ended: the last key is their id.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, Literal

from autoexp_tui.model.states import Why, why
from autoexp_tui.tree.options import Frontier, TreeOptions
from autoexp_tui.tree.state import Evaluation, Judgement, Ranked

_PROMOTED: Final = ("promoted", "promoted_by_hand")


def rank_evaluations(
    evaluations: Iterable[Evaluation], options: TreeOptions
) -> tuple[Ranked, ...]:
    """All of a depth, each judged: those in the ranking by rank, then the others by id.
    One that a person promotes stands first and takes its place in the frontier whatever
    the width; one that a person rejects is out."""
    ordered = sorted(evaluations, key=lambda one: one.number)
    refused = dict(_list_refusals(ordered))
    eligible = [one for one in ordered if one.id not in refused]
    eligible.sort(key=_sort_key)
    chosen = {*_choose_frontier(eligible, options)}
    ranked = [
        _make_ranked(one, rank, _explain_rank(one, rank, chosen, options.beam_width))
        for rank, one in enumerate(eligible, 1)
    ]
    out = (one for one in ordered if one.id in refused)
    return (*ranked, *(_make_ranked(one, None, refused[one.id]) for one in out))


def _judgement_of(one: Evaluation) -> Judgement:
    assert one.judgement is not None, "a depth is ranked when all of it has ended"
    return one.judgement


def _list_refusals(ordered: Sequence[Evaluation]) -> Iterator[tuple[str, Why]]:
    """Why some are not in the ranking. Of those that made the same change of the same
    node the first counts."""
    seen: dict[tuple[str, str], Evaluation] = {}
    for one in ordered:
        judged, mark = _judgement_of(one), one.mark
        gate = None if judged.has_passed else judged.reason or why("not_measured")
        first = seen.setdefault((one.node, judged.diff_sha256 or one.id), one)
        if first is not one:
            gate = why("repeated_change", evaluation=first.id)
        if mark is not None and mark.choice == "reject":
            yield one.id, why("rejected_by_hand", by=mark.by, reason=mark.reason)
        elif mark is not None and not (judged.commit and judged.artifact):
            code = gate.code if gate else "gate_passed"
            yield one.id, why("cannot_be_node", gate=code)
        elif mark is None and gate is not None:
            yield one.id, gate
        elif mark is None and _find_rank_score(judged)[1] is None:
            yield one.id, why("no_rank")


def _find_rank_score(
    judged: Judgement,
) -> tuple[float | None, Literal["score", "primary_delta"] | None]:
    """The score beside the root, else the primary delta, and which of them it is."""
    if (root := judged.root) is None:
        return None, None
    if _is_number(root.recommendation.score):
        return root.recommendation.score, "score"
    if _is_number(root.primary_delta):
        return root.primary_delta, "primary_delta"
    return None, None


def _sort_key(one: Evaluation) -> tuple[object, ...]:
    """Best first; whatever is not known is worst."""
    judged = _judgement_of(one)
    score, _ = _find_rank_score(judged)
    delta = judged.root.primary_delta if judged.root else None
    return (
        one.mark is None,
        math.inf if score is None else -score,
        math.inf if delta is None or not _is_number(delta) else -delta,
        len(judged.root.risk_flags) if judged.root else 0,
        judged.files,
        one.number,
    )


_FRONTIERS: Final[Mapping[Frontier, Callable[[Evaluation], str]]] = {
    "global": lambda one: "",
    "per_parent": lambda one: one.node,
}
"""Among whom a candidate must be one of the best `beam_width`."""


def _choose_frontier(
    eligible: Sequence[Evaluation], options: TreeOptions
) -> Iterator[str]:
    """The ids of the best of each group, and of all that a person promotes."""
    find_group, taken = _FRONTIERS[options.frontier], Counter[str]()
    for one in eligible:
        group = find_group(one)
        if one.mark is not None or taken[group] < options.beam_width:
            taken[group] += 1
            yield one.id


def _explain_rank(one: Evaluation, rank: int, chosen: Set[str], width: int) -> Why:
    if one.mark is not None:
        return why("promoted_by_hand", by=one.mark.by, reason=one.mark.reason)
    code = "promoted" if one.id in chosen else "beyond_beam"
    return why(code, rank=rank, width=width)


def _make_ranked(one: Evaluation, rank: int | None, reason: Why) -> Ranked:
    score, basis = _find_rank_score(_judgement_of(one))
    promoted, parent = reason.code in _PROMOTED, int(one.node[1:])
    return Ranked(one.number, parent, rank, score, basis, promoted, reason)


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
