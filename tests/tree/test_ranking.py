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
from autoexp_tui.tree.ranking import Candidate, Mark, Ranked, rank_candidates

PASSED, REFUSED = why("gate_passed"), why("primary_regressed")
ONE = Candidate(eval_id=1, parent=0, gate=PASSED, passed_gate=True, score=0.1)
NAN = float("nan")
PROMOTE, REJECT = Mark(choice="promote", by="person"), Mark(choice="reject")


def candidates(*changes: dict[str, Any]) -> list[Candidate]:
    return [replace(ONE, eval_id=at, **one) for at, one in enumerate(changes, 1)]


def ranks(found: tuple[Ranked, ...]) -> list[int]:
    return [one.eval_id for one in found if one.rank is not None]


@pytest.mark.parametrize(("changes", "order"), [
    ([{"score": 0.1}, {"score": 0.3}, {"score": 0.2}], [2, 3, 1]),
    ([{"score": NAN, "primary_delta": 0.2}, {"score": 0.1, "primary_delta": 9.0},
      {"score": None, "primary_delta": 0.3}], [3, 1, 2]),  # in place of the score
    ([{"score": NAN}, {"score": None, "primary_delta": NAN}, {}], [3]),
    ([{"score": float("inf")}, {"primary_delta": None}], [2]),
    ([{"primary_delta": 1.0}, {"primary_delta": 2.0}, {}], [2, 1, 3]),
    ([{"risk_flags": 1}, {"risk_flags": 0}], [2, 1]),
    ([{"changed_files": 3}, {"changed_files": 1}], [2, 1]),
    ([{"risk_flags": 1, "changed_files": 0}, {"changed_files": 9}], [2, 1]),
    ([{}] * 11, list(range(1, 12))),  # e10 behind e9
    ([{"passed_gate": False, "score": 9.0}, {}], [2]),
    ([{"mark": REJECT, "score": 9.0}, {}], [2]),
    ([{}, {"passed_gate": False, "score": -1.0, "mark": PROMOTE}], [2, 1]),
    ([{}, {"can_be_node": False, "mark": PROMOTE}], [1]),
])  # fmt: skip
def test_candidates_are_ranked_beside_the_root_with_ties_broken_to_the_last(
    changes: list[dict[str, Any]], order: list[int]
) -> None:
    found = rank_candidates(candidates(*changes), TreeOptions())
    assert ranks(found) == order
    assert {one.eval_id for one in found} == set(range(1, len(changes) + 1))


MANY = candidates(
    {"score": 0.1}, {"score": 0.2}, {"score": 0.3},
    {"score": 0.05, "parent": 1}, {"score": 0.9, "parent": 1, "passed_gate": False,
     "gate": REFUSED},
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
    given_ = [replace(one, mark=marks.get(one.eval_id)) for one in MANY]
    found = rank_candidates(given_, options)
    assert {one.eval_id for one in found if one.promoted} == promoted


def test_each_candidate_has_its_place_its_key_and_its_reason() -> None:
    given_ = [
        *MANY,
        replace(ONE, eval_id=6, score=None, primary_delta=0.01),
        replace(ONE, eval_id=7, score=None),
        replace(ONE, eval_id=8, mark=REJECT),
        replace(ONE, eval_id=9, mark=PROMOTE),
        replace(ONE, eval_id=10, mark=PROMOTE, can_be_node=False),
    ]
    found = rank_candidates(given_, TreeOptions(beam_width=2))
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
        replace,
        st.just(ONE),
        eval_id=st.integers(1, 10**6),
        parent=st.integers(0, 2),
        passed_gate=st.booleans(),
        can_be_node=st.booleans(),
        score=SCORES,
        primary_delta=SCORES,
        risk_flags=st.integers(0, 1),
        mark=st.sampled_from([None, None, PROMOTE, REJECT]),
    ),
    unique_by=lambda one: one.eval_id,
)


@given(CANDIDATES, st.sampled_from(["global", "per_parent"]), st.randoms())
def test_the_ranking_does_not_depend_on_who_ended_first(
    given_: list[Candidate], frontier: Any, order: random.Random
) -> None:
    options = TreeOptions(frontier=frontier, beam_width=2)
    found = rank_candidates(given_, options)
    shuffled = list(given_)
    order.shuffle(shuffled)
    assert repr(rank_candidates(shuffled, options)) == repr(found)  # nan != nan
    assert sorted(one.eval_id for one in found) == sorted(o.eval_id for o in given_)
    assert all(one.rank is not None for one in found if one.promoted)
