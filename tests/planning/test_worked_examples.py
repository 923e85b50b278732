"""Whole experiments as people write them, through Hydra itself.

Each is a chain of stages with parameters that read one another; the composed configs
are the ones that matter, so nothing here is a fake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from autoexp_tui.conditions.kinds import FileExists, MetadataIs
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.planning.build import build_execution_plan, build_plan_outcome
from autoexp_tui.planning.replan_job import build_job_again

EXAMPLES = Path(__file__).parent / "examples"
BACKENDS = {"torchrun": {"class_name": "Null"}, "fsdp": {"class_name": "Null", "f": 1}}
Compose = Callable[..., HydraComposer]


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    """Composers of an example, with a sweep below it."""
    (tmp_path / "backend").mkdir()
    for name, backend in BACKENDS.items():
        (tmp_path / "backend" / f"{name}.yaml").write_text(yaml.safe_dump(backend))

    def made(example: str, sweep: str = "") -> HydraComposer:
        written = (EXAMPLES / f"{example}.yaml").read_text() + sweep
        (tmp_path / "exp.yaml").write_text(written)
        return composers.enter_context(closing(HydraComposer("exp", tmp_path)))

    with ExitStack() as composers:
        yield made


def test_a_cooldown_starts_from_its_own_stable_run(compose: Compose) -> None:
    composer = compose("stable_and_cooldown")
    parser = HouseParser("/cwd")
    plan = build_execution_plan(composer=composer, parser=parser)
    base, stages, compared = 1, 2, 1
    assert composer.composed == base + stages + compared
    names = [f"lr2.5e-4_bsz{n}_{s}" for n in (64, 128) for s in ("stable", "cooldown")]
    assert [job.name for job in plan.jobs[:4]] == names
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


def test_typos_are_told_all_at_once_with_what_was_meant(compose: Compose) -> None:
    composer = compose(
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
    found = build_plan_outcome(composer=composer, parser=HouseParser("/cwd"))
    said = "\n".join(map(str, found.errors))
    for words in (
        "did you mean `fsdp`?", "No sibling found matching pattern: stabble",
        "did you mean `stable`?", "did you mean `output_dir`?", "does not compile",
        "more job",
    ):  # fmt: skip
        assert words in said
