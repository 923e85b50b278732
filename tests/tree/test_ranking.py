from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.states import why
from autoexp_tui.model.wording import CODES
from autoexp_tui.tree.options import TreeOptions
from autoexp_tui.tree.ranking import rank_evaluations
from autoexp_tui.tree.scores import Comparison, Recommendation
from autoexp_tui.tree.state import (
    Artifact,
    Evaluation,
    GateOutcome,
    Judgement,
    Mark,
    Ranked,
)

OUT = GateOutcome(why("primary_regressed"), (why("primary_regressed"),))
NAN = float("nan")
PROMOTE, REJECT = Mark(choice="promote", by="person"), Mark(choice="reject")


def judge(
    number: int,
    *,
    node: int = 0,
    score: float | None = 0.1,
    delta: float | None = None,
    passed: bool = True,
    commit: str = "c",
    risks: int = 0,
    files: int = 0,
    change: str = "",
    mark: Mark | None = None,
) -> Evaluation:
    """An evaluation that ended, by what it is ranked by."""
    root = Comparison(
        Recommendation(should_explore=True, grade="mixed", score=score, reasons=()),
        primary_delta=delta,
        deltas=(),
        risk_flags=("r",) * risks,
        baseline_rows_used=1,
        candidate_rows_used=1,
    )
    judged = Judgement(
        outcome="scored",
        commit=commit,
        artifact=Artifact(path="a", sha256="s"),
        diff_sha256=change,
        files=files,
        root=root,
        gate=GateOutcome(why("gate_passed")) if passed else OUT,
    )
    return Evaluation(
        id=f"e{number}", node=f"n{node}", depth=0, idea=None, judgement=judged,
        mark=mark,
    )  # fmt: skip


def candidates(*changes: dict[str, Any]) -> list[Evaluation]:
    return [judge(at, **one) for at, one in enumerate(changes, 1)]


def ranks(found: tuple[Ranked, ...]) -> list[int]:
    return [one.eval_id for one in found if one.rank is not None]


@pytest.mark.parametrize(("changes", "order"), [
    ([{"score": 0.1}, {"score": 0.3}, {"score": 0.2}], [2, 3, 1]),
    ([{"score": NAN, "delta": 0.2}, {"score": 0.1, "delta": 9.0},
      {"score": None, "delta": 0.3}], [3, 1, 2]),  # in place of the score
    ([{"score": NAN}, {"score": None, "delta": NAN}, {}], [3]),
    ([{"score": float("inf")}, {"delta": None}], [2]),
    ([{"delta": 1.0}, {"delta": 2.0}, {}], [2, 1, 3]),
    ([{"risks": 1}, {"risks": 0}], [2, 1]),
    ([{"files": 3}, {"files": 1}], [2, 1]),
    ([{"risks": 1, "files": 0}, {"files": 9}], [2, 1]),
    ([{}] * 11, list(range(1, 12))),  # e10 behind e9
    ([{"passed": False, "score": 9.0}, {}], [2]),
    ([{"mark": REJECT, "score": 9.0}, {}], [2]),
    ([{}, {"passed": False, "score": -1.0, "mark": PROMOTE}], [2, 1]),
    ([{}, {"commit": "", "mark": PROMOTE}], [1]),
    ([{"change": "x"}, {"change": "x", "score": 9.0}], [1]),  # the same change
    ([{"change": "x"}, {"change": "x", "score": 9.0, "node": 1}], [2, 1]),
])  # fmt: skip
def test_candidates_are_ranked_beside_the_root_with_ties_broken_to_the_last(
    changes: list[dict[str, Any]], order: list[int]
) -> None:
    found = rank_evaluations(candidates(*changes), TreeOptions())
    assert ranks(found) == order
    assert {one.eval_id for one in found} == set(range(1, len(changes) + 1))


MANY = candidates(
    {"score": 0.1}, {"score": 0.2}, {"score": 0.3},
    {"score": 0.05, "node": 1}, {"score": 0.9, "node": 1, "passed": False},
)  # fmt: skip


@pytest.mark.parametrize(("options", "marks", "promoted"), [
    (TreeOptions(), {}, {3}),
    (TreeOptions(beam_width=2), {}, {3, 2}),
    (TreeOptions(beam_width=9), {}, {1, 2, 3, 4}),
    (TreeOptions(frontier="per_parent"), {}, {3, 4}),
    (TreeOptions(beam_width=2, frontier="per_parent"), {}, {3, 2, 4}),
    (TreeOptions(beam_width=2), {5: PROMOTE}, {5, 3}),  # takes a place
    (TreeOptions(), {5: PROMOTE, 1: PROMOTE}, {5, 1}),  # and more than there are
    (TreeOptions(), {3: REJECT}, {2}),
])  # fmt: skip
def test_the_frontier_is_the_best_of_the_depth_or_of_each_parent(
    options: TreeOptions, marks: dict[int, Mark], promoted: set[int]
) -> None:
    given_ = [replace(one, mark=marks.get(one.number)) for one in MANY]
    found = rank_evaluations(given_, options)
    assert {one.eval_id for one in found if one.promoted} == promoted


def test_each_candidate_has_its_place_its_key_and_its_reason() -> None:
    given_ = [
        *MANY,
        judge(6, score=None, delta=0.01),
        judge(7, score=None),
        judge(8, mark=REJECT),
        judge(9, mark=PROMOTE),
        judge(10, mark=PROMOTE, commit=""),
    ]
    found = rank_evaluations(given_, TreeOptions(beam_width=2))
    assert [(one.eval_id, one.rank, one.basis, one.why.code) for one in found] == [
        (9, 1, "score", "promoted_by_hand"), (3, 2, "score", "promoted"),
        (2, 3, "score", "beyond_beam"), (1, 4, "score", "beyond_beam"),
        (4, 5, "score", "beyond_beam"), (6, 6, "primary_delta", "beyond_beam"),
        (5, None, "score", "primary_regressed"), (7, None, None, "no_rank"),
        (8, None, "score", "rejected_by_hand"), (10, None, "score", "cannot_be_node"),
    ]  # fmt: skip
    assert {one.why.code for one in found} <= CODES.keys()


SCORES = st.one_of(st.none(), st.sampled_from([NAN, 0.0, 0.1]), st.floats(-2, 2))
CANDIDATES = st.lists(
    st.builds(
        judge,
        st.integers(1, 10**6),
        node=st.integers(0, 2),
        passed=st.booleans(),
        commit=st.sampled_from(["", "c"]),
        score=SCORES,
        delta=SCORES,
        risks=st.integers(0, 1),
        change=st.sampled_from(["", "x"]),
        mark=st.sampled_from([None, None, PROMOTE, REJECT]),
    ),
    unique_by=lambda one: one.id,
)


@given(CANDIDATES, st.sampled_from(["global", "per_parent"]), st.randoms())
def test_the_ranking_does_not_depend_on_who_ended_first(
    given_: list[Evaluation], frontier: Any, order: random.Random
) -> None:
    options = TreeOptions(frontier=frontier, beam_width=2)
    found = rank_evaluations(given_, options)
    shuffled = list(given_)
    order.shuffle(shuffled)
    assert repr(rank_evaluations(shuffled, options)) == repr(found)  # nan != nan
    assert sorted(one.eval_id for one in found) == sorted(o.number for o in given_)
    assert all(one.rank is not None for one in found if one.promoted)
