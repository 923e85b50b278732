"""The plan that measures candidates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autoexp_tui.evaluation.config_sweep import plan_sweep
from autoexp_tui.model.errors import Problem, ValidationFailed
from autoexp_tui.tree.options import Measurement
from tests.model.builders import plan

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import FurtherPlan
    from autoexp_tui.model.specs import Plan


class Refusing:
    def plan(self, asked: FurtherPlan) -> Plan:
        wrong = Problem("is wrong", job=f"{asked.prefix}a")
        raise ValidationFailed("the plan has 1 error", problems=(wrong,))


def test_what_is_wrong_with_it_is_told_of_its_config_and_its_own_jobs(
    tmp_path: Path,
) -> None:
    asked = Measurement(config_ref="m")
    planner: Any = Refusing()
    places = {"top": tmp_path, "root": tmp_path, "directory": tmp_path}
    with pytest.raises(ValidationFailed) as refused:
        plan_sweep(planner, plan(), asked, **places)
    head = "tree.evaluate.config_ref: m: the plan has 1 error"
    assert str(refused.value).splitlines() == [head, "  - a: is wrong"]
