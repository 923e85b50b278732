"""Small pieces of planning that no test of a single room asks for in one go.

The rest of the test plan is in the rooms' own tests; docs/testing.md has the map.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.plan import expand_sweep
from tests.spec.campaign import job_of, outcome_of, plan_of

HEAD = """
project: {name: "job_{stage}", base_output_dir: /outputs}
backend: {class_name: "Null", megatron: {target_iter: 80000, load: null, iters: 1}}
slurm: {log_dir: /logs}
sweep:
"""


LOAD = "{sibling.stable.output_dir}/iter_{sibling.stable.backend.megatron.target_iter}"


def cooldown(root: Path, sweep: str) -> JobSpec:
    """`job_cooldown` of a plan over two stages."""
    (root / "two.yaml").write_text(HEAD + sweep)
    return job_of(plan_of("two", root, configs=root), "job_cooldown")


def test_two_products_around_a_list_are_crossed_with_its_entries() -> None:
    points = expand_sweep(
        {
            "type": "product",
            "groups": [
                {"params": {"a": [1, 2]}},
                {"type": "list", "configs": [{"b": 10}, {"b": 20}, {"b": 30}]},
                {"params": {"c": [100, 200]}},
            ],
        }
    )
    found = {tuple(point.parameters[key] for key in "abc") for point in points}
    assert len(points) == len(found) == 12


def test_several_references_stand_in_one_text(tmp_path: Path) -> None:
    found = cooldown(
        tmp_path,
        f"""
  configs:
    - stage: stable
    - stage: cooldown
      backend.megatron.load: "{LOAD}"
""",
    )
    assert found.overrides == ("backend.megatron.load=/outputs/job_stable/iter_80000",)


def test_a_calculation_over_a_siblings_value_is_done_by_the_jobs_config(
    tmp_path: Path,
) -> None:
    found = cooldown(
        tmp_path,
        """
  configs:
    - stage: stable
      backend.megatron.iters: 100000
    - stage: cooldown
      aux:
        stable_train_iters: "{sibling.stable.iters}"
        target_iters: "${oc.eval:int(${.stable_train_iters}*1.2)}"
      start_conditions:
        - class_name: MetadataCondition
          job: "{sibling.stable.name}"
          key: iteration
          equals: "${aux.target_iters}"
""",
    )
    assert found.start_conditions == (
        MetadataIs(job="job_stable", key="iteration", value=120000),
    )


def test_stages_that_read_each_other_are_named_as_a_ring(tmp_path: Path) -> None:
    (tmp_path / "ring.yaml").write_text(
        HEAD
        + """
  configs:
    - stage: a
      backend.megatron.load: "{sibling.b.backend.megatron.load}"
    - stage: b
      backend.megatron.load: "{sibling.a.backend.megatron.load}"
"""
    )
    found = outcome_of("ring", tmp_path, configs=tmp_path)
    assert found.plan is None
    assert "ring" in " ".join(str(error) for error in found.errors)


@pytest.mark.parametrize(
    "sweep",
    ["  groups: [{type: list, configs: []}]", "  {params: {a: [1]}, filter: a > 10}"],
)
def test_a_sweep_that_leaves_nothing_is_told_and_not_run(
    tmp_path: Path, sweep: str
) -> None:
    (tmp_path / "none.yaml").write_text(HEAD + sweep)
    found = outcome_of("none", tmp_path, configs=tmp_path)
    assert found.plan is None
    assert [error.where.partition(".")[0] for error in found.errors] == ["sweep"]
