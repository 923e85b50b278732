"""Every whole sweep of the document plans, with the jobs that it states or implies."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Plan
from tests.config.config_trees import write_tree
from tests.spec.campaign import outcome_of
from tests.spec.examples_of_spec_1 import EXAMPLES, Example, outcome, quoted

ONES = [pytest.param(one, id=str(one.line)) for one in EXAMPLES]


def at(line: int) -> Example:
    """The example that begins at a line."""
    return next(one for one in EXAMPLES if one.line == line)


def planned(config: str, root: Path, *overrides: str) -> Plan:
    """The plan of a config; there must be one."""
    found = outcome(config, root, overrides)
    assert found.plan is not None, [str(error) for error in found.errors]
    return found.plan


@pytest.mark.parametrize("example", ONES)
def test_it_plans_with_the_jobs_that_it_states(
    example: Example, tmp_path: Path
) -> None:
    """Over the shipped template."""
    write_tree(
        tmp_path,
        exp=example.config,
        slurm__lumi="client: {class_name: SlurmClient}\nsbatch: {gpus_per_node: 4}",
    )
    overrides = ("++backend.script=pretrain_gpt.py",)
    found = outcome_of("exp", tmp_path, overrides, configs=tmp_path)
    plan = found.plan
    assert plan is not None, [str(error) for error in found.errors]
    assert len(plan.jobs) == example.gives
    assert sum(edge.mode == "waits" for edge in plan.edges) == example.waits
    assert example.says in {"", str(example.gives)} or example.why


@pytest.mark.parametrize(
    "example",
    [pytest.param(o, id=str(o.line)) for o in EXAMPLES if "oc.eval" in o.config],
)
def test_expressions_mean_the_same_with_and_without_quotes(
    example: Example, tmp_path: Path
) -> None:
    assert "${oc.eval:'" in quoted(example.config)
    bare = planned(example.config, tmp_path)
    in_quotes = planned(quoted(example.config), tmp_path)
    prints = [(job.name, job.fingerprint) for job in bare.jobs]
    assert [(job.name, job.fingerprint) for job in in_quotes.jobs] == prints
    assert [j.start_conditions for j in in_quotes.jobs] == [
        j.start_conditions for j in bare.jobs
    ]


def test_every_link_of_a_chain_waits_for_the_one_before(tmp_path: Path) -> None:
    plan = planned(at(1960).config, tmp_path)
    links = [
        (edge.before.rpartition("_")[0], edge.after.rpartition("_")[0])
        for edge in plan.edges
        if edge.mode == "waits"
    ]
    assert links == [
        (f"f{family}_{before}", f"f{family}_{after}")
        for family in range(4)
        for before, after in (
            ("pre_pre_training", "pre_training"),
            ("pre_training", "mid_training"),
            ("mid_training", "post_training"),
        )
    ]


def test_an_override_of_a_grid_reaches_its_literal_key(tmp_path: Path) -> None:
    key = "sweep.grids.0.backend.megatron.global_batch_size"
    assert len(planned(at(1045).config, tmp_path, f"{key}=[64]").jobs) == 6


def test_a_filter_inside_a_config_is_refused_with_the_filter_to_write(
    tmp_path: Path,
) -> None:
    """The one example that is not to work: `_filter` over a sibling (line 1929)."""
    config = """
project: {name: x}
backend: {class_name: Command, command: [train]}
sweep:
  type: product
  groups:
    - type: list
      configs:
        - stage: stable
        - stage: cooldown
          _filter: "{sibling.stable.backend.megatron.lr} > 1e-4"
"""
    assert outcome(config, tmp_path).errors == (
        Problem(
            "a config has no filter of its own",
            "sweep.groups.0.configs.1._filter",
            hint="put it on the node around, or on the sweep: "
            "filter: 'not (stage == \"cooldown\" and lr <= 1e-4)'",
        ),
    )
