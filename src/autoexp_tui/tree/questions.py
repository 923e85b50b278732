"""What a search asks a person: whether a depth goes on whose evaluations fail, and
which of its candidates become nodes. Evaluations count in the order of their ids, as
far as all before them have ended: what is asked does not depend on who was faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.states import Why, why
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import format_metric

if TYPE_CHECKING:
    from autoexp_tui.model.state import Ask
    from autoexp_tui.tree.state import Evaluation, Ranked, Tree

SEARCH: Final = "search"
BEAM: Final = "beam"
"""What `--approve` names: questions are `search/<depth>` and `beam/<depth>`."""
ALIKE: Final = 3
"""Evaluations at the head of a depth that fail alike before a person is asked."""
_OF_THE_CANDIDATE: Final = frozenset({"ended_by_hand", "repeated_change"})
"""Ends without results that say nothing of how the search is set up."""


def find_breaker(tree: Tree) -> Why | None:
    """Why the present depth should not go on unasked; None: it may."""
    ended = [*takewhile(lambda one: one.judgement is not None, tree.list_here())]
    failed = [(one.id, reason) for one in ended if (reason := _find_failure(one))]
    if failed and tree.options.strict_fail_depth:
        name, reason = failed[0]
        problem = sentence(reason, 0.0)
        return why("first_failure", evaluation=name, problem=problem)
    reasons = {_find_failure(one) for one in ended[:ALIKE]}
    if len(ended) < ALIKE or len(reasons) > 1 or None in reasons:
        return None
    problem = "".join(sentence(one, 0.0) for one in reasons if one)
    return why("failed_alike", number=ALIKE, depth=tree.depth, problem=problem)


def _find_failure(evaluation: Evaluation) -> Why | None:
    """Cause and last line of one that has no results."""
    judged = evaluation.judgement
    reason = judged.why if judged and judged.outcome == "failed" else None
    return None if reason and reason.code in _OF_THE_CANDIDATE else reason


def list_beam_lines(tree: Tree, promoted: Sequence[Ranked]) -> Iterator[str]:
    """A line for each candidate that would become a node."""
    for one in promoted:
        idea = tree.evaluations[one.name].idea
        title = clean_line(idea.title) if idea else ""
        score = "-" if one.rank_score is None else format_metric(one.rank_score)
        basis = (one.basis or "").replace("_", " ")
        yield f"{one.name}  {title}  {basis} {score}  {short(one.why)}"


def apply_answer(ranking: Sequence[Ranked], ask: Ask) -> tuple[Ranked, ...]:
    """The ranking without the candidates that a person left out, or all of them where
    the question was refused. Nobody takes their place: that would be asked again."""
    promoted = [one for one in ranking if one.promoted]
    out = set(promoted)
    if ask.approved:
        out = {promoted[at] for at in ask.dropped}
    reason = why("left_out_of_beam", by=ask.by, reason=ask.reason)
    return tuple(
        replace(one, promoted=False, why=reason) if one in out else one
        for one in ranking
    )
