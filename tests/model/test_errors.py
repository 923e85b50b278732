"""How an error reads: what, where, and the next step below it."""

from __future__ import annotations

from autoexp_tui.model.errors import MOST_TOLD, Problem, ValidationFailed


def test_of_thousands_of_findings_the_first_are_told_and_the_others_counted() -> None:
    found = tuple(Problem("is wrong", f"k{n}") for n in range(MOST_TOLD + 3))
    lines = str(ValidationFailed("the plan has errors", problems=found)).splitlines()
    few = str(ValidationFailed("the plan has errors", problems=found[:MOST_TOLD]))
    more = "  ... and 3 errors more; `autoexp-plan --json` has them all"
    assert lines == [*few.splitlines(), more]
    assert (lines[0], len(lines)) == ("the plan has errors", MOST_TOLD + 2)
    assert lines[MOST_TOLD] == f"  - k{MOST_TOLD - 1}: is wrong"
