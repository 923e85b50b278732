"""Whole experiments as people write them, through Hydra itself.

Each is a chain of stages with parameters that read one another; the composed configs
are the ones that matter, so nothing here is a fake.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from autoexp_tui.conditions.kinds import FileExists, MetadataIs
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.build import (
    PlanOutcome,
    build_execution_plan,
    build_plan_outcome,
)
from autoexp_tui.planning.replan_job import build_job_again

EXAMPLES = Path(__file__).parent / "examples"
BACKENDS = {"torchrun": {"class_name": "Null"}, "fsdp": {"class_name": "Null", "f": 1}}


class Bench:
    """A config directory, and what is planned from it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.composers = ExitStack()
        (directory / "backend").mkdir()
        for name, backend in BACKENDS.items():
            (directory / "backend" / f"{name}.yaml").write_text(yaml.safe_dump(backend))

    def composer(self, example: str, sweep: str = "") -> HydraComposer:
        """A composer of an example, with a sweep below it."""
        written = (EXAMPLES / f"{example}.yaml").read_text() + sweep
        (self._directory / "exp.yaml").write_text(written)
        return self.composers.enter_context(
            closing(HydraComposer("exp", self._directory))
        )

    def outcome(self, example: str, sweep: str = "") -> PlanOutcome:
        composer = self.composer(example, sweep)
        return build_plan_outcome(composer=composer, parser=HouseParser("/cwd"))

    def plan(self, example: str, sweep: str = "") -> Plan:
        found = self.outcome(example, sweep)
        assert found.plan is not None, [str(error) for error in found.errors]
        return found.plan


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    with made.composers:
        yield made


def test_a_cooldown_starts_from_its_own_stable_run(bench: Bench) -> None:
    composer = bench.composer("stable_and_cooldown")
    parser = HouseParser("/cwd")
    plan = build_execution_plan(composer=composer, parser=parser)
    base, stages, compared = 1, 2, 1
    assert composer.composed == base + stages + compared
    assert [job.name for job in plan.jobs[:4]] == [
        "lr2.5e-4_bsz64_stable",
        "lr2.5e-4_bsz64_cooldown",
        "lr2.5e-4_bsz128_stable",
        "lr2.5e-4_bsz128_cooldown",
    ]
    cooldown = plan.jobs[3]
    # 50e9 // 4096 // 128 = 95367 iterations; 80 % of it, rounded to a save: 76000.
    path = "/out/lr2.5e-4_bsz128_stable/checkpoints/iter_76000"
    assert f"backend.megatron.load={path}" in cooldown.overrides
    assert "backend.megatron.aux.tokens=50000000000" in cooldown.overrides
    assert cooldown.start_conditions == (
        FileExists(path=f"{path}/latest.txt", timeout_seconds=7200,
                   writer="lr2.5e-4_bsz128_stable"),
        MetadataIs(job="lr2.5e-4_bsz128_stable", key="checkpoint_iteration",
                   value=76000),
    )  # fmt: skip
    assert cooldown.depends_on == ("lr2.5e-4_bsz128_stable",)
    assert {job.family for job in plan.jobs} == {"f0", "f1", "f2", "f3"}
    again = build_job_again(cooldown, (), plan=plan, composer=composer, parser=parser)
    assert again == cooldown


def test_typos_are_told_all_at_once_with_what_was_meant(bench: Bench) -> None:
    found = bench.outcome(
        "head",
        """
sweep:
  groups:
    - params: {backend.megatron.lr: [1e-4, 5e-4]}
    - configs:
        - stage: stable
        - stage: cooldown
          backend: fsdpp
        - stage: late
          backend.megatron.lod: "{sibling.stabble.output_dir}"
        - stage: last
          start_conditions:
            - class_name: FileExist
              path: "{sibling.stable.outputdir}"
            - class_name: LogPatternCondition
              log_path: x
              pattern: "a{b("
""",
    )
    said = "\n".join(str(error) for error in found.errors)
    for words in (
        "did you mean `fsdp`?",
        "No sibling found matching pattern: stabble",
        "did you mean `stable`?",
        "did you mean `output_dir`?",
        "does not compile",
        "more job",
    ):
        assert words in said


def test_a_rewritten_value_of_another_job_stays_text(bench: Bench) -> None:
    plan = bench.plan(
        "head",
        """
sweep:
  configs:
    - stage: a
      backend.megatron.load: "it's ${oc.eval:'1+1'} \\\\${oc.env:HOME} x"
    - stage: b
      backend.megatron.load: "{sibling.a.backend.megatron.load}!"
""",
    )
    text = r"it's 2 \${oc.env:HOME} x!"
    assert plan.jobs[1].overrides == (f'backend.megatron.load="{text}"',)
