from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.model.state import Warned
from autoexp_tui.model.states import why
from autoexp_tui.model.wording import CODES, sentence
from autoexp_tui.research import state as of_research
from autoexp_tui.research.budgets import Use
from autoexp_tui.research.events import ConditionFound
from autoexp_tui.research.options import ResearchOptions
from autoexp_tui.research.state import Hypothesis, Item, Research, Run, RunEnd
from autoexp_tui.research.warnings import LiveFacts, judge_hypothesis, list_conditions

H1 = Hypothesis(id="h1", description="larger batch, lower loss")


def make_run(name: str, result: float | None = None, at: float = 0.0,
             met: bool | None = None, **item: Any) -> Run:  # fmt: skip
    ended = RunEnd(outcome="completed", at=at, result=result, met=met, step=900,
                   shown="expected loss < 3")  # fmt: skip
    return Run(id=name, item=Item(id=name, **item), jobs=(f"{name}.a",),
               ended=ended if at else None)  # fmt: skip


def make_research(*runs: Run, **changes: Any) -> Research:
    made = Research(ResearchOptions(), **changes)
    made.runs = {run.id: run for run in runs}
    made.live = tuple(run.id for run in runs if not run.ended)
    return made


def note(research: Research, found: list[ConditionFound]) -> list[str]:
    """Record them as their events do; the keys."""
    for one in found:
        research.warnings[one.key] = of_research.Warned(
            key=one.key, severity=one.severity, why=one.why
        )
    return [one.key for one in found]


def end_runs(research: Research, known: Hypothesis, *ends: Run) -> Hypothesis:
    """The hypothesis after the ends of its runs, in the order given."""
    for run in ends:
        assert run.ended
        research.runs[run.id] = run
        known = judge_hypothesis(known, run, run.ended)
        known = replace(known, runs=(*known.runs, run.id))
    research.hypotheses = {known.id: known}
    return known


def test_a_hypothesis_that_failed_three_times_is_told_with_its_runs() -> None:
    research = make_research()
    end_runs(
        research,
        H1,
        make_run("r0", 2.0, 1, met=True),
        make_run("r3", 3.41, 2, met=False, overrides=("batch=32",)),
        make_run("r5", 3.52, 3, met=False, overrides=("batch=64",)),
        make_run("r6", None, 4, met=None),
        make_run("r7", 3.78, 5, met=False, overrides=("batch=128",)),
    )
    (found,) = list_conditions(research)
    assert (found.key, found.severity) == ("hypothesis:h1:r3", "high")
    assert sentence(found.why, 0) == (
        "the hypothesis h1 (larger batch, lower loss) failed 3 times in a row. "
        "Consider abandoning this direction."
    )
    told = "not as expected: came to {} at step 900, expected loss < 3"
    assert found.evidence == (
        f"r3 (batch=32): {told.format(3.41)}",
        f"r5 (batch=64): {told.format(3.52)}",
        f"r7 (batch=128): {told.format(3.78)}",
        "loss got worse with each of these runs",
    )


def test_a_hypothesis_is_told_once_for_each_row_of_failures() -> None:
    research, known, told = make_research(), H1, []
    for at, met in enumerate((False,) * 5 + (True,) + (False,) * 4, 1):
        known = end_runs(research, known, make_run(f"r{at}", 5 - at, at, met=met))
        told.append((at, *note(research, list_conditions(research))))
    assert [one for one in told if len(one) > 1] == [
        (3, "hypothesis:h1:r1"),
        (9, "hypothesis:h1:r7"),
    ]


def test_a_hypothesis_that_was_given_up_is_not_told() -> None:
    research = make_research()
    known = replace(H1, status="rejected", consecutive_failures=7)
    research.hypotheses = {"h1": known}
    assert list_conditions(research) == []


def test_rounds_without_a_gain_are_told_once_each_time_that_as_many_passed() -> None:
    research, told = make_research(best=2.31, best_run="r1"), []
    for at in range(1, 14):
        gained = at == 8
        research.judged_rounds = (*research.judged_rounds, f"c{at}")
        more = research.rounds_since_improvement + 1
        research.rounds_since_improvement = 0 if gained else more
        told.append((at, *note(research, list_conditions(research))))
    assert [one for one in told if len(one) > 1] == [
        (3, "rounds:3"), (6, "rounds:6"), (11, "rounds:11"),
    ]  # fmt: skip


def test_the_evidence_of_rounds_without_a_gain_is_their_runs() -> None:
    research = make_research(
        make_run("r1", 2.0, 1, consultation="c1"),
        make_run("r2", 2.5, 1, consultation="c2"),
        make_run("r3", 2.4, 1, consultation="c2"),
        make_run("r4", None, consultation="c3"),
        make_run("r5", 2.25, 1, consultation="c4"),
        best=2.0,
        best_run="r1",
        judged_rounds=("c1", "c2", "c3", "c4"),
        rounds_since_improvement=3,
    )
    (found,) = list_conditions(research)
    assert [line.partition(":")[0] for line in found.evidence] == ["r2", "r3", "r5"]
    assert "the best is still 2, of r1" in sentence(found.why, 0)


def warned(code: str, job: str) -> Warned:
    reason = why(code, job=job, metric="loss", step=1500, value=2.34, percent=1.0,
                 steps=500, minimum=1.5)  # fmt: skip
    return Warned(warning_id=job + code, why=reason, job=job, severity="warning",
                  evidence="", raised_at=1.0)  # fmt: skip


@pytest.mark.parametrize(("facts", "keys"), [
    ({"session_warnings": [warned("plateau", "r1.a")]}, "plateau:r1"),
    ({"session_warnings": [warned("divergence", "r1.a")]}, "divergence:r1"),
    ({"session_warnings": [warned("stall", "r1.a"),
                           warned("plateau", "r2.a"),  # it has ended
                           warned("plateau", "elsewhere")]}, ""),
    ({"runs": {"r1": LiveFacts(seconds=9, idle_gpu_seconds=120)}}, "gpu:r1"),
    ({"runs": {"r1": LiveFacts(seconds=9, idle_gpu_seconds=119)}}, ""),
    ({"runs": {"r1": LiveFacts(seconds=600, has_metric=False)}}, "no_metric:r1"),
    ({"runs": {"r1": LiveFacts(seconds=599, has_metric=False)}}, ""),
    ({"runs": {"r1": LiveFacts(seconds=600)}}, ""),
    ({"runs": {"r2": LiveFacts(seconds=600, has_metric=False)}}, ""),
    ({"uses": (Use("calls", 8, 10),)}, "budget_used_calls_50 budget_used_calls_80 "
     "budget_low_calls"),
])  # fmt: skip
def test_what_live_runs_and_budgets_show_is_told_once(
    facts: dict[str, Any], keys: str
) -> None:
    research = make_research(make_run("r1"), make_run("r2", 2.0, 1))
    found = list_conditions(research, **facts)
    assert " ".join(one.key for one in found) == keys
    assert all(one.why.code in CODES for one in found)
    assert {one.severity for one in found} <= {"low", "medium"}
    note(research, found)
    assert list_conditions(research, **facts) == []


def test_a_flat_loss_names_its_run() -> None:
    facts = [warned("plateau", "r1.a")]
    known = make_research(make_run("r1"))
    (found,) = list_conditions(known, session_warnings=facts)
    assert sentence(found.why, 0).startswith(
        "loss of r1 fell less than 1 % in 500 steps"
    )


@pytest.mark.parametrize(("before", "met", "after"), [
    (2, False, 3), (2, True, 0), (2, None, 2),
])  # fmt: skip
def test_a_hypothesis_counts_failures_in_a_row(
    before: int, met: bool | None, after: int
) -> None:
    lines = tuple(map(str, range(20)))
    known = replace(H1, consecutive_failures=before, evidence=lines)
    run = make_run("r3", 3.41, 1, met=met)
    assert run.ended
    judged = judge_hypothesis(known, run, run.ended)
    assert judged.consecutive_failures == after
    assert judged.evidence[:-1] == lines[1:]
    assert "3.41 at step 900" in judged.evidence[-1]
