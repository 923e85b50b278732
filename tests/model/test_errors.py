"""How an error reads: what, where, and the next step below it."""

from __future__ import annotations

import pytest

from autoexp_tui.model.errors import MOST_TOLD, Problem, UsageError, ValidationFailed

STEPS = "script: |\n  ./train.sh"


@pytest.mark.parametrize(("error", "text"), [
    (UsageError("is missing", "script", STEPS),
     "script: is missing\n  script: |\n    ./train.sh"),
    (Problem("is missing", "script", hint=STEPS),
     "script: is missing\n    script: |\n      ./train.sh"),
    (Problem("is missing", "a.b", "job 1", "set it", place="config/x.yaml:4"),
     "job 1 a.b: is missing\n    config/x.yaml:4: set it"),
    (Problem("is missing", "a.b", place="config/x.yaml:4"),
     "a.b: is missing\n    config/x.yaml:4"),
])  # fmt: skip
def test_the_place_and_the_next_step_stand_below(
    error: UsageError | Problem, text: str
) -> None:
    assert str(error) == text


def test_of_thousands_of_findings_the_first_are_told_and_the_others_counted() -> None:
    found = tuple(Problem("is wrong", f"k{n}") for n in range(MOST_TOLD + 3))
    lines = str(ValidationFailed("the plan has errors", problems=found)).splitlines()
    few = str(ValidationFailed("the plan has errors", problems=found[:MOST_TOLD]))
    more = "  ... and 3 errors more; `autoexp-plan --json` has them all"
    assert lines == [*few.splitlines(), more]
    assert (lines[0], len(lines)) == ("the plan has errors", MOST_TOLD + 2)
    assert lines[MOST_TOLD] == f"  - k{MOST_TOLD - 1}: is wrong"
