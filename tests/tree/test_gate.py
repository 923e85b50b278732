from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.model.states import why
from autoexp_tui.model.wording import CODES
from autoexp_tui.tree.gate import GateFacts, judge_gate, list_doubts
from autoexp_tui.tree.options import Metric, Noise, TreeOptions
from autoexp_tui.tree.results_csv import RowCounts
from autoexp_tui.tree.scores import Comparison, compare_results
from autoexp_tui.tree.state import Artifact, Judgement
from tests.tree.results import make_results

OPTIONS = TreeOptions(metrics=(Metric(name="a"),), sweep_config_limit=4)
FREE = replace(OPTIONS, sweep_config_limit=None)
NOISY = replace(OPTIONS, noise=Noise(repeats=3, k=2.0))


def compared(before: float, after: float) -> Comparison:
    return compare_results(make_results((before,)), make_results((after,)), OPTIONS)


ELSEWHERE = Artifact(path="/elsewhere.csv", sha256="1")
OURS = "artifacts/e1.csv"
JUDGED = Judgement(
    outcome="scored",
    commit="c0ffee",
    artifact=Artifact(path=OURS, sha256="1"),
    counts=RowCounts(4, 4, 4),
    parent=compared(1, 1.2),
)
FACTS = GateFacts(
    judged=JUDGED,
    baseline=Artifact(path="artifacts/n0.csv", sha256="1"),
    hashes={OURS: "1", "artifacts/n0.csv": "1", "/elsewhere.csv": "1"},
)
DOUBT = why("results_constant", metric="a", value=1.0, rows=4)


@pytest.mark.parametrize(("changes", "options", "codes"), [
    ({}, OPTIONS, ""),
    ({"parent": compared(1, 1.01)}, OPTIONS, ""),  # mixed, not worth exploring
    ({"parent": compared(1, 1 - 1e-7)}, OPTIONS, ""),  # within the tolerance
    ({"outcome": "failed", "why": why("eval_timeout", seconds=1), "commit": "",
      "artifact": None, "counts": None, "parent": None}, OPTIONS,
     "eval_not_completed"),
    ({"commit": ""}, OPTIONS, "missing_candidate_commit"),
    ({"artifact": None}, OPTIONS, "missing_candidate_results"),
    ({"baseline": None}, OPTIONS, "missing_parent_baseline"),
    ({"hashes": {**FACTS.hashes, OURS: "2"}}, OPTIONS, "candidate_results_changed"),
    ({"hashes": {"artifacts/n0.csv": "1"}}, OPTIONS, "candidate_results_not_there"),
    ({"baseline": replace(ELSEWHERE, sha256="2")}, OPTIONS,
     "parent_baseline_not_in_artifacts parent_baseline_changed"),
    ({"baseline": ELSEWHERE},
     replace(OPTIONS, artifact_policy="external_paths"), ""),
    ({"counts": None}, OPTIONS, "missing_candidate_rows_used"),
    ({"counts": RowCounts(3, 3, 4)}, OPTIONS, "candidate_rows_used_mismatch"),
    ({"counts": RowCounts(4, 3, 4)}, OPTIONS, "incomplete_or_failed_rows"),
    ({"counts": RowCounts(99, 99, 100)}, FREE, "too_few_rows"),
    ({"counts": RowCounts(100, 97, 100)}, FREE, "ok_rate_too_low"),
    ({"counts": RowCounts(100, 98, 100)}, FREE, ""),
    ({"doubts": (DOUBT,)}, OPTIONS, "results_constant"),
    ({"parent": None}, OPTIONS, "missing_primary_delta"),
    ({"parent": replace(compared(1, 2), primary_delta=float("nan"))}, OPTIONS,
     "missing_primary_delta"),
    ({"parent": compared(1, 0.99)}, OPTIONS, "primary_regressed"),
    ({"parent": compared(1e-6, 1e-7)}, OPTIONS,  # a small fall, and a great loss
     "primary_regressed should_explore_false"),
    ({"counts": RowCounts(4, 3, 4), "parent": compared(1, 0.9)}, OPTIONS,
     "incomplete_or_failed_rows primary_regressed should_explore_false"),
    ({}, NOISY, "noise_not_measured"),
    ({"standard_error": 0.11}, NOISY, "indecisive"),
    ({"standard_error": 0.09}, NOISY, ""),
    ({"standard_error": 0.09, "parent": compared(1, 0.99)}, NOISY,
     "primary_regressed"),
    ({"standard_error": 9.0}, OPTIONS, ""),
])  # fmt: skip
def test_the_gate_tells_each_refusal_in_order(
    changes: dict[str, Any], options: TreeOptions, codes: str
) -> None:
    about = {"baseline", "hashes", "standard_error"} & changes.keys()
    judged = {key: one for key, one in changes.items() if key not in about}
    facts = {key: changes[key] for key in about}
    made = replace(FACTS, judged=replace(JUDGED, **judged), **facts)
    found = judge_gate(made, options)
    assert " ".join(one.code for one in found.refusals) == codes
    assert found.has_passed is (not codes)
    assert found.why.code == (codes.split() or ["gate_passed"])[0]
    assert found.primary_regressed is ("primary_regressed" in codes.split())
    assert {one.code for one in (found.why, *found.refusals)} <= CODES.keys()


BOUNDED = replace(FREE, metrics=(Metric(name="a", bounds=(0.0, None)),))


@pytest.mark.parametrize(("candidate", "baseline", "codes"), [
    ([(1,), (2,), (3,)], [(1,), (2,), (3,)], ""),
    ([(1,), (2,)], [(1,), (2,), (3,)], "results_other_rows"),
    ([(1,), (2,), (3,)], [(1,), (2,)], "results_other_rows"),
    ([(1,), (-1,), (1e9,)], [(1,), (2,), (3,)], "results_outside_bounds"),
    ([(5,), (5,), (5,)], [(1,), (2,), (3,)], "results_constant"),
    ([(5,), (5,), (5,)], [(1,), (1,), (1,)], ""),  # as the baseline's are
    ([(5,), (5,)], [(1,), (2,)], ""),  # of two it says little
    (["failed", "failed", "failed"], [(1,), (2,), (3,)], ""),
])  # fmt: skip
def test_results_that_look_made_up_are_told(
    candidate: list[Any], baseline: list[Any], codes: str
) -> None:
    found = list_doubts(make_results(*candidate), make_results(*baseline), BOUNDED)
    assert " ".join(one.code for one in found) == codes
