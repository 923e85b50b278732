"""What can be said against a plan as a whole."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import ExecutorSpec, Plan
from autoexp_tui.planning.validate import fold_problems, validate_execution_plan
from tests.model.builders import job, plan


def errors(the_plan: Plan) -> list[str]:
    return [str(error) for error in validate_execution_plan(the_plan).errors]


def warnings(the_plan: Plan) -> list[str]:
    return [str(warning) for warning in validate_execution_plan(the_plan).warnings]


def test_a_sound_plan_has_no_findings() -> None:
    wait = JobStateIs(jobs=("a",), state="COMPLETED", timeout_seconds=5)
    sound = plan(job("a"), job("b", 1, depends_on=("a",), start_conditions=(wait,)))
    assert errors(sound) == []
    assert warnings(sound) == []
    assert "sweep: makes no job" in errors(plan())[0]


def test_equal_names_may_be_told_apart_by_what_can_stand_in_a_name() -> None:
    def said(*parameters: dict[str, Any]) -> str:
        pairs = enumerate(parameters)
        return errors(plan(*(job("a", at, parameters=own) for at, own in pairs)))[0]

    same = "they set the same values: take one out, or add ${index} to the name"
    assert said({"lr": 1}, {"lr": 1.0}).endswith(same)
    swept = said(*({"stage": s, "++lr": s, "aux": {"x": s}} for s in "ab"))
    assert swept.endswith("apart: ${stage}, ${lr}")
    assert said(*({"start_conditions": [s]} for s in "ab")).endswith("apart: ${index}")


@pytest.mark.parametrize(("made", "said"), [
    (plan(job("../a")), "../a project.name: '../a': the name holds `..`; it must stay "
                        "below base_output_dir"),
    (plan(job("a/b", output_dir="/out/a/b"), job("b", 1, output_dir="/out/a//b")),
     "b project.name: writes into the same directory as a/b: /out/a/b"),
])  # fmt: skip
def test_a_name_that_leads_elsewhere_is_an_error(made: Plan, said: str) -> None:
    assert errors(made) == [said]


@pytest.mark.parametrize(("output_dir", "message"), [
    ("/logs/b", "its output directory is the log directory of b: /logs/b"),
    ("/logs/b/out",
     "its output directory lies inside the log directory of b: /logs/b/out"),
    ("/logs", "its output directory holds the log directory of b: /logs/b"),
    ("/state", "its output directory is the directory of sessions: /state"),
    ("/state/x",
     "its output directory lies inside the directory of sessions: /state/x"),
    ("/scripts", "its output directory is the directory of scripts: /scripts"),
])  # fmt: skip
def test_outputs_do_not_overlap_what_is_ours(output_dir: str, message: str) -> None:
    made = plan(
        job("a", output_dir=output_dir),
        job("b", 1),
        executor=ExecutorSpec(settings={"script_dir": "/scripts"}),
    )
    assert message in "\n".join(errors(made))


def test_a_directory_inside_another_jobs_is_a_warning() -> None:
    assert warnings(plan(job("a"), job("a/b", 1), job("ab", 2))) == [
        "a/b project.name: its directory lies inside the one of a: /out/a/b\n"
        "    a name with `/` is a directory for each part"
    ]
    assert errors(plan(job("a", log_dir="/out/a/logs"))) == []
    assert errors(plan(job("a", output_dir="/logs/bb"), job("b", 1))) == []


def test_what_many_jobs_share_is_told_once() -> None:
    found = fold_problems(Problem("is bad", "x", name) for name in ("a", "b", "c", "b"))
    message = "is bad (and for 2 more jobs)"
    assert found == (Problem(message, "x", "a", others=("b", "c")),)
    one, two, other = (
        Problem("1", job="a"),
        Problem("2", job="a"),
        Problem("1", job="b"),
    )
    messages = [problem.message for problem in fold_problems([one, two, other])]
    assert messages == ["1 (and for 1 more job)", "2"]
    assert fold_problems([Problem("1"), one, other]) == (Problem("1"),)


def test_the_package_gives_its_public_names_and_nothing_else() -> None:
    package = import_module("autoexp_tui.plan")
    names = "SweepPoint expand_sweep find_sibling build_execution_plan"
    for name in f"{names} validate_execution_plan".split():
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.__getattr__("nothing")
